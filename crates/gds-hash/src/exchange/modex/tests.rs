// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with contributions of real servers, with random data, and with damaged contributions.

use bfrops::{BufferKind, Integers, Layout, Module, wire_type};
use data_encoding::HEXLOWER_PERMISSIVE;
use pmix_random::{Carried, Random, Seeded, Source};
use pmix_types::{
    Bytes, DataArray, DataType, Info, Kval, Nspace, Proc, Rank, Scope, Status, Value,
};

use super::{Modex, ModexForm, Participant};
use crate::exchange::counted::UNPACKED;
use crate::{Codec, Error, ModexStore};

/// The contribution of a server of 4.2.2 or 5.0.11: two processes with a global and a remote key.
const NUMBERED: &str = "02 5c 02 03 02 02 04 10 6d 79 2e 67 6c 6f 62 00 0e 6d 79 2e 72 65 6d 00 02 \
    21 02 01 02 00 02 0f 89 ef 99 ab c5 e8 8c 91 11 02 01 02 03 1a 68 65 6c 6c 6f 2d 72 65 6d 6f \
    74 65 00 02 21 02 00 02 00 02 0f 88 ef 99 ab c5 e8 8c 91 11 02 01 02 03 1a 68 65 6c 6c 6f 2d \
    72 65 6d 6f 74 65 00";

/// The same contribution of a server of the 7.0 series.
const NAMED: &str = "02 72 02 00 02 6e 02 01 02 34 02 0a 4a 4f 42 31 00 00 02 10 6d 79 2e 67 6c 6f \
    62 00 0f 88 ef 99 ab c5 e8 8c 91 11 02 0e 6d 79 2e 72 65 6d 00 03 1a 68 65 6c 6c 6f 2d 72 65 \
    6d 6f 74 65 00 02 34 02 0a 4a 4f 42 31 00 01 02 10 6d 79 2e 67 6c 6f 62 00 0f 89 ef 99 ab c5 \
    e8 8c 91 11 02 0e 6d 79 2e 72 65 6d 00 03 1a 68 65 6c 6c 6f 2d 72 65 6d 6f 74 65 00";

const FORMS: [ModexForm; 2] = [ModexForm::Numbered, ModexForm::Named];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).unwrap()
}

fn codec() -> Codec<'static> {
    Codec::new(Layout::new(Module::V41))
}

