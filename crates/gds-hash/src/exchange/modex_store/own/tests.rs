// SPDX-License-Identifier: MIT OR Apache-2.0
use bfrops::{Layout, Module};
use pmix_types::{QualifiedValue, Value};

use super::*;
use crate::CommitPart;
use crate::exchange::counted::{PACKED, raised};

const R: Rank = Rank::new(3);
const MOST: usize = 1 << 20;

fn codec() -> Codec<'static> {
    Codec::new(Layout::new(Module::V41))
}

fn own() -> OwnPuts {
    OwnPuts::new(R, MOST).with_removals(true)
}

/// Lets a server store the next commit, and returns the lengths of its messages in bytes.
fn commit_all(own: &mut OwnPuts, server: &mut ModexStore) -> Vec<usize> {
    let mut bytes = Vec::new();
    for (message, _stored) in own.take_commit(&codec()).unwrap() {
        assert!(message.len() <= MOST);
        server.commit(&codec(), R, &message).unwrap();
        bytes.push(message.len());
    }
    bytes
}

/// Works like [`commit_all`] for a commit with at most one message.
fn commit(own: &mut OwnPuts, server: &mut ModexStore) -> usize {
    let bytes = commit_all(own, server);
    assert!(bytes.len() <= 1);
    bytes.into_iter().sum()
}

/// Takes the first message of a commit, and leaves the others.
fn take_first(own: &mut OwnPuts) -> CommitMessage {
    let mut messages = own.take_commit(&codec()).unwrap().into_iter();
    let first = messages.next().unwrap();
    messages.for_each(|(_, rest)| own.restore(rest));
    first
}

fn put(own: &mut OwnPuts, scope: Scope, key: &str, number: u32) {
    own.put(&codec(), scope, Info::new(key, number)).unwrap();
}

fn put_bytes(own: &mut OwnPuts, scope: Scope, key: &str, len: usize) -> Status {
    status(own.put(&codec(), scope, Info::new(key, vec![7_u8; len])))
}

fn seen(puts: &ModexStore, scope: Scope, key: &str) -> Option<u32> {
    let value = puts.get(R, scope, key, &[]).ok()?;
    value.to_number().ok()
}

