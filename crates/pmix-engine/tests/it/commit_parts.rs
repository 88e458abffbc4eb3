// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commits that are stored in parts, between the messages of other peers.

use gds_hash::{Codec, OwnPuts};
use pmix_engine::{ClonePolicy, Config, PeerId};
use pmix_proto::{Request, Tag, request};
use pmix_types::{Info, Rank, Scope, Status, Value, keys};

use crate::exchange::{get, get_with};
use crate::group::construct;
use crate::pressure::queue;
use crate::world::{Who, World, hello};

/// The keys of a long commit, which has about six parts.
const COUNT: usize = 3_000;

const SUCCESS: Option<Status> = Some(Status::SUCCESS);

/// The data of rank 0.
struct Puts {
    codec: Codec<'static>,
    own: OwnPuts,
}

impl Puts {
    fn new(world: &World, who: Who) -> Self {
        let codec = Codec::new(world.clients[who].session.form().layout);
        let own = OwnPuts::new(Rank::new(0), 256 << 20).with_removals(true);
        Self { codec, own }
    }

    /// Returns the message of a commit of values or of removed keys.
    fn message(&mut self, first: usize, count: usize, value: &Value<'static>) -> Vec<u8> {
        let scope = match value {
            Value::Undef => Scope::DEL_GLOBAL,
            _ => Scope::GLOBAL,
        };
        for number in first..first + count {
            let info = Info::new(format!("key.{number:06}"), value.clone());
            self.own.put(&self.codec, scope, info).unwrap();
        }
        let mut messages = self.own.take_commit(&self.codec).unwrap();
        assert_eq!(messages.len(), 1);
        messages.pop().unwrap().0
    }
}

/// Returns the message of a long commit of a rank for processes of its node.
fn local_commit(world: &World, who: Who, rank: u32) -> Vec<u8> {
    let codec = Codec::new(world.clients[who].session.form().layout);
    let mut own = OwnPuts::new(Rank::new(rank), 256 << 20);
    for number in 0..COUNT {
        let info = Info::new(format!("key.{number:06}"), 1_u32);
        own.put(&codec, Scope::LOCAL, info).unwrap();
    }
    own.take_commit(&codec).unwrap().pop().unwrap().0
}

/// Queues a commit in the engine.
fn begin(world: &mut World, who: Who, blocks: &[u8]) -> Tag {
    let tag = world.ask(who, &Request::Commit(request::Commit { blocks }));
    queue(world, who);
    tag
}

/// Handles `count` messages or parts of messages, and returns their peers.
fn handle(world: &mut World, count: usize) -> Vec<Option<PeerId>> {
    let (engine, now) = (&mut world.nodes[0].engine, world.now);
    (0..count).map(|_| engine.handle_queued(now)).collect()
}

/// Handles all messages, and delivers the replies.
fn handle_all(world: &mut World) {
    while world.nodes[0].engine.handle_queued(world.now).is_some() {}
    world.run();
}

fn num_unfinished(world: &World) -> usize {
    world.nodes[0].engine.stats().num_commits
}

fn one_node(size: u32) -> (World, Vec<Who>) {
    let mut world = World::new(1);
    world.job("job", &[size]);
    let all = world.join_all("job", &[size]);
    (world, all)
}

/// Asks for a key of rank 0 that must be found at once. Returns the status, and whether it arrived before the end of the
/// commits.
fn found_now(world: &mut World, who: Who, key: &'static str) -> (Option<Status>, bool) {
    let infos = vec![Info::new(keys::IMMEDIATE, true)];
    let tag = world.ask(who, &get_with("job", Rank::new(0), key, infos));
    queue(world, who);
    loop {
        let is_before = num_unfinished(world) > 0;
        let served = handle(world, 1)[0];
        deliver(world);
        let status = world.clients[who].status(tag);
        if status.is_some() || served.is_none() {
            return (status, is_before);
        }
    }
}

/// Delivers the replies of the server. Nothing is handled meanwhile.
fn deliver(world: &mut World) {
    while let Some(sent) = world.nodes[0].engine.poll_transmit() {
        let mut clients = world.clients.iter_mut();
        let reader = clients.find(|client| client.peer == Some(sent.peer));
        let reader = reader.unwrap();
        reader.hear(sent.bytes.head());
        reader.hear(sent.bytes.payload());
        let len = sent.bytes.len();
        world.nodes[0].engine.handle_written(sent.peer, len);
    }
}

