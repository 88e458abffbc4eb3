// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fences, connects and disconnects.

use std::time::Duration;

use pmix_engine::{Config, EngineEvent, HostObject, HostReply, Upcall};
use pmix_proto::{Request, Tag, request};
use pmix_types::{Info, Proc, Rank, Scope, Status, Value, keys};

use crate::exchange::{commit, get};
use crate::world::{Reaction, Who, World};

pub(crate) fn procs(list: &[(&'static str, u32)]) -> Vec<Proc<'static>> {
    let procs = list.iter();
    procs
        .map(|(nspace, rank)| Proc::new(*nspace, Rank::new(*rank)))
        .collect()
}

pub(crate) fn fence_of(procs: Vec<Proc<'static>>, infos: Vec<Info<'static>>) -> Request<'static> {
    Request::Fence(request::Fence { procs, infos })
}

/// Creates a fence of a whole job.
pub(crate) fn fence(infos: Vec<Info<'static>>) -> Request<'static> {
    fence_of(vec![Proc::new("job", Rank::WILDCARD)], infos)
}

pub(crate) fn collect() -> Vec<Info<'static>> {
    vec![Info::new(keys::COLLECT_DATA, true)]
}

pub(crate) fn limit(seconds: i32) -> Vec<Info<'static>> {
    vec![Info::new(keys::TIMEOUT, seconds)]
}

pub(crate) fn ask_all(world: &mut World, all: &[Who], request: &Request<'_>) -> Vec<Tag> {
    let tags = all.iter().map(|who| world.ask(*who, request)).collect();
    world.run();
    tags
}

pub(crate) fn statuses(world: &World, all: &[Who], tags: &[Tag]) -> Vec<Option<Status>> {
    let calls = all.iter().zip(tags);
    calls
        .map(|(who, tag)| world.clients[*who].status(*tag))
        .collect()
}

pub(crate) fn missing(world: &World, node: usize) -> Vec<(Vec<Rank>, Status)> {
    let events = world.nodes[node].events.iter();
    let reports = events.filter_map(|event| match event {
        EngineEvent::FenceMissing {
            missing, status, ..
        } => Some((missing.iter().map(|proc| proc.rank).collect(), *status)),
        _ => None,
    });
    reports.collect()
}

pub(crate) const DONE: Option<Status> = Some(Status::SUCCESS);

#[test]
fn four_processes_exchange_data_and_finalize() {
    let mut world = World::new(1);
    world.job("job", &[4]);
    world.rule(|_, call| match call {
        Upcall::Fence(_) => panic!("the host is asked about a fence of one node"),
        _ => Reaction::Usual,
    });
    let all = world.join_all("job", &[4]);
    for (who, rank) in all.iter().zip(0..) {
        commit(
            &mut world,
            *who,
            rank,
            &[(Scope::GLOBAL, "card", 100 + rank)],
        );
    }
    for (who, expected) in all.iter().zip([None, None, None, DONE]) {
        assert_eq!(world.status_of(*who, &fence(collect())), expected);
    }
    for who in &all {
        for peer in 0..4 {
            let tag = world.ask(*who, &get("job", peer, "card"));
            world.run();
            let expected = Some(Value::Uint32(100 + peer));
            assert_eq!(world.clients[*who].value(tag, "card"), expected);
        }
    }
    let tags = ask_all(&mut world, &all, &Request::Finalize);
    assert_eq!(statuses(&world, &all, &tags), [DONE; 4]);
    assert!(world.clients.iter().all(|client| client.fault.is_none()));
}

#[test]
fn two_nodes_exchange_data() {
    let mut world = World::new(2);
    world.job("job", &[2, 2]);
    let all = world.join_all("job", &[2, 2]);
    for (who, rank) in all.iter().zip(0..) {
        let data = [(Scope::REMOTE, "nic", rank), (Scope::LOCAL, "shm", rank)];
        commit(&mut world, *who, rank, &data);
    }
    let first = ask_all(&mut world, &all[..3], &fence(collect()));
    assert_eq!(statuses(&world, &all[..3], &first), [None; 3]);
    let last = ask_all(&mut world, &all[3..], &fence(collect()));
    assert_eq!(statuses(&world, &all[..3], &first), [DONE; 3]);
    assert_eq!(statuses(&world, &all[3..], &last), [DONE]);
    // The fence delivered the data, so no direct modex is needed.
    world.rule(|_, call| match call {
        Upcall::DirectModex(_) => panic!("a direct modex was requested for data of the fence"),
        _ => Reaction::Usual,
    });
    for (rank, key) in [(0, "shm"), (1, "shm"), (2, "nic"), (3, "nic")] {
        let tag = world.ask(all[0], &get("job", rank, key));
        world.run();
        assert_eq!(
            world.clients[all[0]].value(tag, key),
            Some(Value::Uint32(rank))
        );
    }
}

#[test]
fn a_fence_without_collection_returns_no_data() {
    let mut world = World::new(2);
    world.job("job", &[1, 1]);
    let all = world.join_all("job", &[1, 1]);
    commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "card", 7)]);
    let tags = ask_all(&mut world, &all, &fence(vec![]));
    assert_eq!(statuses(&world, &all, &tags), [DONE; 2]);
    let get = Request::Get(request::Get {
        nspace: "job".into(),
        rank: Rank::new(1),
        infos: vec![Info::new(keys::IMMEDIATE, true)],
        key: Some("card".into()),
    });
    assert_eq!(world.status_of(all[0], &get), Some(Status::ERR_NOT_FOUND));
}

