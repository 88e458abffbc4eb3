// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of many jobs in one store: registered, updated and removed, with concurrent readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bfrops::{Encoder, Layout, Module, wire_type};
use gds_hash::{Codec, Error, LocalNode, PlainMaps, Remote, Request, Store};
use pmix_types::{
    Bytes, DataArray, Info, Nspace, Proc, Query, Rank, Release, Scope, Status, Value, keys,
};
use preg_core::Params;

pub(crate) fn store() -> Store {
    let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
    Store::new(Arc::new(preg), LocalNode::new("a"))
}

pub(crate) fn maps(nodes: &str, procs: &str) -> Vec<Info<'static>> {
    vec![
        Info::new(keys::NODE_MAP, nodes.to_owned()),
        Info::new(keys::PROC_MAP, procs.to_owned()),
    ]
}

pub(crate) fn get(
    store: &Store,
    nspace: &str,
    rank: Rank,
    key: &str,
) -> Result<Value<'static>, Status> {
    let request = Request::new(rank, key);
    store
        .get(&Nspace::new(nspace), &request)
        .map_err(|e| e.status())
}

#[test]
fn an_update_keeps_what_it_does_not_state() {
    let store = store();
    let job = Nspace::new("job");
    let mut infos = maps("a,b", "0,1;2,3");
    infos.push(Info::new("site.key", "first"));
    infos.push(Info::new(
        keys::NODE_INFO_ARRAY,
        Value::DataArray(DataArray::Info(vec![
            Info::new(keys::HOSTNAME, "b"),
            Info::new("site.rack", 7u32),
        ])),
    ));
    store.register_nspace(&job, 2, &infos).unwrap();
    let mut update = maps("b,c", "0,1;2,3");
    update.push(Info::new("site.other", true));
    store.register_nspace(&job, 2, &update).unwrap();

    assert_eq!(
        get(&store, "job", Rank::WILDCARD, "site.key"),
        Ok("first".into())
    );
    assert_eq!(
        get(&store, "job", Rank::WILDCARD, "site.other"),
        Ok(true.into())
    );
    assert_eq!(
        get(&store, "job", Rank::new(0), keys::HOSTNAME),
        Ok("b".into())
    );
    let rack = [
        Info::new(keys::NODE_INFO, true),
        Info::new(keys::HOSTNAME, "b"),
    ];
    let request = Request::new(Rank::WILDCARD, "site.rack").with(&rack);
    assert_eq!(store.get(&job, &request).unwrap(), Value::Uint32(7));
}

#[test]
fn a_registration_that_fails_changes_nothing() {
    let store = store();
    let job = Nspace::new("job");
    store.register_nspace(&job, 1, &maps("a", "0")).unwrap();
    store
        .register_nspace(&job, 1, &maps("a,b", "0"))
        .unwrap_err();
    assert_eq!(
        get(&store, "job", Rank::WILDCARD, keys::JOB_SIZE),
        Ok(Value::Uint32(1))
    );
    let none = Nspace::new("none");
    store
        .register_nspace(&none, 1, &maps("a,b", "0"))
        .unwrap_err();
    assert!(store.job(&none).is_none());
}

#[test]
fn no_data_registers_only_the_job() {
    let store = store();
    let mut infos = maps("a", "0");
    infos.push(Info::new(keys::REGISTER_NODATA, true));
    store
        .register_nspace(&Nspace::new("job"), 0, &infos)
        .unwrap();
    assert!(store.job(&Nspace::new("job")).is_some());
    let size = get(&store, "job", Rank::WILDCARD, keys::JOB_SIZE);
    assert_eq!(size, Err(Status::ERR_NOT_FOUND));
}

#[test]
fn a_session_is_known_through_any_of_its_jobs() {
    let store = store();
    let session = vec![
        Info::new(keys::SESSION_ID, 77u32),
        Info::new(keys::CLUSTER_ID, "big"),
    ];
    let array = Value::DataArray(DataArray::Info(session));
    let infos = [Info::new(keys::SESSION_INFO_ARRAY, array)];
    store
        .register_nspace(&Nspace::new("one"), 0, &infos)
        .unwrap();
    store
        .register_nspace(&Nspace::new("two"), 0, &maps("a", "0"))
        .unwrap();
    let asked = [
        Info::new(keys::SESSION_INFO, true),
        Info::new(keys::SESSION_ID, 77u32),
    ];
    let request = Request::new(Rank::WILDCARD, keys::CLUSTER_ID).with(&asked);
    assert_eq!(
        store.get(&Nspace::new("two"), &request).unwrap(),
        "big".into()
    );
}