#[test]
fn other_peers_are_served_between_the_parts_of_a_commit() {
    let (mut world, all) = one_node(2);
    let peers: Vec<_> = all.iter().map(|who| world.clients[*who].peer).collect();
    let blocks = Puts::new(&world, all[0]).message(0, COUNT, &1_u32.into());
    let tag = begin(&mut world, all[0], &blocks);
    for _ in 0..3 {
        world.ask(all[1], &Request::JobInfo);
    }
    queue(&mut world, all[1]);
    let served = handle(&mut world, 6);
    assert_eq!(served, [0, 1, 0, 1, 0, 1].map(|place: usize| peers[place]));
    assert_eq!(num_unfinished(&world), 1);
    // The next message of the peer waits, and it is not read.
    world.ask(all[0], &Request::JobInfo);
    queue(&mut world, all[0]);
    assert!(!world.nodes[0].engine.wants_input(peers[0].unwrap()));
    handle_all(&mut world);
    assert_eq!(world.clients[all[0]].status(tag), SUCCESS);
    assert_eq!(num_unfinished(&world), 0);
    for key in ["key.000000", "key.002999"] {
        assert_eq!(world.status_of(all[1], &get("job", 0, key)), SUCCESS);
    }
}

#[test]
fn no_part_of_a_commit_is_seen_before_the_last_one() {
    let (mut world, all) = one_node(3);
    let mut puts = Puts::new(&world, all[0]);
    let first = puts.message(0, 1, &1_u32.into());
    assert_eq!(
        world.status_of(all[0], &Request::Commit(request::Commit { blocks: &first })),
        SUCCESS
    );
    // One get waits before the commit, the other one arrives after its first parts.
    let early = world.ask(all[1], &get("job", 0, "key.000001"));
    world.run();
    let blocks = puts.message(1, COUNT, &1_u32.into());
    let tag = begin(&mut world, all[0], &blocks);
    let mut num_rounds = 0;
    let late = loop {
        num_rounds += 1;
        handle(&mut world, 1);
        let late = world.ask(all[2], &get("job", 0, "key.000002"));
        queue(&mut world, all[2]);
        handle(&mut world, 1);
        if num_unfinished(&world) == 0 {
            break late;
        }
        let (seen, is_before) = found_now(&mut world, all[2], "key.000003");
        assert!(
            !is_before || seen == Some(Status::ERR_NOT_FOUND),
            "{seen:?}"
        );
    };
    assert!(num_rounds > 1);
    handle_all(&mut world);
    let status = |who: usize, tag| world.clients[all[who]].status(tag);
    assert_eq!(
        [status(0, tag), status(1, early), status(2, late)],
        [SUCCESS; 3]
    );
}