fn participant(nspace: &'static str, num_procs: u32) -> Participant<'static> {
    Participant {
        nspace: nspace.into(),
        num_procs,
    }
}

fn proc(nspace: &'static str, rank: u32) -> Proc<'static> {
    Proc {
        nspace: nspace.into(),
        rank: Rank::new(rank),
    }
}

fn captured() -> ModexStore {
    let mut puts = ModexStore::default();
    for rank in [0, 1] {
        let number = 1_234_605_616_436_508_552 + u64::from(rank);
        let own = Rank::new(rank);
        puts.put(
            own,
            Scope::GLOBAL,
            Info::new("my.glob", Value::Uint64(number)),
        )
        .unwrap();
        puts.put(own, Scope::REMOTE, Info::new("my.rem", "hello-remote"))
            .unwrap();
        puts.put(own, Scope::LOCAL, Info::new("my.loc", "hello-local"))
            .unwrap();
    }
    puts
}

fn remote(puts: &ModexStore, rank: u32) -> Vec<Kval<'static>> {
    puts.all(Rank::new(rank), Scope::REMOTE)
        .unwrap()
        .map(std::borrow::Cow::into_owned)
        .collect()
}

#[test]
fn contributions_equal_those_of_real_servers() {
    let puts = captured();
    for (form, ranks, expected) in [
        (ModexForm::Numbered, [1, 0], NUMBERED),
        (ModexForm::Named, [0, 1], NAMED),
    ] {
        let participants = [participant("JOB1", 3)];
        let procs = ranks.map(|rank| (proc("JOB1", rank), &puts));
        let made = Modex::contribution(&codec(), form, &participants, &procs).unwrap();
        assert_eq!(made, bytes(expected), "{form:?}");
    }
}

#[test]
fn contributions_of_real_servers_are_stored() {
    for (form, captured_bytes) in [(ModexForm::Numbered, NUMBERED), (ModexForm::Named, NAMED)] {
        let blob = bytes(captured_bytes);
        let modex = Modex::parse(&codec(), form, &[participant("JOB1", 3)], &blob).unwrap();
        let ranks: Vec<_> = modex.procs().map(|(_, rank)| rank.as_raw()).collect();
        assert_eq!(ranks, [0, 1]);
        let mut puts = ModexStore::default();
        puts.absorb(&Nspace::new("JOB1"), &modex, |_, _| ());
        for rank in [0, 1] {
            assert_eq!(remote(&puts, rank), remote(&captured(), rank));
        }
        let local = puts.get(Rank::new(0), Scope::LOCAL, "my.glob", &[]);
        assert_eq!(
            local.unwrap_err().status(),
            Status::ERR_EXISTS_OUTSIDE_SCOPE
        );
        // The data of another job in the fence do not change.
        let mut other = ModexStore::default();
        other.absorb(&Nspace::new("JOB2"), &modex, |_, _| ());
        assert!(!other.has_rank(Rank::new(0)));
    }
}

#[test]
fn ranks_of_two_jobs_in_one_fence_are_distinguished() {
    let mut puts = [ModexStore::default(), ModexStore::default()];
    for (place, puts) in puts.iter_mut().enumerate() {
        puts.put(
            Rank::new(1),
            Scope::REMOTE,
            Info::new("k", Value::Size(place as u64)),
        )
        .unwrap();
    }
    let participants = [participant("a", 4), participant("b", 2)];
    for form in FORMS {
        let procs = [(proc("a", 1), &puts[0]), (proc("b", 1), &puts[1])];
        let blob = Modex::contribution(&codec(), form, &participants, &procs).unwrap();
        let modex = Modex::parse(&codec(), form, &participants, &blob).unwrap();
        for (nspace, number) in [("a", 0), ("b", 1)] {
            let mut found = ModexStore::default();
            found.absorb(&Nspace::new(nspace), &modex, |_, _| ());
            let all: Vec<_> = found.all(Rank::new(1), Scope::REMOTE).unwrap().collect();
            assert_eq!(all.len(), 1, "{form:?} {nspace}");
            assert_eq!(all[0].value, Value::Size(number));
            assert!(!found.has_rank(Rank::new(0)));
        }
    }
    let stranger = [(proc("c", 1), &puts[0])];
    let refused = Modex::contribution(&codec(), ModexForm::Numbered, &participants, &stranger);
    assert_eq!(refused.unwrap_err().status(), Status::ERR_BAD_PARAM);
}

#[test]
fn equal_data_of_processes_are_stored_once() {
    let participants = [participant("a", 200)];
    let mut puts = ModexStore::default();
    for rank in 0..200 {
        for key in ["a.method", "b.method"] {
            let same = Info::new(key, Value::from("shm".repeat(100)));
            puts.put(Rank::new(rank), Scope::REMOTE, same).unwrap();
        }
        let own = Info::new("c.address", Value::from(rank.to_string()));
        puts.put(Rank::new(rank), Scope::REMOTE, own).unwrap();
    }
    let contribution = |form, ranks: std::ops::Range<u32>| {
        let procs: Vec<_> = ranks.map(|rank| (proc("a", rank), &puts)).collect();
        Modex::contribution(&codec(), form, &participants, &procs).unwrap()
    };
    for form in FORMS {
        let mut blob = contribution(form, 0..100);
        blob.extend(contribution(form, 100..200));
        let modex = Modex::parse(&codec(), form, &participants, &blob).unwrap();
        let mut found = ModexStore::default();
        found.absorb(&Nspace::new("a"), &modex, |_, _| ());
        for rank in 0..200 {
            assert_eq!(remote(&found, rank), remote(&puts, rank));
        }
        // Each process has two values of 300 bytes. One of them is the same in all processes.
        let saved = puts.memory_bytes().saturating_sub(found.memory_bytes());
        assert!(saved > 199 * 2 * 300, "{form:?}: {saved} bytes less");
        // A later put of another value affects only the process that puts it.
        let other = Info::new("a.method", "tcp");
        found.put(Rank::new(7), Scope::REMOTE, other).unwrap();
        assert_eq!(remote(&found, 7)[0].value, Value::from("tcp"));
        assert_eq!(remote(&found, 8), remote(&puts, 8));
    }
}

#[test]
fn keys_are_numbered_where_it_pays() {
    let participants = [participant("a", 9)];
    let flags = |ranks: u32| {
        let mut puts = ModexStore::default();
        for rank in 0..ranks {
            puts.put(Rank::new(rank), Scope::REMOTE, Info::new("a.key", 1_u32))
                .unwrap();
        }
        let procs: Vec<_> = (0..9).map(|rank| (proc("a", rank), &puts)).collect();
        let blob =
            Modex::contribution(&codec(), ModexForm::Numbered, &participants, &procs).unwrap();
        let mut outer = codec().reader(&blob);
        let mut data = outer.object::<wire_type::ByteObject>().unwrap();
        data.one::<wire_type::Byte>().unwrap()
    };
    assert_eq!([flags(0), flags(1), flags(2)], [1, 1, 3]);
}

#[test]
fn other_servers_learn_of_removed_keys() {
    let participants = [participant("a", 2)];
    let mut puts = ModexStore::default();
    let mut far = ModexStore::default();
    let exchange = |puts: &ModexStore, far: &mut ModexStore| {
        let procs = [(proc("a", 1), puts)];
        let blob = Modex::contribution(&codec(), ModexForm::Named, &participants, &procs).unwrap();
        let modex = Modex::parse(&codec(), ModexForm::Named, &participants, &blob).unwrap();
        far.absorb(&Nspace::new("a"), &modex, |_, _| ());
        remote(far, 1).len()
    };
    for key in ["deleted", "moved", "kept"] {
        puts.put(Rank::new(1), Scope::GLOBAL, Info::new(key, 1_u32))
            .unwrap();
    }
    assert_eq!(exchange(&puts, &mut far), 3);
    puts.put(
        Rank::new(1),
        Scope::DEL_GLOBAL,
        Info::new("deleted", Value::Undef),
    )
    .unwrap();
    puts.put(Rank::new(1), Scope::LOCAL, Info::new("moved", 2_u32))
        .unwrap();
    assert_eq!(exchange(&puts, &mut far), 1);
    puts.put(Rank::new(1), Scope::REMOTE, Info::new("deleted", 3_u32))
        .unwrap();
    assert_eq!(exchange(&puts, &mut far), 2);
}

#[test]
fn a_server_that_did_not_collect_is_named() {
    let blob = Modex::without_data(&codec(), ModexForm::Named).unwrap();
    assert_eq!(blob, bytes("02 06 02 00 02 02 02 00"));
    let error = Modex::parse(&codec(), ModexForm::Named, &[], &blob).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a server did not collect data for this fence at byte 6"
    );
    let nothing = Modex::without_data(&codec(), ModexForm::Numbered).unwrap();
    let modex = Modex::parse(&codec(), ModexForm::Numbered, &[], &nothing).unwrap();
    assert_eq!(modex.procs().count(), 0);
}

