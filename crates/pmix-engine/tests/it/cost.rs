// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a request is proportional to its length, independent of its contents and of the server's state.
//!
//! Three sizes are compared; the second is four times and the third sixteen times the first. The CPU time of the thread
//! may vary widely, but the number and bytes of allocations may not.

mod commands;
mod groups;
mod waiting;

use std::time::Instant;

use gds_hash::{Codec, OwnPuts};
use pmix_engine::{Credentials, HostObject};
use pmix_host::publish::{Caller, PubSub};
use pmix_proto::{Request, request};
use pmix_types::{
    DataRange, Info, Nspace, Persistence, Proc, Rank, Scope, Status, Text, Value, keys,
};

use crate::exchange::get;
use crate::growth;
use crate::meter;
use crate::world::{Who, World};

/// The greatest ratio of memory for each part between sixteen times the size and the size.
const MOST: f64 = 1.5;

/// Checks that a step takes time and memory proportional to the size that `prepare` receives.
fn is_linear<T>(
    what: &str,
    first: usize,
    prepare: impl Fn(usize) -> T,
    mut run: impl FnMut(&mut T),
) {
    let mut cost = |size: usize| {
        let mut input = prepare(size);
        let ((), cost) = meter::of(|| run(&mut input));
        let each = |number: usize| f64::from(u32::try_from(number).unwrap());
        [cost.calls, cost.peak].map(|number| each(number) / each(size))
    };
    // Tables grow by doubling, so they are equally full at each of these sizes.
    let (small, large) = (cost(first), cost(16 * first));
    for (small, large) in small.into_iter().zip(large) {
        assert!(
            large <= small * MOST + 1.0,
            "{what}: {small:.2} for each of {first}, {large:.2} for each of 16 times as many"
        );
    }
    growth::is_linear(what, first, prepare, run);
}

/// Checks that for gets of all data of a process, 8 MiB in two values, the server holds one reply of that length.
#[test]
fn a_large_reply_is_encoded_once_for_all_waiting_processes() {
    const LEN: usize = 4 << 20;
    let mut world = World::new(1);
    world.job("job", &[4]);
    let all = world.join_all("job", &[4]);
    let codec = Codec::new(world.clients[all[0]].session.form().layout);
    let mut own = OwnPuts::new(Rank::new(0), 64 << 20);
    for key in ["a", "b"] {
        let info = Info::new(key, vec![7_u8; LEN]);
        own.put(&codec, Scope::GLOBAL, info).unwrap();
    }
    for (blocks, _) in own.take_commit(&codec).unwrap() {
        let commit = Request::Commit(request::Commit { blocks: &blocks });
        assert_eq!(world.status_of(all[0], &commit), Some(Status::SUCCESS));
    }
    for who in &all[1..] {
        world.ask(*who, &get("job", 0, "a"));
        // The sent chunks remain as the server created them.
        world.clients[*who].is_deaf = true;
    }
    let ((), cost) = meter::of(|| world.run());
    let sent: usize = { all[1..].iter() }
        .flat_map(|who| &world.clients[*who].unread)
        .map(pmix_engine::Chunk::len)
        .sum();
    assert!(sent > 3 * 2 * LEN, "{sent}");
    assert!(cost.peak < 2 * LEN + (64 << 10), "{}", cost.peak);
}

fn count(size: usize) -> u32 {
    u32::try_from(size).unwrap()
}

/// Connects a process of a job of two, whose host replies to every upcall with success.
fn with_client() -> (World, Who) {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    (world, all[0])
}

/// Returns processes of an unknown job.
fn far(size: usize) -> Vec<Proc<'static>> {
    let ranks = (0..count(size)).rev().map(Rank::new);
    ranks.map(|rank| Proc::new("far", rank)).collect()
}

/// Checks that requests of a size have a cost proportional to it.
fn requests_are_linear(
    what: &str,
    first: usize,
    make: impl Fn(usize) -> Vec<Request<'static>>,
    expected: Status,
) {
    let prepare = |size| {
        let (mut world, who) = with_client();
        let tags: Vec<_> = make(size)
            .iter()
            .map(|request| world.ask(who, request))
            .collect();
        (world, who, tags)
    };
    is_linear(what, first, prepare, |(world, who, tags)| {
        world.run();
        for tag in tags {
            assert_eq!(world.clients[*who].status(*tag), Some(expected), "{what}");
        }
    });
}

