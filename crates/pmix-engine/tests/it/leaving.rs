// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that disconnect.

use std::time::Duration;

use pmix_engine::{Config, EngineEvent, HostObject, HostReply, Upcall};
use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, Proc, Rank, Scope, Status, Value, keys};

use crate::collective::{collect, fence};
use crate::exchange::{commit, get};
use crate::world::{Reaction, World};

fn num_lost(world: &World) -> usize {
    let events = world.nodes[0].events.iter();
    events
        .filter(|event| matches!(event, EngineEvent::ProcessLost { .. }))
        .count()
}

#[test]
fn a_finalize_completes_when_the_host_acknowledges_it() {
    for answer in [
        HostReply::Done(Status::SUCCESS),
        HostReply::NotSupported,
        HostReply::DROPPED,
    ] {
        let mut world = World::new(1);
        world.job("job", &[1]);
        let who = world.join(0, "job", 0);
        world.rule(move |_, call| match call {
            Upcall::ClientFinalized(_) => Reaction::HostReply(answer.clone()),
            _ => Reaction::Usual,
        });
        assert_eq!(
            world.status_of(who, &Request::Finalize),
            Some(Status::SUCCESS)
        );
        world.kill(who);
        assert_eq!(num_lost(&world), 0);
        let waited_for = Config::default().return_time.map(|time| world.now + time);
        assert_eq!(world.nodes[0].engine.poll_timeout(), waited_for);
    }
}

#[test]
fn a_finalize_calls_the_host_for_clients_and_notifies_it_of_tools() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let client = world.join(0, "job", 0);
    let tool = crate::ledger::tool(&mut world, 0);
    let ledger = crate::ledger::Ledger::open(&mut world, |_| Reaction::Usual);
    let finalizes = |world: &mut World, who| world.status_of(who, &Request::Finalize);
    assert_eq!(finalizes(&mut world, tool), Some(Status::SUCCESS));
    assert_eq!(ledger.take("ClientFinalized").len(), 0);
    let events = world.nodes[0].events.iter();
    let told = events.filter(|event| matches!(event, EngineEvent::ToolFinalized { .. }));
    assert_eq!(told.count(), 1);
    world.kill(tool);
    assert_eq!(num_lost(&world), 0);
    finalizes(&mut world, client);
    assert_eq!(ledger.take("ClientFinalized").len(), 1);
}

#[test]
fn a_silent_host_does_not_block_a_finalize() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    world.rule(|_, _| Reaction::Silence);
    let tag = world.ask(who, &Request::Finalize);
    world.run();
    assert_eq!(world.clients[who].status(tag), None);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.clients[who].status(tag), Some(Status::SUCCESS));
}

#[test]
fn a_process_may_reinitialize_and_keeps_its_data() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "card", 1)]);
    let mut own = all[1];
    for _ in 0..3 {
        assert_eq!(
            world.status_of(own, &Request::Finalize),
            Some(Status::SUCCESS)
        );
        world.kill(own);
        own = world.join(0, "job", 1);
        let tag = world.ask(all[0], &get("job", 1, "card"));
        world.run();
        assert_eq!(
            world.clients[all[0]].value(tag, "card"),
            Some(Value::Uint32(1))
        );
    }
    assert_eq!(num_lost(&world), 0);
}

#[test]
fn a_process_may_reinitialize_before_its_old_connection_closes() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let first = world.join(0, "job", 0);
    assert_eq!(
        world.status_of(first, &Request::Finalize),
        Some(Status::SUCCESS)
    );
    let second = world.join(0, "job", 0);
    world.kill(first);
    assert_eq!(num_lost(&world), 0);
    let third = world.connect(0, &crate::world::hello("job", 0));
    world.run();
    assert!(!world.clients[third].is_in());
    world.kill(second);
    assert_eq!(num_lost(&world), 1);
}

#[test]
fn data_of_a_lost_process_is_not_used_for_its_restart() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "card", 1)]);
    world.kill(all[1]);
    // Its last data are still known.
    let tag = world.ask(all[0], &get("job", 1, "card"));
    world.run();
    assert_eq!(
        world.clients[all[0]].value(tag, "card"),
        Some(Value::Uint32(1))
    );
    let back = world.join(0, "job", 1);
    let tag = world.ask(all[0], &get("job", 1, "card"));
    world.run();
    assert_eq!(world.clients[all[0]].status(tag), None);
    commit(&mut world, back, 1, &[(Scope::GLOBAL, "card", 2)]);
    assert_eq!(
        world.clients[all[0]].value(tag, "card"),
        Some(Value::Uint32(2))
    );
}

