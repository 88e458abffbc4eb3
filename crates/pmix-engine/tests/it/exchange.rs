// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job info and the data of processes.

use std::time::Duration;

use gds_hash::{Codec, ModexStore};
use pmix_engine::{HostReply, Upcall};
use pmix_proto::{Request, Tag, request};
use pmix_types::{DataArray, Info, Key, Rank, Scope, Status, Value, keys};

use crate::world::{Reaction, Who, World, hello};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Puts values and commits them.
pub(crate) fn commit(world: &mut World, who: Who, rank: u32, data: &[(Scope, &'static str, u32)]) {
    let mut puts = ModexStore::default();
    for (scope, key, value) in data {
        let info = Info::new(*key, *value);
        puts.put(Rank::new(rank), *scope, info).unwrap();
    }
    let layout = world.clients[who].session.form().layout;
    let blocks = puts
        .commit_message(&Codec::new(layout), Rank::new(rank))
        .unwrap();
    let commit = Request::Commit(request::Commit { blocks: &blocks });
    assert_eq!(world.status_of(who, &commit), Some(Status::SUCCESS));
}

pub(crate) fn get(nspace: &'static str, rank: u32, key: &'static str) -> Request<'static> {
    get_with(nspace, Rank::new(rank), key, vec![])
}

pub(crate) fn get_with(
    nspace: &'static str,
    rank: Rank,
    key: &'static str,
    infos: Vec<Info<'static>>,
) -> Request<'static> {
    Request::Get(request::Get {
        nspace: nspace.into(),
        rank,
        infos,
        key: Some(Key::new(key)),
    })
}

pub(crate) fn ask(world: &mut World, who: Who, request: &Request<'_>) -> Tag {
    let tag = world.ask(who, request);
    world.run();
    tag
}

#[test]
fn a_get_waits_for_the_commit_of_a_local_process() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let tag = ask(&mut world, all[0], &get("job", 1, "card"));
    world.advance(seconds(3600));
    assert_eq!(world.clients[all[0]].status(tag), None);
    commit(
        &mut world,
        all[1],
        1,
        &[(Scope::GLOBAL, "card", 7), (Scope::LOCAL, "shm", 8)],
    );
    let client = &world.clients[all[0]];
    assert_eq!(client.value(tag, "card"), Some(Value::Uint32(7)));
    // The reply has all data of the process, so no further get is needed.
    assert_eq!(client.value(tag, "shm"), Some(Value::Uint32(8)));
    assert_eq!(client.objects(tag)[0].0, Rank::new(1));
}

#[test]
fn an_immediate_get_is_answered_at_once() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let immediate = vec![Info::new(keys::IMMEDIATE, true)];
    let get = get_with("job", Rank::new(1), "card", immediate);
    assert_eq!(world.status_of(all[0], &get), Some(Status::ERR_NOT_FOUND));
}

#[test]
fn a_get_times_out() {
    let mut world = World::new(1);
    no_direct_modex(&mut world);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let limited = |nspace| {
        let limit = vec![Info::new(keys::TIMEOUT, 5)];
        get_with(nspace, Rank::new(1), "card", limit)
    };
    let tags = ["job", "unknown"].map(|nspace| ask(&mut world, all[0], &limited(nspace)));
    world.advance(Duration::from_millis(4999));
    assert!(
        tags.iter()
            .all(|tag| world.clients[all[0]].status(*tag).is_none())
    );
    world.advance(Duration::from_millis(1));
    for tag in tags {
        assert_eq!(world.clients[all[0]].status(tag), Some(Status::ERR_TIMEOUT));
    }
}

#[test]
fn a_get_waits_briefly_for_a_key_not_yet_put() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "first", 1)]);
    let late = ask(&mut world, all[0], &get("job", 1, "second"));
    let never = ask(&mut world, all[0], &get("job", 1, "third"));
    world.advance(seconds(1));
    assert_eq!(world.clients[all[0]].status(late), None);
    commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "second", 2)]);
    assert_eq!(
        world.clients[all[0]].value(late, "second"),
        Some(Value::Uint32(2))
    );
    assert_eq!(world.clients[all[0]].status(never), None);
    world.advance(seconds(2));
    assert_eq!(
        world.clients[all[0]].status(never),
        Some(Status::ERR_NOT_FOUND)
    );
}

#[test]
fn a_get_does_not_wait_for_data_of_remote_scope() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    commit(&mut world, all[1], 1, &[(Scope::REMOTE, "nic", 1)]);
    let status = world.status_of(all[0], &get("job", 1, "nic"));
    assert_eq!(status, Some(Status::ERR_EXISTS_OUTSIDE_SCOPE));
}

