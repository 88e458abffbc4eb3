// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets of data of a process that commits in several messages.

use std::time::Duration;

use gds_hash::{Codec, OwnPuts};
use pmix_engine::Config;
use pmix_proto::{Deleted, Request, Tag, request};
use pmix_types::{Info, Rank, Scope, Status, Value};

use crate::collective::{DONE, ask_all, collect, fence, statuses};
use crate::exchange::{self, ask, get, get_with};
use crate::world::{Who, World, hello};

/// Creates two nodes whose servers accept `put_bytes` bytes of a process, and the messages of the first commit of rank
/// 1: two with a long value each, and one with a short value "last" and a long one.
fn committing(put_bytes: usize) -> (World, Vec<Who>, Vec<Vec<u8>>) {
    let mut config = Config::default();
    config.put_bytes_per_process = put_bytes;
    let mut world = World::with(2, &config);
    world.job("job", &[2, 1]);
    let all = world.join_all("job", &[2, 1]);
    let codec = Codec::new(world.clients[all[1]].session.form().layout);
    let mut own = OwnPuts::new(Rank::new(1), 1_000).with_parts(true);
    for number in 0..3_u32 {
        let info = Info::new(format!("key.{number}"), vec![7_u8; 500]);
        own.put(&codec, Scope::REMOTE, info).unwrap();
    }
    own.put(&codec, Scope::GLOBAL, Info::new("last", 1_u32))
        .unwrap();
    let messages = own.take_commit(&codec).unwrap().into_iter();
    (world, all, messages.map(|(blocks, _)| blocks).collect())
}

fn whole() -> Request<'static> {
    Request::Get(request::Get {
        nspace: "job".into(),
        rank: Rank::new(1),
        infos: vec![],
        key: None,
    })
}

fn commit(world: &mut World, who: Who, blocks: &[u8]) -> Option<Status> {
    world.status_of(who, &Request::Commit(request::Commit { blocks }))
}

#[test]
fn a_get_waits_briefly_if_the_last_message_of_a_first_commit_is_refused() {
    let (mut world, all, messages) = committing(1_300);
    let [first, middle, last] = &messages[..] else {
        panic!("{} messages", messages.len());
    };
    let local = world.ask(all[0], &get("job", 1, "last"));
    let whole = world.ask(all[0], &whole());
    let remote = world.ask(all[2], &get("job", 1, "last"));
    for blocks in [first, middle] {
        assert_eq!(commit(&mut world, all[1], blocks), Some(Status::SUCCESS));
        world.advance(Duration::from_secs(10));
    }
    let answers = |world: &World| {
        [(0, local), (0, whole), (2, remote)].map(|(who, tag)| world.clients[all[who]].status(tag))
    };
    assert_eq!(answers(&world), [None; 3]);
    let refused = commit(&mut world, all[1], last);
    assert_eq!(refused, Some(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!(answers(&world), [None, Some(Status::SUCCESS), None]);
    world.advance(Duration::from_secs(10));
    let not_found = Some(Status::ERR_NOT_FOUND);
    let success = Some(Status::SUCCESS);
    assert_eq!(answers(&world), [not_found, success, not_found]);
    assert_eq!(world.status_of(all[2], &get("job", 1, "key.0")), success);
}

#[test]
fn a_get_ends_if_a_process_leaves_during_its_first_commit() {
    let (mut world, all, messages) = committing(100_000);
    let local = world.ask(all[0], &get("job", 1, "last"));
    let remote = world.ask(all[2], &get("job", 1, "last"));
    let stored = commit(&mut world, all[1], &messages[0]);
    assert_eq!(stored, Some(Status::SUCCESS));
    world.kill(all[1]);
    world.run();
    let lost = Some(Status::ERR_LOST_CONNECTION);
    assert_eq!(world.clients[all[0]].status(local), lost);
    assert!(world.clients[all[2]].status(remote).is_some());
    // The commit of the next incarnation is a first commit again, without data so far.
    world.job("job", &[2, 1]);
    let again = world.join(0, "job", 1);
    let local = world.ask(all[0], &get("job", 1, "last"));
    assert_ne!(commit(&mut world, again, b"none"), Some(Status::SUCCESS));
    world.advance(Duration::from_secs(10));
    assert_eq!(world.clients[all[0]].status(local), None);
}

#[test]
fn a_first_commit_with_a_refused_first_message_ends_with_its_last() {
    let (mut world, all, messages) = committing(100_000);
    let local = world.ask(all[0], &get("job", 1, "key.0"));
    let whole = world.ask(all[0], &whole());
    assert_ne!(commit(&mut world, all[1], b"none"), Some(Status::SUCCESS));
    for blocks in &messages[1..] {
        assert_eq!(world.clients[all[0]].status(whole), None);
        assert_eq!(commit(&mut world, all[1], blocks), Some(Status::SUCCESS));
    }
    world.advance(Duration::from_secs(10));
    let answers = [local, whole].map(|tag| world.clients[all[0]].status(tag).unwrap());
    assert_eq!(answers, [Status::ERR_NOT_FOUND, Status::SUCCESS]);
}

#[test]
fn a_get_waits_for_later_messages_of_the_first_commit() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let codec = Codec::new(world.clients[all[1]].session.form().layout);
    let mut own = OwnPuts::new(Rank::new(1), 1_000).with_parts(true);
    for number in 0..3_u32 {
        let value = vec![7_u8; 500];
        let info = Info::new(format!("key.{number}"), value);
        own.put(&codec, Scope::REMOTE, info).unwrap();
    }
    let last = Info::new("last", 1_u32);
    own.put(&codec, Scope::LOCAL, last.clone()).unwrap();
    let messages = own.take_commit(&codec).unwrap();
    assert_eq!(messages.len(), 3);
    let whole = world.ask(all[0], &whole());
    let mut waits = Vec::new();
    for (blocks, _) in &messages {
        assert!(
            waits
                .iter()
                .all(|tag| world.clients[all[0]].status(*tag).is_none())
        );
        let commit = Request::Commit(request::Commit { blocks });
        assert_eq!(world.status_of(all[1], &commit), Some(Status::SUCCESS));
        waits.push(world.ask(all[0], &get("job", 1, "last")));
        world.advance(Duration::from_secs(10));
    }
    for tag in waits {
        let client = &world.clients[all[0]];
        assert_eq!(client.value(tag, "last"), Some(last.value.clone()));
    }
    assert_eq!(world.clients[all[0]].status(whole), Some(Status::SUCCESS));
    // From now on a get waits for a missing key for a short time only.
    let never = world.ask(all[0], &get("job", 1, "never"));
    world.advance(Duration::from_secs(10));
    let status = world.clients[all[0]].status(never);
    assert_eq!(status, Some(Status::ERR_NOT_FOUND));
}

#[test]
fn a_get_without_a_rank_has_the_data_of_the_first_process_with_the_key() {
    let mut world = World::new(1);
    world.job("job", &[3]);
    let all = world.join_all("job", &[3]);
    exchange::commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "card", 7)]);
    exchange::commit(&mut world, all[2], 2, &[(Scope::GLOBAL, "card", 8)]);
    let tag = ask(
        &mut world,
        all[0],
        &get_with("job", Rank::UNDEF, "card", vec![]),
    );
    assert_eq!(
        world.clients[all[0]].value(tag, "card"),
        Some(Value::Uint32(7))
    );
    let missing = get_with("job", Rank::UNDEF, "none", vec![]);
    assert_eq!(
        world.status_of(all[0], &missing),
        Some(Status::ERR_NOT_FOUND)
    );
}

