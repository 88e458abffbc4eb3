// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tool that the host connected with.

use pmix_engine::{Config, Origin};
use pmix_proto::{Request, request};
use pmix_types::{Proc, Query, Rank, Status, keys};

use crate::world::{UID, World};

fn from(uid: u32) -> Origin {
    Origin {
        uid: Some(uid),
        gid: None,
        loopback: true,
    }
}

/// A launcher connects with the tool that had it started, which says nothing of itself.
#[test]
fn a_tool_that_the_host_connected_with_is_served_and_refused_as_others() {
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