#[test]
fn a_get_never_waits_for_an_unknown_reserved_key() {
    let mut world = World::new(2);
    world.job("job", &[1, 1]);
    let all = world.join_all("job", &[1, 1]);
    for rank in [Rank::new(0), Rank::new(1), Rank::WILDCARD, Rank::UNDEF] {
        for key in [keys::HWLOC_XML_V2, "pmix.of.nobody"] {
            let status = world.status_of(all[0], &get_with("job", rank, key, vec![]));
            assert_eq!(status, Some(Status::ERR_NOT_FOUND), "{key} of {rank:?}");
        }
    }
}

#[test]
fn a_reserved_key_that_a_process_put_is_found() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    commit(&mut world, all[1], 1, &[(Scope::GLOBAL, keys::CPUSET, 3)]);
    let tag = ask(&mut world, all[0], &get("job", 1, keys::CPUSET));
    assert_eq!(
        world.clients[all[0]].value(tag, keys::CPUSET),
        Some(Value::Uint32(3))
    );
}

#[test]
fn keys_of_processes_and_the_job_have_the_form_of_the_client() {
    let mut world = World::new(2);
    world.job("job", &[2, 2]);
    let who = world.join(0, "job", 0);
    let rank = ask(&mut world, who, &get("job", 3, keys::LOCAL_RANK));
    let job = ask(
        &mut world,
        who,
        &get_with("job", Rank::WILDCARD, keys::JOB_SIZE, vec![]),
    );
    let client = &world.clients[who];
    assert_eq!(client.objects(rank)[0].0, Rank::new(3));
    assert_eq!(client.value(rank, keys::LOCAL_RANK), Some(Value::Uint16(1)));
    assert_eq!(client.objects(job)[0].0, Rank::WILDCARD);
    assert_eq!(client.value(job, keys::JOB_SIZE), Some(Value::Uint32(4)));
}

#[test]
fn node_keys_are_returned_in_the_node_array_for_every_request() {
    let mut world = World::new(2);
    world.job("job", &[2, 2]);
    let who = world.join(0, "job", 0);
    let named = || Info::new(keys::HOSTNAME, "n01");
    let node = || Info::new(keys::NODE_INFO, true);
    let number = |key: &'static str| Info::new(key, 1_u32);
    let asked = [
        (Rank::UNDEF, vec![node(), named()]),
        (Rank::WILDCARD, vec![node(), named(), named()]),
        (
            Rank::WILDCARD,
            vec![node(), number(keys::NODEID), number(keys::HOSTNAME)],
        ),
    ];
    for (rank, infos) in asked {
        let tag = ask(
            &mut world,
            who,
            &get_with("job", rank, keys::LOCAL_PEERS, infos),
        );
        let array = world.clients[who].value(tag, keys::NODE_INFO_ARRAY);
        let expected = vec![
            named(),
            number(keys::NODEID),
            Info::new(keys::LOCAL_PEERS, "2,3"),
        ];
        assert_eq!(array, Some(Value::DataArray(DataArray::Info(expected))));
    }
}

#[test]
fn one_direct_modex_completes_all_waiting_gets() {
    let mut world = World::new(2);
    world.job("job", &[3, 1]);
    let all = world.join_all("job", &[3, 1]);
    let calls = std::rc::Rc::new(std::cell::Cell::new(0));
    let counter = std::rc::Rc::clone(&calls);
    world.rule(move |_, call| {
        if matches!(call, Upcall::DirectModex(_)) {
            counter.set(counter.get() + 1);
        }
        Reaction::Usual
    });
    let tags: Vec<_> = all[..3]
        .iter()
        .map(|who| ask(&mut world, *who, &get("job", 3, "nic")))
        .collect();
    world.advance(seconds(100));
    assert!(
        tags.iter()
            .zip(&all)
            .all(|(tag, who)| world.clients[*who].status(*tag).is_none())
    );
    commit(
        &mut world,
        all[3],
        3,
        &[(Scope::REMOTE, "nic", 5), (Scope::LOCAL, "shm", 6)],
    );
    for (tag, who) in tags.iter().zip(&all) {
        assert_eq!(
            world.clients[*who].value(*tag, "nic"),
            Some(Value::Uint32(5))
        );
        assert_eq!(world.clients[*who].value(*tag, "shm"), None);
    }
    assert_eq!(calls.get(), 1);
    // The delivered data are stored.
    let again = ask(&mut world, all[0], &get("job", 3, "nic"));
    assert!(world.clients[all[0]].value(again, "nic").is_some());
    assert_eq!(calls.get(), 1);
}