#[test]
fn a_refused_commit_of_many_parts_changes_nothing() {
    let mut config = Config::default();
    config.put_keys_per_process = COUNT;
    let mut world = World::with(1, &config);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let mut puts = Puts::new(&world, all[0]);
    let commit = |world: &mut World, blocks: &[u8]| {
        let tag = begin(world, all[0], blocks);
        handle_all(world);
        world.clients[all[0]].status(tag)
    };
    let stored = puts.message(0, 2_000, &1_u32.into());
    assert_eq!(commit(&mut world, &stored), SUCCESS);
    let more = puts.message(2_000, 2_000, &1_u32.into());
    assert_eq!(commit(&mut world, &more), Some(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!(num_unfinished(&world), 0);
    assert_eq!(found_now(&mut world, all[1], "key.001999").0, SUCCESS);
    let absent = found_now(&mut world, all[1], "key.002000");
    assert_eq!(absent.0, Some(Status::ERR_NOT_FOUND));
}

#[test]
fn clients_learn_of_many_removed_keys_before_the_reply() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all: Vec<_> = (0..2)
        .map(|rank| {
            let mut greeting = hello("job", rank);
            greeting.version = "7.0.0".into();
            world.connect(0, &greeting)
        })
        .collect();
    world.run();
    let mut puts = Puts::new(&world, all[0]);
    for value in [Value::Uint32(1), Value::Undef] {
        let blocks = puts.message(0, COUNT, &value);
        let tag = begin(&mut world, all[0], &blocks);
        let (peer, mut num_keys, mut num_parts) = (world.clients[all[0]].peer, 0, 0);
        while world.nodes[0].engine.handle_queued(world.now).is_some() {
            num_parts += 1;
            while let Some(sent) = world.nodes[0].engine.poll_transmit() {
                let bytes = [sent.bytes.head(), sent.bytes.payload()].concat();
                match Some(sent.peer) == peer {
                    true => assert_eq!(num_keys, if value == Value::Undef { COUNT } else { 0 }),
                    false => num_keys += bytes.windows(4).filter(|part| part == b"key.").count(),
                }
                let reader = usize::from(Some(sent.peer) != peer);
                world.clients[all[reader]].hear(&bytes);
                world.nodes[0].engine.handle_written(sent.peer, bytes.len());
            }
        }
        assert!(num_parts > 5, "{num_parts}");
        assert_eq!(world.clients[all[0]].status(tag), SUCCESS);
    }
    let absent = found_now(&mut world, all[1], "key.000007");
    assert_eq!(absent.0, Some(Status::ERR_NOT_FOUND));
}

#[test]
fn clients_learn_of_all_removed_keys_if_their_process_is_deregistered_meanwhile() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = [0, 1].map(|rank| {
        let mut greeting = hello("job", rank);
        greeting.version = "7.0.0".into();
        world.connect(0, &greeting)
    });
    world.run();
    let mut puts = Puts::new(&world, all[0]);
    let stored = puts.message(0, COUNT, &1_u32.into());
    begin(&mut world, all[0], &stored);
    handle_all(&mut world);
    let removed = puts.message(0, COUNT, &Value::Undef);
    begin(&mut world, all[0], &removed);
    let reader = world.clients[all[1]].peer;
    let mut num_keys = 0;
    let mut count = |world: &mut World| {
        while let Some(sent) = world.nodes[0].engine.poll_transmit() {
            let bytes = [sent.bytes.head(), sent.bytes.payload()].concat();
            if Some(sent.peer) == reader {
                num_keys += bytes.windows(4).filter(|part| part == b"key.").count();
            }
            world.nodes[0].engine.handle_written(sent.peer, bytes.len());
        }
        num_keys
    };
    while count(&mut world) == 0 {
        handle(&mut world, 1);
    }
    assert!(count(&mut world) < COUNT && num_unfinished(&world) == 1);
    let proc = pmix_types::Proc::new("job", Rank::new(0));
    world.nodes[0].engine.deregister_client(&proc).unwrap();
    assert_eq!(count(&mut world), COUNT);
    assert_eq!(num_unfinished(&world), 0);
}

#[test]
fn commits_of_two_programs_of_a_process_are_stored_in_order() {
    let mut config = Config::default();
    config.clone_policy = ClonePolicy::Accept;
    let mut world = World::with(1, &config);
    world.job("job", &[2]);
    let programs = [world.join(0, "job", 0), world.join(0, "job", 0)];
    let reader = world.join(0, "job", 1);
    let values = [Value::Uint32(1), Value::Uint32(2)];
    let messages = values.map(|value| Puts::new(&world, programs[0]).message(0, COUNT, &value));
    let tags = [0, 1].map(|place: usize| begin(&mut world, programs[place], &messages[place]));
    handle(&mut world, 1);
    assert_eq!(num_unfinished(&world), 1);
    // The first commit is completed before the second one begins.
    handle(&mut world, 1);
    deliver(&mut world);
    assert_eq!(world.clients[programs[0]].status(tags[0]), SUCCESS);
    assert_eq!(num_unfinished(&world), 1);
    handle_all(&mut world);
    for (who, tag) in programs.iter().zip(tags) {
        assert_eq!(world.clients[*who].status(tag), SUCCESS);
    }
    let tag = world.ask(reader, &get("job", 0, "key.000007"));
    world.run();
    let value = world.clients[reader].value(tag, "key.000007");
    assert_eq!(value, Some(Value::Uint32(2)));
}

#[test]
fn the_commit_of_a_process_that_is_removed_is_dropped() {
    let mut config = Config::default();
    config.clone_policy = ClonePolicy::Accept;
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let programs = [world.join(0, "job", 0), world.join(0, "job", 0)];
    let blocks = Puts::new(&world, programs[0]).message(0, COUNT, &1_u32.into());
    let tags = [0, 1].map(|place: usize| begin(&mut world, programs[place], &blocks));
    handle(&mut world, 3);
    assert_eq!(num_unfinished(&world), 1);
    // The commit of a program that has ended is stored, before that of the other one.
    let peer = world.clients[programs[0]].peer.unwrap();
    world.nodes[0].engine.handle_closed(peer, world.now);
    handle_all(&mut world);
    assert_eq!(num_unfinished(&world), 0);
    assert_eq!(world.clients[programs[1]].status(tags[1]), SUCCESS);
    let tag = begin(&mut world, programs[1], &blocks);
    handle(&mut world, 2);
    assert_eq!(num_unfinished(&world), 1);
    world.nodes[0]
        .engine
        .deregister_nspace(&"job".into())
        .unwrap();
    handle_all(&mut world);
    assert_eq!(num_unfinished(&world), 0);
    assert_eq!(world.clients[programs[1]].status(tag), None);
}