#[test]
fn fences_of_the_same_processes_complete_in_order() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let fast: Vec<_> = (0..3).map(|_| world.ask(all[0], &fence(vec![]))).collect();
    world.run();
    for round in 0..3 {
        // A different list of the same processes names the same participants.
        let listed = fence_of(procs(&[("job", 1), ("job", 0)]), vec![]);
        assert_eq!(world.status_of(all[1], &listed), DONE);
        let seen: Vec<_> = fast
            .iter()
            .map(|tag| world.clients[all[0]].status(*tag))
            .collect();
        let done = seen.iter().filter(|status| status.is_some()).count();
        assert_eq!(done, round + 1);
        assert!(seen[..=round].iter().all(|status| *status == DONE));
    }
}

#[test]
fn fences_of_different_processes_are_independent() {
    let mut world = World::new(1);
    world.job("job", &[3]);
    let all = world.join_all("job", &[3]);
    let whole = ask_all(&mut world, &all[..2], &fence(vec![]));
    let pair = fence_of(procs(&[("job", 0), ("job", 1)]), vec![]);
    let pairs = ask_all(&mut world, &all[..2], &pair);
    assert_eq!(statuses(&world, &all[..2], &pairs), [DONE; 2]);
    assert_eq!(statuses(&world, &all[..2], &whole), [None; 2]);
    assert_eq!(world.status_of(all[2], &fence(vec![])), DONE);
    assert_eq!(statuses(&world, &all[..2], &whole), [DONE; 2]);
}

#[test]
fn a_process_cannot_fence_for_others() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    for (list, expected) in [
        (procs(&[("job", 1)]), Status::ERR_BAD_PARAM),
        (procs(&[("nobody", 0)]), Status::ERR_BAD_PARAM),
        (procs(&[("job", 0), ("", 0)]), Status::ERR_BAD_PARAM),
        (
            procs(&[("job", Rank::LOCAL_PEERS.as_raw())]),
            Status::ERR_BAD_PARAM,
        ),
    ] {
        let status = world.status_of(all[0], &fence_of(list, vec![]));
        assert_eq!(status, Some(expected));
    }
}

#[test]
fn a_timeout_names_the_missing_participants() {
    let mut world = World::new(1);
    world.job("job", &[3]);
    let all = world.join_all("job", &[3]);
    let slow = world.ask(all[0], &fence(limit(60)));
    let quick = world.ask(all[1], &fence(limit(5)));
    world.advance(Duration::from_millis(4999));
    assert_eq!(world.clients[all[1]].status(quick), None);
    world.advance(Duration::from_millis(1));
    let expected = Some(Status::ERR_TIMEOUT);
    assert_eq!(world.clients[all[0]].status(slow), expected);
    assert_eq!(world.clients[all[1]].status(quick), expected);
    assert_eq!(
        missing(&world, 0),
        [(vec![Rank::new(2)], Status::ERR_TIMEOUT)]
    );
    // The last participant gets the same status for that fence, and its next call belongs to another one.
    assert_eq!(world.status_of(all[2], &fence(vec![])), expected);
    let tags = ask_all(&mut world, &all, &fence(vec![]));
    assert_eq!(statuses(&world, &all, &tags), [DONE; 3]);
    assert_eq!(world.nodes[0].engine.poll_timeout(), None);
}