#[test]
fn a_get_for_another_key_of_the_same_process_completes() {
    let mut world = World::new(2);
    world.job("job", &[2, 1]);
    let all = world.join_all("job", &[2, 1]);
    let first = ask(&mut world, all[0], &get("job", 2, "first"));
    let second = ask(&mut world, all[1], &get("job", 2, "second"));
    let third = ask(&mut world, all[1], &get("job", 2, "third"));
    commit(&mut world, all[2], 2, &[(Scope::REMOTE, "first", 1)]);
    assert_eq!(
        world.clients[all[0]].value(first, "first"),
        Some(Value::Uint32(1))
    );
    assert_eq!(world.clients[all[1]].status(second), None);
    commit(&mut world, all[2], 2, &[(Scope::REMOTE, "second", 2)]);
    assert_eq!(
        world.clients[all[1]].value(second, "second"),
        Some(Value::Uint32(2))
    );
    world.advance(seconds(10));
    assert_eq!(
        world.clients[all[1]].status(third),
        Some(Status::ERR_NOT_FOUND)
    );
}

#[test]
fn a_failed_direct_modex_completes_the_get() {
    for (answer, expected) in [
        (HostReply::NotSupported, Status::ERR_NOT_FOUND),
        (HostReply::DROPPED, Status::ERR_COMM_FAILURE),
        (
            HostReply::Data(Err(Status::ERR_TIMEOUT)),
            Status::ERR_TIMEOUT,
        ),
        (
            HostReply::Data(Ok(vec![9, 9, 9])),
            Status::ERR_UNPACK_FAILURE,
        ),
        (HostReply::Done(Status::SUCCESS), Status::ERR_NOT_FOUND),
    ] {
        let mut world = World::new(2);
        world.job("job", &[1, 1]);
        let who = world.join(0, "job", 0);
        let told = answer.clone();
        world.rule(move |_, call| match call {
            Upcall::DirectModex(_) => Reaction::HostReply(told.clone()),
            _ => Reaction::Usual,
        });
        let status = world.status_of(who, &get("job", 1, "nic"));
        assert_eq!(status, Some(expected), "{answer:?}");
    }
}

/// Makes the host reply that direct modex is not supported.
fn no_direct_modex(world: &mut World) {
    world.rule(|_, call| match call {
        Upcall::DirectModex(_) => Reaction::HostReply(HostReply::NotSupported),
        _ => Reaction::Usual,
    });
}

#[test]
fn the_status_of_the_host_for_an_unknown_job_is_returned_at_once() {
    for status in [Status::ERR_NOT_FOUND, Status::ERR_INVALID_NAMESPACE] {
        let mut world = World::new(1);
        world.job("job", &[1]);
        let who = world.join(0, "job", 0);
        world.rule(move |_, call| match call {
            Upcall::DirectModex(_) => Reaction::HostReply(HostReply::Data(Err(status))),
            _ => Reaction::Usual,
        });
        let told = world.status_of(who, &get("unknown", 0, "card"));
        assert_eq!(told, Some(status));
    }
}

#[test]
fn a_get_waits_for_a_job_registered_later() {
    let mut world = World::new(1);
    no_direct_modex(&mut world);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let size = ask(
        &mut world,
        who,
        &get_with("other", Rank::WILDCARD, keys::JOB_SIZE, vec![]),
    );
    let put = ask(&mut world, who, &get("other", 1, "card"));
    let never = ask(&mut world, who, &get("nobody", 1, "card"));
    assert_eq!(world.clients[who].status(size), None);
    world.job("other", &[2]);
    world.run();
    let client = &world.clients[who];
    assert_eq!(client.value(size, keys::JOB_SIZE), Some(Value::Uint32(2)));
    assert_eq!(client.status(put), None);
    let other = world.join(0, "other", 1);
    commit(&mut world, other, 1, &[(Scope::GLOBAL, "card", 4)]);
    let client = &world.clients[who];
    assert_eq!(client.value(put, "card"), Some(Value::Uint32(4)));
    // The first reply begins with the whole job, with the processes in the form of a get.
    let (rank, whole) = &client.objects(size)[0];
    assert_eq!(*rank, Rank::WILDCARD);
    assert!(whole.iter().any(|kval| kval.key.is(keys::PROC_DATA)));
    assert!(!whole.iter().any(|kval| kval.key.is(keys::PROC_BLOB)));
    assert_eq!(client.objects(put).len(), 1);
    world.advance(seconds(61));
    assert_eq!(
        world.clients[who].status(never),
        Some(Status::ERR_NOT_FOUND)
    );
}

