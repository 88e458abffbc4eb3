// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares puts, deletions and fetches with a simple model.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER_PERMISSIVE;
use pmix_types::{Info, Kval, QualifiedValue, Rank, Scope, Status, Value, keys};
use proptest::prelude::*;

use super::{Entry, ModexStore, ScopeSet};
use crate::Codec;
use crate::exchange::counted::{PACKED, PASSES, raised};

const R: Rank = Rank::new(7);

fn put(puts: &mut ModexStore, scope: Scope, key: &'static str, value: u32) {
    puts.put(R, scope, Info::new(key, value)).unwrap();
}

fn seen(puts: &ModexStore, scope: Scope, key: &str) -> Option<u32> {
    let value = puts.get(R, scope, key, &[]).ok()?;
    Some(value.to_number().unwrap())
}

#[test]
fn the_last_put_of_a_key_moves_it() {
    let mut puts = ModexStore::default();
    put(&mut puts, Scope::GLOBAL, "k", 1);
    put(&mut puts, Scope::LOCAL, "k", 2);
    assert_eq!(seen(&puts, Scope::LOCAL, "k"), Some(2));
    assert_eq!(seen(&puts, Scope::REMOTE, "k"), None);
    assert_eq!(seen(&puts, Scope::INTERNAL, "k"), Some(2));
    put(&mut puts, Scope::INTERNAL, "k", 3);
    assert_eq!(seen(&puts, Scope::GLOBAL, "k"), None);
    assert_eq!(seen(&puts, Scope::UNDEF, "k"), Some(3));
}

/// Returns a block of a commit in the local scope. A value of no type removes its key.
fn block(kvals: &[Kval<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for kval in kvals {
        let mut encoder = codec().encoder(&mut bytes);
        encoder.one::<bfrops::wire_type::Kval>(kval).unwrap();
    }
    let mut out = Vec::new();
    super::commit::pack(&codec(), &mut out, Scope::LOCAL, bytes).unwrap();
    out
}

#[test]
fn removals_of_single_keys_between_values_do_not_visit_all_keys() {
    let value = |key: String, value: Value<'static>| Kval {
        key: pmix_types::Key::new(key.into_bytes()),
        value,
    };
    let name = |number: u32| format!("key.{number:06}");
    let mut puts = ModexStore::default();
    let all: Vec<_> = (0..20_000)
        .map(|number| value(name(number), 1_u32.into()))
        .collect();
    puts.commit(&codec(), R, &block(&all)).unwrap();
    let changes: Vec<_> = (0..1_000)
        .flat_map(|number| {
            let new = value(format!("new.{number}"), 1_u32.into());
            [new, value(name(number * 20), Value::Undef)]
        })
        .collect();
    let passes = raised(&PASSES, || {
        puts.commit(&codec(), R, &block(&changes)).unwrap()
    });
    assert_eq!(passes, 0);
    assert_eq!(puts.num_keys(R), 20_000);
    assert_eq!(seen(&puts, Scope::LOCAL, "key.000020"), None);
    assert_eq!(seen(&puts, Scope::LOCAL, "key.000021"), Some(1));
    let gone: Vec<_> = (0..20_000)
        .map(|number| value(name(number), Value::Undef))
        .collect();
    let passes = raised(&PASSES, || puts.commit(&codec(), R, &block(&gone)).unwrap());
    assert!((1..=20_000 / 500).contains(&passes), "{passes}");
    assert_eq!(puts.num_keys(R), 1_000);
}

#[test]
fn internal_data_are_seen_only_by_their_process() {
    let mut puts = ModexStore::default();
    put(&mut puts, Scope::INTERNAL, "k", 1);
    for scope in [Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL] {
        let error = puts.get(R, scope, "k", &[]).unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_FOUND);
        assert_eq!(puts.all(R, scope).unwrap().count(), 0);
    }
    assert_eq!(seen(&puts, Scope::INTERNAL, "k"), Some(1));
}

