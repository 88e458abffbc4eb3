// SPDX-License-Identifier: MIT OR Apache-2.0
//! The size and the keys of commit messages.

use gds_hash::{Codec, ModexStore};
use pmix_types::Scope;

use super::*;

impl Side {
    /// Puts a number with global scope.
    fn put(&mut self, key: &str, number: u32) {
        let info = Info::new(key, number);
        self.core.put(Scope::GLOBAL, info).unwrap();
    }

    /// Returns the number of bytes that the core sends, and stores the commits among them at the server.
    fn sent(&mut self, server: &mut ModexStore) -> usize {
        let mut sent = 0;
        while let Some(bytes) = self.core.poll_transmit() {
            sent += bytes.len();
            self.inbox.push(&bytes);
            while let Some(frame) = self.inbox.next_frame().unwrap() {
                let form = *self.core.form();
                let request = Request::decode(&form, None, &frame.payload).unwrap();
                self.asked.push((frame.header.tag, request.command()));
                let Request::Commit(commit) = request else {
                    continue;
                };
                let codec = Codec::new(form.layout);
                server.commit(&codec, Rank::new(0), commit.blocks).unwrap();
            }
        }
        sent
    }

    fn fail(&mut self, command: Command) {
        let status = Status::ERR_OUT_OF_RESOURCE;
        let status = pmix_proto::reply::status(self.core.form(), status).unwrap();
        self.reply(command, &status);
    }
}

fn has(server: &ModexStore, key: &str) -> Option<u32> {
    let value = server.get(Rank::new(0), Scope::REMOTE, key, &[]).ok()?;
    value.to_number().ok()
}

#[test]
fn a_commit_sends_the_values_put_since_the_last_one() {
    let (mut side, mut server) = (Side::begun(), ModexStore::default());
    let mut sent = Vec::new();
    for number in 0..200_u32 {
        side.put(&format!("key.{number:03}"), 1 << 20 | number);
        let commit = side.core.commit(None).unwrap();
        sent.push(side.sent(&mut server));
        side.succeed(Command::COMMIT);
        assert_eq!(side.ended(), [(commit, Status::SUCCESS)]);
    }
    assert_eq!(sent, vec![sent[0]; 200]);
    assert_eq!(server.num_keys(Rank::new(0)), 200);
    // A key that is put twice is sent with its last value; after that there is nothing to send.
    side.put("key.000", 1);
    side.put("key.000", 2);
    side.core.commit(None).unwrap();
    assert_eq!(side.sent(&mut server), sent[0] - 2 * 2);
    side.succeed(Command::COMMIT);
    side.core.commit(None).unwrap();
    assert_eq!(side.sent(&mut server), 0);
    assert_eq!(has(&server, "key.000"), Some(2));
    assert_eq!(side.core.stats().num_operations, 0);
}

#[test]
fn a_value_that_no_commit_can_encode_is_refused_by_put() {
    let mut side = Side::begun();
    let deep = (0..65).fold(Value::from(1_u32), |value, _| {
        vec![Info::new("level", value)].into()
    });
    let deep = Info::new("deep", deep);
    let long = Info::new("long", vec![7_u8; 64 << 20]);
    for (info, status) in [
        (deep, Status::ERR_BAD_PARAM),
        (long, Status::ERR_OUT_OF_RESOURCE),
    ] {
        let put = side.core.put(Scope::GLOBAL, info.clone());
        assert_eq!(put.unwrap_err().status(), status);
    }
    side.put("short", 1);
    side.core.commit(None).unwrap();
    let mut server = ModexStore::default();
    side.sent(&mut server);
    assert_eq!(server.num_keys(Rank::new(0)), 1);
}

#[test]
fn values_of_a_failed_commit_are_sent_with_the_next_one() {
    type End = fn(&mut Side, OperationId);
    let ends: [(End, Status); 3] = [
        (
            |side, _| side.fail(Command::COMMIT),
            Status::ERR_OUT_OF_RESOURCE,
        ),
        (|side, _| side.pass(SECOND), Status::ERR_TIMEOUT),
        (
            |side, id| side.core.cancel(id, side.now),
            Status::ERR_NOT_AVAILABLE,
        ),
    ];
    for (end, status) in ends {
        let mut side = Side::begun();
        side.put("first", 1);
        side.put("again", 1);
        let until = side.end();
        let commit = side.core.commit(until).unwrap();
        let lost = side.sent(&mut ModexStore::default());
        assert!(lost > 0);
        side.put("again", 2);
        end(&mut side, commit);
        assert_eq!(side.ended(), [(commit, status)]);
        side.put("later", 3);
        let mut server = ModexStore::default();
        side.core.commit(None).unwrap();
        assert!(side.sent(&mut server) > lost);
        let found = ["first", "again", "later"].map(|key| has(&server, key));
        assert_eq!(found, [Some(1), Some(2), Some(3)], "{status}");
    }
}