/// Returns a session array with an array for each job.
fn session(id: u32, jobs: Vec<Vec<Info<'static>>>) -> Info<'static> {
    let jobs = jobs.into_iter().map(|infos| {
        let infos = Value::DataArray(DataArray::Info(infos));
        Info::new(keys::JOB_INFO_ARRAY, infos)
    });
    let id = Info::new(keys::SESSION_ID, id);
    let infos = std::iter::once(id).chain(jobs).collect();
    Info::new(
        keys::SESSION_INFO_ARRAY,
        Value::DataArray(DataArray::Info(infos)),
    )
}

/// Returns the infos of a job with a name and a number of processes, on two nodes.
fn sized(nspace: &'static str, size: u32) -> Vec<Info<'static>> {
    let nspace = Info::new(keys::NSPACE, nspace);
    [
        vec![nspace, Info::new(keys::JOB_SIZE, size)],
        maps("a,b", "0;1"),
    ]
    .concat()
}

#[test]
fn described_jobs_are_known_until_the_describing_job_is_removed() {
    let store = store();
    let register = |nspace: &'static str, infos: Vec<Info<'static>>| {
        store.register_nspace(&Nspace::from(nspace), 0, &infos)
    };
    let size = |nspace| get(&store, nspace, Rank::WILDCARD, keys::JOB_SIZE);
    let jobs = vec![sized("one", 2), sized("two", 3), sized("three", 4)];
    register("one", vec![session(7, jobs)]).unwrap();
    for (nspace, expected) in [("one", 2), ("two", 3), ("three", 4)] {
        assert_eq!(size(nspace), Ok(Value::Uint32(expected)), "{nspace}");
        let id = get(&store, nspace, Rank::WILDCARD, keys::SESSION_ID);
        assert_eq!(id, Ok(Value::Uint32(7)), "{nspace}");
        let host = get(&store, nspace, Rank::new(1), keys::HOSTNAME);
        assert_eq!(host, Ok(Value::from("b")), "{nspace}");
    }
    assert_eq!(store.nspaces().len(), 3);

    // The job is described again, and then registered by the host, which takes precedence from then
    // on.
    register("one", vec![session(7, vec![sized("two", 5)])]).unwrap();
    assert_eq!(size("two"), Ok(Value::Uint32(5)));
    register("three", vec![Info::new(keys::JOB_SIZE, 9_u32)]).unwrap();
    register("one", vec![session(7, vec![sized("three", 4)])]).unwrap();
    assert_eq!(size("three"), Ok(Value::Uint32(9)));

    // An error in one job rejects the whole registration, without changes.
    let wrong = vec![sized("two", 6), sized("four", 1), sized("", 1)];
    assert!(register("one", vec![session(7, wrong)]).is_err());
    let twice = vec![sized("two", 6), sized("two", 7)];
    let error = register("one", vec![session(7, twice)]).unwrap_err();
    assert!(error.to_string().contains("described twice"), "{error}");
    let bad_maps = vec![[sized("two", 6), maps("a", "0;1")].concat()];
    let error = register("one", vec![session(7, bad_maps)]).unwrap_err();
    assert!(
        error.to_string().contains("job two of the session"),
        "{error}"
    );
    assert_eq!(size("two"), Ok(Value::Uint32(5)));
    assert!(size("four").is_err());

    store.deregister_nspace(&Nspace::from("one")).unwrap();
    assert!(size("one").is_err() && size("two").is_err());
    assert_eq!(size("three"), Ok(Value::Uint32(9)));
    store.deregister_nspace(&Nspace::from("three")).unwrap();
    assert!(store.nspaces().is_empty());
}

#[test]
fn a_job_without_maps_is_accepted_with_a_warning() {
    let store = store();
    let register = |name: &'static str, infos: Vec<Info<'static>>| {
        store.register_nspace(&Nspace::from(name), 1, &infos)
    };
    let warnings = register("bare", vec![Info::new(keys::JOB_SIZE, 1_u32)]).unwrap();
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    assert_eq!(warning.status(), Status::ERR_NOT_FOUND);
    let said = warning.to_string();
    assert!(
        said.contains("neither pmix.nmap nor pmix.pmap is given"),
        "{said}"
    );
    assert_eq!(
        get(&store, "bare", Rank::WILDCARD, keys::JOB_SIZE),
        Ok(Value::Uint32(1))
    );
    assert!(register("mapped", maps("a", "0")).unwrap().is_empty());
}

#[test]
fn a_job_described_by_two_sessions_stays_until_both_are_removed() {
    for first in ["one", "two"] {
        let store = store();
        let describe = |nspace: &'static str| {
            let infos = [session(7, vec![sized("other", 3)])];
            store.register_nspace(&Nspace::from(nspace), 0, &infos)
        };
        let other = Nspace::from("other");
        // Repeated descriptions by one job count once.
        for turn in 0..100 {
            describe("one").unwrap();
            describe("two").unwrap();
            if turn % 2 == 0 {
                store.deregister_nspace(&other).unwrap();
            }
        }
        for nspace in ["one", "two"] {
            assert_eq!(store.described_by(&Nspace::from(nspace)).len(), 1);
        }
        let second = if first == "one" { "two" } else { "one" };
        store.deregister_nspace(&Nspace::from(first)).unwrap();
        let size = get(&store, "other", Rank::WILDCARD, keys::JOB_SIZE);
        assert_eq!(size, Ok(Value::Uint32(3)), "{first} was deregistered");
        store.deregister_nspace(&Nspace::from(second)).unwrap();
        assert!(store.nspaces().is_empty(), "{:?}", store.nspaces());
    }
}

#[test]
fn readers_see_registrations_atomically() {
    let store = Arc::new(store());
    let job = Nspace::new("job");
    store.register_nspace(&job, 0, &maps("a", "0")).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, done) = (Arc::clone(&store), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut seen = 0_u64;
                loop {
                    // A reader that starts late still reads the last state.
                    let last = done.load(Ordering::Relaxed);
                    if let Some(known) = store.job(&Nspace::new("job")) {
                        let get = |key| known.job().get(&Request::new(Rank::WILDCARD, key));
                        let size = get(keys::JOB_SIZE).unwrap().into_owned();
                        let nodes = get(keys::NUM_NODES).unwrap().into_owned();
                        assert_eq!(size, nodes);
                        seen += 1;
                    }
                    if last {
                        return seen;
                    }
                }
            })
        })
        .collect();
    let wide = maps("a,b,c", "0;1;2");
    let narrow = maps("a", "0");
    for round in 0..400 {
        let infos = if round % 2 == 0 { &wide } else { &narrow };
        store.register_nspace(&job, 0, infos).unwrap();
        if round % 50 == 0 {
            store.deregister_nspace(&job).unwrap();
        }
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
}