/// Checks that a request that borrows data of a size has a cost proportional to it.
fn requests_are_linear_of(
    what: &str,
    first: usize,
    make: impl Fn(usize) -> Vec<u8>,
    request: impl Fn(&[u8]) -> Request<'_>,
) {
    let prepare = |size| {
        let (mut world, who) = with_client();
        let bytes = make(size);
        let tag = world.ask(who, &request(&bytes));
        (world, who, tag)
    };
    is_linear(what, first, prepare, |(world, who, tag)| {
        world.run();
        let status = world.clients[*who].status(*tag);
        assert_eq!(status, Some(Status::SUCCESS), "{what}");
    });
}

fn caller(rank: u32) -> Caller {
    Caller::new(Proc::new("a", Rank::new(rank)), 100, 10)
}

fn names(size: usize) -> Vec<Text<'static>> {
    let name = |number: usize| Text::from(format!("key{number}"));
    (0..size).map(name).collect()
}

fn published(size: usize) -> PubSub<u32> {
    let mut pubsub = PubSub::default();
    let data: Vec<_> = (0..size)
        .map(|number| Info::new(format!("key{number}"), number))
        .collect();
    pubsub.publish(&caller(0), &data).unwrap();
    pubsub
}

// Planted: published data are compared with all others.
#[test]
fn data_published_looked_up_and_taken_back() {
    is_linear(
        "keys published",
        500,
        |size| size,
        |size| drop(published(*size)),
    );
    is_linear(
        "keys looked up",
        500,
        |size| (published(size), names(size)),
        |(pubsub, names)| {
            let now = Instant::now();
            let found = pubsub.lookup(0, &caller(1), names, &[], now).unwrap();
            assert_eq!(found.unwrap().status, Status::SUCCESS);
        },
    );
    is_linear(
        "keys taken back one by one",
        500,
        |size| (published(size), names(size)),
        |(pubsub, names)| {
            for name in names {
                let name = std::slice::from_ref(name);
                pubsub.unpublish(&caller(0), name, &[]).unwrap();
            }
            assert!(pubsub.is_empty());
        },
    );
    is_linear(
        "processes that end one by one",
        250,
        |size| {
            let mut pubsub = PubSub::<u32>::default();
            let stays = Info::new(keys::PERSISTENCE, Persistence::PROC);
            for rank in 0..count(size) {
                let datum = Info::new(format!("key{rank}"), rank);
                let infos = [datum, stays.clone()];
                pubsub.publish(&caller(rank), &infos).unwrap();
            }
            (pubsub, count(size))
        },
        |(pubsub, size)| {
            for rank in 0..*size {
                pubsub.proc_ended(&caller(rank).proc);
            }
            assert!(pubsub.is_empty());
        },
    );
}

#[test]
fn a_lookup_that_names_a_key_of_many_ranges_again_and_again() {
    is_linear(
        "equal keys of 1,000 ranges",
        500,
        |size| {
            let mut pubsub = PubSub::<u32>::default();
            for rank in 0..1_000 {
                let range = Info::new(keys::RANGE, DataRange::PROC_LOCAL);
                let infos = [Info::new("key", rank), range];
                pubsub.publish(&caller(rank), &infos).unwrap();
            }
            (pubsub, vec![Text::from("key"); size])
        },
        |(pubsub, names)| {
            let now = Instant::now();
            let found = pubsub.lookup(0, &caller(1_001), names, &[], now).unwrap();
            assert_eq!(found.unwrap().status, Status::ERR_NOT_FOUND);
        },
    );
}