#[test]
fn a_job_described_by_a_session_is_removed_with_its_describer() {
    let mut world = World::new(1);
    no_direct_modex(&mut world);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let of_other = get_with("other", Rank::WILDCARD, keys::JOB_SIZE, vec![]);
    let waiting = ask(&mut world, who, &of_other);
    let array = |key: &'static str, infos| Info::new(key, Value::DataArray(DataArray::Info(infos)));
    let other = vec![
        Info::new(keys::NSPACE, "other"),
        Info::new(keys::JOB_SIZE, 3_u32),
    ];
    let session = vec![
        Info::new(keys::SESSION_ID, 1_u32),
        array(keys::JOB_INFO_ARRAY, other),
    ];
    let engine = &mut world.nodes[0].engine;
    let session = [array(keys::SESSION_INFO_ARRAY, session)];
    engine
        .register_nspace(&"third".into(), 0, &session)
        .unwrap();
    world.run();
    let client = &world.clients[who];
    assert_eq!(
        client.value(waiting, keys::JOB_SIZE),
        Some(Value::Uint32(3))
    );

    let third = "third".into();
    world.nodes[0].engine.deregister_nspace(&third).unwrap();
    world.run();
    let infos = vec![Info::new(keys::IMMEDIATE, true)];
    let gone = get_with("other", Rank::WILDCARD, keys::JOB_SIZE, infos);
    assert_eq!(world.status_of(who, &gone), Some(Status::ERR_NOT_FOUND));
}

#[test]
fn the_first_reply_about_another_job_has_all_its_info() {
    // A client of 4.2 sends a request about the job when it needs a value of one of its processes.
    for (key, rank) in [
        (keys::JOB_SIZE, Rank::WILDCARD),
        (keys::LOCAL_RANK, Rank::WILDCARD),
        (keys::LOCAL_RANK, Rank::new(1)),
    ] {
        let mut world = World::new(1);
        world.job("job", &[1]);
        world.job("other", &[2]);
        let who = world.join(0, "job", 0);
        let whole = |world: &mut World| {
            let tag = ask(world, who, &get_with("other", rank, key, vec![]));
            let client = &world.clients[who];
            let succeeded = client.status(tag) == Some(Status::SUCCESS);
            (
                succeeded,
                succeeded && client.value(tag, keys::PROC_DATA).is_some(),
            )
        };
        assert_eq!(whole(&mut world), (true, true), "{key} of {rank:?}");
        let is_there = key == keys::JOB_SIZE || rank.is_valid();
        assert_eq!(
            whole(&mut world),
            (is_there, false),
            "{key} of {rank:?} again"
        );
        let unknown = get_with("other", Rank::WILDCARD, "pmix.of.nobody", vec![]);
        assert_eq!(world.status_of(who, &unknown), Some(Status::ERR_NOT_FOUND));
    }
}

#[test]
fn jobs_of_other_users_cannot_be_read() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    world.job_of("foreign", &[1], 77);
    let who = world.join(0, "job", 0);
    for request in [
        get("foreign", 0, "card"),
        get_with("foreign", Rank::WILDCARD, keys::JOB_SIZE, vec![]),
        Request::Connect(request::Connect {
            procs: vec![
                pmix_types::Proc::new("job", Rank::WILDCARD),
                pmix_types::Proc::new("foreign", Rank::WILDCARD),
            ],
            infos: vec![],
            shared: Vec::new(),
        }),
    ] {
        let status = world.status_of(who, &request);
        assert_eq!(status, Some(Status::ERR_NO_PERMISSIONS));
    }
}

#[test]
fn a_get_without_a_key_returns_the_whole_job() {
    let mut world = World::new(2);
    world.job("job", &[1, 1]);
    let who = world.join(0, "job", 0);
    let all = Request::Get(request::Get {
        nspace: "job".into(),
        rank: Rank::WILDCARD,
        ..request::Get::default()
    });
    let tag = ask(&mut world, who, &all);
    let client = &world.clients[who];
    assert_eq!(client.value(tag, keys::JOB_SIZE), Some(Value::Uint32(2)));
    let procs = client.objects(tag)[0].1.clone();
    let procs = procs.iter().filter(|kval| kval.key.is(keys::PROC_DATA));
    assert_eq!(procs.count(), 2);
}

