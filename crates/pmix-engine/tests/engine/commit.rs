// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is told of a process that commits in several messages.

use std::time::Duration;

use gds_hash::{Codec, OwnPuts};
use pmix_proto::{Request, request};
use pmix_types::{Info, Rank, Scope, Status};

use crate::exchange::get;
use crate::world::World;

#[test]
fn a_key_of_a_later_message_of_the_first_commit_is_waited_for() {
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
    let whole = request::Get {
        nspace: "job".into(),
        rank: Rank::new(1),
        infos: vec![],
        key: None,
    };
    let whole = world.ask(all[0], &Request::Get(whole));
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
    // From now on a key is waited for a little.
    let never = world.ask(all[0], &get("job", 1, "never"));
    world.advance(Duration::from_secs(10));
    let status = world.clients[all[0]].status(never);
    assert_eq!(status, Some(Status::ERR_NOT_FOUND));
}
