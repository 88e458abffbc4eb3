// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers are served in turn, and answers are made when there is room to send them.

use gds_hash::{Codec, ModexStore};
use pmix_engine::{Config, EngineEvent};
use pmix_proto::{Request, Tag, request};
use pmix_types::{Info, Rank, Scope, Status, Value};

use crate::exchange::get;
use crate::world::{Who, World};

const VALUE: usize = 100 << 10;

/// Puts a large value and asks to commit it.
fn put(world: &mut World, who: Who, rank: u32) -> Tag {
    let mut puts = ModexStore::default();
    let info = Info::new("card", vec![7_u8; VALUE]);
    puts.put(Rank::new(rank), Scope::GLOBAL, info).unwrap();
    let layout = world.clients[who].session.form().layout;
    let codec = Codec::new(layout);
    let blocks = puts.commit_message(&codec, Rank::new(rank)).unwrap();
    let commit = Request::Commit(request::Commit { blocks: &blocks });
    world.ask(who, &commit)
}

fn job(num_procs: u32, config: &Config) -> (World, Vec<Who>) {
    let mut world = World::with(1, config);
    world.job("job", &[num_procs]);
    let all = world.join_all("job", &[num_procs]);
    (world, all)
}

/// Less than two of the values.
fn narrow() -> Config {
    Config {
        reply_window: VALUE / 2,
        queued_bytes_per_peer: 2 * VALUE,
        ..Config::default()
    }
}

#[test]
fn answers_that_are_due_at_once_are_made_as_they_are_read() {
    let (mut world, all) = job(20, &narrow());
    let (reader, writers) = all.split_first().unwrap();
    world.clients[*reader].is_deaf = true;
    let ranks = 1..20;
    let asked: Vec<_> = ranks
        .clone()
        .map(|rank| world.ask(*reader, &get("job", rank, "card")))
        .collect();
    world.run();
    for (who, rank) in writers.iter().zip(ranks) {
        let tag = put(&mut world, *who, rank);
        world.run();
        assert_eq!(world.clients[*who].status(tag), Some(Status::SUCCESS));
    }
    // One is made, the others wait for it to be read.
    for answered in 1..=asked.len() {
        assert_eq!(world.clients[*reader].unread.len(), 1);
        let stats = world.nodes[0].engine.stats();
        assert!(stats.queued_bytes < 2 * VALUE, "{}", stats.queued_bytes);
        world.read_one(*reader);
        let client = &world.clients[*reader];
        let there = asked.iter().filter(|tag| client.reply(**tag).is_some());
        assert_eq!(there.count(), answered);
    }
    let client = &world.clients[*reader];
    for tag in asked {
        let value = client.value(tag, "card").unwrap();
        assert!(matches!(value, Value::ByteObject(bytes) if bytes.len() == VALUE));
    }
    let stats = world.nodes[0].engine.stats();
    assert_eq!((stats.num_requests, stats.queued_bytes), (0, 0));
    assert_eq!(world.nodes[0].refusals(), []);
}

#[test]
fn who_leaves_before_it_has_read_owes_nothing() {
    let (mut world, all) = job(4, &narrow());
    world.clients[all[0]].is_deaf = true;
    for rank in 1..4 {
        world.ask(all[0], &get("job", rank, "card"));
    }
    world.run();
    for rank in 1..4 {
        put(&mut world, usize::try_from(rank).unwrap(), rank);
    }
    world.run();
    assert!(world.nodes[0].engine.stats().num_requests > 0);
    world.kill(all[0]);
    let stats = world.nodes[0].engine.stats();
    assert_eq!((stats.num_requests, stats.queued_bytes), (0, 0));
}

