// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that time and memory for data from peers and hosts are proportional to their length, for
//! any content.

use crate::growth;
use bfrops::{Encoder, Layout, Module, wire_type};
use gds_hash::{
    Codec, CommitLimits, KeyChange, LocalNode, Modex, ModexForm, ModexStore, Participant, Store,
};
use pmix_builtin::open_preg;
use pmix_types::{
    Bytes, DataArray, Info, Key, Kval, Nspace, Proc, QualifiedValue, Rank, Scope, Status, Value,
    keys,
};
use preg_core::Params;

const LAYOUT: Layout = Layout::new(Module::V41);

/// Returns a commit for one scope.
fn commit(scope: Scope, kvals: &[Kval<'_>]) -> Vec<u8> {
    let mut block = Vec::new();
    let mut encoder = Encoder::new(LAYOUT, &mut block);
    for kval in kvals {
        encoder.one::<wire_type::Kval>(kval).unwrap();
    }
    let mut out = Vec::new();
    let mut encoder = Encoder::new(LAYOUT, &mut out);
    encoder.one::<wire_type::Scope>(&scope).unwrap();
    encoder
        .one::<wire_type::Buffer>(&Bytes::Owned(block))
        .unwrap();
    out
}

/// Returns values of one key that differ only in the last of many qualifiers.
fn variants(variants: u32, qualifiers: u32) -> Vec<u8> {
    let kvals: Vec<_> = (0..variants)
        .map(|number| {
            let mut value = QualifiedValue::new(Info::new("speed", number));
            for qualifier in 0..qualifiers {
                value.qualify("q", Value::Uint32(qualifier));
            }
            value.qualify("last", Value::Uint32(number));
            let info = value.into_info();
            Kval {
                key: info.key,
                value: info.value,
            }
        })
        .collect();
    commit(Scope::GLOBAL, &kvals)
}

fn store_with_job() -> (Store, Nspace<'static>) {
    let preg = open_preg(&Params::default()).unwrap();
    let store = Store::new(std::sync::Arc::new(preg), LocalNode::new("n0"));
    let nspace = Nspace::from("job");
    store.register_nspace(&nspace, 1, &[]).unwrap();
    (store, nspace)
}

#[test]
fn commit_of_many_variants_and_qualifiers() {
    growth::is_linear(
        "qualifiers of 64 variants",
        10,
        |size| variants(64, u32::try_from(size).unwrap()),
        |message| {
            let mut modex = ModexStore::default();
            modex
                .commit(&Codec::new(LAYOUT), Rank::new(0), message)
                .unwrap();
        },
    );
}

#[test]
fn a_get_that_names_many_qualifiers() {
    growth::is_linear(
        "qualifiers of a get",
        10,
        |size| {
            let size = u32::try_from(size).unwrap();
            let mut modex = ModexStore::default();
            let message = variants(64, size);
            modex
                .commit(&Codec::new(LAYOUT), Rank::new(0), &message)
                .unwrap();
            let asked: Vec<_> = (0..size)
                .rev()
                .map(|n| Info::new("q", Value::Uint32(n)).qualifier())
                .chain([Info::new("last", Value::Uint32(1000)).qualifier()])
                .collect();
            (modex, asked)
        },
        |(modex, asked)| {
            for _ in 0..10 {
                let found = modex.get(Rank::new(0), Scope::LOCAL, "speed", asked);
                assert!(found.is_err());
            }
        },
    );
}

/// Returns kvals with unordered keys. The values depend on `round`.
fn keys(count: usize, round: u32) -> Vec<Kval<'static>> {
    (0..count)
        .map(|at| Kval {
            key: Key::new(format!(
                "key{}",
                at.wrapping_mul(2_654_435_761) % 1_000_000_007
            )),
            value: Value::Uint32(round),
        })
        .collect()
}