#[test]
fn compressed_data_are_read_with_an_inflate_function() {
    let participants = [participant("JOB1", 3)];
    let plain = bytes(NAMED);
    let mut reader = codec().reader(&plain);
    let mut outer = reader.object::<wire_type::ByteObject>().unwrap();
    assert!(!outer.one::<wire_type::Bool>().unwrap());
    let data = outer.object::<wire_type::ByteObject>().unwrap();
    let packed: Vec<u8> = data.rest().iter().rev().copied().collect();
    let inner = codec().pack(|encoder| {
        encoder.one::<wire_type::Bool>(&true)?;
        encoder.one::<wire_type::ByteObject>(&Bytes::Owned(packed))
    });
    let inner = inner.unwrap();
    let blob = codec().pack(|encoder| encoder.one::<wire_type::ByteObject>(&Bytes::Owned(inner)));
    let blob = blob.unwrap();
    let error = Modex::parse(&codec(), ModexForm::Named, &participants, &blob).unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    let with = codec().with_inflate(|bytes| Some(bytes.iter().rev().copied().collect()));
    let modex = Modex::parse(&with, ModexForm::Named, &participants, &blob).unwrap();
    assert_eq!(modex.procs().count(), 2);
    let broken = codec().with_inflate(|_| None);
    let error = Modex::parse(&broken, ModexForm::Named, &participants, &blob).unwrap_err();
    assert_eq!(
        (error.status(), error.offset()),
        (Status::ERR_UNPACK_FAILURE, Some(4))
    );
}