/// Returns the removed keys that a client was informed of since the last call.
fn removed_keys(world: &mut World, who: Who) -> Vec<(u32, Scope, String)> {
    let client = &mut world.clients[who];
    let form = *client.session.form();
    let notices = std::mem::take(&mut client.notices).into_iter();
    let notices = notices.map(|notice| {
        assert_eq!(notice.header.tag, Tag::DELETED);
        let deleted = Deleted::decode(&form, None, &notice.payload).unwrap();
        assert_eq!(deleted.proc.nspace, "job");
        (
            deleted.proc.rank.as_raw(),
            deleted.scope,
            deleted.key.to_string(),
        )
    });
    notices.collect()
}

#[test]
fn clients_of_seven_learn_of_removed_keys_and_get_them_no_more() {
    let mut world = World::new(2);
    world.job("job", &[3, 1]);
    let versions = ["7.0.0rc1", "7.0.0", "5.0.11", "7.0.0rc1"];
    let mut all = Vec::new();
    for (rank, version) in (0_u32..).zip(versions) {
        let mut greeting = hello("job", rank);
        greeting.version = version.into();
        all.push(world.connect(usize::from(rank == 3), &greeting));
    }
    world.run();
    let codec = Codec::new(world.clients[all[0]].session.form().layout);
    let mut own = OwnPuts::new(Rank::new(0), 10_000).with_removals(true);
    let keys = ["gone.1", "gone.2", "kept"];
    for key in keys {
        own.put(&codec, Scope::GLOBAL, Info::new(key, 1_u32))
            .unwrap();
    }
    own.put(&codec, Scope::REMOTE, Info::new("far", 1_u32))
        .unwrap();
    let commit_all = |world: &mut World, own: &mut OwnPuts| {
        for (blocks, _) in own.take_commit(&codec).unwrap() {
            assert_eq!(commit(world, all[0], &blocks), Some(Status::SUCCESS));
        }
    };
    commit_all(&mut world, &mut own);
    let fence_all = |world: &mut World| {
        let tags = ask_all(world, &all, &fence(collect()));
        assert_eq!(statuses(world, &all, &tags), [DONE; 4]);
    };
    fence_all(&mut world);
    for who in &all[1..] {
        for key in keys {
            let status = world.status_of(*who, &get("job", 0, key));
            assert_eq!(status, Some(Status::SUCCESS), "{key}");
        }
    }
    let gone = |key: &'static str| Info::new(key, Value::Undef);
    for key in ["gone.1", "gone.2", "far", "never put"] {
        own.put(&codec, Scope::DEL_GLOBAL, gone(key)).unwrap();
    }
    commit_all(&mut world, &mut own);
    let expected = |scope| ["gone.1", "gone.2"].map(|key| (0, scope, key.to_owned()));
    // No process of its node saw "far", and the process itself needs no message.
    assert_eq!(removed_keys(&mut world, all[0]), []);
    assert_eq!(removed_keys(&mut world, all[1]), expected(Scope::DEL_LOCAL));
    assert_eq!(
        removed_keys(&mut world, all[2]),
        [],
        "5.0 does not know the message"
    );
    assert_eq!(
        removed_keys(&mut world, all[3]),
        [],
        "the other node learns it by a fence"
    );
    fence_all(&mut world);
    let far = [(0, Scope::DEL_REMOTE, "far".to_owned())];
    let all_expected = [&far[..], &expected(Scope::DEL_REMOTE)].concat();
    assert_eq!(removed_keys(&mut world, all[3]), all_expected);
    // A later contribution names the removed keys again, of which no value is left.
    fence_all(&mut world);
    for who in &all {
        assert_eq!(removed_keys(&mut world, *who), []);
    }
    for who in &all[1..] {
        let tags = ["gone.1", "kept"].map(|key| world.ask(*who, &get("job", 0, key)));
        world.advance(Duration::from_secs(10));
        let found = tags.map(|tag| world.clients[*who].status(tag).unwrap());
        assert_eq!(found, [Status::ERR_NOT_FOUND, Status::SUCCESS]);
    }
    assert!(world.nodes[0].engine.recount().is_empty());
}