#[test]
fn commit_of_many_keys_and_of_new_values_for_all() {
    growth::is_linear(
        "keys committed twice",
        2_000,
        |size| [0, 1].map(|round| commit(Scope::LOCAL, &keys(size, round))),
        |messages| {
            let mut modex = ModexStore::default();
            for message in messages {
                modex
                    .commit(&Codec::new(LAYOUT), Rank::new(0), message)
                    .unwrap();
            }
        },
    );
}

#[test]
fn commit_of_many_blocks_and_deletion_of_all() {
    growth::is_linear(
        "keys put and deleted one by one",
        1_000,
        |size| {
            let kvals = keys(size, 0);
            [Scope::REMOTE, Scope::DEL_REMOTE].map(|scope| {
                let blocks = kvals
                    .iter()
                    .map(|kval| commit(scope, std::slice::from_ref(kval)));
                blocks.collect::<Vec<_>>().concat()
            })
        },
        |messages| {
            let mut modex = ModexStore::default();
            for message in messages {
                modex
                    .commit(&Codec::new(LAYOUT), Rank::new(0), message)
                    .unwrap();
            }
            assert!(!modex.has_rank(Rank::new(0)));
        },
    );
}

// Planted: the data of each process in a fence are compared with all earlier data.
#[test]
fn the_data_of_a_fence() {
    let participants = [Participant {
        nspace: Nspace::from("job"),
        num_procs: 1,
    }];
    for form in [ModexForm::Numbered, ModexForm::Named] {
        growth::is_linear(
            "keys that a fence collects",
            300,
            |size| {
                let mut modex = ModexStore::default();
                let message = commit(Scope::GLOBAL, &keys(size, 0));
                let (codec, rank) = (Codec::new(LAYOUT), Rank::new(0));
                modex.commit(&codec, rank, &message).unwrap();
                let procs = [(Proc::new("job", rank), &modex)];
                Modex::contribution(&codec, form, &participants, &procs).unwrap()
            },
            |bytes| {
                let codec = Codec::new(LAYOUT);
                drop(Modex::parse(&codec, form, &participants, bytes).unwrap());
            },
        );
    }
}

#[test]
fn small_commits_besides_many_keys() {
    // Each commit is decoded, and counts against the limit of the process.
    growth::is_linear(
        "keys beside 100 commits",
        2_000,
        |size| {
            let (store, nspace) = store_with_job();
            let large = commit(Scope::GLOBAL, &keys(size, 0));
            let put = |message: &[u8]| {
                let codec = Codec::new(LAYOUT);
                store.update_modex(&nspace, |modex| modex.commit(&codec, Rank::new(0), message))
            };
            put(&large).unwrap();
            (store, nspace)
        },
        |(store, nspace)| {
            for number in 0..100_u32 {
                let kval = Kval {
                    key: "one more".into(),
                    value: Value::Uint32(number),
                };
                let message = commit(Scope::GLOBAL, &[kval]);
                let before = store.job(nspace).unwrap().modex_store();
                let codec = Codec::new(LAYOUT);
                store
                    .update_modex(nspace, |modex| modex.commit(&codec, Rank::new(0), &message))
                    .unwrap();
                assert!(before.num_bytes(Rank::new(0)) > 0);
            }
        },
    );
}

#[test]
fn sizes_are_updated_with_each_change() {
    let mut modex = ModexStore::default();
    let codec = Codec::new(LAYOUT);
    let rank = Rank::new(0);
    let mut bytes = Vec::new();
    for round in 0..3 {
        for scope in [Scope::LOCAL, Scope::REMOTE] {
            let message = commit(scope, &keys(1_000, round));
            modex.commit(&codec, rank, &message).unwrap();
        }
        bytes.push(modex.num_bytes(rank));
    }
    // Repeated values replace earlier ones.
    assert!(bytes[0] > 10_000 && bytes.iter().all(|b| *b == bytes[0]));
    let message = commit(Scope::DEL_LOCAL, &keys(1_000, 0));
    modex.commit(&codec, rank, &message).unwrap();
    assert_eq!(modex.num_bytes(rank), bytes[0]);
    let message = commit(Scope::DEL_REMOTE, &keys(1_000, 0));
    modex.commit(&codec, rank, &message).unwrap();
    // Removals are still recorded for other nodes, but do not count.
    assert_eq!(modex.num_bytes(rank), 0);
    modex.forget(rank);
    assert_eq!(modex.num_bytes(rank), 0);
}

