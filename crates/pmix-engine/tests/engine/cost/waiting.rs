// SPDX-License-Identifier: MIT OR Apache-2.0
//! What waits for a process costs those nothing who bring and ask for something else.

use gds_hash::{Codec, ModexStore};
use pmix_proto::{Request, Tag, request};
use pmix_types::{Info, Key, Proc, Rank, Scope, Status, keys};

use super::is_linear;
use crate::world::{Who, World};

/// A job of two processes on one node, both connected.
fn two() -> (World, Vec<Who>) {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    (world, all)
}

/// Rank 0 commits a key.
fn commit(world: &mut World, who: Who, key: String) -> Tag {
    let rank = Rank::new(0);
    let mut puts = ModexStore::default();
    puts.put(rank, Scope::GLOBAL, Info::new(key, true)).unwrap();
    let layout = world.clients[who].session.form().layout;
    let blocks = puts.commit_message(&Codec::new(layout), rank).unwrap();
    world.ask(who, &Request::Commit(request::Commit { blocks: &blocks }))
}

/// Rank 1 asks for a key of rank 0, and waits for an hour.
fn get(world: &mut World, who: Who, key: String) -> Tag {
    world.ask(
        who,
        &Request::Get(request::Get {
            nspace: "job".into(),
            rank: Rank::new(0),
            infos: vec![Info::new(keys::TIMEOUT, 3_600)],
            key: Some(Key::new(key)),
        }),
    )
}

#[test]
fn commits_beside_gets_that_wait_for_other_keys() {
    is_linear(
        "commits and gets that wait",
        100,
        |size| {
            let (mut world, all) = two();
            commit(&mut world, all[0], "first".to_owned());
            world.run();
            for number in 0..size {
                get(&mut world, all[1], format!("never{number}"));
            }
            let answered = get(&mut world, all[1], "last".to_owned());
            world.run();
            for number in 0..size {
                commit(&mut world, all[0], format!("key{number}"));
            }
            commit(&mut world, all[0], "last".to_owned());
            (world, all[1], answered, size)
        },
        |(world, who, answered, size)| {
            assert_eq!(world.clients[*who].status(*answered), None);
            world.run();
            let status = world.clients[*who].status(*answered);
            assert_eq!(status, Some(Status::SUCCESS));
            assert_eq!(world.nodes[0].engine.stats().num_gets, *size);
        },
    );
}

#[test]
fn direct_modex_requests_of_the_host_for_one_process() {
    let ask = |world: &mut World, key: String| {
        let proc = Proc::new("job", Rank::new(0));
        let infos = [
            Info::new(keys::REQUIRED_KEY, key),
            Info::new(keys::TIMEOUT, 3_600),
        ];
        let engine = &mut world.nodes[0].engine;
        engine.dmodex_request(&proc, &infos, world.now).unwrap();
    };
    is_linear(
        "requests for a process that has not committed",
        500,
        |size| (two().0, size),
        |(world, size)| {
            for number in 0..*size {
                ask(world, format!("key{number}"));
            }
            assert_eq!(world.nodes[0].engine.stats().num_inbound_dmodex, *size);
        },
    );
    is_linear(
        "commits beside requests for other keys",
        100,
        |size| {
            let (mut world, all) = two();
            commit(&mut world, all[0], "first".to_owned());
            world.run();
            for number in 0..size {
                ask(&mut world, format!("never{number}"));
            }
            ask(&mut world, "last".to_owned());
            for number in 0..size {
                commit(&mut world, all[0], format!("key{number}"));
            }
            commit(&mut world, all[0], "last".to_owned());
            (world, size)
        },
        |(world, size)| {
            let num_waiting = |world: &World| world.nodes[0].engine.stats().num_inbound_dmodex;
            assert_eq!(num_waiting(world), *size + 1);
            world.run();
            assert_eq!(num_waiting(world), *size);
        },
    );
}
