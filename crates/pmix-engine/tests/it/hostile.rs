// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers that violate the protocol.

use std::time::Duration;

use gds_hash::{Codec, ModexStore};
use pmix_engine::{Config, EngineEvent, Origin};
use pmix_proto::{Command, Header, Request, Tag, reply, request};
use pmix_random::{Seeded, Source as _};
use pmix_types::{DataRange, Info, Proc, Rank, Scope, Status, Value, keys};

use crate::collective::{fence_of, limit, procs};
use crate::exchange::{commit, get};
use crate::world::{Reaction, World, hello};

fn frame(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap();
    [&Header::new(0, tag, len).encode()[..], payload].concat()
}

#[test]
fn every_command_gets_one_reply_with_any_trailing_bytes() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let peer = world.clients[who].peer.unwrap();
    let form = *world.clients[who].session.form();
    let bodies: [&[u8]; 5] = [
        &[],
        &[0xff; 40],
        &[2, 0, 0],
        &[0],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xff],
    ];
    let mut tag = 1000;
    for command in 0..=255_u8 {
        for body in bodies {
            tag += 1;
            let payload = [&[2, command][..], body].concat();
            let engine = &mut world.nodes[0].engine;
            engine.handle_input(peer, &frame(Tag(tag), &payload), world.now);
            let mut replies = Vec::new();
            while let Some(transmit) = engine.poll_transmit() {
                let header = transmit.bytes.head().try_into().unwrap();
                assert_eq!(Header::decode(header).tag, Tag(tag));
                replies.push(transmit.bytes.payload().to_vec());
            }
            while let Some(call) = engine.poll_host_call() {
                engine.handle_host(call.id, pmix_engine::HostReply::NotSupported, world.now);
                while let Some(transmit) = engine.poll_transmit() {
                    replies.push(transmit.bytes.payload().to_vec());
                }
            }
            let is_answered = Command(command).is_answered();
            assert!(
                replies.len() <= usize::from(is_answered),
                "command {command} {body:?}"
            );
            if command >= 40 {
                let status = reply::status(&form, Status::ERR_NOT_SUPPORTED).unwrap();
                assert_eq!(replies, [status]);
            }
            assert!(replies.iter().all(|reply| !reply.is_empty()));
        }
    }
    assert!(world.clients[who].is_in());
}

#[test]
fn unknown_fields_of_a_newer_peer_are_ignored_and_of_another_refused() {
    for (version, expected) in [
        ("5.0.11", Status::ERR_UNPACK_FAILURE),
        ("99.0.0", Status::SUCCESS),
    ] {
        let mut world = World::new(1);
        world.job("job", &[1]);
        let mut greeting = hello("job", 0);
        greeting.version = version.into();
        let who = world.connect(0, &greeting);
        world.run();
        let peer = world.clients[who].peer.unwrap();
        let form = *world.clients[who].session.form();
        let payload = fence_of(procs(&[("job", 0)]), vec![]).encode(&form, None);
        let payload = [&payload.unwrap()[..], b"\x02\x07and more"].concat();
        for tag in 1000..1003 {
            let engine = &mut world.nodes[0].engine;
            engine.handle_input(peer, &frame(Tag(tag), &payload), world.now);
            let transmit = engine.poll_transmit().unwrap();
            let status = reply::status(&form, expected).unwrap();
            assert_eq!(transmit.bytes.payload(), status, "{version}");
        }
        assert!(world.clients[who].is_in());
        let engine = &mut world.nodes[0].engine;
        let events = std::iter::from_fn(|| engine.poll_event());
        let ignored = events.filter_map(|event| match event {
            EngineEvent::Ignored { reason, .. } => Some(reason.to_string()),
            _ => None,
        });
        let ignored: Vec<_> = ignored.collect();
        assert_eq!(ignored.len(), usize::from(expected.is_success()));
        assert!(
            ignored.iter().all(|text| text.contains("99.0.0")),
            "{ignored:?}"
        );
    }
}