/// Returns a contribution of the numbered form with these bytes after the flags.
fn numbered(flags: u8, rest: &str) -> Result<Modex, Error> {
    let mut data = vec![2, flags];
    data.extend(bytes(rest));
    let blob = codec().pack(|encoder| encoder.one::<wire_type::ByteObject>(&Bytes::Owned(data)));
    Modex::parse(
        &codec(),
        ModexForm::Numbered,
        &[participant("a", 4)],
        &blob.unwrap(),
    )
}

#[test]
fn a_hostile_blob_is_refused_as_a_whole() {
    let cases = [
        (
            0,
            "",
            "a server did not collect data for this fence at byte 2",
        ),
        (7, "", "flag 7 has no meaning at byte 2"),
        (1, "02 02 02 04", "process 4 of 4 in the fence at byte 6"),
        (
            1,
            "02 06 02 ff ff ff ff 0f",
            "process 4294967295 of 4 in the fence at byte 6",
        ),
        (
            3,
            "02 01 02 04 6b 00 02 06 02 01 02 01 02 00",
            "key 1 of 1 at byte 14",
        ),
        (
            3,
            "02 01 04 04 6b 00 04 6b 00",
            "1 keys are stated, but there are 2 at byte 4",
        ),
        (
            3,
            "02 01 02 00 02 06 02 01 02 00 02 00",
            "data without a key at byte 12",
        ),
        (1, "02 03 02 00 02", "expected a string length"),
    ];
    for (flags, rest, expected) in cases {
        let error = numbered(flags, rest).unwrap_err();
        assert!(error.offset().is_some(), "{error}");
        if !expected.starts_with("expected") {
            assert_eq!(error.to_string(), expected);
        }
    }
    assert_eq!(numbered(1, "02 02 02 03").unwrap().procs().count(), 1);
}

#[test]
fn values_of_one_key_are_bounded() {
    let variant = |n: u32| {
        let mut value = pmix_types::QualifiedValue::new(Info::new("k", n));
        value.qualify("q", n);
        value.into_info()
    };
    let participants = [participant("a", 1)];
    let parse = |count: u32| {
        let mut puts = ModexStore::default();
        for n in 0..count {
            puts.put(Rank::new(0), Scope::REMOTE, variant(n)).unwrap();
        }
        let procs = [(proc("a", 0), &puts)];
        let blob = Modex::contribution(&codec(), ModexForm::Named, &participants, &procs).unwrap();
        Modex::parse(&codec(), ModexForm::Named, &participants, &blob).map(|_| ())
    };
    assert_eq!(parse(1024), Ok(()));
    assert_eq!(
        parse(1025).unwrap_err().status(),
        Status::ERR_OUT_OF_RESOURCE
    );
}

fn below(source: &mut Seeded, bound: usize) -> usize {
    usize::try_from(source.take(8)).unwrap() % bound
}

/// Returns random data, with all types that can be packed, for processes of two jobs.
fn random(source: &mut Seeded) -> [ModexStore; 2] {
    let carried = Carried::default();
    let scopes = [Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL, Scope::INTERNAL];
    let mut all = [ModexStore::default(), ModexStore::default()];
    for puts in &mut all {
        for _ in 0..below(source, 12) {
            let rank = Rank::new(u32::try_from(below(source, 5)).unwrap());
            let scope = scopes[below(source, 4)];
            let DataArray::Info(infos) = Random::new(source, &carried).data(DataType::INFO, 2)
            else {
                panic!("infos were asked for");
            };
            for info in infos.into_iter().filter(|info| info.value != Value::Undef) {
                // An empty key is invalid.
                let _ = puts.put(rank, scope, info);
            }
        }
    }
    all
}

fn layouts() -> [Layout; 4] {
    let plain = Layout::new(Module::V41);
    [
        plain,
        plain.with_buffer(BufferKind::Described),
        plain.with_integers(Integers::Fixed),
        Layout::new(Module::V61),
    ]
}

