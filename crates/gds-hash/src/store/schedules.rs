// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of readers and writers of a store in every order of threads.
//!
//! The shared values are models ([`crate::shared`]). In [`no_read_takes_a_lock`], a thread holds
//! all locks, so a read that took a lock would block.

use std::collections::BTreeSet;

use bfrops::{Layout, Module};
use loom::thread::{Builder, JoinHandle};
use pmix_types::{Info, Rank, Scope, keys};

use super::*;

const JOB: &str = "job";

/// Runs a closure in every order of threads with at most two preemptions.
fn in_every_order(run: impl Fn(Arc<Store>) + Send + Sync + 'static) {
    let preg = Arc::new(pmix_builtin::open_preg(&preg_core::Params::default()).unwrap());
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(2);
    orders.max_branches = 10_000;
    let run = Arc::new(run);
    orders.check(move || {
        let (preg, run) = (Arc::clone(&preg), Arc::clone(&run));
        let first = spawn(move || run(Arc::new(Store::new(preg, LocalNode::new("a")))));
        first.join().unwrap();
    });
}

/// Starts a thread with a stack that is large enough for a registration.
fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let words = 1 << 16;
    Builder::new().stack_size(words).spawn(run).unwrap()
}

fn job() -> Nspace<'static> {
    Nspace::new(JOB)
}

/// Registers a job with a number of nodes and one process on each.
fn register(store: &Store, nspace: &Nspace<'_>, nodes: u32) {
    let join = |by| {
        (0..nodes)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(by)
    };
    let infos = [
        Info::new(keys::NODE_MAP, join(",")),
        Info::new(keys::PROC_MAP, join(";")),
    ];
    store.register_nspace(nspace, 1, &infos).unwrap();
}

/// Returns the number of nodes and processes of a job in one snapshot.
fn size(known: &Registered) -> u32 {
    let get = |key| {
        let answer = known.job().get(&Request::new(Rank::WILDCARD, key));
        answer.unwrap().into_owned()
    };
    let size = get(keys::JOB_SIZE);
    assert_eq!(size, get(keys::NUM_NODES), "half a registration");
    let Value::Uint32(size) = size else {
        panic!("a size is a number: {size:?}")
    };
    size
}

/// Puts two values of a process in one update.
fn put(store: &Store, rank: u32) -> Result<(), Error> {
    store.update_modex(&job(), |puts| {
        for key in ["app.first", "app.second"] {
            puts.put(Rank::new(rank), Scope::GLOBAL, Info::new(key, rank))?;
        }
        Ok(())
    })
}

/// Returns `true` if a snapshot has both values of a process, `false` if it has neither.
fn has_put(puts: &ModexStore, rank: u32) -> bool {
    let all = puts.all(Rank::new(rank), Scope::GLOBAL).unwrap().count();
    assert!(all == 0 || all == 2, "half a change");
    all == 2
}

fn codec() -> Codec<'static> {
    Codec::new(Layout::new(Module::V41))
}

#[test]
fn readers_see_updates_atomically_and_in_order() {
    let seen = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let all = Arc::clone(&seen);
    in_every_order(move |store| {
        register(&store, &job(), 1);
        let writer = spawn({
            let store = Arc::clone(&store);
            move || register(&store, &job(), 2)
        });
        let before = store.job(&job()).expect("it is registered all the while");
        let after = store.job(&job()).expect("it is registered all the while");
        let (before, after) = (size(&before), size(&after));
        seen.lock().unwrap().insert((before, after));
        writer.join().unwrap();
        assert_eq!(size(&store.job(&job()).unwrap()), 2);
    });
    // All three results have occurred, so loom has explored different orders.
    let all = all.lock().unwrap();
    assert_eq!(*all, BTreeSet::from([(1, 1), (1, 2), (2, 2)]));
}

#[test]
fn concurrent_writers_lose_no_update() {
    in_every_order(|store| {
        let mut names = (0..).map(|n| Nspace::new(format!("job@{n}")));
        let first = names.next().unwrap();
        // Both jobs are in the same part of the store.
        let part = |name: &Nspace<'_>| std::ptr::from_ref(store.part(name));
        let mut names = names.filter(|name| part(name) == part(&first));
        let (second, gone) = (names.next().unwrap(), names.next().unwrap());
        register(&store, &gone, 1);
        let writer = spawn({
            let (store, first) = (Arc::clone(&store), first.clone());
            move || {
                register(&store, &first, 1);
                store.deregister_nspace(&gone).unwrap();
            }
        });
        register(&store, &second, 1);
        writer.join().unwrap();
        let known: BTreeSet<_> = store.nspaces().into_iter().collect();
        assert_eq!(known, BTreeSet::from([first, second]));
    });
}

