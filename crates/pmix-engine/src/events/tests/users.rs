// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events and the users whose processes may receive them.

use pmix_types::Value;

use super::*;
use crate::events::directives::ONLY_USER;

#[test]
fn events_of_a_user_do_not_reach_processes_of_others() {
    let mut fixture = Fixture::new();
    for (number, uid) in [(1, 100), (2, 7)] {
        let other = Listener {
            uid,
            ..listener(number)
        };
        let registered = fixture
            .events
            .register(PeerId::of(number), &other, &[], &[]);
        registered.unwrap();
    }
    assert_eq!(fixture.raise(0, CODE, DataRange::GLOBAL), [1]);
    let (peer, source) = peer(0);
    let root = Reporter::Peer(peer);
    for reporter in [root, Reporter::Host, Reporter::Server] {
        let notification =
            Notification::new(reporter, CODE, source.clone(), DataRange::GLOBAL, vec![]);
        assert_eq!(fixture.take(notification.unwrap()), [1, 2]);
    }
}

#[test]
fn tools_with_full_access_get_events_of_every_user() {
    let mut fixture = Fixture::new();
    for (number, is_tool, receives_all) in [(1, true, true), (2, true, false), (3, false, false)] {
        let other = Listener {
            uid: 7,
            is_tool,
            receives_all,
            ..listener(number)
        };
        let registered = fixture
            .events
            .register(PeerId::of(number), &other, &[], &[]);
        registered.unwrap();
    }
    assert_eq!(fixture.raise(0, CODE, DataRange::GLOBAL), [1]);
    let of_host = |owners: &[u32], infos: Vec<Info<'static>>| {
        let source = Proc::new("rm", Rank::UNDEF);
        let made = Notification::new(Reporter::Host, CODE, source, DataRange::GLOBAL, infos);
        made.map(|made| made.about_jobs_of(owners.to_vec()))
    };
    // Processes receive all events of the host; tools only those about jobs that they may read.
    for (owners, recipients) in [
        (&[][..], vec![1, 2, 3]),
        (&[100], vec![1, 3]),
        (&[7, 100], vec![1, 2, 3]),
    ] {
        assert_eq!(fixture.take(of_host(owners, vec![]).unwrap()), recipients);
    }
    // The restriction set by another server applies.
    let only = |value: Value<'static>| Info::new(ONLY_USER, value);
    let elsewhere = of_host(&[], vec![only(Value::Uint32(100)), said("k")]).unwrap();
    assert_eq!(elsewhere.infos, [said("k")]);
    assert_eq!(fixture.take(elsewhere), [1]);
    let own = of_host(&[], vec![only(Value::Uint32(7))]).unwrap();
    assert_eq!(fixture.take(own), [1, 2, 3]);
    let error = of_host(&[], vec![only(Value::from("root"))]).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
}
