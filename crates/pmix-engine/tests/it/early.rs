// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fences that begin before their job is registered.

use std::time::Duration;

use pmix_engine::HostObject;
use pmix_types::{Info, Proc, Rank, Status, keys};

use crate::collective::{DONE, ask_all, fence, fence_of, limit, missing, procs, statuses};
use crate::world::{Who, World};

/// Registers and connects one of two processes of a job.
fn half_a_job(world: &mut World) -> Who {
    let infos = [
        Info::new(keys::NODE_MAP, "n00"),
        Info::new(keys::PROC_MAP, "0,1"),
    ];
    let engine = &mut world.nodes[0].engine;
    engine.register_nspace(&"job".into(), 2, &infos).unwrap();
    let proc = Proc::new("job", Rank::new(0));
    let object = HostObject(0);
    engine
        .register_client(&proc, pmix_engine::Credentials::new(1000, 1000), object)
        .unwrap();
    world.join(0, "job", 0)
}

/// Registers and connects the other process.
fn the_other_half(world: &mut World) -> Who {
    let proc = Proc::new("job", Rank::new(1));
    let object = HostObject(1);
    let engine = &mut world.nodes[0].engine;
    engine
        .register_client(&proc, pmix_engine::Credentials::new(1000, 1000), object)
        .unwrap();
    world.join(0, "job", 1)
}

#[test]
fn a_collective_waits_for_processes_registered_late() {
    let mut world = World::new(1);
    let engine = &mut world.nodes[0].engine;
    let infos = [
        Info::new(keys::NODE_MAP, "n00"),
        Info::new(keys::PROC_MAP, "0,1"),
    ];
    let proc = |rank| Proc::new("job", Rank::new(rank));
    // A process may be registered before its job.
    engine
        .register_client(
            &proc(0),
            pmix_engine::Credentials::new(1000, 1000),
            HostObject(0),
        )
        .unwrap();
    engine.register_nspace(&"job".into(), 2, &infos).unwrap();
    let first = world.join(0, "job", 0);
    let tags = [
        fence(vec![]),
        fence_of(procs(&[("job", 0), ("job", 1)]), vec![]),
    ];
    let tags = tags.map(|request| world.ask(first, &request));
    world.run();
    let engine = &mut world.nodes[0].engine;
    engine
        .register_client(
            &proc(1),
            pmix_engine::Credentials::new(1000, 1000),
            HostObject(1),
        )
        .unwrap();
    let second = world.join(0, "job", 1);
    for tag in tags {
        assert_eq!(world.clients[first].status(tag), None);
        assert_eq!(world.status_of(second, &fence(vec![])), DONE);
        assert_eq!(world.clients[first].status(tag), DONE);
    }
}

#[test]
fn a_wildcard_equals_the_ranks_of_an_unregistered_job() {
    let mut world = World::new(1);
    let infos = [
        Info::new(keys::NODE_MAP, "n00"),
        Info::new(keys::PROC_MAP, "0,1"),
    ];
    // The processes are registered, but the server does not know yet that there are no others.
    for rank in 0..2 {
        let proc = Proc::new("job", Rank::new(rank));
        let object = HostObject(rank.into());
        let engine = &mut world.nodes[0].engine;
        engine
            .register_client(&proc, pmix_engine::Credentials::new(1000, 1000), object)
            .unwrap();
    }
    let both = [0, 1].map(|rank| world.connect(0, &crate::world::hello("job", rank)));
    world.run();
    let listed = || fence_of(procs(&[("job", 0), ("job", 1)]), limit(1));
    let first = world.ask(both[0], &listed());
    let second = world.ask(both[1], &fence(vec![]));
    world.advance(Duration::from_secs(1));
    let other = world.ask(both[1], &fence_of(procs(&[("job", 0), ("job", 1)]), vec![]));
    world.run();
    let late = Some(Status::ERR_TIMEOUT);
    assert_eq!(world.clients[both[0]].status(first), late);
    assert_eq!(world.clients[both[1]].status(second), None);
    let engine = &mut world.nodes[0].engine;
    engine.register_nspace(&"job".into(), 2, &infos).unwrap();
    world.run();
    // The first fence of each process failed.
    assert_eq!(world.clients[both[1]].status(second), late);
    assert_eq!(world.clients[both[1]].status(other), None);
    assert_eq!(world.status_of(both[0], &fence(vec![])), DONE);
    assert_eq!(world.clients[both[1]].status(other), DONE);
    let report = (vec![Rank::new(1)], Status::ERR_TIMEOUT);
    assert_eq!(missing(&world, 0), [report]);
}

#[test]
fn a_call_before_registration_ends_by_loss_or_timeout() {
    let mut world = World::new(1);
    let first = half_a_job(&mut world);
    let waits = world.ask(first, &fence(vec![]));
    world.advance(Duration::from_secs(59));
    assert_eq!(world.clients[first].status(waits), None);
    world.advance(Duration::from_secs(1));
    assert_eq!(
        world.clients[first].status(waits),
        Some(Status::ERR_TIMEOUT)
    );
    // The lost process returns as another incarnation, which is no participant of the failed fence.
    let mut world = World::new(1);
    let first = half_a_job(&mut world);
    let both = vec![
        Proc::new("job", Rank::WILDCARD),
        Proc::new("job", Rank::new(7)),
    ];
    let lost = world.ask(first, &fence_of(both, vec![]));
    world.run();
    world.kill(first);
    let back = world.join(0, "job", 0);
    let second = the_other_half(&mut world);
    assert_eq!(world.clients[first].status(lost), None);
    let told = Some(Status::ERR_LOST_CONNECTION);
    assert_eq!(world.status_of(second, &fence(vec![])), told);
    let both = [back, second];
    let tags = ask_all(&mut world, &both, &fence(vec![]));
    assert_eq!(statuses(&world, &both, &tags), [DONE; 2]);
}

#[test]
fn a_fence_of_an_incomplete_job_ends_with_the_job() {
    let mut world = World::new(1);
    let who = half_a_job(&mut world);
    world.ask(who, &fence(vec![]));
    world.run();
    assert_eq!(world.nodes[0].engine.stats().num_collectives, 1);
    let engine = &mut world.nodes[0].engine;
    engine.deregister_nspace(&"job".into()).unwrap();
    world.run();
    let nothing = pmix_engine::Stats::default();
    assert_eq!(world.nodes[0].engine.stats(), nothing);
}