#[test]
fn gets_for_an_exited_process_complete() {
    let mut world = World::new(2);
    world.job("job", &[3, 1]);
    let all = world.join_all("job", &[3, 1]);
    // A get of a further key of a process that has committed ends as well.
    commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "other", 1)]);
    let of_lost = world.ask(all[0], &get("job", 1, "card"));
    let of_left = world.ask(all[0], &get("job", 2, "card"));
    let from_far = world.ask(all[3], &get("job", 1, "card"));
    world.run();
    world.kill(all[1]);
    assert_eq!(
        world.status_of(all[2], &Request::Finalize),
        Some(Status::SUCCESS)
    );
    world.kill(all[2]);
    let lost = Some(Status::ERR_LOST_CONNECTION);
    assert_eq!(world.clients[all[0]].status(of_lost), lost);
    assert_eq!(world.clients[all[3]].status(from_far), lost);
    let left = Some(Status::ERR_NOT_FOUND);
    assert_eq!(world.clients[all[0]].status(of_left), left);
    // New gets fail at once.
    assert_eq!(world.status_of(all[0], &get("job", 1, "card")), lost);
    assert_eq!(world.status_of(all[3], &get("job", 2, "card")), left);
}

#[test]
fn an_abort_is_for_the_host() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let abort = Request::Abort(request::Abort {
        status: Status::from_raw(17),
        message: Some("out of cheese".into()),
        procs: vec![Proc::new("job", Rank::new(0))],
    });
    assert_eq!(
        world.status_of(all[1], &abort),
        Some(Status::ERR_NOT_SUPPORTED)
    );
    world.rule(|_, call| match call {
        Upcall::Abort(call) => {
            assert_eq!(call.proc, Proc::new("job", Rank::new(1)));
            assert_eq!(call.object, HostObject(1));
            assert_eq!(call.status.as_raw(), 17);
            assert_eq!(call.message, Some("out of cheese".into()));
            assert_eq!(call.targets, [Proc::new("job", Rank::new(0))]);
            Reaction::HostReply(HostReply::Done(Status::OPERATION_SUCCEEDED))
        }
        _ => Reaction::Usual,
    });
    assert_eq!(world.status_of(all[1], &abort), Some(Status::SUCCESS));
}

#[test]
fn a_direct_modex_of_the_host_waits_for_the_commit() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let now = world.now;
    let proc = Proc::new("job", Rank::new(1));
    let engine = &mut world.nodes[0].engine;
    let waits = engine.dmodex_request(&proc, &[], now).unwrap();
    let limit = [pmix_types::Info::new(pmix_types::keys::TIMEOUT, 3)];
    let limited = engine.dmodex_request(&proc, &limit, now).unwrap();
    for nobody in [
        Proc::new("job", Rank::new(2)),
        Proc::new("none", Rank::new(0)),
    ] {
        assert!(engine.dmodex_request(&nobody, &[], now).is_err());
    }
    let brought = |world: &World| {
        let events = world.nodes[0].events.iter();
        let brought = events.filter_map(|event| match event {
            EngineEvent::DirectModex { request, result } => Some((*request, result.clone())),
            _ => None,
        });
        brought.collect::<Vec<_>>()
    };
    world.advance(Duration::from_secs(3));
    assert_eq!(brought(&world), [(limited, Err(Status::ERR_TIMEOUT))]);
    let who = world.join(0, "job", 1);
    commit(&mut world, who, 1, &[(Scope::REMOTE, "nic", 1)]);
    let seen = brought(&world);
    assert_eq!(seen[1].0, waits);
    assert!(seen[1].1.as_ref().is_ok_and(|data| !data.is_empty()));
    world.kill(who);
    let engine = &mut world.nodes[0].engine;
    // Processes of other nodes may get the data after the process has ended.
    engine.deregister_client(&proc).unwrap();
    let remains = engine.dmodex_request(&proc, &[], now).unwrap();
    let other = Proc::new("job", Rank::new(0));
    engine.deregister_client(&other).unwrap();
    let nothing = engine.dmodex_request(&other, &[], now).unwrap();
    world.run();
    let ended = brought(&world).split_off(2);
    assert_eq!(
        ended,
        [
            (remains, seen[1].1.clone()),
            (nothing, Err(Status::ERR_NOT_FOUND))
        ]
    );
}