#[test]
fn many_waiting_lookups() {
    is_linear(
        "lookups that wait",
        250,
        |size| (PubSub::<u32>::default(), names(size)),
        |(pubsub, names)| {
            let wait = [Info::new(keys::WAIT, 0), Info::new(keys::TIMEOUT, 60)];
            let now = Instant::now();
            for (rank, name) in (0..).zip(&*names) {
                let name = std::slice::from_ref(name);
                let waits = pubsub.lookup(rank, &caller(rank), name, &wait, now);
                assert_eq!(waits.unwrap(), None);
            }
            for name in names {
                let datum = Info::new(name.to_string(), true);
                assert_eq!(pubsub.publish(&caller(0), &[datum]).unwrap().len(), 1);
                assert!(pubsub.handle_timeout(now).is_empty());
            }
        },
    );
}

#[test]
fn lookups_that_wait_for_one_value_share_it() {
    const LEN: usize = 4 << 20;
    let mut pubsub = PubSub::<u32>::default();
    let wait = [Info::new(keys::WAIT, 0)];
    let name = [Text::from("large")];
    for rank in 0..1_000 {
        let waits = pubsub.lookup(rank, &caller(rank), &name, &wait, Instant::now());
        assert_eq!(waits.unwrap(), None);
    }
    let datum = Info::new("large", vec![7_u8; LEN]);
    let (answered, cost) = meter::of(|| pubsub.publish(&caller(0), &[datum]).unwrap());
    assert_eq!(answered.len(), 1_000);
    let all = answered.iter().map(|looked| looked.data[0].value.clone());
    assert!(
        all.take(3)
            .all(|value| value == Value::from(vec![7_u8; LEN]))
    );
    assert!(cost.peak < 2 * LEN, "{} bytes", cost.peak);
}

#[test]
fn keys_published_and_removed_one_by_one_beside_a_lookup_of_all() {
    is_linear(
        "keys of a lookup that waits for all",
        250,
        |size| {
            let mut pubsub = PubSub::<u32>::default();
            let wait = [Info::new(keys::WAIT, 0)];
            let mut names = names(size);
            names.push(Text::from("last"));
            let waits = pubsub.lookup(0, &caller(1), &names, &wait, Instant::now());
            assert_eq!(waits.unwrap(), None);
            names.pop();
            (pubsub, names)
        },
        |(pubsub, names)| {
            for name in &*names {
                let datum = Info::new(name.to_string(), true);
                assert!(pubsub.publish(&caller(0), &[datum]).unwrap().is_empty());
            }
            for name in names.iter().rev().skip(1) {
                let name = std::slice::from_ref(name);
                pubsub.unpublish(&caller(0), name, &[]).unwrap();
                let datum = Info::new(name[0].to_string(), false);
                assert!(pubsub.publish(&caller(0), &[datum]).unwrap().is_empty());
            }
            let last = Info::new("last", true);
            let answered = pubsub.publish(&caller(0), &[last]).unwrap();
            assert_eq!(answered[0].data.len(), names.len() + 1);
        },
    );
}

fn job_control(targets: Vec<Proc<'static>>, infos: Vec<Info<'static>>) -> Request<'static> {
    Request::JobControl(request::JobControl { targets, infos })
}

/// Returns a cleanup of comma-separated paths made from numbers.
fn paths(numbers: impl Iterator<Item = usize>) -> Vec<Info<'static>> {
    let paths: Vec<_> = numbers.map(|number| format!("/t/{number}")).collect();
    vec![Info::new(keys::REGISTER_CLEANUP, paths.join(","))]
}

#[test]
fn cleanups_asked_for_at_once_one_by_one_and_again() {
    let own = || Proc::new("job", Rank::new(0));
    requests_are_linear(
        "paths of one request",
        500,
        |size| vec![job_control(vec![own()], paths(0..size))],
        Status::SUCCESS,
    );
    requests_are_linear(
        "requests of one path each",
        250,
        |size| {
            let each = (0..size).map(|number| paths(number..=number));
            each.map(|infos| job_control(vec![own()], infos)).collect()
        },
        Status::SUCCESS,
    );
    requests_are_linear(
        "equal targets of 1,000 paths",
        1_000,
        |size| vec![job_control(vec![own(); size], paths(0..1_000))],
        Status::SUCCESS,
    );
    requests_are_linear(
        "equal paths of one request",
        1_000,
        |size| vec![job_control(vec![own()], paths((0..size).map(|_| 7)))],
        Status::SUCCESS,
    );
}