#[test]
fn put_data_survive_updates_and_failed_changes() {
    let store = store();
    let job = Nspace::new("job");
    store.register_nspace(&job, 1, &maps("a", "0,1")).unwrap();
    let put = |rank, key: &'static str| {
        store.update_modex(&job, |puts| {
            puts.put(Rank::new(rank), Scope::GLOBAL, Info::new(key, rank))
        })
    };
    put(0, "app.first").unwrap();
    let before = store.job(&job).unwrap().modex_store();
    store
        .register_nspace(&job, 1, &[Info::new("site.key", true)])
        .unwrap();
    put(1, "app.second").unwrap();
    let failed: Result<(), Error> = store.update_modex(&job, |puts| {
        puts.forget(Rank::new(0));
        puts.put(Rank::new(1), Scope::UNDEF, Info::new("app.third", 1u32))
    });
    failed.unwrap_err();

    let puts = store.job(&job).unwrap().modex_store();
    let get = |rank, key| {
        puts.get(Rank::new(rank), Scope::REMOTE, key, &[])
            .map(std::borrow::Cow::into_owned)
    };
    assert_eq!(get(0, "app.first").unwrap(), Value::Uint32(0));
    assert_eq!(get(1, "app.second").unwrap(), Value::Uint32(1));
    // An earlier snapshot is unchanged.
    assert!(
        before
            .get(Rank::new(1), Scope::REMOTE, "app.second", &[])
            .is_err()
    );
    let nobody = Nspace::new("none");
    let status = store
        .update_modex(&nobody, |_| Ok(()))
        .unwrap_err()
        .status();
    assert_eq!(status, Status::ERR_NOT_FOUND);
}