#[test]
fn invalid_bytes_close_only_their_connection() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let good = world.join(0, "job", 0);
    let whole = hello("job", 1).encode().unwrap();
    let mut random = Seeded::new(7);
    let mut below = |bound: usize| usize::try_from(random.take(4)).unwrap() % bound;
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        for _ in 0..=below(4) {
            let place = below(bytes.len());
            bytes[place] = u8::try_from(below(256)).unwrap();
        }
        bytes.truncate(below(bytes.len() + 1));
        let engine = &mut world.nodes[0].engine;
        let peer = engine.open(Origin::default(), world.now);
        engine.handle_input(peer, &bytes, world.now);
        engine.handle_closed(peer, world.now);
        world.run();
    }
    assert_eq!(world.nodes[0].engine.stats().num_peers, 1);
    assert_eq!(
        world.status_of(good, &Request::JobInfo),
        Some(Status::SUCCESS)
    );
    assert_eq!(world.nodes[0].engine.poll_timeout(), None);
}

#[test]
fn a_peer_that_does_not_read_is_closed() {
    let mut config = Config::default();
    config.queued_bytes_per_peer = 10_000;
    let mut world = World::with(1, &config);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    for who in &all {
        let register = Request::RegisterEvents(request::RegisterEvents {
            codes: vec![Status::ERR_LOST_CONNECTION],
            infos: vec![],
        });
        assert_eq!(world.status_of(*who, &register), Some(Status::SUCCESS));
    }
    world.clients[all[1]].is_deaf = true;
    // Requests of the peer wait until it reads; events cannot wait.
    for _ in 0..1000 {
        let engine = &mut world.nodes[0].engine;
        let (status, source) = (Status::ERR_LOST_CONNECTION, Proc::new("far", Rank::new(0)));
        engine
            .notify(status, &source, DataRange::LOCAL, &[], world.now)
            .unwrap();
        world.run();
    }
    assert!(world.clients[all[0]].is_in());
    assert!(world.clients[all[1]].peer.is_none());
    assert_eq!(world.nodes[0].refusals(), [Status::ERR_OUT_OF_RESOURCE]);
}

#[test]
fn memory_of_a_request_is_bounded() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let fence = |size| {
        let procs = vec![Proc::new("far", Rank::new(7))];
        let infos = vec![Info::new("key", true); size];
        Request::Fence(request::Fence { procs, infos })
    };
    let refused = world.status_of(who, &fence(2_000_000));
    assert_eq!(refused, Some(Status::ERR_OUT_OF_RESOURCE));
    // The caller is not among the participants, which is checked after the whole request was decoded.
    let read = world.status_of(who, &fence(30_000));
    assert_eq!(read, Some(Status::ERR_BAD_PARAM));
    // Borrowed data do not count against this limit.
    let infos = vec![Info::new("large", vec![7_u8; 40 << 20])];
    let large = Request::Publish(request::Publish { uid: 0, infos });
    let relayed = world.status_of(who, &large);
    assert_eq!(relayed, Some(Status::ERR_NOT_SUPPORTED));
}

#[test]
fn modest_peers_are_served_beside_excessive_ones() {
    let mut config = Config::default();
    config.request_bytes = 200_000;
    let mut world = World::with(1, &config);
    world.job("job", &[3]);
    let all = world.join_all("job", &[3]);
    let large = || {
        let mut infos = vec![Info::new("x", vec![7_u8; 50_000])];
        infos.push(Info::new(keys::TIMEOUT, 60));
        Request::Get(request::Get {
            nspace: "job".into(),
            rank: Rank::new(2),
            infos,
            key: Some("card".into()),
        })
    };
    for _ in 0..5 {
        world.ask(all[0], &large());
    }
    world.run();
    let refused = world.status_of(all[0], &large());
    assert_eq!(refused, Some(Status::ERR_OUT_OF_RESOURCE));
    let own = world.ask(all[1], &get("job", 2, "card"));
    world.run();
    assert_eq!(world.clients[all[1]].status(own), None, "it waits");
    commit(&mut world, all[2], 2, &[(Scope::GLOBAL, "card", 5)]);
    assert_eq!(world.clients[all[1]].status(own), Some(Status::SUCCESS));
    // The earlier requests have replies, so there is room again.
    assert_eq!(world.status_of(all[0], &large()), Some(Status::SUCCESS));
}

