// SPDX-License-Identifier: MIT OR Apache-2.0
use bfrops::{Layout, Module};
use pmix_types::{QualifiedValue, Value};

use super::*;

const R: Rank = Rank::new(3);
const MOST: usize = 1 << 20;

fn codec() -> Codec<'static> {
    Codec::new(Layout::new(Module::V41))
}

fn own() -> OwnPuts {
    OwnPuts::new(R, MOST)
}

/// Has a server store the next commit, and returns the length of the commit in bytes.
fn commit(own: &mut OwnPuts, server: &mut ModexStore) -> usize {
    let (message, _) = own.take_commit(&codec()).unwrap();
    server.commit(&codec(), R, &message).unwrap();
    message.len()
}

fn seen(puts: &ModexStore, scope: Scope, key: &str) -> Option<u32> {
    let value = puts.get(R, scope, key, &[]).ok()?;
    value.to_number().ok()
}

#[test]
fn a_commit_says_what_was_put_since_the_last_one() {
    let (mut own, mut server) = (own(), ModexStore::default());
    let mut bytes = Vec::new();
    for number in 0..300_u32 {
        let key = format!("key.{number:03}");
        own.put(
            &codec(),
            Scope::GLOBAL,
            Info::new(key.as_str(), 1 << 20 | number),
        )
        .unwrap();
        bytes.push(commit(&mut own, &mut server));
    }
    assert_eq!(bytes, vec![bytes[0]; 300]);
    assert!(!own.has_uncommitted() && commit(&mut own, &mut server) == 0);
    for number in 0..300 {
        let key = format!("key.{number:03}");
        assert_eq!(seen(own.all(), Scope::LOCAL, &key), Some(1 << 20 | number));
        assert_eq!(seen(&server, Scope::REMOTE, &key), Some(1 << 20 | number));
    }
}

#[test]
fn each_value_of_a_key_that_qualifiers_tell_apart_is_said_once() {
    let (mut own, mut server) = (own(), ModexStore::default());
    let mut bytes = Vec::new();
    for unit in 0..100_u32 {
        let mut value = QualifiedValue::new(Info::new("speed", 7_u32));
        value.qualify("unit", 1000 + unit);
        own.put(&codec(), Scope::LOCAL, value.into_info()).unwrap();
        bytes.push(commit(&mut own, &mut server));
    }
    assert_eq!(bytes, vec![bytes[0]; 100]);
    assert_eq!(server.all(R, Scope::LOCAL).unwrap().count(), 100);
}

#[test]
fn the_last_value_of_a_key_is_committed_and_what_is_internal_never() {
    let (mut own, mut server) = (own(), ModexStore::default());
    own.put(&codec(), Scope::INTERNAL, Info::new("mine", 1_u32))
        .unwrap();
    assert!(!own.has_uncommitted());
    own.put(&codec(), Scope::GLOBAL, Info::new("mine", 2_u32))
        .unwrap();
    own.put(&codec(), Scope::INTERNAL, Info::new("mine", 3_u32))
        .unwrap();
    assert!(!own.has_uncommitted());
    assert_eq!(own.uncommitted.num_keys(R), 0);
    for number in [1_u32, 2] {
        own.put(&codec(), Scope::GLOBAL, Info::new("key", number))
            .unwrap();
    }
    own.put(&codec(), Scope::GLOBAL, Info::new("gone", 1_u32))
        .unwrap();
    own.put(&codec(), Scope::DEL_GLOBAL, Info::new("gone", Value::Undef))
        .unwrap();
    commit(&mut own, &mut server);
    assert_eq!(seen(&server, Scope::LOCAL, "key"), Some(2));
    assert_eq!(server.num_keys(R), 1);
    own.put(&codec(), Scope::GLOBAL, Info::new("key", 3_u32))
        .unwrap();
    commit(&mut own, &mut server);
    assert_eq!(seen(&server, Scope::LOCAL, "key"), Some(3));
    assert_eq!(seen(&server, Scope::REMOTE, "key"), Some(3));
}