#[test]
fn a_lost_participant_ends_the_fence_for_all() {
    for has_come in [false, true] {
        let mut world = World::new(2);
        world.job("job", &[2, 2]);
        let all = world.join_all("job", &[2, 2]);
        let there = if has_come { &all[..2] } else { &all[..1] };
        let local = ask_all(&mut world, &all[..1], &fence(vec![]));
        let remote = ask_all(&mut world, &all[2..3], &fence(vec![]));
        if has_come {
            // The process has called another fence, of two processes, and the other one has not.
            let pair = fence_of(procs(&[("job", 0), ("job", 1)]), vec![]);
            world.ask(there[1], &pair);
            world.run();
        }
        world.kill(all[1]);
        let expected = Some(Status::ERR_LOST_CONNECTION);
        assert_eq!(statuses(&world, &all[..1], &local), [expected]);
        // The other node gets the failure once its own participants have called.
        assert_eq!(statuses(&world, &all[2..3], &remote), [None]);
        assert_eq!(world.status_of(all[3], &fence(vec![])), expected);
        assert_eq!(statuses(&world, &all[2..3], &remote), [expected]);
        // The next fence fails at once as well.
        assert_eq!(world.status_of(all[0], &fence(vec![])), expected);
        let lost = world.nodes[0].events.iter().any(|event| {
            matches!(event, EngineEvent::ProcessLost { incarnation: 1, proc, .. }
                if proc.rank == Rank::new(1))
        });
        assert!(lost);
    }
}

#[test]
fn a_process_that_returns_participates_again() {
    let mut world = World::new(1);
    world.job("job", &[3]);
    let all = world.join_all("job", &[3]);
    let first = ask_all(&mut world, &all[..1], &fence(vec![]));
    world.kill(all[2]);
    let lost = Some(Status::ERR_LOST_CONNECTION);
    assert_eq!(statuses(&world, &all[..1], &first), [lost]);
    let back = world.join(0, "job", 2);
    // One process has not received the failure of the fence yet; the restarted process is no participant of it.
    let again = world.ask(all[0], &fence(vec![]));
    let new = world.ask(back, &fence(vec![]));
    world.run();
    assert_eq!(world.status_of(all[1], &fence(vec![])), lost);
    assert_eq!(world.clients[all[0]].status(again), None);
    assert_eq!(world.status_of(all[1], &fence(vec![])), DONE);
    assert_eq!(world.clients[all[0]].status(again), DONE);
    assert_eq!(world.clients[back].status(new), DONE);
    world.kill(back);
    let lives = world.nodes[0].events.iter();
    let lives = lives.filter_map(|event| match event {
        EngineEvent::ProcessLost { incarnation, .. } => Some(*incarnation),
        _ => None,
    });
    assert!(lives.eq([1, 2]));
}

#[test]
fn a_process_lost_after_the_upcall_has_participated() {
    let mut world = World::new(2);
    world.job("job", &[2, 1]);
    let all = world.join_all("job", &[2, 1]);
    let tags = ask_all(&mut world, &all[..2], &fence(vec![]));
    world.kill(all[1]);
    assert_eq!(world.status_of(all[2], &fence(vec![])), DONE);
    assert_eq!(world.clients[all[0]].status(tags[0]), DONE);
}

#[test]
fn a_fence_waits_for_a_process_that_restarts() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let tag = world.ask(all[0], &fence(vec![]));
    assert_eq!(world.status_of(all[1], &Request::Finalize), DONE);
    world.kill(all[1]);
    assert_eq!(world.clients[all[0]].status(tag), None);
    let back = world.join(0, "job", 1);
    assert_eq!(world.status_of(back, &fence(vec![])), DONE);
    assert_eq!(world.clients[all[0]].status(tag), DONE);
}

#[test]
fn a_fence_waits_for_a_finalized_process_for_the_return_time() {
    let mut world = World::new(2);
    world.job("job", &[2, 1]);
    let all = world.join_all("job", &[2, 1]);
    let tag = world.ask(all[0], &fence(vec![]));
    let far = world.ask(all[2], &fence(vec![]));
    assert_eq!(world.status_of(all[1], &Request::Finalize), DONE);
    world.kill(all[1]);
    world.advance(Duration::from_millis(59_999));
    assert_eq!(world.clients[all[0]].status(tag), None);
    world.advance(Duration::from_millis(1));
    let lost = Some(Status::ERR_LOST_CONNECTION);
    assert_eq!(world.clients[all[0]].status(tag), lost);
    assert_eq!(world.clients[all[2]].status(far), lost);
    let report = (vec![Rank::new(1)], Status::ERR_LOST_CONNECTION);
    assert_eq!(missing(&world, 0), [report]);
    // Fences fail without it until it connects, and include it afterwards.
    assert_eq!(world.status_of(all[0], &fence(vec![])), lost);
    assert_eq!(world.status_of(all[2], &fence(vec![])), lost);
    let back = world.join(0, "job", 1);
    let there = [all[0], back, all[2]];
    let tags = ask_all(&mut world, &there, &fence(vec![]));
    assert_eq!(statuses(&world, &there, &tags), [DONE; 3]);
}