#[test]
fn open_requests_of_a_peer_are_bounded() {
    let mut config = Config::default();
    config.requests_per_peer = 10;
    let mut world = World::with(1, &config);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let tags: Vec<_> = (0..12)
        .map(|_| world.ask(all[0], &get("job", 1, "card")))
        .collect();
    world.run();
    let client = &world.clients[all[0]];
    let seen: Vec<_> = tags.iter().map(|tag| client.status(*tag)).collect();
    assert_eq!(seen[..10], [None; 10]);
    assert_eq!(seen[10..], [Some(Status::ERR_OUT_OF_RESOURCE); 2]);
    world.kill(all[1]);
    let client = &world.clients[all[0]];
    assert!(tags.iter().all(|tag| client.status(*tag).is_some()));
    assert_eq!(
        world.status_of(all[0], &Request::JobInfo),
        Some(Status::SUCCESS)
    );
}

#[test]
fn an_oversized_message_closes_the_connection() {
    let mut config = Config::default();
    config.max_message = 1000;
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let peer = world.clients[who].peer.unwrap();
    let header = Header::new(0, Tag(500), 1001).encode();
    world.nodes[0].engine.handle_input(peer, &header, world.now);
    world.run();
    assert_eq!(world.nodes[0].refusals(), [Status::ERR_OUT_OF_RESOURCE]);
    assert!(!world.clients[who].is_in());
}

#[test]
fn bytes_of_waiting_requests_are_bounded() {
    let mut config = Config::default();
    config.request_bytes_per_peer = 40_000;
    let mut world = World::with(1, &config);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let long = Request::Fence(request::Fence {
        procs: vec![Proc::new("job", Rank::WILDCARD); 600],
        infos: vec![],
    });
    // A single request beyond the limit is accepted, because it may be necessary.
    let tags = [(); 3].map(|()| world.ask(all[0], &long));
    world.run();
    let client = &world.clients[all[0]];
    let seen = tags.map(|tag| client.status(tag));
    assert_eq!(seen, [None, None, Some(Status::ERR_OUT_OF_RESOURCE)]);
    // A finalize is always accepted, and other peers are not affected.
    assert_eq!(
        world.status_of(all[0], &Request::Finalize),
        Some(Status::SUCCESS)
    );
    assert_eq!(world.status_of(all[1], &long), Some(Status::SUCCESS));
}

#[test]
fn data_of_a_process_is_bounded() {
    let mut config = Config::default();
    config.put_bytes_per_process = 5_000;
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    // A repeated commit adds nothing: clients up to 5.0 repeat all data.
    for _ in 0..100 {
        commit(
            &mut world,
            who,
            0,
            &[(Scope::GLOBAL, "card", 1), (Scope::LOCAL, "shm", 2)],
        );
    }
    let mut puts = ModexStore::default();
    let value = Value::from("x".repeat(4_000));
    puts.put(Rank::new(0), Scope::REMOTE, Info::new("long", value))
        .unwrap();
    let layout = world.clients[who].session.form().layout;
    let blocks = puts
        .commit_message(&Codec::new(layout), Rank::new(0))
        .unwrap();
    let request = Request::Commit(request::Commit { blocks: &blocks });
    assert_eq!(world.status_of(who, &request), Some(Status::SUCCESS));
    assert_eq!(
        world.status_of(who, &request),
        Some(Status::ERR_OUT_OF_RESOURCE)
    );
    let tag = world.ask(who, &get("job", 0, "card"));
    world.run();
    assert_eq!(
        world.clients[who].value(tag, "card"),
        Some(Value::Uint32(1))
    );
}

