// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of operations that have not completed.

use std::time::Duration;

use pmix_engine::{Collective, RankRuns, Wait, WaitOperation};
use pmix_proto::{Request, request};
use pmix_types::{Info, Key, Nspace, Proc, Rank, Scope, keys};

use crate::collective::{ask_all, fence, fence_of, procs};
use crate::exchange::{commit, get};
use crate::world::World;

fn ranks(runs: &RankRuns) -> Vec<u32> {
    runs.procs().map(|proc| proc.rank.as_raw()).collect()
}

fn seconds(wait: &Wait) -> u64 {
    wait.age.as_secs()
}

#[test]
fn a_fence_is_described_with_its_age_and_the_missing_ranks() {
    let mut world = World::new(1);
    world.job("job", &[4]);
    let all = world.join_all("job", &[4]);
    let called = [all[0], all[2], all[3]];
    ask_all(&mut world, &called[..2], &fence(vec![]));
    world.advance(Duration::from_secs(40));
    ask_all(&mut world, &called[2..], &fence(vec![]));
    let engine = &world.nodes[0].engine;
    let waits = engine.waits(None);
    let [wait] = &waits.listed[..] else {
        panic!("{waits:?}");
    };
    let fence_kind = WaitOperation::Collective {
        kind: Collective::Fence,
        group: None,
    };
    assert_eq!(wait.operation, fence_kind);
    assert_eq!(
        (ranks(&wait.callers), ranks(&wait.missing)),
        (vec![0, 2, 3], vec![1])
    );
    assert_eq!((seconds(wait), waits.num_more), (40, 0));
    assert_eq!(engine.waits(Some(&Nspace::new("job"))), waits);
    assert_eq!(engine.waits(Some(&Nspace::new("other"))).listed, []);
    ask_all(&mut world, &all[1..2], &fence(vec![]));
    assert_eq!(world.nodes[0].engine.waits(None).listed, []);
}

#[test]
fn a_fence_that_waits_for_the_host_has_no_missing_rank_of_this_node() {
    let mut world = World::new(2);
    world.job("job", &[2, 1]);
    let all = world.join_all("job", &[2, 1]);
    world.slow_host(true);
    ask_all(&mut world, &all[..2], &fence(vec![]));
    let waits = world.nodes[0].engine.waits(None);
    assert_eq!(ranks(&waits.listed[0].callers), [0, 1]);
    assert!(waits.listed[0].missing.is_empty());
    world.slow_host(false);
}

#[test]
fn a_group_construct_is_described_with_its_name() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let construct = Request::GroupConstruct(request::GroupConstruct {
        group: Some("ocean".into()),
        procs: procs(&[("job", 0), ("job", 1)]),
        infos: vec![Info::new(keys::TIMEOUT, 100)],
    });
    ask_all(&mut world, &all[..1], &construct);
    let waits = world.nodes[0].engine.waits(None);
    let construct = WaitOperation::Collective {
        kind: Collective::GroupConstruct,
        group: Some("ocean".into()),
    };
    assert_eq!(waits.listed[0].operation, construct);
    assert_eq!(ranks(&waits.listed[0].missing), [1]);
}

#[test]
fn gets_of_the_same_key_are_one_operation() {
    let mut world = World::new(1);
    world.job("job", &[4]);
    let all = world.join_all("job", &[4]);
    ask_all(&mut world, &all[..1], &get("job", 2, "site.port"));
    world.advance(Duration::from_secs(7));
    ask_all(&mut world, &all[1..2], &get("job", 2, "site.port"));
    let waits = world.nodes[0].engine.waits(None);
    let [wait] = &waits.listed[..] else {
        panic!("{waits:?}");
    };
    let expected = WaitOperation::Get {
        proc: Proc::new("job", Rank::new(2)),
        key: Some(Key::new("site.port")),
    };
    assert_eq!(wait.operation, expected);
    assert_eq!(
        (ranks(&wait.callers), ranks(&wait.missing)),
        (vec![0, 1], vec![2])
    );
    assert_eq!(seconds(wait), 7);
    commit(&mut world, all[2], 2, &[(Scope::GLOBAL, "site.port", 1)]);
    assert_eq!(world.nodes[0].engine.waits(None).listed, []);
}

#[test]
fn a_get_of_data_of_another_job_is_an_operation_of_both_jobs() {
    let mut world = World::new(1);
    world.job("parent", &[1]);
    world.job("child", &[1]);
    world.job("other", &[1]);
    world.join_all("parent", &[1]);
    let child = world.join_all("child", &[1]);
    ask_all(&mut world, &child, &get("parent", 0, "site.port"));
    let num_waits = |job| {
        let waits = world.nodes[0].engine.waits(Some(&Nspace::new(job)));
        waits.listed.len()
    };
    assert_eq!(["parent", "child", "other"].map(num_waits), [1, 1, 0]);
}

#[test]
fn the_description_is_bounded() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    // Each list of participants is another collective.
    for number in 0..100 {
        let name = format!("group{number}");
        let construct = Request::GroupConstruct(request::GroupConstruct {
            group: Some(name.into()),
            procs: procs(&[("job", 0), ("job", 1)]),
            infos: vec![],
        });
        ask_all(&mut world, &all[..1], &construct);
        let key = format!("key{number}");
        let request = Request::Get(request::Get {
            nspace: "job".into(),
            rank: Rank::new(1),
            infos: vec![],
            key: Some(Key::new(key)),
        });
        ask_all(&mut world, &all[..1], &request);
    }
    let waits = world.nodes[0].engine.waits(None);
    assert_eq!((waits.listed.len(), waits.num_more), (128, 72));
}

#[test]
fn a_failed_fence_is_not_described() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let limited = fence_of(vec![], crate::collective::limit(3));
    ask_all(&mut world, &all[..1], &limited);
    world.advance(Duration::from_secs(5));
    assert_eq!(world.nodes[0].engine.waits(None).listed, []);
}