#[test]
fn what_was_not_stored_is_part_of_the_next_commit_unless_it_changed() {
    let (mut own, mut server) = (own(), ModexStore::default());
    for key in ["kept", "anew", "gone", "moved"] {
        own.put(&codec(), Scope::GLOBAL, Info::new(key, 1_u32))
            .unwrap();
    }
    let (_, refused) = own.take_commit(&codec()).unwrap();
    own.put(&codec(), Scope::GLOBAL, Info::new("anew", 2_u32))
        .unwrap();
    own.put(&codec(), Scope::DEL_GLOBAL, Info::new("gone", Value::Undef))
        .unwrap();
    own.put(&codec(), Scope::LOCAL, Info::new("moved", 2_u32))
        .unwrap();
    // What another commit has said meanwhile is not said as it was before.
    let (between, _) = own.take_commit(&codec()).unwrap();
    server.commit(&codec(), R, &between).unwrap();
    own.restore(refused);
    commit(&mut own, &mut server);
    assert_eq!(seen(&server, Scope::REMOTE, "kept"), Some(1));
    assert_eq!(seen(&server, Scope::REMOTE, "anew"), Some(2));
    assert_eq!(seen(&server, Scope::REMOTE, "gone"), None);
    assert_eq!(seen(&server, Scope::LOCAL, "moved"), Some(2));
    assert_eq!(seen(&server, Scope::REMOTE, "moved"), None);
    assert!(!own.has_uncommitted());
}

fn status(put: Result<(), Error>) -> Status {
    put.map_or_else(|error| error.status(), |()| Status::SUCCESS)
}

#[test]
fn arrays_that_are_nested_too_deeply_are_refused_at_put() {
    let nested = |levels: u32| {
        let outer = |inner: Value<'static>| Value::from(vec![Info::new("level", inner)]);
        (0..levels).fold(Value::from(1_u32), |value, _| outer(value))
    };
    let (mut own, mut server) = (own(), ModexStore::default());
    let most = bfrops::Limits::DEPTH;
    for levels in [most + 1, 10 * most] {
        let put = own.put(&codec(), Scope::LOCAL, Info::new("deep", nested(levels)));
        assert_eq!(status(put), Status::ERR_BAD_PARAM);
    }
    let put = own.put(&codec(), Scope::GLOBAL, Info::new("deep", nested(most)));
    assert_eq!(status(put), Status::SUCCESS);
    assert!(commit(&mut own, &mut server) > 0);
    assert_eq!(server.num_keys(R), 1);
}

#[test]
fn more_than_a_commit_has_room_for_is_refused_at_put() {
    let (mut own, mut server) = (own(), ModexStore::default());
    let put = |own: &mut OwnPuts, scope, key: &str, len: usize| {
        let put = own.put(&codec(), scope, Info::new(key, vec![7_u8; len]));
        status(put) == Status::SUCCESS
    };
    // Global data are twice.
    assert!(!put(&mut own, Scope::GLOBAL, "a", MOST / 2));
    assert!(put(&mut own, Scope::GLOBAL, "a", MOST / 3));
    assert!(!put(&mut own, Scope::LOCAL, "b", MOST / 2));
    assert!(own.all().get(R, Scope::LOCAL, "b", &[]).is_err());
    // A value that replaces another needs no more room, and one for the process itself (PMIX_INTERNAL) needs none.
    for _ in 0..10 {
        assert!(put(&mut own, Scope::GLOBAL, "a", MOST / 3 + 100));
    }
    assert!(put(&mut own, Scope::INTERNAL, "mine", 2 * MOST));
    let (message, refused) = own.take_commit(&codec()).unwrap();
    assert!(message.len() > MOST / 2 && message.len() < MOST);
    own.restore(refused);
    assert!(!put(&mut own, Scope::LOCAL, "b", MOST / 2));
    commit(&mut own, &mut server);
    assert!(put(&mut own, Scope::LOCAL, "b", MOST / 2));
    commit(&mut own, &mut server);
    assert_eq!(server.num_keys(R), 2);
}