#[test]
fn clients_of_one_release_get_the_same_bytes() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let first = world.nodes[0].engine.open(Default::default(), world.now);
    let second = world.nodes[0].engine.open(Default::default(), world.now);
    let mut payloads = Vec::new();
    for (peer, rank) in [(first, 0), (second, 1)] {
        let engine = &mut world.nodes[0].engine;
        engine.handle_input(peer, &hello("job", rank).encode().unwrap(), world.now);
        let request = [
            &pmix_proto::Header::new(0, Tag(101), 2).encode()[..],
            &[2, 0],
        ]
        .concat();
        engine.handle_input(peer, &request, world.now);
        while let Some(transmit) = engine.poll_transmit() {
            if !transmit.bytes.head().is_empty() {
                payloads.push(transmit.bytes);
            }
        }
    }
    let address = |place: usize| payloads[place].payload().as_ptr();
    assert_eq!((payloads.len(), address(0)), (2, address(1)));
}

#[test]
fn each_client_keeps_its_own_timeout() {
    let mut world = World::new(2);
    world.job("job", &[2, 1]);
    let all = world.join_all("job", &[2, 1]);
    let within = |seconds: i32| {
        let infos = vec![Info::new(keys::TIMEOUT, seconds)];
        get_with("job", Rank::new(2), "card", infos)
    };
    let short = world.ask(all[0], &within(1));
    world.run();
    let long = world.ask(all[1], &within(4));
    world.advance(Duration::from_secs(1));
    let timeout = Some(Status::ERR_TIMEOUT);
    assert_eq!(world.clients[all[0]].status(short), timeout);
    assert_eq!(world.clients[all[1]].status(long), None);
    let unlimited = world.ask(all[0], &get("job", 2, "card"));
    world.advance(Duration::from_secs(4));
    assert_eq!(world.clients[all[1]].status(long), timeout);
    assert_eq!(world.clients[all[0]].status(unlimited), None);
    commit(&mut world, all[2], 2, &[(Scope::GLOBAL, "card", 7)]);
    assert_eq!(
        world.clients[all[0]].value(unlimited, "card"),
        Some(Value::Uint32(7))
    );
}

fn prefetch(rank: u32, bytes: u32) -> Request<'static> {
    let more = vec![Info::new(request::PREFETCH, bytes)];
    get_with("job", Rank::new(rank), "card", more)
}

/// Returns the ranks in the reply to a get.
pub(crate) fn told(world: &mut World, who: Who, get: &Request<'_>) -> Vec<u32> {
    let tag = ask(world, who, get);
    let objects = world.clients[who].objects(tag);
    objects.iter().map(|(rank, _)| rank.as_raw()).collect()
}

#[test]
fn later_gets_prefetch_data_of_other_processes() {
    let mut world = World::new(1);
    world.job("job", &[6]);
    let all = world.join_all("job", &[6]);
    for rank in [1, 2, 4, 5] {
        let scope = match rank {
            4 => Scope::REMOTE,
            _ => Scope::LOCAL,
        };
        let data = [(scope, "card", rank)];
        commit(&mut world, all[rank as usize], rank, &data);
    }
    // Rank 3 has not committed, and the data of rank 4 are for other nodes.
    assert_eq!(told(&mut world, all[0], &prefetch(2, 1 << 20)), [2, 5, 1]);
    assert_eq!(told(&mut world, all[5], &prefetch(2, 1 << 20)), [2, 1]);
    assert_eq!(told(&mut world, all[0], &prefetch(5, 30)), [5, 1]);
    assert_eq!(told(&mut world, all[0], &prefetch(2, 10)), [2]);
    assert_eq!(told(&mut world, all[0], &prefetch(2, 0)), [2]);
    let tag = ask(&mut world, all[0], &prefetch(2, 1 << 20));
    let objects = world.clients[all[0]].objects(tag);
    assert_eq!(objects[1].1[0].value, Value::Uint32(5));
}

#[test]
fn a_server_without_prefetch_returns_the_requested_data() {
    let mut config = pmix_engine::Config::default();
    config.prefetch_bytes = 0;
    let mut world = World::with(1, &config);
    world.job("job", &[3]);
    let all = world.join_all("job", &[3]);
    for rank in [1, 2] {
        commit(
            &mut world,
            all[rank as usize],
            rank,
            &[(Scope::GLOBAL, "card", rank)],
        );
    }
    assert_eq!(told(&mut world, all[0], &prefetch(1, 1 << 20)), [1]);
}