#[test]
fn data_of_a_removed_process_is_not_used_for_its_successor() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let data = [(Scope::GLOBAL, "card", 1), (Scope::LOCAL, "shm", 1)];
    commit(&mut world, all[1], 1, &data);
    let proc = Proc::new("job", Rank::new(1));
    let engine = &mut world.nodes[0].engine;
    engine.deregister_client(&proc).unwrap();
    world.run();
    // Data that it put for its node remain until the job is deregistered.
    for key in ["card", "shm"] {
        let tag = world.ask(all[0], &get("job", 1, key));
        world.run();
        assert_eq!(
            world.clients[all[0]].value(tag, key),
            Some(Value::Uint32(1))
        );
    }
    let engine = &mut world.nodes[0].engine;
    let object = HostObject(1);
    engine
        .register_client(&proc, pmix_engine::Credentials::new(1000, 1000), object)
        .unwrap();
    let next = world.join(0, "job", 1);
    let tag = world.ask(all[0], &get("job", 1, "card"));
    world.run();
    assert_eq!(world.clients[all[0]].status(tag), None);
    commit(&mut world, next, 1, &[(Scope::GLOBAL, "card", 2)]);
    assert_eq!(
        world.clients[all[0]].value(tag, "card"),
        Some(Value::Uint32(2))
    );
}

#[test]
fn data_of_a_lost_process_is_not_used_for_its_restart_on_another_node() {
    for (is_fenced, is_told_late) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut world = World::new(2);
        world.job("job", &[1, 1]);
        let all = world.join_all("job", &[1, 1]);
        commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "card", 1)]);
        world.slow_host(is_told_late);
        let mut waits = world.ask(all[0], &get("job", 1, "card"));
        if is_fenced {
            waits = world.ask(all[0], &fence(collect()));
            world.ask(all[1], &fence(collect()));
        }
        world.run();
        world.kill(all[1]);
        let lost = Proc::new("job", Rank::new(1));
        let (status, range) = (Status::ERR_PROC_ABORTED, DataRange::NAMESPACE);
        let (now, server) = (world.now, Proc::new("server1", Rank::new(0)));
        let infos = [Info::new(keys::EVENT_AFFECTED_PROC, lost)];
        let engine = &mut world.nodes[0].engine;
        engine.notify(status, &server, range, &infos, now).unwrap();
        let back = world.join(1, "job", 1);
        commit(&mut world, back, 1, &[(Scope::GLOBAL, "card", 2)]);
        // The data in flight belong to the previous incarnation.
        world.slow_host(false);
        world.run();
        let expected = if is_told_late { 2 } else { 1 };
        let brought = world.clients[all[0]].status(waits);
        assert_eq!(brought, Some(Status::SUCCESS));
        if !is_fenced {
            let brought = world.clients[all[0]].value(waits, "card");
            assert_eq!(brought, Some(Value::Uint32(expected)));
        }
        let tag = world.ask(all[0], &get("job", 1, "card"));
        world.run();
        let found = world.clients[all[0]].value(tag, "card");
        assert_eq!(found, Some(Value::Uint32(2)));
    }
}

#[test]
fn a_fence_of_a_finalized_process_ends_when_its_restart_is_lost() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let first = world.join(0, "job", 0);
    let tag = world.ask(first, &fence(vec![]));
    let done = Some(Status::SUCCESS);
    assert_eq!(world.status_of(first, &Request::Finalize), done);
    let next = world.join(0, "job", 0);
    assert_eq!(world.clients[first].status(tag), None);
    world.kill(next);
    let lost = Some(Status::ERR_LOST_CONNECTION);
    assert_eq!(world.clients[first].status(tag), lost);
    assert_eq!(world.nodes[0].engine.recount(), []);
}