#[test]
fn clients_of_a_release_share_one_reply() {
    let store = store();
    let job = Nspace::new("job");
    store.register_nspace(&job, 1, &maps("a", "0,1")).unwrap();
    let codec = Codec::new(bfrops::Layout::new(bfrops::Module::V41));
    let known = store.job(&job).unwrap();
    let first = known
        .reply(&codec, Release::V5_0_11, Remote::Whole)
        .unwrap();
    assert!(Arc::ptr_eq(
        &first,
        &known
            .reply(&codec, Release::V5_0_11, Remote::Whole)
            .unwrap()
    ));
    store
        .register_nspace(&job, 1, &[Info::new("site.key", "news")])
        .unwrap();
    let after = store
        .job(&job)
        .unwrap()
        .reply(&codec, Release::V5_0_11, Remote::Whole)
        .unwrap();
    assert!(after.len() > first.len());
}

#[test]
fn processes_of_every_job_on_this_node_are_known() {
    let store = store();
    let register = |job, nodes, procs| {
        store
            .register_nspace(&Nspace::new(job), 0, &maps(nodes, procs))
            .unwrap();
    };
    register("one", "a,b", "0,2;1");
    register("two", "b,a", "0;1");
    register("three", "b", "0");
    let mut procs = store.local_procs();
    procs.sort();
    let proc = |job: &'static str, rank| Proc::new(job, Rank::new(rank));
    assert_eq!(procs, [proc("one", 0), proc("one", 2), proc("two", 1)]);
}

/// Returns the memory of this process in pages.
#[cfg(target_os = "linux")]
fn resident_pages() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_hundred_thousand_jobs_leave_no_memory() {
    let store = store();
    let infos = maps("a,b,c,login", "0,1;2,3;4;5");
    let cycle = |from: u32, to: u32| {
        for number in from..to {
            let job = Nspace::new(format!("job@{number}"));
            store.register_nspace(&job, 2, &infos).unwrap();
            let put = |puts: &mut gds_hash::ModexStore| {
                puts.put(Rank::new(1), Scope::GLOBAL, Info::new("app.key", "value"))
            };
            store.update_modex(&job, put).unwrap();
            get(
                &store,
                &format!("job@{number}"),
                Rank::new(3),
                keys::LOCAL_PEERS,
            )
            .unwrap();
            store.deregister_nspace(&job).unwrap();
        }
    };
    cycle(0, 5_000);
    let before = resident_pages();
    cycle(5_000, 100_000);
    let grown = resident_pages().saturating_sub(before);
    assert!(store.nspaces().is_empty());
    // The limit allows for concurrent tests. A leak would be some hundred bytes for each job.
    assert!(grown < 2_500, "{grown} pages more");
}