#[test]
fn a_commit_ends_when_all_its_messages_are_answered() {
    let mut side = Side::begun();
    // Each value fills more than half of a message.
    for key in ["first", "second"] {
        let info = Info::new(key, vec![7_u8; 40 << 20]);
        side.core.put(Scope::REMOTE, info).unwrap();
    }
    side.put("third", 3);
    let rank = Rank::new(0);
    let commit = side.core.commit(None).unwrap();
    side.sent(&mut ModexStore::default());
    side.fail(Command::COMMIT);
    assert_eq!(side.ended(), []);
    side.succeed(Command::COMMIT);
    assert_eq!(side.ended(), [(commit, Status::ERR_OUT_OF_RESOURCE)]);
    // Data that the server rejects are part of the next commit, and stored data are not.
    let mut server = ModexStore::default();
    let again = side.core.commit(None).unwrap();
    side.sent(&mut server);
    assert!(server.get(rank, Scope::REMOTE, "first", &[]).is_ok());
    assert_eq!((server.num_keys(rank), has(&server, "third")), (1, None));
    side.succeed(Command::COMMIT);
    assert_eq!(side.ended(), [(again, Status::SUCCESS)]);
    let stats = side.core.stats();
    assert_eq!((stats.num_operations, stats.num_requests), (0, 0));
}

#[test]
fn requests_after_a_commit_follow_all_its_messages() {
    let (mut side, mut server) = (Side::begun(), ModexStore::default());
    for number in 0..20_000 {
        side.put(&format!("key.{number}"), number);
    }
    let commit = side.core.commit(side.end()).unwrap();
    let fence = side
        .core
        .call(
            Request::Fence(request::Fence {
                procs: vec![],
                infos: vec![Info::new(keys::COLLECT_DATA, true)],
            }),
            None,
        )
        .unwrap();
    side.sent(&mut server);
    assert_eq!(server.num_keys(Rank::new(0)), 20_000);
    let commits = [Command::COMMIT; 2].as_slice();
    assert_eq!(side.asked(), [commits, &[Command::FENCENB]].concat());
    // Data without a reply in time are part of the next commit.
    side.succeed(Command::COMMIT);
    side.pass(SECOND);
    assert_eq!(side.ended(), [(commit, Status::ERR_TIMEOUT)]);
    side.succeed(Command::FENCENB);
    assert_eq!(side.ended(), [(fence, Status::SUCCESS)]);
    let stats = side.core.stats();
    assert_eq!((stats.num_operations, stats.num_requests), (0, 0));
    side.asked.clear();
    let mut again = ModexStore::default();
    side.core.commit(None).unwrap();
    side.sent(&mut again);
    assert_eq!(again.num_keys(Rank::new(0)), 20_000 - (32 << 10) / 2);
}

#[test]
fn removed_keys_are_sent_only_to_a_server_that_supports_removal() {
    for (removes_keys, status) in [(true, Status::SUCCESS), (false, Status::ERR_NOT_SUPPORTED)] {
        let under = |settings: &mut Settings| settings.removes_keys = removes_keys;
        let (mut side, mut server) = (Side::with(None, under).begin(), ModexStore::default());
        side.put("key", 1);
        side.core.commit(None).unwrap();
        side.sent(&mut server);
        side.succeed(Command::COMMIT);
        let gone = Info::new("key", Value::Undef);
        let put = side.core.put(Scope::DEL_GLOBAL, gone);
        let put = put.map_or_else(|error| error.status(), |()| Status::SUCCESS);
        assert_eq!(put, status);
        side.core.commit(None).unwrap();
        side.sent(&mut server);
        assert_eq!(has(&server, "key"), (!removes_keys).then_some(1));
    }
}