#[test]
fn a_fence_does_not_wait_for_a_deregistered_process() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let tag = world.ask(all[0], &fence(vec![]));
    world.run();
    let proc = Proc::new("job", Rank::new(1));
    let engine = &mut world.nodes[0].engine;
    engine.deregister_client(&proc).unwrap();
    assert!(engine.deregister_client(&proc).is_err());
    world.run();
    let lost = Some(Status::ERR_LOST_CONNECTION);
    assert_eq!(world.clients[all[0]].status(tag), lost);
    assert!(!world.clients[all[1]].is_in());
    assert_eq!(world.status_of(all[0], &fence(vec![])), lost);
    let engine = &mut world.nodes[0].engine;
    engine
        .register_client(
            &proc,
            pmix_engine::Credentials::new(1000, 1000),
            HostObject(1),
        )
        .unwrap();
    let back = world.join(0, "job", 1);
    let both = [all[0], back];
    let tags = ask_all(&mut world, &both, &fence(vec![]));
    assert_eq!(statuses(&world, &both, &tags), [DONE; 2]);
}

#[test]
fn the_timeout_of_the_host_exceeds_that_of_the_participants() {
    let mut world = World::new(2);
    world.job("job", &[1, 1]);
    let all = world.join_all("job", &[1, 1]);
    let tags = ask_all(&mut world, &all[..1], &fence(limit(5)));
    world.advance(Duration::from_millis(5999));
    assert_eq!(statuses(&world, &all[..1], &tags), [None]);
    world.advance(Duration::from_millis(1));
    let expected = Some(Status::ERR_TIMEOUT);
    assert_eq!(statuses(&world, &all[..1], &tags), [expected]);
    assert_eq!(missing(&world, 0), [(vec![], Status::ERR_TIMEOUT)]);
}

#[test]
fn every_status_of_the_host_reaches_the_participants() {
    for (answer, expected) in [
        (HostReply::NotSupported, Status::ERR_NOT_SUPPORTED),
        (HostReply::DROPPED, Status::ERR_COMM_FAILURE),
        (HostReply::Done(Status::SUCCESS), Status::SUCCESS),
        (
            HostReply::Done(Status::OPERATION_SUCCEEDED),
            Status::SUCCESS,
        ),
        (HostReply::Data(Ok(vec![])), Status::SUCCESS),
        (
            HostReply::Data(Err(Status::ERR_TIMEOUT)),
            Status::ERR_TIMEOUT,
        ),
        (HostReply::Data(Ok(vec![1])), Status::ERR_UNPACK_FAILURE),
    ] {
        let mut world = World::new(2);
        world.job("job", &[2, 1]);
        let all = world.join_all("job", &[2, 1]);
        let told = answer.clone();
        world.rule(move |_, call| match call {
            Upcall::Fence(_) => Reaction::HostReply(told.clone()),
            _ => Reaction::Usual,
        });
        let tags = ask_all(&mut world, &all[..2], &fence(collect()));
        let expected = [Some(expected); 2];
        assert_eq!(statuses(&world, &all[..2], &tags), expected, "{answer:?}");
    }
}

#[test]
fn a_fence_without_a_timeout_ends_by_configuration() {
    let mut config = Config::default();
    config.collective_time = Some(Duration::from_secs(9));
    let mut world = World::with(1, &config);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let tag = world.ask(all[0], &fence(vec![]));
    world.run();
    world.advance(Duration::from_secs(9));
    assert_eq!(world.clients[all[0]].status(tag), Some(Status::ERR_TIMEOUT));
}

#[test]
fn a_connect_that_fails_on_one_node_fails_on_all() {
    for is_connect in [true, false] {
        let mut world = World::new(2);
        world.job("job", &[2, 1]);
        let all = world.join_all("job", &[2, 1]);
        let procs = vec![Proc::new("job", Rank::WILDCARD)];
        let infos = vec![];
        let meet = match is_connect {
            true => Request::Connect(request::Connect {
                procs,
                infos,
                shared: Vec::new(),
            }),
            false => Request::Disconnect(request::Disconnect { procs, infos }),
        };
        let there = [all[0], all[2]];
        let tags = ask_all(&mut world, &there, &meet);
        assert_eq!(statuses(&world, &there, &tags), [None; 2]);
        world.kill(all[1]);
        let lost = Some(Status::ERR_LOST_CONNECTION);
        assert_eq!(statuses(&world, &there, &tags), [lost; 2]);
        // The restarted process joins the others in the next one.
        let there = [all[0], world.join(0, "job", 1), all[2]];
        let tags = ask_all(&mut world, &there, &meet);
        assert_eq!(statuses(&world, &there, &tags), [DONE; 3]);
    }
}