#[test]
fn a_key_outside_of_the_scope_is_reported_as_existing() {
    let mut puts = ModexStore::default();
    put(&mut puts, Scope::REMOTE, "k", 1);
    let error = puts.get(R, Scope::LOCAL, "k", &[]).unwrap_err();
    assert_eq!(error.status(), Status::ERR_EXISTS_OUTSIDE_SCOPE);
    let error = puts.get(R, Scope::LOCAL, "other", &[]).unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND);
    let error = puts.get(R, Scope::DEL_LOCAL, "k", &[]).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn qualifiers_distinguish_values() {
    let mut puts = ModexStore::default();
    for (unit, speed) in [("gbps", 100_u32), ("mbps", 100_000)] {
        let mut value = QualifiedValue::new(Info::new("speed", speed));
        value.qualify("unit", unit);
        puts.put(R, Scope::GLOBAL, value.into_info()).unwrap();
    }
    put(&mut puts, Scope::GLOBAL, "speed", 1);
    let asked = [Info::new("unit", "mbps").qualifier()];
    let found = puts.get(R, Scope::REMOTE, "speed", &asked).unwrap();
    assert_eq!(*found, Value::Uint32(100_000));
    assert_eq!(seen(&puts, Scope::LOCAL, "speed"), Some(1));
    let other = [Info::new("unit", "bps").qualifier()];
    assert!(puts.get(R, Scope::REMOTE, "speed", &other).is_err());
    assert_eq!(puts.all(R, Scope::REMOTE).unwrap().count(), 3);
    // A value with equal qualifiers replaces the old one.
    let mut again = QualifiedValue::new(Info::new("speed", 7_u32));
    again.qualify("unit", "mbps");
    puts.put(R, Scope::GLOBAL, again.into_info()).unwrap();
    let found = puts.get(R, Scope::REMOTE, "speed", &asked).unwrap();
    assert_eq!(*found, Value::Uint32(7));
    puts.put(R, Scope::DEL_GLOBAL, Info::new("speed", Value::Undef))
        .unwrap();
    assert!(!puts.has_rank(R));
}

#[test]
fn rejects_data_that_no_fetch_could_find() {
    let mut puts = ModexStore::default();
    let long = "k".repeat(512);
    let infos = [
        (Scope::UNDEF, Info::new("k", 1_u32)),
        (Scope::from_raw(77), Info::new("k", 1_u32)),
        (Scope::LOCAL, Info::new("", 1_u32)),
        (Scope::LOCAL, Info::new(long.as_str(), 1_u32)),
        (Scope::LOCAL, Info::new("k", Value::Undef)),
        (Scope::LOCAL, Info::new(keys::QUALIFIED_VALUE, 1_u32)),
        (
            Scope::LOCAL,
            Info::new(keys::QUALIFIED_VALUE, Vec::<Info<'_>>::new()),
        ),
        (Scope::DEL_LOCAL, Info::new("", 1_u32)),
    ];
    for (scope, info) in infos {
        let error = puts.put(R, scope, info).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
    }
    assert!(!puts.has_rank(R));
}

#[test]
fn a_snapshot_does_not_change() {
    let mut puts = ModexStore::default();
    for rank in 0..1_000 {
        puts.put(Rank::new(rank), Scope::GLOBAL, Info::new("k", rank))
            .unwrap();
    }
    let before = puts.clone();
    for rank in 0..1_000 {
        puts.put(Rank::new(rank), Scope::GLOBAL, Info::new("k", rank + 1))
            .unwrap();
    }
    puts.forget(Rank::new(999));
    for rank in [0, 255, 256, 999] {
        let old = before.get(Rank::new(rank), Scope::LOCAL, "k", &[]).unwrap();
        assert_eq!(*old, Value::Uint32(rank));
    }
    assert!(!puts.has_rank(Rank::new(999)));
}

#[test]
fn any_process_may_answer_for_an_undefined_rank() {
    let mut puts = ModexStore::default();
    for rank in [4_000_000, 9] {
        puts.put(Rank::new(rank), Scope::GLOBAL, Info::new("k", rank))
            .unwrap();
    }
    let found = puts.get(Rank::UNDEF, Scope::REMOTE, "k", &[]).unwrap();
    assert_eq!(*found, Value::Uint32(9));
}

#[test]
fn a_batch_is_stored_as_its_entries_one_by_one() {
    let mut random = 7_u32;
    let mut next = |most: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % most
    };
    let (mut batches, mut singles) = (ModexStore::default(), ModexStore::default());
    for round in 0..60 {
        let scopes = [
            ScopeSet::LOCAL,
            ScopeSet::REMOTE,
            ScopeSet::LOCAL | ScopeSet::REMOTE,
        ];
        let scopes = scopes[next(3) as usize];
        let keys = [40, 2_000, 2_000_000][next(3) as usize];
        let entries = (0..next(400)).map(|_| {
            let key = format!("k{}", next(keys));
            let value = match next(8) {
                0 => Value::Undef,
                value => Value::from(value),
            };
            let kval = Kval {
                key: key.into(),
                value,
            };
            Entry::travelling(kval, 10).unwrap()
        });
        let entries: Vec<_> = entries.collect();
        for entry in &entries {
            singles.merge(R, scopes, vec![entry.clone()]);
        }
        batches.merge(R, scopes, entries);
        assert_eq!(batches.num_keys(R), singles.num_keys(R), "round {round}");
        assert_eq!(batches.num_bytes(R), singles.num_bytes(R), "round {round}");
        for scope in [Scope::LOCAL, Scope::REMOTE] {
            let of = |puts: &ModexStore| -> Vec<_> {
                puts.all(R, scope)
                    .unwrap()
                    .map(std::borrow::Cow::into_owned)
                    .collect()
            };
            assert_eq!(of(&batches), of(&singles), "round {round}");
        }
    }
    assert!(batches.num_keys(R) > 1_000);
}

