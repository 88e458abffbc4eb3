// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tool that the host connected to.

use pmix_engine::{Config, EngineEvent, Origin};
use pmix_proto::{Request, request};
use pmix_types::{Proc, Query, Rank, Status, keys};

use crate::world::{UID, World, hello};

fn from(uid: u32) -> Origin {
    Origin {
        uid: Some(uid),
        gid: None,
        loopback: true,
    }
}

/// Connects a launcher to the tool that started it; the tool sends no hello.
#[test]
fn a_tool_connected_by_the_host_is_treated_like_others() {
    let mut config = Config::default();
    config.user = Some((UID, UID));
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let name = Proc::new("tool", Rank::new(0));
    let who = world.add_tool(0, &name, from(UID)).unwrap();
    world.run();
    assert_eq!(world.nodes[0].engine.recount(), []);
    let asked = Request::Query(request::Query {
        queries: vec![Query {
            keys: vec![keys::QUERY_NAMESPACES.into()],
            qualifiers: Vec::new(),
        }],
    });
    assert_eq!(world.status_of(who, &asked), Some(Status::SUCCESS));
    for (name, uid, status) in [
        (name.clone(), UID, Status::ERR_DUPLICATE_KEY),
        (
            Proc::new("other", Rank::new(0)),
            UID + 1,
            Status::ERR_NO_PERMISSIONS,
        ),
        (
            Proc::new("job", Rank::new(7)),
            UID,
            Status::ERR_NO_PERMISSIONS,
        ),
        (Proc::new("", Rank::new(0)), UID, Status::ERR_BAD_PARAM),
    ] {
        let refused = world.add_tool(0, &name, from(uid)).unwrap_err();
        assert_eq!(refused.status(), status, "{name:?}");
    }
    world.kill(who);
    assert!(world.add_tool(0, &name, from(0)).is_ok());
}

/// Releases the connection of a launcher to the tool that started the launcher. This fails before the launcher has
/// requested its job info, and while it waits for a reply.
#[test]
fn releasing_an_idle_connection_does_not_lose_its_process() {
    let mut world = World::new(1);
    world.job("launcher", &[2]);
    let launcher = Proc::new("launcher", Rank::new(0));
    let who = world.connect(0, &hello("launcher", 0));
    let give_up = |world: &mut World| {
        let given_up = world.nodes[0].engine.give_up(&launcher, world.now);
        assert_eq!(world.nodes[0].engine.recount(), []);
        given_up
    };
    assert_eq!(give_up(&mut world), None, "its handshake is not complete");
    world.run();
    assert_eq!(
        give_up(&mut world),
        None,
        "it has not requested its job info"
    );
    world.ask(who, &Request::JobInfo);
    world.run();
    let fence = Request::Fence(request::Fence {
        procs: vec![Proc::new("launcher", Rank::WILDCARD)],
        ..request::Fence::default()
    });
    let waits = world.ask(who, &fence);
    world.run();
    assert_eq!(give_up(&mut world), None, "it waits for a fence");
    let other = world.join(0, "launcher", 1);
    world.ask(other, &fence);
    world.run();
    assert!(world.clients[who].reply(waits).is_some());
    let (peer, form) = give_up(&mut world).unwrap();
    assert_eq!(world.clients[who].peer, Some(peer));
    assert_eq!(form, hello("launcher", 0).form().unwrap());
    assert_eq!(give_up(&mut world), None, "a connection is released once");
    world.kill(who);
    let lost = { world.nodes[0].events.iter() }
        .find(|event| matches!(event, EngineEvent::ProcessLost { .. }));
    assert!(lost.is_none(), "{lost:?}");
    // No collective waits for the process any more.
    let engine = &mut world.nodes[0].engine;
    engine.deregister_nspace(&"launcher".into()).unwrap();
    assert_eq!(engine.recount(), []);
}