#[test]
fn puts_during_updates_and_other_puts_are_kept() {
    in_every_order(|store| {
        register(&store, &job(), 1);
        let update = spawn({
            let store = Arc::clone(&store);
            move || register(&store, &job(), 2)
        });
        let other = spawn({
            let store = Arc::clone(&store);
            move || put(&store, 1).unwrap()
        });
        put(&store, 0).unwrap();
        let puts = store.job(&job()).unwrap().modex_store();
        assert!(has_put(&puts, 0), "a writer does not see what it put");
        has_put(&puts, 1);
        update.join().unwrap();
        other.join().unwrap();
        let known = store.job(&job()).unwrap();
        let puts = known.modex_store();
        assert!(has_put(&puts, 0) && has_put(&puts, 1) && size(&known) == 2);
    });
}

#[test]
fn a_held_job_stays_readable_after_its_removal() {
    in_every_order(|store| {
        register(&store, &job(), 2);
        put(&store, 0).unwrap();
        let host = spawn({
            let store = Arc::clone(&store);
            move || {
                store.deregister_nspace(&job()).unwrap();
                register(&store, &job(), 3);
            }
        });
        // A put for a removed job is rejected. A put for the next job with the same name is
        // accepted.
        let is_known = put(&store, 1).is_ok();
        if let Some(known) = store.job(&job()) {
            let puts = known.modex_store();
            match size(&known) {
                2 => assert!(has_put(&puts, 0)),
                3 => assert!(!has_put(&puts, 0), "the job before put that"),
                other => panic!("no job has {other} nodes"),
            }
            known
                .reply(&codec(), Release::V5_0_11, Remote::Whole)
                .unwrap();
        }
        host.join().unwrap();
        let known = store.job(&job()).unwrap();
        let puts = known.modex_store();
        assert!(size(&known) == 3 && !has_put(&puts, 0));
        assert!(is_known || !has_put(&puts, 1));
    });
}

#[test]
fn a_reply_is_packed_once_for_each_kind_of_client() {
    in_every_order(|store| {
        register(&store, &job(), 1);
        let known = store.job(&job()).unwrap();
        let ask = |release| {
            let known = Arc::clone(&known);
            spawn(move || known.reply(&codec(), release, Remote::Whole).unwrap())
        };
        let (same, other) = (ask(Release::V5_0_11), ask(Release::V4_2_2));
        let own = known
            .reply(&codec(), Release::V5_0_11, Remote::Whole)
            .unwrap();
        let (same, other) = (same.join().unwrap(), other.join().unwrap());
        assert!(Arc::ptr_eq(&own, &same), "built twice");
        assert!(!Arc::ptr_eq(&own, &other));
        let again = known
            .reply(&codec(), Release::V4_2_2, Remote::Whole)
            .unwrap();
        assert!(Arc::ptr_eq(&other, &again), "built twice");
    });
}

#[test]
fn no_read_takes_a_lock() {
    in_every_order(|store| {
        register(&store, &job(), 1);
        put(&store, 0).unwrap();
        let known = store.job(&job()).unwrap();
        let reply = known
            .reply(&codec(), Release::V5_0_11, Remote::Whole)
            .unwrap();
        let _writer = store.writer.lock().unwrap();
        let known = store.job(&job()).unwrap();
        assert!(size(&known) == 1 && has_put(&known.modex_store(), 0));
        let again = known
            .reply(&codec(), Release::V5_0_11, Remote::Whole)
            .unwrap();
        assert!(Arc::ptr_eq(&reply, &again));
        let request = Request::new(Rank::WILDCARD, keys::CLUSTER_ID);
        let session = [
            Info::new(keys::SESSION_INFO, true),
            Info::new(keys::SESSION_ID, 7u32),
        ];
        store.get(&job(), &request.with(&session)).unwrap_err();
        assert_eq!(store.nspaces(), [job()]);
        assert_eq!(store.local_procs(), []);
    });
}
