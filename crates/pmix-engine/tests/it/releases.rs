// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fences with servers of releases on other nodes.

use pmix_engine::{Config, HostReply, ModexForm, Upcall};
use pmix_types::{Scope, Status, Value};

use crate::collective::{DONE, ask_all, collect, fence, statuses};
use crate::exchange::{commit, get};
use crate::world::{Reaction, World};

/// The contribution of a 4.2.2 server for ranks 1 and 0, with a global and a remote key each.
const OF_A_RELEASE: &[u8] = b"\x02\x5c\x02\x03\x02\x02\x04\x10my.glob\0\x0emy.rem\0\
    \x02\x21\x02\x01\x02\x00\x02\x0f\x89\xef\x99\xab\xc5\xe8\x8c\x91\x11\
    \x02\x01\x02\x03\x1ahello-remote\0\
    \x02\x21\x02\x00\x02\x00\x02\x0f\x88\xef\x99\xab\xc5\xe8\x8c\x91\x11\
    \x02\x01\x02\x03\x1ahello-remote\0";

/// Creates servers that contribute in the form of OpenPMIx 4.2 and 5.0.
fn numbered(num_nodes: usize) -> World {
    let mut config = Config::default();
    config.fence_form = ModexForm::Numbered;
    World::with(num_nodes, &config)
}

#[test]
fn a_server_of_a_release_can_run_on_the_other_node() {
    let mut world = numbered(2);
    world.job("job", &[2, 1]);
    let own = world.join(1, "job", 2);
    let data = [(Scope::REMOTE, "nic", 7), (Scope::LOCAL, "shm", 8)];
    commit(&mut world, own, 2, &data);
    world.rule(|_, call| match call {
        Upcall::Fence(fence) if fence.infos.is_empty() => {
            assert_eq!(
                fence.data, b"",
                "a release contributes nothing, not even a flag"
            );
            Reaction::HostReply(HostReply::Data(Ok(Vec::new())))
        }
        Upcall::Fence(fence) => {
            // Flag 1, then rank 2 with one named key, as a release decodes it.
            let expected = b"\x02\x0e\x02\x01\x02\x0a\x02\x02\x02\x08nic\0\x0e\x07";
            assert_eq!(fence.data, expected);
            Reaction::HostReply(HostReply::Data(Ok([OF_A_RELEASE, &fence.data].concat())))
        }
        _ => panic!("a direct modex was requested for data of the fence"),
    });
    assert_eq!(world.status_of(own, &fence(vec![])), DONE);
    assert_eq!(world.status_of(own, &fence(collect())), DONE);
    for rank in [0, 1] {
        let tag = world.ask(own, &get("job", rank, "my.glob"));
        world.run();
        let expected = Value::Uint64(1_234_605_616_436_508_552 + u64::from(rank));
        assert_eq!(world.clients[own].value(tag, "my.glob"), Some(expected));
        let remote = world.clients[own].value(tag, "my.rem");
        assert_eq!(remote, Some(Value::from("hello-remote")));
    }
}

#[test]
fn a_fence_failure_reaches_all_nodes_in_the_form_of_releases() {
    for infos in [Vec::new(), collect()] {
        let mut world = numbered(2);
        world.job("job", &[2, 1]);
        let all = world.join_all("job", &[2, 1]);
        let here = ask_all(&mut world, &all[..1], &fence(infos.clone()));
        let there = ask_all(&mut world, &all[2..], &fence(infos));
        world.kill(all[1]);
        let expected = Some(Status::ERR_LOST_CONNECTION);
        assert_eq!(statuses(&world, &all[..1], &here), [expected]);
        assert_eq!(statuses(&world, &all[2..], &there), [expected]);
    }
}