#[test]
fn clients_of_other_jobs_learn_of_removed_keys_only_if_they_may_have_read_them() {
    let mut world = World::new(1);
    for (nspace, size) in [("job", 1), ("other", 4)] {
        world.job(nspace, &[size]);
    }
    let names = [
        ("job", 0),
        ("other", 0),
        ("other", 1),
        ("other", 2),
        ("other", 3),
    ];
    let all: Vec<_> = names
        .into_iter()
        .map(|(nspace, rank)| {
            let mut greeting = hello(nspace, rank);
            greeting.version = "7.0.0".into();
            world.connect(0, &greeting)
        })
        .collect();
    world.run();
    let codec = Codec::new(world.clients[all[0]].session.form().layout);
    let mut own = OwnPuts::new(Rank::new(0), 10_000).with_removals(true);
    let mut change = |world: &mut World, scope, value| {
        own.put(&codec, scope, Info::new("key", value)).unwrap();
        for (blocks, _) in own.take_commit(&codec).unwrap() {
            assert_eq!(commit(world, all[0], &blocks), Some(Status::SUCCESS));
        }
    };
    change(&mut world, Scope::GLOBAL, Value::Uint32(1));
    let by_rank = get("job", 0, "key");
    let by_any = get_with("job", Rank::UNDEF, "key", vec![]);
    assert_eq!(world.status_of(all[1], &by_rank), Some(Status::SUCCESS));
    assert_eq!(world.status_of(all[2], &by_any), Some(Status::SUCCESS));
    let refresh = Request::RefreshCache(request::RefreshCache {
        nspace: "job".into(),
        rank: Rank::new(0),
    });
    assert_eq!(world.status_of(all[3], &refresh), Some(Status::SUCCESS));
    change(&mut world, Scope::DEL_GLOBAL, Value::Undef);
    let expected = [(0, Scope::DEL_LOCAL, "key".to_owned())];
    assert_eq!(removed_keys(&mut world, all[1]), expected);
    assert_eq!(removed_keys(&mut world, all[2]), expected);
    assert_eq!(removed_keys(&mut world, all[3]), expected);
    assert_eq!(removed_keys(&mut world, all[4]), []);
}

#[test]
fn a_fence_is_released_after_the_messages_about_removed_keys() {
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
    let codec = Codec::new(world.clients[all[0]].session.form().layout);
    let mut own = OwnPuts::new(Rank::new(0), 10_000).with_removals(true);
    world.clients[all[1]].is_deaf = true;
    let last = world.ask(all[1], &fence(vec![]));
    for (scope, value) in [
        (Scope::GLOBAL, Value::Uint32(1)),
        (Scope::DEL_GLOBAL, Value::Undef),
    ] {
        own.put(&codec, scope, Info::new("key", value)).unwrap();
        for (blocks, _) in own.take_commit(&codec).unwrap() {
            assert_eq!(commit(&mut world, all[0], &blocks), Some(Status::SUCCESS));
        }
    }
    assert_eq!(
        world.status_of(all[0], &fence(vec![])),
        Some(Status::SUCCESS)
    );
    let mut tags = Vec::new();
    while !world.clients[all[1]].unread.is_empty() {
        world.read_one(all[1]);
        let client = &world.clients[all[1]];
        tags.push((client.notices.len(), client.status(last)));
    }
    assert_eq!(tags, [(1, None), (1, Some(Status::SUCCESS))]);
}