#[test]
fn deregistering_a_job_ends_its_fences() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    world.job("other", &[1]);
    let all = world.join_all("job", &[2]);
    let other = world.join(0, "other", 0);
    let both = procs(&[("job", 0), ("other", 0)]);
    let tag = world.ask(other, &fence_of(both, vec![]));
    let waits = world.ask(other, &get("job", 1, "card"));
    world.run();
    world.nodes[0]
        .engine
        .deregister_nspace(&"job".into())
        .unwrap();
    world.run();
    let client = &world.clients[other];
    assert_eq!(client.status(tag), Some(Status::ERR_LOST_CONNECTION));
    assert_eq!(client.status(waits), Some(Status::ERR_NOT_FOUND));
    assert!(all.iter().all(|who| !world.clients[*who].is_in()));
    assert_eq!(world.nodes[0].engine.stats().num_peers, 1);
}

#[test]
fn stored_failed_fences_are_bounded() {
    let mut world = World::new(1);
    world.job("job", &[3]);
    let all = world.join_all("job", &[3]);
    let sets: [&[(&str, u32)]; 3] = [
        &[("job", 0), ("job", 1)],
        &[("job", 0), ("job", 2)],
        &[("job", 0), ("job", 1), ("job", 2)],
    ];
    for _ in 0..2000 {
        for set in sets {
            world.ask(all[0], &fence_of(procs(set), limit(1)));
        }
        world.advance(Duration::from_secs(1));
    }
    // The most recent ones are kept: the other process receives their failure before it meets the first one again.
    let pair = fence_of(procs(sets[0]), vec![]);
    let mut told = 0;
    while world.status_of(all[1], &pair) == Some(Status::ERR_TIMEOUT) {
        told += 1;
    }
    assert!((1000..2000).contains(&told), "{told}");
    assert_eq!(world.status_of(all[0], &pair), DONE);
}

#[test]
fn the_host_gets_the_remaining_time() {
    let mut config = Config::default();
    config.collective_time = Some(Duration::from_secs(9));
    let mut world = World::with(2, &config);
    world.job("job", &[2, 1]);
    let all = world.join_all("job", &[2, 1]);
    let told = std::rc::Rc::new(std::cell::Cell::new(None));
    let seen = std::rc::Rc::clone(&told);
    world.rule(move |_, call| {
        if let Upcall::Fence(fence) = call {
            let limit = fence.infos.iter().find(|info| info.key.is(keys::TIMEOUT));
            seen.set(limit.map(|info| info.value.to_number::<u32>().unwrap()));
        }
        Reaction::Silence
    });
    // The first participant gives no time limit, and the second one calls late.
    let mut tags = vec![world.ask(all[0], &fence(vec![]))];
    world.advance(Duration::from_millis(3500));
    tags.push(world.ask(all[1], &fence(limit(60))));
    world.run();
    assert_eq!(told.get(), Some(6));
    world.advance(Duration::from_millis(6999));
    assert_eq!(statuses(&world, &all[..2], &tags), [None; 2]);
    world.advance(Duration::from_millis(1));
    let expected = Some(Status::ERR_TIMEOUT);
    assert_eq!(statuses(&world, &all[..2], &tags), [expected; 2]);
}

#[test]
fn an_unknown_participant_is_refused_at_once() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    for rank in [2, 7, 1_000_000] {
        let procs = || procs(&[("job", 0), ("job", rank)]);
        let (infos, not_found) = (Vec::new, Some(Status::ERR_NOT_FOUND));
        let requests = [
            fence_of(procs(), infos()),
            Request::Connect(request::Connect {
                procs: procs(),
                infos: infos(),
                shared: Vec::new(),
            }),
            Request::Disconnect(request::Disconnect {
                procs: procs(),
                infos: infos(),
            }),
        ];
        for request in requests {
            assert_eq!(world.status_of(all[0], &request), not_found);
        }
    }
    // The invalid participant is not awaited, and later fences succeed.
    let tags = ask_all(&mut world, &all, &fence(vec![]));
    let done = Some(Status::SUCCESS);
    assert_eq!(statuses(&world, &all, &tags), [done, done]);
    assert_eq!(missing(&world, 0), []);
}
