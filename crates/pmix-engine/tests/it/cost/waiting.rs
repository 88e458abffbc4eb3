// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting requests and registrations add no cost to requests for other processes or keys.

use gds_hash::{Codec, ModexStore};
use pmix_engine::{Config, Credentials, HostObject};
use pmix_proto::{Request, Tag, request};
use pmix_types::{Info, Key, Proc, Rank, Scope, Status, keys};

use super::{count, is_linear};
use crate::world::{Reaction, UID, Who, World};

/// Connects two processes of a job on one node.
fn two() -> (World, Vec<Who>) {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    (world, all)
}

/// Commits a key of rank 0.
fn commit(world: &mut World, who: Who, key: String) -> Tag {
    commit_again(world, who, key, 1)
}

/// Commits a key of rank 0 that the commit repeats `count` times.
fn commit_again(world: &mut World, who: Who, key: String, count: usize) -> Tag {
    let rank = Rank::new(0);
    let mut puts = ModexStore::default();
    puts.put(rank, Scope::GLOBAL, Info::new(key, true)).unwrap();
    let layout = world.clients[who].session.form().layout;
    let blocks = puts.commit_message(&Codec::new(layout), rank).unwrap();
    let blocks = blocks.repeat(count);
    world.ask(who, &Request::Commit(request::Commit { blocks: &blocks }))
}

/// Connects two processes, of which rank 0 has committed.
fn begun() -> (World, Vec<Who>) {
    let (mut world, all) = two();
    commit(&mut world, all[0], "first".to_owned());
    world.run();
    (world, all)
}

/// Commits one key of rank 0 after the other, and finally the key that a get waits for.
fn commit_each(world: &mut World, who: Who, size: usize) {
    for number in 0..size {
        commit(world, who, format!("key{number}"));
    }
    commit(world, who, "last".to_owned());
}

/// Requests a key of rank 0 with a time limit of an hour.
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
            let (mut world, all) = begun();
            for number in 0..size {
                get(&mut world, all[1], format!("never{number}"));
            }
            let answered = get(&mut world, all[1], "last".to_owned());
            world.run();
            commit_each(&mut world, all[0], size);
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
fn a_commit_with_a_repeated_key_that_many_gets_wait_for() {
    is_linear(
        "a key said often and waited for often",
        200,
        |size| {
            let (mut world, all) = begun();
            for _ in 0..size {
                get(&mut world, all[1], "last".to_owned());
            }
            world.run();
            assert_eq!(world.nodes[0].engine.stats().num_gets, size);
            commit_again(&mut world, all[0], "last".to_owned(), size);
            world
        },
        |world| {
            world.run();
            assert_eq!(world.nodes[0].engine.stats().num_gets, 0);
        },
    );
}

#[test]
fn processes_registered_one_by_one_beside_pending_gets() {
    is_linear(
        "gets that wait for processes to be registered",
        200,
        |size| {
            let (mut world, all) = two();
            let engine = &mut world.nodes[0].engine;
            engine
                .register_nspace(&"late".into(), count(size), &[])
                .unwrap();
            for number in 0..size {
                let get = request::Get {
                    nspace: "late".into(),
                    rank: Rank::new(count(number)),
                    infos: vec![],
                    key: Some(Key::new("card")),
                };
                world.ask(all[1], &Request::Get(get));
            }
            world.run();
            (world, size)
        },
        |(world, size)| {
            let num_gets = |world: &World| world.nodes[0].engine.stats().num_gets;
            assert_eq!(num_gets(world), *size);
            let engine = &mut world.nodes[0].engine;
            let proc = |number| Proc::new("late", Rank::new(count(number)));
            for number in 0..*size {
                engine
                    .register_client(&proc(number), Credentials::new(UID, UID), HostObject(0))
                    .unwrap();
            }
            assert_eq!(num_gets(world), *size);
            // A get for a deregistered process ends.
            for number in 1..*size {
                let engine = &mut world.nodes[0].engine;
                engine.deregister_client(&proc(number)).unwrap();
                let proc = proc(number);
                engine
                    .register_client(&proc, Credentials::new(UID, UID), HostObject(0))
                    .unwrap();
            }
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
            let (mut world, all) = begun();
            for number in 0..size {
                ask(&mut world, format!("never{number}"));
            }
            ask(&mut world, "last".to_owned());
            commit_each(&mut world, all[0], size);
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

/// Connects a process without a limit of event codes.
fn registering() -> (World, Who) {
    let mut config = Config::default();
    config.events.codes_per_peer = usize::MAX;
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    (world, who)
}

fn register(codes: Vec<Status>) -> Request<'static> {
    let infos = Vec::new();
    Request::RegisterEvents(request::RegisterEvents { codes, infos })
}

#[test]
fn host_codes_deregistered_one_by_one() {
    is_linear(
        "codes beside other codes that the host was asked for",
        500,
        |size| {
            let (mut world, who) = registering();
            world.rule(|_, _| Reaction::Silence);
            let codes: Vec<_> = (1..).map(Status::from_raw).take(size).collect();
            let status = world.status_of(who, &register(codes.clone()));
            assert_eq!(status, Some(Status::SUCCESS));
            for code in codes {
                let codes = vec![code];
                let back = request::DeregisterEvents { codes };
                world.ask(who, &Request::DeregisterEvents(back));
            }
            (world, size)
        },
        |(world, size)| {
            let num_hosted = |world: &World| world.nodes[0].engine.stats().num_hosted_codes;
            assert_eq!(num_hosted(world), *size);
            world.run();
            assert_eq!(num_hosted(world), 0);
        },
    );
}

#[test]
fn codes_registered_one_by_one() {
    is_linear(
        "codes beside other codes of the same process",
        500,
        |size| {
            let (mut world, who) = registering();
            for code in (0..)
                .map(|number| Status::from_raw(-20_000 - number))
                .take(size)
            {
                world.ask(who, &register(vec![code]));
            }
            world
        },
        World::run,
    );
}

#[test]
fn resources_that_are_registered_and_deregistered_one_by_one() {
    let info = |number: usize| Info::new(format!("site.{number}"), true);
    is_linear(
        "resources",
        500,
        |size| (World::new(1), size),
        |(world, size)| {
            let engine = &mut world.nodes[0].engine;
            for number in 0..*size {
                engine.register_resources(&[info(number)]).unwrap();
            }
            let all: Vec<_> = (0..*size).map(info).collect();
            engine.register_nspace(&"job".into(), 1, &all).unwrap();
            for number in 0..*size {
                engine.deregister_resources(&[info(number)]);
            }
        },
    );
}