#[test]
fn a_large_batch_takes_linear_time() {
    let entries = |first: u32| -> Vec<Entry> {
        let keys = (0..20_000_u32).map(|i| i.wrapping_mul(0x9e37_79b1));
        keys.map(|i| Info::new(format!("k{i}"), first))
            .map(|info| pmix_types::Kval {
                key: info.key,
                value: info.value,
            })
            .map(|kval| Entry::new(kval).unwrap())
            .collect()
    };
    let mut puts = ModexStore::default();
    puts.merge(R, ScopeSet::REMOTE, entries(1));
    puts.merge(R, ScopeSet::LOCAL, entries(1));
    puts.merge(R, ScopeSet::REMOTE, entries(2));
    let all: Vec<_> = puts.all(R, Scope::INTERNAL).unwrap().collect();
    assert_eq!(all.len(), 20_000);
    assert!(all.iter().all(|kval| kval.value == Value::Uint32(1)));
    assert_eq!(seen(&puts, Scope::REMOTE, "k0"), Some(2));
}

#[derive(Clone, Debug)]
enum Step {
    Put(u32, Scope, u8, u32),
    /// The operation of a commit or a modex.
    Merge(u32, ScopeSet, Vec<(u8, Option<u32>)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let scope = (1_u8..=8).prop_map(Scope::from_raw);
    let scopes = prop_oneof![Just(ScopeSet::LOCAL), Just(ScopeSet::REMOTE)];
    let batch = prop::collection::vec((0_u8..4, prop::option::weighted(0.8, 0_u32..4)), 0..5);
    let step = prop_oneof![
        (0_u32..3, scope, 0_u8..4, 0_u32..4).prop_map(|(r, s, k, v)| Step::Put(r, s, k, v)),
        (0_u32..3, scopes, batch).prop_map(|(r, a, b)| Step::Merge(r, a, b)),
    ];
    prop::collection::vec(step, 0..40)
}

/// One value for each process, key and scope.
#[derive(Default)]
struct Model(BTreeMap<(u32, u8, &'static str), u32>);

const SIDES: [(&str, ScopeSet); 3] = [
    ("own", ScopeSet::OWN),
    ("local", ScopeSet::LOCAL),
    ("remote", ScopeSet::REMOTE),
];

impl Model {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Put(rank, scope, key, value) => {
                let (sides, store): (&[&'static str], bool) = match *scope {
                    Scope::INTERNAL => (&["own"], true),
                    Scope::LOCAL => (&["local"], true),
                    Scope::REMOTE => (&["remote"], true),
                    Scope::GLOBAL => (&["local", "remote"], true),
                    Scope::DEL_INTERNAL => (&["own"], false),
                    Scope::DEL_LOCAL => (&["own", "local"], false),
                    Scope::DEL_REMOTE => (&["own", "remote"], false),
                    _ => (&["own", "local", "remote"], false),
                };
                let gone = if store {
                    &["own", "local", "remote"]
                } else {
                    sides
                };
                for side in gone {
                    self.0.remove(&(*rank, *key, side));
                }
                for side in sides.iter().filter(|_| store) {
                    self.0.insert((*rank, *key, side), *value);
                }
            }
            Step::Merge(rank, scopes, batch) => {
                let side = SIDES.iter().find(|(_, a)| a == scopes).unwrap().0;
                for (key, value) in batch {
                    match value {
                        Some(value) => self.0.insert((*rank, *key, side), *value),
                        None => self.0.remove(&(*rank, *key, side)),
                    };
                }
            }
        }
    }

    fn seen(&self, rank: u32, key: u8, sides: &[&'static str]) -> Option<u32> {
        let mut found = sides
            .iter()
            .filter_map(|side| self.0.get(&(rank, key, side)));
        found.next().copied()
    }
}

fn run(puts: &mut ModexStore, step: &Step) {
    match step {
        Step::Put(rank, scope, key, value) => puts
            .put(
                Rank::new(*rank),
                *scope,
                Info::new(format!("k{key}"), *value),
            )
            .unwrap(),
        Step::Merge(rank, scopes, batch) => {
            let entries = batch.iter().map(|(key, value)| {
                let kval = pmix_types::Kval {
                    key: format!("k{key}").into(),
                    value: value.map_or(Value::Undef, Value::Uint32),
                };
                Entry::travelling(kval, 8)
            });
            let entries = entries.collect::<Result<_, _>>().unwrap();
            puts.merge(Rank::new(*rank), *scopes, entries);
        }
    }
}

proptest! {
    #[test]
    fn every_fetch_agrees_with_a_naive_model(steps in steps()) {
        let (mut puts, mut model) = (ModexStore::default(), Model::default());
        for step in &steps {
            run(&mut puts, step);
            model.step(step);
        }
        let scopes: [(Scope, &[&'static str]); 5] = [
            (Scope::LOCAL, &["local"]),
            (Scope::REMOTE, &["remote"]),
            (Scope::GLOBAL, &["local", "remote"]),
            (Scope::INTERNAL, &["own", "local", "remote"]),
            (Scope::UNDEF, &["own", "local", "remote"]),
        ];
        for ((scope, sides), rank) in scopes.iter().flat_map(|s| (0..3).map(move |r| (s, r))) {
            let mut all = Vec::new();
            for key in 0..4 {
                let name = format!("k{key}");
                let found = puts.get(Rank::new(rank), *scope, &name, &[]).ok().map(std::borrow::Cow::into_owned);
                let expected = model.seen(rank, key, sides).map(Value::Uint32);
                prop_assert_eq!(&found, &expected, "{} {} {}", rank, scope, key);
                all.extend(expected.map(|value| (name, value)));
            }
            let listed: Vec<_> = puts.all(Rank::new(rank), *scope).unwrap()
                .map(|kval| (kval.key.to_string(), kval.value.clone())).collect();
            prop_assert_eq!(listed, all);
        }
    }
}

/// The local part of a commit by a client of 4.2.2, and the data of such a process in a reply to a
/// get.
const COMMIT: &str = "0201 02 01 2b 02106d792e676c6f62000f88ef99abc5e88c9111 020e6d792e6c6f6300031868656c6c6f2d6c6f63616c00
    0202 02 01 2c 02106d792e676c6f62000f88ef99abc5e88c9111 020e6d792e72656d00031a68656c6c6f2d72656d6f746500";
const KVALS: &str =
    "02106d792e676c6f62000f88ef99abc5e88c9111 020e6d792e6c6f6300031868656c6c6f2d6c6f63616c00";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    HEXLOWER_PERMISSIVE.decode(&digits).unwrap()
}

fn codec() -> Codec<'static> {
    Codec::new(bfrops::Layout::new(bfrops::Module::V41))
}

#[test]
fn commits_and_replies_equal_those_of_real_peers() {
    let (mut puts, rank) = (ModexStore::default(), Rank::new(1));
    let mut own = ModexStore::default();
    let number = Value::Uint64(1_234_605_616_436_508_552);
    for (scope, info) in [
        (Scope::GLOBAL, Info::new("my.glob", number)),
        (Scope::LOCAL, Info::new("my.loc", "hello-local")),
        (Scope::REMOTE, Info::new("my.rem", "hello-remote")),
        (Scope::INTERNAL, Info::new("my.own", "hello-me")),
    ] {
        own.put(rank, scope, info).unwrap();
    }
    assert_eq!(own.commit_message(&codec(), rank).unwrap(), hex(COMMIT));
    puts.commit(&codec(), rank, &hex(COMMIT)).unwrap();
    for scope in [Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL] {
        let seen = |puts: &ModexStore| -> Vec<_> {
            puts.all(rank, scope)
                .unwrap()
                .map(std::borrow::Cow::into_owned)
                .collect()
        };
        assert_eq!(seen(&puts), seen(&own), "{scope}");
    }
    let kvals = puts.kvals(&codec(), rank, Scope::LOCAL).unwrap();
    assert_eq!(kvals, hex(KVALS));
    let mut far = ModexStore::default();
    let direct = puts.direct(&codec(), rank).unwrap();
    far.absorb_direct(&codec(), rank, &direct).unwrap();
    assert_eq!(far.direct(&codec(), rank).unwrap(), direct);
    assert_eq!(far.all(rank, Scope::LOCAL).unwrap().count(), 0);
}

#[test]
fn a_commit_updates_and_a_damaged_one_changes_nothing() {
    let rank = Rank::new(1);
    let mut puts = ModexStore::default();
    puts.commit(&codec(), rank, &hex(COMMIT)).unwrap();
    // my.loc is deleted, my.new stored.
    let more = hex("0205 02 01 0a 020e6d792e6c6f630000 0201 02 01 0b 020e6d792e6e6577000105");
    puts.commit(&codec(), rank, &more).unwrap();
    let keys = |puts: &ModexStore, scope| -> Vec<String> {
        puts.all(rank, scope)
            .unwrap()
            .map(|kval| kval.key.to_string())
            .collect()
    };
    assert_eq!(keys(&puts, Scope::LOCAL), ["my.glob", "my.new"]);
    assert_eq!(keys(&puts, Scope::REMOTE), ["my.glob", "my.rem"]);
    for (broken, expected) in [
        (
            "0205 02 01 0a 020e6d792e676c6f0000 0204 02 01 00",
            "at byte 15",
        ),
        (
            "0202 02 01 0b 020e6d792e6e6577000105 0201 02 01 03 020400",
            "at byte 2",
        ),
        ("0200 02 01 00", "at byte 0"),
    ] {
        let before = puts.clone();
        let error = puts.commit(&codec(), rank, &hex(broken)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(keys(&puts, Scope::INTERNAL), keys(&before, Scope::INTERNAL));
    }
}

#[test]
fn mutated_commits_are_stored_or_rejected() {
    let bytes = hex(COMMIT);
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut broken = bytes.clone();
            broken[place] ^= 1 << bit;
            let mut puts = ModexStore::default();
            if puts.commit(&codec(), R, &broken).is_err() {
                assert!(!puts.has_rank(R));
            }
        }
        let mut puts = ModexStore::default();
        let cut = puts.commit(&codec(), R, &bytes[..place]);
        // A truncated commit is valid only if it is empty or ends after the first block.
        assert_eq!(cut.is_ok(), place == 0 || place == 48, "{place}");
    }
}

#[test]
fn the_others_come_from_the_next_rank_on() {
    let mut puts = ModexStore::default();
    for rank in [0, 3, 255, 256, 257, 70_000] {
        let info = Info::new("k", rank);
        puts.put(Rank::new(rank), Scope::GLOBAL, info).unwrap();
    }
    let after = |rank| -> Vec<u32> {
        let others = puts.others_after(Rank::new(rank));
        others.map(Rank::as_raw).collect()
    };
    assert_eq!(after(0), [3, 255, 256, 257, 70_000]);
    assert_eq!(after(256), [257, 70_000, 0, 3, 255]);
    assert_eq!(after(100), [255, 256, 257, 70_000, 0, 3]);
    assert_eq!(after(70_000), [0, 3, 255, 256, 257]);
    assert_eq!(after(u32::MAX), [0, 3, 255, 256, 257, 70_000]);
}

#[test]
fn repeated_values_are_not_changes_and_new_ones_are() {
    let rank = Rank::new(1);
    let mut puts = ModexStore::default();
    puts.commit(&codec(), rank, &hex(COMMIT)).unwrap();
    // Clients up to 5.0 repeat all data and add new ones.
    puts.commit(&codec(), rank, &hex(COMMIT)).unwrap();
    puts.commit(&codec(), rank, &hex("0201 02 01 0b 020e6d792e6e6577000205"))
        .unwrap();
    let mut far = ModexStore::default();
    for _ in 0..2 {
        let direct = puts.direct(&codec(), rank).unwrap();
        far.absorb_direct(&codec(), rank, &direct).unwrap();
    }
    assert!(!puts.has_changed() && !far.has_changed());

    let before = puts.clone();
    let changed = hex("0201 02 01 0b 020e6d792e6e6577000206");
    puts.commit(&codec(), rank, &changed).unwrap();
    assert!(puts.has_changed() && !before.has_changed());
    let mut removed = before.clone();
    let deletion = hex("0205 02 01 0a 020e6d792e6c6f630000");
    removed.commit(&codec(), rank, &deletion).unwrap();
    assert!(removed.has_changed());
    let mut broken = before.clone();
    let cut = [&changed[..], &[2]].concat();
    assert!(broken.commit(&codec(), rank, &cut).is_err() && !broken.has_changed());
    let mut lost = before;
    lost.forget(rank);
    assert!(lost.has_changed());
}

#[test]
fn data_for_many_clients_are_packed_once_until_they_change() {
    let (mut puts, rank) = (ModexStore::default(), Rank::new(1));
    puts.commit(&codec(), rank, &hex(COMMIT)).unwrap();
    let front = |len: usize| Ok::<_, crate::Error>(format!("reply {len}: ").into_bytes());
    let ask = |puts: &ModexStore, scope| {
        let packed = puts.packed_once(&codec(), rank, scope, 5, front).unwrap();
        let begun = front(packed.kvals().len()).unwrap();
        assert_eq!(packed.reply(), [&begun, packed.kvals()].concat());
        packed.kvals().to_vec()
    };
    let many = || {
        for _ in 0..1_000 {
            assert_eq!(ask(&puts, Scope::LOCAL), hex(KVALS));
        }
    };
    assert_eq!(raised(&PACKED, many), 1);
    // A snapshot shares the packed data until it differs.
    let old = puts.clone();
    puts.put(rank, Scope::GLOBAL, Info::new("new", 1_u32))
        .unwrap();
    let of_old = || assert_eq!(ask(&old, Scope::LOCAL), hex(KVALS));
    assert_eq!(raised(&PACKED, of_old), 0);
    assert_ne!(ask(&puts, Scope::LOCAL), hex(KVALS));
    puts.put(rank, Scope::DEL_GLOBAL, Info::new("new", 1_u32))
        .unwrap();
    assert_eq!(ask(&puts, Scope::LOCAL), hex(KVALS));
    assert_ne!(ask(&puts, Scope::REMOTE), hex(KVALS));
    puts.forget(rank);
    assert!(ask(&puts, Scope::LOCAL).is_empty());
}

#[test]
fn long_data_are_packed_once_while_a_client_uses_them() {
    let (mut puts, rank) = (ModexStore::default(), Rank::new(1));
    let long = Info::new("long", vec![7_u8; 5 << 20]);
    puts.put(rank, Scope::LOCAL, long).unwrap();
    let front = |_: usize| Ok::<_, crate::Error>(Vec::new());
    let ask = || {
        puts.packed_once(&codec(), rank, Scope::LOCAL, 5, front)
            .unwrap()
    };
    let mut all = Vec::new();
    assert_eq!(raised(&PACKED, || all.extend((0..100).map(|_| ask()))), 1);
    assert!(
        all.iter()
            .all(|one| std::ptr::eq(one.reply(), all[0].reply()))
    );
    assert!(puts.memory_bytes() < 6 << 20);
    drop(all);
    assert_eq!(raised(&PACKED, || drop(ask())), 1);
}