#[test]
fn cleanups_handed_out_process_by_process() {
    is_linear(
        "processes with something to be removed",
        100,
        |size| {
            let mut world = World::new(1);
            world.job("job", &[count(size)]);
            let who = world.join(0, "job", 0);
            let ranks = (0..count(size)).map(Rank::new);
            let targets = ranks.map(|rank| Proc::new("job", rank)).collect();
            let tag = world.ask(who, &job_control(targets, paths(0..1)));
            world.run();
            assert_eq!(world.clients[who].status(tag), Some(Status::SUCCESS));
            (world, count(size))
        },
        |(world, size)| {
            for rank in (1..*size).map(Rank::new) {
                let engine = &mut world.nodes[0].engine;
                engine.deregister_client(&Proc::new("job", rank)).unwrap();
            }
            let nspace = Nspace::from("job");
            world.nodes[0].engine.deregister_nspace(&nspace).unwrap();
        },
    );
}

#[test]
fn lists_that_requests_hand_on() {
    let infos = |size: usize| -> Vec<Info<'static>> {
        let info = |number: usize| Info::new(format!("key{number}"), Value::Uint32(count(number)));
        (0..size).map(info).collect()
    };
    let declined = Status::ERR_NOT_SUPPORTED;
    requests_are_linear(
        "infos of a publication",
        500,
        |size| {
            let infos = infos(size);
            vec![Request::Publish(request::Publish { uid: 0, infos })]
        },
        declined,
    );
    requests_are_linear(
        "infos of a job control",
        500,
        |size| vec![job_control(Vec::new(), infos(size))],
        declined,
    );
}

#[test]
fn long_lists_of_processes() {
    let with_own = |size| {
        let mut procs = far(size);
        procs.push(Proc::new("job", Rank::new(0)));
        procs
    };
    requests_are_linear(
        "participants of a fence",
        1_000,
        |size| {
            let (procs, infos) = (with_own(size), vec![]);
            vec![Request::Fence(request::Fence { procs, infos })]
        },
        Status::SUCCESS,
    );
    requests_are_linear(
        "participants of a connect",
        1_000,
        |size| {
            let (procs, infos) = (with_own(size), vec![]);
            vec![Request::Connect(request::Connect {
                procs,
                infos,
                shared: Vec::new(),
            })]
        },
        Status::SUCCESS,
    );
    requests_are_linear(
        "processes to be ended",
        1_000,
        |size| {
            vec![Request::Abort(request::Abort {
                status: Status::ERROR,
                message: None,
                procs: far(size),
            })]
        },
        Status::ERR_NOT_SUPPORTED,
    );
}

#[test]
fn jobs_that_are_registered_and_deregistered_one_by_one() {
    is_linear(
        "jobs beside each other",
        500,
        |size| {
            let mut world = World::new(1);
            world.job("job", &[1]);
            world.join(0, "job", 0);
            let name = |number: usize| Nspace::from(format!("job{number}"));
            (world, (0..size).map(name).collect::<Vec<_>>())
        },
        |(world, names)| {
            let engine = &mut world.nodes[0].engine;
            for name in &*names {
                engine.register_nspace(name, 1, &[]).unwrap();
                let proc = Proc::new(name.as_text().clone(), Rank::new(0));
                let user = Credentials::new(100, 100);
                engine.register_client(&proc, user, HostObject(0)).unwrap();
            }
            for name in &*names {
                engine.deregister_nspace(name).unwrap();
            }
        },
    );
}

#[test]
fn processes_that_are_deregistered_one_by_one() {
    is_linear(
        "processes of a job",
        500,
        |size| {
            let mut world = World::new(1);
            world.job("job", &[count(size)]);
            (world, count(size))
        },
        |(world, size)| {
            for rank in (0..*size).map(Rank::new) {
                let engine = &mut world.nodes[0].engine;
                engine.deregister_client(&Proc::new("job", rank)).unwrap();
            }
        },
    );
}