#[test]
fn random_data_survive() {
    let participants = [participant("a", 5), participant("b", 5)];
    for seed in 0..150 {
        let mut source = Seeded::new(seed);
        let puts = random(&mut source);
        for (form, layout) in FORMS.into_iter().flat_map(|f| layouts().map(|l| (f, l))) {
            let codec = Codec::new(layout);
            let procs: Vec<_> = (0..5)
                .flat_map(|rank| [(proc("a", rank), &puts[0]), (proc("b", rank), &puts[1])])
                .collect();
            let Ok(blob) = Modex::contribution(&codec, form, &participants, &procs) else {
                // This module does not have the type.
                continue;
            };
            let modex = Modex::parse(&codec, form, &participants, &blob)
                .unwrap_or_else(|error| panic!("seed {seed} {form:?} {layout:?}: {error}"));
            for (nspace, puts) in ["a", "b"].into_iter().zip(&puts) {
                let mut found = ModexStore::default();
                found.absorb(&Nspace::new(nspace), &modex, |_, _| ());
                for rank in 0..5 {
                    let (ours, theirs) = (remote(puts, rank), remote(&found, rank));
                    // NaN is not equal to itself.
                    let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
                    assert_eq!(ours, theirs, "seed {seed} {form:?} {layout:?} rank {rank}");
                }
            }
        }
    }
}

#[test]
fn mutated_blobs_are_decoded_or_rejected_with_an_offset() {
    let participants = [participant("a", 5), participant("b", 5)];
    let mut refused = 0;
    for seed in 0..60 {
        let mut source = Seeded::new(seed);
        let puts = random(&mut source);
        for form in FORMS {
            let procs: Vec<_> = (0..5).map(|rank| (proc("a", rank), &puts[0])).collect();
            let Ok(blob) = Modex::contribution(&codec(), form, &participants, &procs) else {
                continue;
            };
            for _ in 0..40 {
                let mut broken = blob.clone();
                for _ in 0..=below(&mut source, 3) {
                    let place = below(&mut source, broken.len());
                    match below(&mut source, 3) {
                        0 => broken[place] ^= 1 << below(&mut source, 8),
                        1 => broken.truncate(place.max(1)),
                        _ => broken.insert(place, u8::try_from(below(&mut source, 256)).unwrap()),
                    }
                }
                if let Err(error) = Modex::parse(&codec(), form, &participants, &broken) {
                    refused += 1;
                    let offset = error.offset();
                    let within = offset.is_some_and(|offset| offset <= broken.len());
                    let counted = error.status() == Status::ERR_OUT_OF_RESOURCE;
                    assert!(within || counted, "seed {seed}: {error}");
                }
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

/// Checks that data are only unpacked for validation on arrival: in the commit and in the modex.
/// The contribution and the reply to a client on another node contain the bytes of the commit.
#[test]
fn data_of_a_fence_are_not_unpacked_in_transit() {
    let text = "tcp;ib0:17;".repeat(50);
    let mut own = ModexStore::default();
    for (key, value) in [
        ("app.card", Value::from(text.clone())),
        ("app.blob", Value::ByteObject(vec![7; 3000].into())),
    ] {
        own.put(Rank::new(1), Scope::GLOBAL, Info::new(key, value))
            .unwrap();
    }
    let commit = own.commit_message(&codec(), Rank::new(1)).unwrap();
    let proc = proc("JOB1", 1);
    let expected = own.kvals(&codec(), proc.rank, Scope::REMOTE).unwrap();
    let participants = [participant("JOB1", 3)];
    for form in FORMS {
        UNPACKED.set(0);
        let (mut near, mut far) = (ModexStore::default(), ModexStore::default());
        near.commit(&codec(), proc.rank, &commit).unwrap();
        let procs = [(proc.clone(), &near)];
        let blob = Modex::contribution(&codec(), form, &participants, &procs).unwrap();
        let modex = Modex::parse(&codec(), form, &participants, &blob).unwrap();
        far.absorb(&proc.nspace, &modex, |_, _| ());
        far.check(proc.rank, Scope::REMOTE, "app.card", &[])
            .unwrap();
        let reply = far.kvals(&codec(), proc.rank, Scope::REMOTE).unwrap();
        assert_eq!(UNPACKED.get(), 0, "{form:?}");
        assert_eq!(reply, expected, "{form:?}");
        // A client with another layout receives the same data.
        let other = Codec::new(Layout::new(Module::V20));
        let reply = far.kvals(&other, proc.rank, Scope::REMOTE).unwrap();
        assert_eq!(UNPACKED.get(), 2, "{form:?}");
        assert_eq!(reply, own.kvals(&other, proc.rank, Scope::REMOTE).unwrap());
        let value = far.get(proc.rank, Scope::REMOTE, "app.card", &[]).unwrap();
        assert_eq!(*value, Value::from(text.clone()));
        assert_eq!(UNPACKED.get(), 3);
    }
}