#[test]
fn data_that_a_group_shares_during_a_commit_are_kept() {
    let (mut world, all) = one_node(2);
    let share = |rank: u32| {
        let shared = vec![Info::new("shared", rank)];
        vec![
            Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true),
            Info::new(keys::GROUP_INFO, shared),
        ]
    };
    let own = world.ask(all[0], &construct("g", &[0, 1], share(0)));
    world.run();
    let blocks = Puts::new(&world, all[0]).message(0, COUNT, &1_u32.into());
    let tag = begin(&mut world, all[0], &blocks);
    handle(&mut world, 2);
    assert_eq!(num_unfinished(&world), 1);
    // The construct ends before the next part, which the reply to it lets run.
    let other = world.ask(all[1], &construct("g", &[0, 1], share(1)));
    world.run();
    handle_all(&mut world);
    let statuses =
        [(0, tag), (0, own), (1, other)].map(|(who, tag)| world.clients[all[who]].status(tag));
    assert_eq!(statuses, [SUCCESS; 3]);
    let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(1));
    let shared = get_with("job", Rank::new(0), "shared", vec![context.qualifier()]);
    assert_eq!(world.status_of(all[1], &shared), SUCCESS);
    assert_eq!(
        world.status_of(all[1], &get("job", 0, "key.002999")),
        SUCCESS
    );
}

#[test]
fn few_commits_are_unfinished_at_the_same_time() {
    let (mut world, all) = one_node(12);
    let tags: Vec<_> = all
        .iter()
        .zip(0..)
        .map(|(who, rank)| {
            let blocks = local_commit(&world, *who, rank);
            begin(&mut world, *who, &blocks)
        })
        .collect();
    handle(&mut world, all.len());
    assert_eq!(num_unfinished(&world), 8);
    deliver(&mut world);
    let done = all
        .iter()
        .zip(&tags)
        .map(|(who, tag)| world.clients[*who].status(*tag));
    assert_eq!(done.flatten().count(), 4);
    handle_all(&mut world);
    for (who, tag) in all.iter().zip(tags) {
        assert_eq!(world.clients[*who].status(tag), SUCCESS);
    }
}

#[test]
fn a_closed_peer_with_a_long_commit_takes_turns() {
    let (mut world, all) = one_node(2);
    let peers: Vec<_> = all.iter().map(|who| world.clients[*who].peer).collect();
    let blocks = Puts::new(&world, all[0]).message(0, COUNT, &1_u32.into());
    begin(&mut world, all[0], &blocks);
    handle(&mut world, 1);
    let now = world.now;
    world.nodes[0].engine.handle_closed(peers[0].unwrap(), now);
    for _ in 0..3 {
        world.ask(all[1], &Request::JobInfo);
    }
    queue(&mut world, all[1]);
    let served = handle(&mut world, 6);
    assert_eq!(served.iter().filter(|peer| **peer == peers[1]).count(), 3);
    assert_eq!(num_unfinished(&world), 1);
    world.clients[all[0]].peer = None;
    handle_all(&mut world);
    assert_eq!(world.nodes[0].engine.stats().num_peers, 1);
}

#[test]
fn commits_in_parts_respect_the_limit_of_their_job() {
    let mut config = Config::default();
    config.put_bytes_per_job = 60_000;
    let mut world = World::with(1, &config);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let tags: Vec<_> = all
        .iter()
        .zip(0..)
        .map(|(who, rank)| {
            let blocks = local_commit(&world, *who, rank);
            assert!((40_000..60_000).contains(&blocks.len()), "{}", blocks.len());
            begin(&mut world, *who, &blocks)
        })
        .collect();
    handle(&mut world, 2);
    assert_eq!(num_unfinished(&world), 2);
    handle_all(&mut world);
    let statuses: Vec<_> = all
        .iter()
        .zip(tags)
        .map(|(who, tag)| world.clients[*who].status(tag))
        .collect();
    assert_eq!(statuses, [SUCCESS, Some(Status::ERR_OUT_OF_RESOURCE)]);
}