#[test]
fn data_of_the_processes_of_a_job_is_bounded() {
    let mut config = Config::default();
    config.put_bytes_per_job = 10_000;
    let mut world = World::with(1, &config);
    world.job("job", &[4]);
    world.job("other", &[1]);
    let put = |world: &mut World, who: usize, rank: u32, len: usize| {
        let mut puts = ModexStore::default();
        let info = Info::new("card", Value::from("x".repeat(len)));
        puts.put(Rank::new(rank), Scope::LOCAL, info).unwrap();
        let codec = Codec::new(world.clients[who].session.form().layout);
        let blocks = puts.commit_message(&codec, Rank::new(rank)).unwrap();
        world.status_of(who, &Request::Commit(request::Commit { blocks: &blocks }))
    };
    let all: Vec<_> = (0..4).map(|rank| world.join(0, "job", rank)).collect();
    assert_eq!(put(&mut world, all[0], 0, 4_000), Some(Status::SUCCESS));
    assert_eq!(put(&mut world, all[1], 1, 4_000), Some(Status::SUCCESS));
    let refused = Some(Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(put(&mut world, all[2], 2, 4_000), refused);
    // The data of both processes are unchanged.
    let tag = world.ask(all[3], &get("job", 1, "card"));
    world.run();
    let value = Some(Value::from("x".repeat(4_000)));
    assert_eq!(world.clients[all[3]].value(tag, "card"), value);
    // Repeated data add nothing; another job has its own limit; smaller data make room.
    for _ in 0..100 {
        assert_eq!(put(&mut world, all[0], 0, 4_000), Some(Status::SUCCESS));
    }
    let other = world.join(0, "other", 0);
    assert_eq!(put(&mut world, other, 0, 9_000), Some(Status::SUCCESS));
    assert_eq!(put(&mut world, all[1], 1, 10), Some(Status::SUCCESS));
    assert_eq!(put(&mut world, all[2], 2, 4_000), Some(Status::SUCCESS));
    // The data of a deregistered process are still stored, so they count.
    let gone = Proc::new("job", Rank::new(0));
    world.nodes[0].engine.deregister_client(&gone).unwrap();
    assert_eq!(put(&mut world, all[3], 3, 4_000), refused);
}

#[test]
fn a_commit_over_the_key_limit_changes_nothing() {
    let mut config = Config::default();
    config.put_keys_per_process = 10;
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let put = |world: &mut World, count: u32| {
        let names: Vec<_> = (0..count).map(|number| format!("k{number}")).collect();
        let mut puts = ModexStore::default();
        for name in names {
            let info = Info::new(name, Value::Uint32(count));
            puts.put(Rank::new(0), Scope::GLOBAL, info).unwrap();
        }
        let codec = Codec::new(world.clients[who].session.form().layout);
        let blocks = puts.commit_message(&codec, Rank::new(0)).unwrap();
        world.status_of(who, &Request::Commit(request::Commit { blocks: &blocks }))
    };
    assert_eq!(put(&mut world, 10), Some(Status::SUCCESS));
    // One key is new, and ten are repeated.
    assert_eq!(put(&mut world, 11), Some(Status::ERR_OUT_OF_RESOURCE));
    let tag = world.ask(who, &get("job", 0, "k3"));
    world.run();
    let client = &world.clients[who];
    assert_eq!(client.value(tag, "k3"), Some(Value::Uint32(10)));
}

#[test]
fn upcalls_to_a_silent_host_are_bounded() {
    let mut config = Config::default();
    config.requests_per_peer = 10;
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    world.rule(|_, _| Reaction::Silence);
    let mut refused = 0;
    for job in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] {
        let request = Request::Get(request::Get {
            nspace: job.into(),
            rank: Rank::new(0),
            infos: vec![Info::new(keys::TIMEOUT, 1)],
            key: Some("card".into()),
        });
        let tag = world.ask(who, &request);
        world.advance(Duration::from_secs(1));
        match world.clients[who].status(tag) {
            Some(Status::ERR_TIMEOUT) => {}
            Some(Status::ERR_OUT_OF_RESOURCE) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(refused, 2);
}

#[test]
fn memory_of_failed_collectives_is_bounded_in_any_order() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let mut fail = |sizes: &[u32]| {
        for size in sizes {
            let far = (0..*size).map(|rank| Proc::new("far", Rank::new(rank)));
            let both = procs(&[("job", 0), ("job", 1)]).into_iter();
            let request = fence_of(both.chain(far).collect(), limit(1));
            let tag = world.ask(all[0], &request);
            world.advance(Duration::from_secs(2));
            let status = world.clients[all[0]].status(tag);
            assert_eq!(status, Some(Status::ERR_TIMEOUT));
        }
        world.nodes[0].engine.stats().num_collectives
    };
    assert_eq!(fail(&[1, 2, 3, 4, 5, 6]), 6);
    // These take 4 MiB together, so the last one displaces all small ones and a large one.
    let large: Vec<_> = (30_000..30_036).collect();
    assert_eq!(fail(&large), 34);
}