#[test]
fn a_query_gives_the_same_answers() {
    let store = store();
    let job = Nspace::new("job");
    store
        .register_nspace(&job, 1, &maps("a,b", "0,1;2,3"))
        .unwrap();
    let query = |keys: &[&'static str], qualifiers: Vec<Info<'static>>| {
        store.query(&Query {
            keys: keys.iter().map(|key| (*key).into()).collect(),
            qualifiers,
        })
    };
    let named = || vec![Info::new(keys::NSPACE, "job")];
    let all = query(&[keys::JOB_SIZE, keys::NODE_LIST], named()).unwrap();
    assert_eq!(all.status(), Status::SUCCESS);
    assert_eq!(all.found[0], Info::new(keys::JOB_SIZE, 4u32));
    assert_eq!(all.found[1], Info::new(keys::NODE_LIST, "a,b"));

    let proc = Proc::new("job", Rank::new(3));
    let some = query(
        &[keys::HOSTNAME, "site.none"],
        vec![Info::new(keys::PROCID, proc)],
    )
    .unwrap();
    assert_eq!(some.status(), Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(some.found, [Info::new(keys::HOSTNAME, "b")]);
    assert_eq!(some.missing[0].0, "site.none");

    let mut on_node = named();
    on_node.extend([
        Info::new(keys::NODE_INFO, true),
        Info::new(keys::NODEID, 1u32),
    ]);
    let peers = query(&[keys::LOCAL_PEERS], on_node).unwrap();
    assert_eq!(peers.found, [Info::new(keys::LOCAL_PEERS, "2,3")]);

    let none = query(&["site.none"], named()).unwrap();
    assert_eq!(none.status(), Status::ERR_NOT_FOUND);
    assert!(query(&[keys::JOB_SIZE], Vec::new()).is_err());
    assert!(query(&[], named()).is_err());
}

const CODEC: Codec<'static> = Codec::new(Layout::new(Module::V41));

fn collected_store(node: &str) -> Store {
    Store::new(Arc::new(PlainMaps::default()), LocalNode::new(node))
}

/// Returns the collected job information of two jobs. A third requested job is unknown.
fn collected() -> Vec<u8> {
    let store = collected_store("n00");
    for (name, jobid) in [("a", "first"), ("b", "second")] {
        let infos = [
            Info::new(keys::NODE_MAP, "n00,n01"),
            Info::new(keys::PROC_MAP, "0,1;2"),
            Info::new(keys::JOBID, jobid),
        ];
        store
            .register_nspace(&Nspace::new(name), 2, &infos)
            .unwrap();
    }
    let names = ["b", "unknown", "a"].map(Nspace::new);
    store
        .collect_job_info(&CODEC, Release::Master, &names)
        .unwrap()
}

fn collected_get(store: &Store, nspace: &str, rank: Rank, key: &str) -> Option<Value<'static>> {
    store
        .get(&Nspace::new(nspace), &Request::new(rank, key))
        .ok()
}

#[test]
fn jobs_of_one_node_are_known_on_another() {
    let other = collected_store("n07");
    let told = other
        .absorb_collected(&CODEC, &collected(), |_| false)
        .unwrap();
    let names: Vec<_> = told.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["b", "a"].map(Nspace::new));
    assert_eq!(
        collected_get(&other, "a", Rank::WILDCARD, keys::JOBID),
        Some("first".into())
    );
    assert_eq!(
        collected_get(&other, "b", Rank::WILDCARD, keys::JOBID),
        Some("second".into())
    );
    assert_eq!(
        collected_get(&other, "a", Rank::new(2), keys::HOSTNAME),
        Some("n01".into())
    );
    assert_eq!(
        collected_get(&other, "a", Rank::WILDCARD, keys::JOB_SIZE),
        Some(3_u32.into())
    );
}

#[test]
fn a_job_registered_by_the_host_is_unchanged() {
    let other = collected_store("n07");
    let own = [Info::new(keys::JOBID, "own")];
    other.register_nspace(&Nspace::new("a"), 0, &own).unwrap();
    let has_own = |nspace: &Nspace<'_>| *nspace == Nspace::new("a");
    let told = other
        .absorb_collected(&CODEC, &collected(), has_own)
        .unwrap();
    assert_eq!((told.len(), &told[0].0), (1, &Nspace::new("b")));
    assert_eq!(
        collected_get(&other, "a", Rank::WILDCARD, keys::JOBID),
        Some("own".into())
    );
}

#[test]
fn truncated_bytes_are_an_error_at_every_length() {
    let good = collected();
    let taken = |len: usize| {
        let told = collected_store("n07").absorb_collected(&CODEC, &good[..len], |_| false);
        told.map(|told| told.len()).ok()
    };
    let whole: Vec<_> = (0..good.len()).filter_map(taken).collect();
    assert_eq!(whole, [0, 1], "nothing, and what ends between the two jobs");
    let (mut name, mut nobody) = (Vec::new(), Vec::new());
    let layout = CODEC.layout();
    Encoder::new(layout, &mut name)
        .one::<wire_type::String>(&None)
        .unwrap();
    let name = Bytes::Owned(name);
    Encoder::new(layout, &mut nobody)
        .one::<wire_type::ByteObject>(&name)
        .unwrap();
    let refused = collected_store("n07").absorb_collected(&CODEC, &nobody, |_| false);
    assert_eq!(refused.unwrap_err().status(), Status::ERR_BAD_PARAM);
}