#[test]
fn the_number_of_values_of_a_key_is_bounded_across_commits() {
    let mut modex = ModexStore::default();
    let codec = Codec::new(LAYOUT);
    let mut refused = 0;
    for round in 0..20_u32 {
        let kvals: Vec<_> = (0..100_u32)
            .map(|number| {
                let mut value = QualifiedValue::new(Info::new("speed", number));
                value.qualify("q", Value::Uint32(round * 100 + number));
                let info = value.into_info();
                Kval {
                    key: info.key,
                    value: info.value,
                }
            })
            .collect();
        let message = commit(Scope::LOCAL, &kvals);
        match modex.commit(&codec, Rank::new(0), &message) {
            Ok(()) => assert_eq!(refused, 0),
            Err(error) => {
                assert_eq!(error.status(), pmix_types::Status::ERR_OUT_OF_RESOURCE);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 10);
}

#[test]
fn a_registration_of_many_plain_keys() {
    growth::is_linear(
        "plain keys of a job",
        4_000,
        |size| {
            let kvals = keys(size, 0).into_iter();
            let infos = kvals.map(|kval| Info::new(kval.key, kval.value));
            infos.collect::<Vec<_>>()
        },
        |infos| {
            let (store, nspace) = store_with_job();
            store.register_nspace(&nspace, 1, &*infos).unwrap();
        },
    );
}

#[test]
fn a_registration_of_many_qualified_values() {
    growth::is_linear(
        "qualified values of a job",
        1_000,
        |size| {
            let values = (0..u32::try_from(size).unwrap()).map(|number| {
                let mut value = QualifiedValue::new(Info::new("speed", number));
                value.qualify("unit", Value::Uint32(number));
                value.into_info()
            });
            values.collect::<Vec<_>>()
        },
        |infos| {
            let (store, nspace) = store_with_job();
            store.register_nspace(&nspace, 1, &*infos).unwrap();
        },
    );
}

#[test]
fn the_places_of_all_processes_of_one_node() {
    growth::is_linear(
        "places on one node",
        1_000,
        |size| {
            let ranks: Vec<_> = (0..size).map(|rank| rank.to_string()).collect();
            let infos = [
                Info::new(keys::NODE_MAP, "n0"),
                Info::new(keys::PROC_MAP, ranks.join(",")),
            ];
            let (store, nspace) = store_with_job();
            store.register_nspace(&nspace, 1, &infos).unwrap();
            (store, nspace, size)
        },
        |(store, nspace, size)| {
            for number in 0..u16::try_from(*size).unwrap() {
                let request = gds_hash::Request::new(Rank::new(number.into()), keys::LOCAL_RANK);
                let place = store.get(nspace, &request).unwrap();
                assert_eq!(place, Value::Uint16(number));
            }
        },
    );
}

#[test]
fn arrays_of_many_processes_with_errors_among_them() {
    growth::is_linear(
        "arrays of processes, every second at fault",
        500,
        |size| {
            let arrays = (0..u32::try_from(size).unwrap()).map(|number| {
                let rank = match number % 2 {
                    0 => Value::Rank(Rank::new(number)),
                    _ => Value::from("none"),
                };
                let infos = vec![Info::new(keys::RANK, rank), Info::new("of", number)];
                Info::new(keys::PROC_DATA, Value::DataArray(DataArray::Info(infos)))
            });
            arrays.collect::<Vec<_>>()
        },
        |infos| {
            let (store, nspace) = store_with_job();
            let refused = store.register_understood(&nspace, infos).unwrap();
            assert_eq!(refused.len(), infos.len() / 2);
        },
    );
}

#[test]
fn a_commit_reports_exactly_its_keys() {
    let (codec, rank) = (Codec::new(LAYOUT), Rank::new(0));
    let mut modex = ModexStore::default();
    let mut told = |message: &[u8]| {
        let mut keys = std::collections::BTreeMap::new();
        let told = |key: &Key<'static>, change| _ = keys.insert(key.clone(), change);
        let done = modex.commit_telling(&codec, rank, message, CommitLimits::NONE, told);
        done.unwrap();
        keys
    };
    let all_of = |all: &[Kval<'static>], change: KeyChange| {
        let names = all.iter().map(|kval| (kval.key.clone(), change));
        names.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (stored, removed) = (KeyChange::Stored, KeyChange::Removed);
    let (first, more) = (keys(10, 0), keys(13, 0));
    assert_eq!(told(&commit(Scope::LOCAL, &first)), all_of(&first, stored));
    assert_eq!(
        told(&commit(Scope::REMOTE, &more[10..])),
        all_of(&more[10..], stored)
    );
    let gone = commit(Scope::DEL_LOCAL, &first[..1]);
    assert_eq!(told(&gone), all_of(&first[..1], removed));
    assert_eq!(
        told(&gone),
        all_of(&first[..1], stored),
        "it is removed already"
    );
    let unseen = commit(Scope::DEL_REMOTE, &more[10..11]);
    assert_eq!(
        told(&unseen),
        all_of(&more[10..11], stored),
        "no process of the node saw it"
    );
}

#[test]
fn keys_and_bytes_of_a_process_are_bounded() {
    let (codec, rank) = (Codec::new(LAYOUT), Rank::new(0));
    let limits = CommitLimits {
        bytes: 100_000,
        keys: 1_000,
    };
    let mut modex = ModexStore::default();
    let put = |modex: &mut ModexStore, message: &[u8]| {
        let done = modex.commit_within(&codec, rank, message, limits);
        done.map_err(|error| error.status())
    };
    let refused = Err(Status::ERR_OUT_OF_RESOURCE);
    // A commit contains a global value twice.
    let full = [Scope::LOCAL, Scope::REMOTE].map(|scope| commit(scope, &keys(1_000, 0)));
    assert_eq!(put(&mut modex, &full.concat()), Ok(()));
    assert_eq!(put(&mut modex, &full.concat()), Ok(()), "said again");
    let one_more = |value| {
        let key = "one more".into();
        commit(Scope::LOCAL, &[Kval { key, value }])
    };
    assert_eq!(put(&mut modex, &one_more(Value::Uint32(1))), refused);
    assert!(modex.check(rank, Scope::LOCAL, "one more", &[]).is_err());
    // A commit beyond the limit is not read to its end.
    let long = commit(Scope::LOCAL, &keys(1_000_000, 0));
    let error = modex.commit_within(&codec, rank, &long, limits);
    let place = error.unwrap_err().offset().unwrap();
    assert!(place < 50_000, "{place} of {}", long.len());
    // After keys are removed, the process may put others.
    let gone = [Scope::DEL_LOCAL, Scope::DEL_REMOTE].map(|scope| commit(scope, &keys(10, 0)));
    assert_eq!(put(&mut modex, &gone.concat()), Ok(()));
    assert_eq!(put(&mut modex, &one_more(Value::Uint32(1))), Ok(()));
    // Elements of arrays count with their size in memory.
    let array = |count| Value::DataArray(DataArray::Value(vec![Value::Bool(true); count]));
    assert_eq!(put(&mut modex, &one_more(array(100))), Ok(()));
    let message = one_more(array(5_000));
    assert!(message.len() < limits.bytes / 3, "{}", message.len());
    assert_eq!(put(&mut modex, &message), refused);
}