#[test]
fn a_commit_contains_the_data_since_the_last_one() {
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
fn each_qualified_value_of_a_key_is_committed_once() {
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
fn commits_the_last_value_of_a_key_and_no_internal_ones() {
    let (mut own, mut server) = (own(), ModexStore::default());
    own.put(&codec(), Scope::INTERNAL, Info::new("mine", 1_u32))
        .unwrap();
    assert!(!own.has_uncommitted());
    own.put(&codec(), Scope::GLOBAL, Info::new("mine", 2_u32))
        .unwrap();
    own.put(&codec(), Scope::INTERNAL, Info::new("mine", 3_u32))
        .unwrap();
    assert!(!own.has_uncommitted());
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
fn unstored_data_join_the_next_commit_unless_changed() {
    let (mut own, mut server) = (own(), ModexStore::default());
    for key in ["kept", "anew", "gone", "moved"] {
        own.put(&codec(), Scope::GLOBAL, Info::new(key, 1_u32))
            .unwrap();
    }
    let (_, refused) = take_first(&mut own);
    own.put(&codec(), Scope::GLOBAL, Info::new("anew", 2_u32))
        .unwrap();
    own.put(&codec(), Scope::DEL_GLOBAL, Info::new("gone", Value::Undef))
        .unwrap();
    own.put(&codec(), Scope::LOCAL, Info::new("moved", 2_u32))
        .unwrap();
    // A restored message does not replace newer data that were committed in between.
    let (between, _) = take_first(&mut own);
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
fn put_rejects_arrays_that_are_nested_too_deeply() {
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
fn put_rejects_values_that_fit_no_message() {
    let (mut own, mut server) = (own(), ModexStore::default());
    let refused = put_bytes(&mut own, Scope::LOCAL, "a", MOST);
    assert_eq!(refused, Status::ERR_OUT_OF_RESOURCE);
    assert!(own.all().get(R, Scope::LOCAL, "a", &[]).is_err() && !own.has_uncommitted());
    // A value for the process itself (PMIX_INTERNAL) is in no message.
    assert!(put_bytes(&mut own, Scope::INTERNAL, "mine", 2 * MOST).is_success());
    // A global value takes two messages if it exceeds half a message.
    let len = MOST - 1000;
    assert!(put_bytes(&mut own, Scope::GLOBAL, "a", len).is_success());
    put(&mut own, Scope::GLOBAL, "b", 1);
    assert_eq!(commit_all(&mut own, &mut server).len(), 2);
    for scope in [Scope::LOCAL, Scope::REMOTE] {
        let found = server.get(R, scope, "a", &[]).unwrap();
        assert!(matches!(&*found, Value::ByteObject(bytes) if bytes.len() == len));
        assert_eq!(seen(&server, scope, "b"), Some(1));
    }
    assert!(!own.has_uncommitted());
}

#[test]
fn a_rejected_half_of_a_value_is_committed_again() {
    let (mut own, mut server) = (own(), ModexStore::default());
    assert!(put_bytes(&mut own, Scope::GLOBAL, "big", 700 << 10).is_success());
    put(&mut own, Scope::GLOBAL, "small", 1);
    let (_, refused) = take_first(&mut own);
    own.restore(refused);
    commit_all(&mut own, &mut server);
    for scope in [Scope::LOCAL, Scope::REMOTE] {
        assert!(server.get(R, scope, "big", &[]).is_ok(), "{scope}");
        assert_eq!(seen(&server, scope, "small"), Some(1));
    }
    assert!(!own.has_uncommitted());
}

#[test]
fn a_large_commit_takes_several_messages() {
    let (mut own, mut server) = (own(), ModexStore::default());
    let keys: Vec<_> = (0..8).map(|number| format!("key.{number}")).collect();
    let (first, later) = keys.split_at(4);
    for key in first {
        put_bytes(&mut own, Scope::REMOTE, key, MOST / 5);
    }
    let (message, refused) = take_first(&mut own);
    assert!(message.len() > MOST / 2);
    // The process puts as much data again before it learns that the server rejected the first
    // message.
    for key in later {
        put_bytes(&mut own, Scope::REMOTE, key, MOST / 5);
    }
    own.restore(refused);
    let messages = own.take_commit(&codec()).unwrap();
    // Data put during a pending commit are part of the next one.
    put(&mut own, Scope::REMOTE, "next", 1);
    assert_eq!(messages.len(), 2);
    for (message, _stored) in &messages {
        server.commit(&codec(), R, message).unwrap();
    }
    assert!(
        keys.iter()
            .all(|key| server.get(R, Scope::REMOTE, key, &[]).is_ok())
    );
    assert_eq!((server.num_keys(R), own.has_uncommitted()), (8, true));
    commit(&mut own, &mut server);
    assert_eq!(seen(&server, Scope::REMOTE, "next"), Some(1));
}

#[test]
fn a_put_packs_only_its_value_and_a_commit_only_new_data() {
    let (mut own, mut server) = (own(), ModexStore::default());
    for number in 0..1000 {
        put_bytes(
            &mut own,
            Scope::GLOBAL,
            &format!("key.{number}"),
            MOST / 2100,
        );
    }
    let again = || {
        for _ in 0..100 {
            put_bytes(&mut own, Scope::GLOBAL, "key.7", MOST / 2100 + 1);
        }
    };
    assert_eq!(raised(&PACKED, again), 100);
    let mut bytes = Vec::new();
    let num_packed = raised(&PACKED, || bytes = commit_all(&mut own, &mut server));
    assert!(
        num_packed < 1000 + bytes.len(),
        "{num_packed} for {bytes:?}"
    );
    // Many short values take several messages as well, because the server handles each message in
    // one step.
    for number in 0..40_000 {
        put(&mut own, Scope::LOCAL, &format!("short.{number}"), 1);
    }
    assert_eq!(commit_all(&mut own, &mut server).len(), 2);
}

#[test]
fn a_commit_names_the_keys_that_the_server_must_remove() {
    let (mut own, mut server) = (own(), ModexStore::default());
    for key in ["gone", "half", "moved", "mine", "again"] {
        put(&mut own, Scope::GLOBAL, key, 1);
    }
    commit(&mut own, &mut server);
    let delete = |own: &mut OwnPuts, scope, key: &str| {
        own.put(&codec(), scope, Info::new(key, Value::Undef))
            .unwrap();
    };
    delete(&mut own, Scope::DEL_GLOBAL, "gone");
    delete(&mut own, Scope::DEL_LOCAL, "half");
    put(&mut own, Scope::LOCAL, "moved", 2);
    put(&mut own, Scope::INTERNAL, "mine", 2);
    delete(&mut own, Scope::DEL_GLOBAL, "again");
    put(&mut own, Scope::REMOTE, "again", 2);
    // The commit does not contain the removal of a key that the server never had.
    put(&mut own, Scope::GLOBAL, "new", 1);
    delete(&mut own, Scope::DEL_GLOBAL, "new");
    assert!(own.has_uncommitted());
    let (_, unanswered) = take_first(&mut own);
    let named = unanswered.said.iter().map(|(_, item)| item.key());
    assert!(named.into_iter().all(|key| *key != *"new"));
    own.restore(unanswered);
    commit(&mut own, &mut server);
    let found = |key| [Scope::LOCAL, Scope::REMOTE].map(|scope| seen(&server, scope, key));
    assert_eq!(found("gone"), [None, None]);
    assert_eq!(found("half"), [None, Some(1)]);
    assert_eq!(found("moved"), [Some(2), None]);
    assert_eq!(found("mine"), [None, None]);
    assert_eq!(found("again"), [None, Some(2)]);
    assert!(!own.has_uncommitted() && own.uncommitted.places.is_empty());
}

#[test]
fn qualified_values_stay_when_another_one_moves() {
    let (mut own, mut server) = (own(), ModexStore::default());
    let put = |own: &mut OwnPuts, scope, unit: u32| {
        let mut value = QualifiedValue::new(Info::new("speed", unit));
        value.qualify("unit", unit);
        own.put(&codec(), scope, value.into_info()).unwrap();
    };
    for unit in 0..5 {
        put(&mut own, Scope::GLOBAL, unit);
    }
    commit(&mut own, &mut server);
    put(&mut own, Scope::LOCAL, 3);
    commit(&mut own, &mut server);
    let count = |scope| server.all(R, scope).unwrap().count();
    assert_eq!([Scope::LOCAL, Scope::REMOTE].map(count), [5, 4]);
}

#[test]
fn a_server_without_removals_is_sent_none() {
    let (mut own, mut server) = (OwnPuts::new(R, MOST), ModexStore::default());
    for key in ["kept", "moved"] {
        put(&mut own, Scope::GLOBAL, key, 1);
    }
    let delete = |own: &mut OwnPuts, key: &str| {
        status(own.put(&codec(), Scope::DEL_GLOBAL, Info::new(key, Value::Undef)))
    };
    put(&mut own, Scope::GLOBAL, "new", 1);
    assert!(delete(&mut own, "new").is_success());
    commit(&mut own, &mut server);
    assert_eq!(delete(&mut own, "kept"), Status::ERR_NOT_SUPPORTED);
    assert_eq!(delete(&mut own, "kept"), Status::ERR_NOT_SUPPORTED);
    assert_eq!(seen(own.all(), Scope::LOCAL, "kept"), Some(1));
    put(&mut own, Scope::LOCAL, "moved", 2);
    commit(&mut own, &mut server);
    assert_eq!(seen(&server, Scope::LOCAL, "moved"), Some(2));
    // The result is the same as for a client of that release.
    assert_eq!(seen(&server, Scope::REMOTE, "moved"), Some(1));
    assert_eq!(server.num_keys(R), 3);
}

#[test]
fn a_rejected_removal_does_not_undo_a_later_commit() {
    let (mut own, mut server) = (own(), ModexStore::default());
    put(&mut own, Scope::GLOBAL, "key", 1);
    commit(&mut own, &mut server);
    own.put(&codec(), Scope::DEL_GLOBAL, Info::new("key", Value::Undef))
        .unwrap();
    let (_, refused) = take_first(&mut own);
    put(&mut own, Scope::REMOTE, "key", 2);
    commit(&mut own, &mut server);
    own.restore(refused);
    commit(&mut own, &mut server);
    assert_eq!(seen(&server, Scope::REMOTE, "key"), Some(2));
    assert_eq!(seen(&server, Scope::LOCAL, "key"), None);
}

#[test]
fn removing_and_putting_keys_repeatedly_takes_bounded_memory() {
    let (mut own, mut server) = (own(), ModexStore::default());
    let limits = crate::CommitLimits {
        bytes: 64 << 10,
        keys: 100,
    };
    for step in 0..3_000_u32 {
        put(&mut own, Scope::GLOBAL, &format!("step.{step:0500}"), step);
        if let Some(last) = step.checked_sub(1) {
            let removed = Info::new(format!("step.{last:0500}"), Value::Undef);
            own.put(&codec(), Scope::DEL_GLOBAL, removed).unwrap();
        }
        let (message, _said) = take_first(&mut own);
        server.commit_within(&codec(), R, &message, limits).unwrap();
    }
    assert_eq!((server.num_keys(R), own.all().num_keys(R)), (1, 1));
    // The list of removed keys for other nodes is bounded.
    let named: usize = { server.removed(R) }.map(|key| key.as_bytes().len()).sum();
    assert!((1..1 << 20).contains(&named), "{named}");
}

/// Puts a value with a qualifier that distinguishes it from others of its key.
fn put_unit(own: &mut OwnPuts, scope: Scope, key: &str, unit: u32) {
    let mut value = QualifiedValue::new(Info::new(key, unit));
    value.qualify("unit", unit);
    own.put(&codec(), scope, value.into_info()).unwrap();
}

#[test]
fn a_message_respects_the_limit_of_qualified_values() {
    let (mut own, mut server) = (own(), ModexStore::default());
    for unit in 0..1_024 {
        put_unit(&mut own, Scope::GLOBAL, "speed", unit);
    }
    assert_eq!(commit_all(&mut own, &mut server).len(), 4);
    // Values that are put again do not count twice.
    for unit in 900..1_000 {
        put_unit(&mut own, Scope::LOCAL, "speed", unit);
    }
    commit_all(&mut own, &mut server);
    let seen = |scope| server.all(R, scope).unwrap().count();
    assert_eq!([Scope::LOCAL, Scope::REMOTE].map(seen), [1_024, 924]);
}

#[test]
fn put_rejects_values_beyond_the_limit_of_a_key() {
    let (mut own, mut server) = (own(), ModexStore::default());
    for unit in 0..1_024 {
        put_unit(&mut own, Scope::GLOBAL, "speed", unit);
    }
    let put_again = |own: &mut OwnPuts, scope, unit: u32| {
        let mut value = QualifiedValue::new(Info::new("speed", unit));
        value.qualify("unit", unit);
        status(own.put(&codec(), scope, value.into_info()))
    };
    for scope in [Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL] {
        let refused = put_again(&mut own, scope, 2_000);
        assert_eq!(refused, Status::ERR_OUT_OF_RESOURCE);
    }
    // Still accepted: an existing value, an internal value, a value without qualifiers, and a value
    // of another key.
    assert!(put_again(&mut own, Scope::LOCAL, 7).is_success());
    assert!(put_again(&mut own, Scope::INTERNAL, 2_001).is_success());
    put(&mut own, Scope::GLOBAL, "speed", 1);
    put(&mut own, Scope::GLOBAL, "other", 1);
    // A value that only remote processes see is still accepted.
    assert!(put_again(&mut own, Scope::REMOTE, 2_000).is_success());
    commit_all(&mut own, &mut server);
    let seen = |scope| server.all(R, scope).unwrap().count();
    assert_eq!([Scope::LOCAL, Scope::REMOTE].map(seen), [1_026, 1_026]);
    assert!(!own.has_uncommitted());
}

#[test]
fn removed_values_do_not_count_against_stored_ones() {
    let (mut own, mut server, mut far) = (own(), ModexStore::default(), ModexStore::default());
    let count = |puts: &ModexStore| puts.all(R, Scope::REMOTE).unwrap().count();
    for units in [0..1_024, 1_024..2_048, 2_000..2_200] {
        let removed = Info::new("speed", Value::Undef);
        own.put(&codec(), Scope::DEL_GLOBAL, removed).unwrap();
        for unit in units.clone() {
            put_unit(&mut own, Scope::GLOBAL, "speed", unit);
        }
        commit_all(&mut own, &mut server);
        assert_eq!(
            (count(&server), count(own.all())),
            (units.len(), units.len())
        );
        // The reply to a direct modex does not contain removals.
        let reply = server.direct(&codec(), R).unwrap();
        far.absorb_direct(&codec(), R, &reply).unwrap();
        assert!(count(&far) <= 1_024);
        for unit in units {
            let asked = [Info::new("unit", unit).qualifier()];
            assert!(far.get(R, Scope::REMOTE, "speed", &asked).is_ok(), "{unit}");
        }
    }
}

#[test]
fn a_removal_is_sent_with_the_remaining_values_of_the_key() {
    let (mut own, mut server) = (own(), ModexStore::default());
    for unit in 0..200 {
        put_unit(&mut own, Scope::GLOBAL, "speed", unit);
    }
    commit(&mut own, &mut server);
    // Between the removal and the value, the process puts more data than fit one message.
    put_unit(&mut own, Scope::LOCAL, "speed", 7);
    for number in 0..3 {
        put_bytes(&mut own, Scope::REMOTE, &format!("big.{number}"), MOST / 2);
    }
    put_unit(&mut own, Scope::GLOBAL, "speed", 200);
    let mut num_seen = Vec::new();
    while own.has_uncommitted() {
        let (message, _said) = take_first(&mut own);
        server.commit(&codec(), R, &message).unwrap();
        let speeds = own.all().of_key(R, &"speed".into()).len();
        let remote = server.of_key_for(R, &"speed".into(), ScopeSet::REMOTE);
        num_seen.push((speeds, remote.count()));
    }
    assert_eq!(num_seen.len(), 3);
    assert!(
        num_seen.iter().all(|seen| *seen == (201, 200)),
        "{num_seen:?}"
    );
    // If the removal and its values do not all fit into a message, they are left to the next one.
    put_bytes(&mut own, Scope::REMOTE, "big.0", MOST / 2);
    put_bytes(&mut own, Scope::REMOTE, "large", MOST / 2 - 2_000);
    put_unit(&mut own, Scope::LOCAL, "speed", 8);
    let (message, said) = take_first(&mut own);
    assert_eq!(said.said.len(), 2);
    server.commit(&codec(), R, &message).unwrap();
    assert_eq!(commit_all(&mut own, &mut server).len(), 1);
    let remote = server.of_key_for(R, &"speed".into(), ScopeSet::REMOTE);
    assert_eq!(remote.count(), 199);
}

#[test]
fn all_messages_but_the_last_state_that_the_commit_continues() {
    for says in [true, false] {
        let (mut own, mut server) = (own().with_parts(says), ModexStore::default());
        for number in 0..3 {
            put_bytes(&mut own, Scope::REMOTE, &format!("big.{number}"), MOST / 2);
        }
        let mut parts = Vec::new();
        for (message, _stored) in own.take_commit(&codec()).unwrap() {
            let limits = crate::CommitLimits::NONE;
            let part = server.commit_telling(&codec(), R, &message, limits, |_, _| ());
            parts.push(part.unwrap());
        }
        let end = CommitPart::End;
        let begin = if says { CommitPart::Begin } else { end };
        assert_eq!(parts, [begin, begin, end]);
    }
    // The block is empty and the last one.
    let block = |scope: Scope, kvals: &[u8]| {
        let mut out = Vec::new();
        let mut encoder = codec().encoder(&mut out);
        encoder.one::<wire_type::Scope>(&scope).unwrap();
        let kvals = pmix_types::Bytes::Owned(kvals.to_vec());
        encoder.one::<wire_type::Buffer>(&kvals).unwrap();
        out
    };
    let goes_on = block(Scope::DEL_INTERNAL, &[]);
    let mut server = ModexStore::default();
    assert_eq!(server.commit(&codec(), R, &goes_on), Ok(()));
    for wrong in [
        [goes_on.clone(), block(Scope::LOCAL, &[])].concat(),
        block(Scope::DEL_INTERNAL, &[1]),
    ] {
        let error = server.commit(&codec(), R, &wrong).unwrap_err();
        assert_eq!(
            (error.status(), error.offset()),
            (Status::ERR_BAD_PARAM, Some(0))
        );
    }
}