#[test]
fn a_job_that_is_gone_is_not_found_by_answers_that_waited_for_room() {
    let (mut world, all) = job(4, &narrow());
    world.job("other", &[1]);
    let outside = world.join(0, "other", 0);
    world.clients[outside].is_deaf = true;
    let asked: Vec<_> = (1..4)
        .map(|rank| world.ask(outside, &get("job", rank, "card")))
        .collect();
    world.run();
    for rank in 1..4 {
        put(&mut world, all[usize::try_from(rank).unwrap()], rank);
    }
    world.run();
    let engine = &mut world.nodes[0].engine;
    engine.deregister_nspace(&"job".into()).unwrap();
    world.run();
    while !world.clients[outside].unread.is_empty() {
        world.read_one(outside);
    }
    let client = &world.clients[outside];
    let status: Vec<_> = asked.iter().map(|tag| client.status(*tag)).collect();
    let gone = Some(Status::ERR_NOT_FOUND);
    assert_eq!(status, [Some(Status::SUCCESS), gone, gone]);
}

#[test]
fn requests_of_a_peer_that_does_not_read_wait_until_it_does() {
    let config = Config {
        reply_window: 1000,
        ..Config::default()
    };
    let (mut world, all) = job(2, &config);
    world.clients[all[1]].is_deaf = true;
    let mut asked = Vec::new();
    for _ in 0..200 {
        asked.push(world.ask(all[1], &Request::JobInfo));
        let status = world.status_of(all[0], &Request::JobInfo);
        assert_eq!(status, Some(Status::SUCCESS));
    }
    let one = world.clients[all[1]].unread[0].len();
    let queued = world.nodes[0].engine.stats().queued_bytes;
    assert!(queued < 1000 + one, "{queued} bytes of replies of {one}");
    while !world.clients[all[1]].unread.is_empty() {
        world.read_one(all[1]);
    }
    for tag in asked {
        let status = world.clients[all[1]].status(tag);
        assert_eq!(status, Some(Status::SUCCESS));
    }
    assert_eq!(world.nodes[0].refusals(), []);
}

/// Hands an engine what a client has to say, to be handled later.
fn queue(world: &mut World, who: Who) {
    let client = &mut world.clients[who];
    let peer = client.peer.unwrap();
    while let Some(bytes) = client.session.poll_transmit() {
        world.nodes[0].engine.queue_input(peer, &bytes);
    }
}

#[test]
fn peers_are_served_in_turn_whatever_one_asks_for() {
    let (mut world, all) = job(3, &Config::default());
    let peers: Vec<_> = all.iter().map(|who| world.clients[*who].peer).collect();
    for _ in 0..100 {
        world.ask(all[0], &Request::JobInfo);
    }
    queue(&mut world, all[0]);
    for who in [all[1], all[2], all[2]] {
        world.ask(who, &Request::JobInfo);
        queue(&mut world, who);
    }
    let engine = &mut world.nodes[0].engine;
    assert!(!engine.wants_input(peers[0].unwrap()));
    let served: Vec<_> = (0..6).map(|_| engine.handle_queued(world.now)).collect();
    let expected = [0, 1, 2, 0, 2, 0].map(|place: usize| peers[place]);
    assert_eq!(served, expected);
    assert!(engine.has_queued());
    assert!(engine.wants_input(peers[2].unwrap()));
}

#[test]
fn what_a_process_said_before_it_ended_is_handled_before_it_is_lost() {
    let (mut world, all) = job(3, &Config::default());
    let waits = world.ask(all[1], &get("job", 0, "card"));
    world.run();
    put(&mut world, all[0], 0);
    queue(&mut world, all[0]);
    // Somebody who asks much is not in its way.
    for _ in 0..10 {
        world.ask(all[2], &Request::JobInfo);
    }
    queue(&mut world, all[2]);
    let engine = &mut world.nodes[0].engine;
    let (first, now) = (world.clients[all[0]].peer, world.now);
    engine.handle_closed(first.unwrap(), now);
    assert_eq!(engine.handle_queued(now), first);
    assert_eq!(engine.handle_queued(now), first, "it is forgotten");
    assert_ne!(engine.handle_queued(now), first);
    while engine.handle_queued(now).is_some() {}
    world.run();
    assert_eq!(world.clients[all[1]].status(waits), Some(Status::SUCCESS));
    let events = &world.nodes[0].events;
    let is_lost = |event: &EngineEvent| matches!(event, EngineEvent::ProcessLost { .. });
    assert!(events.iter().any(is_lost));
}
