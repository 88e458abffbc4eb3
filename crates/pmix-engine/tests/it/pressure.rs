// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers are served in turn, and replies are packed when there is room to send them.

use std::time::Duration;

use gds_hash::{Codec, ModexStore};
use pmix_engine::{Config, EngineEvent};
use pmix_proto::{Request, Tag, request};
use pmix_types::{Info, Rank, Scope, Status, Value};

use crate::exchange::get;
use crate::world::{Who, World};

const VALUE: usize = 100 << 10;

/// Puts a large value and sends its commit.
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

/// Limits the window to less than two of the values.
fn narrow() -> Config {
    {
        let mut config = Config::default();
        config.reply_window = VALUE / 2;
        config.queued_bytes_per_peer = 2 * VALUE;
        config
    }
}

#[test]
fn simultaneous_replies_are_encoded_as_they_are_read() {
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
    // One reply is packed; the others wait until it is read.
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
fn a_peer_that_leaves_before_reading_leaves_no_replies() {
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
fn delayed_replies_do_not_find_a_deregistered_job() {
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
fn requests_of_a_peer_wait_until_it_reads() {
    let mut config = Config::default();
    config.reply_window = 1000;
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

/// Queues the messages of a client in the engine without handling them.
pub(crate) fn queue(world: &mut World, who: Who) {
    let client = &mut world.clients[who];
    let peer = client.peer.unwrap();
    while let Some(bytes) = client.session.poll_transmit() {
        world.nodes[0].engine.queue_input(peer, &bytes);
    }
}

#[test]
fn data_sent_to_many_peers_is_stored_once() {
    let (mut world, all) = job(9, &Config::default());
    let (writer, readers) = all.split_first().unwrap();
    put(&mut world, *writer, 0);
    world.run();
    for who in readers {
        world.ask(*who, &get("job", 0, "card"));
        queue(&mut world, *who);
    }
    let engine = &mut world.nodes[0].engine;
    while engine.handle_queued(world.now).is_some() {}
    let sent: Vec<_> = std::iter::from_fn(|| engine.poll_transmit()).collect();
    let address = |place: usize| sent[place].bytes.payload().as_ptr();
    assert!(sent.len() == 8 && sent[0].bytes.len() > VALUE);
    assert!((1..8).all(|place| address(place) == address(0)));
}

#[test]
fn peers_are_served_in_turn_for_any_request() {
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
fn a_peer_with_a_slow_message_waits_until_others_had_equal_time() {
    let (mut world, all) = job(3, &Config::default());
    let peers: Vec<_> = all.iter().map(|who| world.clients[*who].peer).collect();
    for who in &all {
        for _ in 0..20 {
            world.ask(*who, &Request::JobInfo);
        }
        queue(&mut world, *who);
    }
    let engine = &mut world.nodes[0].engine;
    let mut served = [0; 3];
    for _ in 0..24 {
        let peer = engine.handle_queued(world.now);
        let place = peers.iter().position(|known| *known == peer).unwrap();
        served[place] += 1;
        let micros = if place == 0 { 1000 } else { 100 };
        engine.charge(peer.unwrap(), Duration::from_micros(micros));
    }
    assert_eq!(served, [2, 11, 11]);
}

#[test]
fn messages_of_an_exited_process_are_handled_before_its_loss() {
    let (mut world, all) = job(3, &Config::default());
    let waits = world.ask(all[1], &get("job", 0, "card"));
    world.run();
    put(&mut world, all[0], 0);
    queue(&mut world, all[0]);
    // Another process with many requests does not delay it.
    for _ in 0..10 {
        world.ask(all[2], &Request::JobInfo);
    }
    queue(&mut world, all[2]);
    let engine = &mut world.nodes[0].engine;
    let (first, now) = (world.clients[all[0]].peer, world.now);
    engine.handle_closed(first.unwrap(), now);
    assert_eq!(engine.handle_queued(now), first);
    assert_eq!(
        engine.handle_queued(now),
        first,
        "the second call removes the closed peer"
    );
    assert_ne!(engine.handle_queued(now), first);
    while engine.handle_queued(now).is_some() {}
    world.run();
    assert_eq!(world.clients[all[1]].status(waits), Some(Status::SUCCESS));
    let events = &world.nodes[0].events;
    let is_lost = |event: &EngineEvent| matches!(event, EngineEvent::ProcessLost { .. });
    assert!(events.iter().any(is_lost));
}

#[test]
fn an_exited_process_is_handled_first_at_any_cost() {
    let (mut world, all) = job(2, &Config::default());
    let peers: Vec<_> = all.iter().map(|who| world.clients[*who].peer).collect();
    for who in &all {
        for _ in 0..3 {
            world.ask(*who, &Request::JobInfo);
        }
        queue(&mut world, *who);
    }
    let (engine, now) = (&mut world.nodes[0].engine, world.now);
    engine.charge(peers[0].unwrap(), Duration::from_secs(1));
    assert_eq!(engine.handle_queued(now), peers[1]);
    engine.handle_closed(peers[0].unwrap(), now);
    for _ in 0..4 {
        assert_eq!(engine.handle_queued(now), peers[0]);
    }
    assert_eq!(engine.stats().num_peers, 1);
    assert_eq!(engine.handle_queued(now), peers[1]);
}

/// Returns the bytes of a request of half a megabyte.
fn long_request(world: &mut World, who: Who) -> (Tag, Vec<u8>) {
    request_of(world, who, 512 << 10)
}

/// Returns the bytes of a request of slightly more than `num_bytes`.
fn request_of(world: &mut World, who: Who, num_bytes: usize) -> (Tag, Vec<u8>) {
    let infos = vec![Info::new("blob", vec![7_u8; num_bytes])];
    let publish = Request::Publish(request::Publish { uid: 0, infos });
    let tag = world.ask(who, &publish);
    let session = &mut world.clients[who].session;
    let bytes = std::iter::from_fn(|| session.poll_transmit());
    (tag, bytes.flat_map(|bytes| bytes.to_vec()).collect())
}

/// Passes bytes of clients to the engine while it accepts them, and its replies to the clients. Leaves the remaining
/// bytes in `left`.
fn feed(world: &mut World, all: &[Who], left: &mut [Vec<u8>]) {
    loop {
        let mut moved = false;
        for (who, bytes) in all.iter().zip(left.iter_mut()) {
            let Some(peer) = world.clients[*who].peer else {
                continue;
            };
            let engine = &mut world.nodes[0].engine;
            if engine.wants_input(peer) && !bytes.is_empty() {
                let rest = bytes.split_off(bytes.len().min(64 << 10));
                engine.queue_input(peer, bytes);
                *bytes = rest;
                moved = true;
            }
        }
        while world.nodes[0].engine.handle_queued(world.now).is_some() {}
        world.run();
        if !moved {
            return;
        }
    }
}

// Planted: long messages are read without reserved memory.
#[test]
fn long_messages_wait_for_memory_and_short_ones_do_not() {
    let mut config = Config::default();
    config.input_bytes = 4_800 << 10;
    let (mut world, all) = job(5, &config);
    let long = &all[..4];
    let (tags, mut left): (Vec<_>, Vec<_>) = long
        .iter()
        .map(|who| long_request(&mut world, *who))
        .unzip();
    // The end of each message is held back.
    let ends: Vec<_> = left
        .iter_mut()
        .map(|bytes| bytes.split_off(bytes.len() - 10))
        .collect();
    feed(&mut world, long, &mut left);
    let unread: Vec<_> = left.iter().map(Vec::len).collect();
    assert_eq!(unread[..2], [0, 0]);
    // The beginnings of the other messages have been read.
    assert!(unread[2..].iter().all(|len| *len > 300 << 10), "{unread:?}");
    let status = world.status_of(all[4], &Request::JobInfo);
    assert_eq!(status, Some(Status::SUCCESS));
    for (bytes, end) in left.iter_mut().zip(ends) {
        bytes.extend(end);
    }
    feed(&mut world, long, &mut left);
    let resumed = std::iter::from_fn(|| world.nodes[0].engine.poll_resumed());
    assert_eq!(
        resumed.count(),
        2,
        "the driver resumes reading both connections"
    );
    for (who, tag) in long.iter().zip(tags) {
        assert!(world.clients[*who].status(tag).is_some());
    }
    assert_eq!(world.nodes[0].refusals(), []);
}

#[test]
fn a_stalled_long_message_yields_to_others() {
    let mut config = Config::default();
    config.input_bytes = 4_800 << 10;
    let (mut world, all) = job(3, &config);
    let (tags, mut left): (Vec<_>, Vec<_>) =
        all.iter().map(|who| long_request(&mut world, *who)).unzip();
    let mut ends: Vec<_> = { left[..2].iter_mut() }
        .map(|bytes| bytes.split_off(100 << 10))
        .collect();
    feed(&mut world, &all, &mut left);
    assert!(left[2].len() > 300 << 10);
    world.advance(config.input_turn - MOMENT);
    feed(&mut world, &all, &mut left);
    assert!(left[2].len() > 300 << 10);
    world.advance(2 * MOMENT);
    feed(&mut world, &all, &mut left);
    assert!(world.clients[all[2]].status(tags[2]).is_some());
    // No message waits, so no timer is set. The slow peers can continue.
    world.advance(2 * config.input_time);
    let stats = world.nodes[0].engine.stats();
    assert_eq!((stats.num_peers, stats.num_timers), (3, 0));
    left[..2].swap_with_slice(&mut ends);
    feed(&mut world, &all, &mut left);
    assert!(
        tags[..2]
            .iter()
            .zip(&all)
            .all(|(tag, who)| world.clients[*who].status(*tag).is_some())
    );
    assert_eq!(world.nodes[0].refusals(), []);
}

#[test]
fn a_turn_in_which_the_server_did_not_run_is_not_counted() {
    let mut config = Config::default();
    config.input_bytes = 4_800 << 10;
    let (mut world, all) = job(3, &config);
    let (tags, mut left): (Vec<_>, Vec<_>) =
        all.iter().map(|who| long_request(&mut world, *who)).unzip();
    let mut ends: Vec<_> = { left[..2].iter_mut() }
        .map(|bytes| bytes.split_off(200 << 10))
        .collect();
    feed(&mut world, &all, &mut left);
    assert!(left[2].len() > 300 << 10);
    let wants = |world: &World| {
        let peers = { all.iter() }.map(|who| world.clients[*who].peer.unwrap());
        peers
            .map(|peer| world.nodes[0].engine.wants_input(peer))
            .collect::<Vec<_>>()
    };
    // Input that arrives at this time is read after the timers have run.
    world.oversleep(2 * config.input_turn);
    assert_eq!(wants(&world), [true, true, false]);
    left[0].append(&mut ends[0]);
    feed(&mut world, &all, &mut left);
    assert!(world.clients[all[0]].status(tags[0]).is_some());
    feed(&mut world, &all, &mut left);
    assert!(world.clients[all[2]].status(tags[2]).is_some());
    assert_eq!(world.nodes[0].refusals(), []);
}

#[test]
fn a_server_that_is_always_late_counts_every_second_turn() {
    let mut config = Config::default();
    config.input_bytes = 4_800 << 10;
    let (mut world, all) = job(3, &config);
    let (tags, mut left): (Vec<_>, Vec<_>) =
        all.iter().map(|who| long_request(&mut world, *who)).unzip();
    left[..2]
        .iter_mut()
        .for_each(|bytes| bytes.truncate(200 << 10));
    feed(&mut world, &all, &mut left);
    for counts in [false, true] {
        world.oversleep(2 * config.input_turn);
        feed(&mut world, &all, &mut left);
        assert_eq!(world.clients[all[2]].status(tags[2]).is_some(), counts);
    }
}

/// A short time of the simulated clock.
const MOMENT: Duration = Duration::from_millis(1);

/// Returns the number of turns until a long message is received that was announced after those of others, which stop
/// after `num_bytes` bytes.
fn turns_behind(num_others: u32, num_bytes: usize) -> usize {
    let mut config = Config::default();
    config.input_bytes = 16 << 20;
    let (mut world, all) = job(num_others + 1, &config);
    let (honest, others) = all.split_last().unwrap();
    let begun = others.iter().map(|who| {
        let (_, mut bytes) = request_of(&mut world, *who, 3 << 20);
        bytes.truncate(num_bytes);
        bytes
    });
    let mut left: Vec<_> = begun.collect();
    feed(&mut world, others, &mut left);
    let (tag, bytes) = request_of(&mut world, *honest, 3 << 20);
    left.push(bytes);
    let order: Vec<_> = others.iter().chain([honest]).copied().collect();
    for num_turns in 0..200 {
        feed(&mut world, &order, &mut left);
        assert_eq!(world.nodes[0].refusals(), []);
        if world.clients[*honest].status(tag).is_some() {
            return num_turns;
        }
        world.advance(config.input_turn + MOMENT);
    }
    panic!("the message does not complete")
}

// Planted: a stalled long message keeps its reservation.
#[test]
fn a_long_message_completes_in_time_beside_many_slow_ones() {
    // Messages with less than the beginning come after it.
    for num_others in [1, 50] {
        assert_eq!(turns_behind(num_others, 64 << 10), 1, "{num_others}");
    }
    // Messages with the beginning get one turn each.
    for num_others in [1, 10, 20] {
        let most = usize::try_from(num_others + 1).unwrap();
        assert!(turns_behind(num_others, 200 << 10) <= most, "{num_others}");
    }
}

#[test]
fn a_message_of_a_share_does_not_wait_for_slow_longer_ones() {
    let mut config = Config::default();
    config.input_bytes = 64 << 20;
    let (mut world, all) = job(5, &config);
    let lens = [15 << 20, 15 << 20, 1 << 20, 200 << 10, 200 << 10];
    let requests = all.iter().zip(lens);
    let requests = requests.map(|(who, len)| request_of(&mut world, *who, len));
    let (tags, mut left): (Vec<_>, Vec<_>) = requests.unzip();
    let mut ends: Vec<_> = left[..2]
        .iter_mut()
        .map(|bytes| bytes.split_off(200 << 10))
        .collect();
    feed(&mut world, &all, &mut left);
    let wants = |world: &World, number: usize| {
        let peer = world.clients[all[number]].peer.unwrap();
        world.nodes[0].engine.wants_input(peer)
    };
    assert!(wants(&world, 0) && !wants(&world, 1));
    for number in 2..5 {
        let status = world.clients[all[number]].status(tags[number]);
        assert!(status.is_some(), "{number} of {lens:?}");
    }
    // A message that makes progress keeps its room.
    for _ in 0..10 {
        left[0].extend(ends[0].drain(..256 << 10));
        feed(&mut world, &all, &mut left);
        world.advance(config.input_turn);
        assert!(wants(&world, 0) && !wants(&world, 1));
    }
    world.advance(config.input_turn + MOMENT);
    assert!(!wants(&world, 0) && wants(&world, 1));
    left[1].append(&mut ends[1]);
    feed(&mut world, &all, &mut left);
    assert!(world.clients[all[1]].status(tags[1]).is_some());
    left[0].append(&mut ends[0]);
    feed(&mut world, &all, &mut left);
    assert!(world.clients[all[0]].status(tags[0]).is_some());
    assert_eq!(world.nodes[0].refusals(), []);
}

#[test]
fn unread_replies_yield_to_long_messages_of_others() {
    let mut config = Config::default();
    config.input_bytes = 4_800 << 10;
    config.reply_window = 1;
    let (mut world, all) = job(5, &config);
    // Four peers do not read a reply, so their further messages are not handled.
    for who in &all[..4] {
        world.clients[*who].is_deaf = true;
        world.ask(*who, &Request::JobInfo);
    }
    world.run();
    let (tags, mut left): (Vec<_>, Vec<_>) =
        all.iter().map(|who| long_request(&mut world, *who)).unzip();
    feed(&mut world, &all, &mut left);
    assert_eq!([left[0].len(), left[1].len()], [0, 0]);
    assert!(left[2..].iter().all(|bytes| bytes.len() > 300 << 10));
    // The messages arrived in this turn. The next turn makes room for two messages, and then for two more.
    world.advance(2 * config.input_turn + MOMENT);
    feed(&mut world, &all, &mut left);
    assert_eq!([left[2].len(), left[3].len()], [0, 0]);
    assert!(left[4].len() > 300 << 10);
    world.advance(config.input_time - 3 * config.input_turn);
    assert_eq!(world.nodes[0].refusals(), []);
    while world.nodes[0].refusals().is_empty() {
        world.advance(config.input_turn);
    }
    assert_eq!(world.nodes[0].refusals(), [Status::ERR_OUT_OF_RESOURCE; 2]);
    feed(&mut world, &all, &mut left);
    assert!(world.clients[all[4]].status(tags[4]).is_some());
}
