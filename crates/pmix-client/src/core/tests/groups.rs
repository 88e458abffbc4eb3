// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls about groups, and calls with the names of groups.

use super::*;

/// Decodes the next message of a core, as a server of a release reads it.
fn sent_to(side: &mut Side, version: &str, look: impl FnOnce(Request<'_>)) {
    let form = PeerForm::new(side.core.form().layout, version.as_bytes());
    side.inbox.push(&side.core.poll_transmit().unwrap());
    let frame = side.inbox.next_frame().unwrap().unwrap();
    look(Request::decode(&form, None, &frame.payload).unwrap());
}

/// Returns a core in a group of two. The server may have sent its members or not.
fn in_group(version: &str) -> Side {
    let mut side = Side::begun_under(version);
    let (members, now) = ([peer(1), peer(0)], side.now);
    let construct = Request::GroupConstruct(request::GroupConstruct {
        group: Some("g".into()),
        procs: members.to_vec(),
        infos: vec![],
    });
    let id = side.core.call(construct, None).unwrap();
    let made = pmix_proto::reply::Group {
        status: Status::SUCCESS,
        members: members.to_vec(),
        ..pmix_proto::reply::Group::default()
    };
    let made = made.encode(side.core.form(), None).unwrap();
    side.reply(Command::GROUP_CONSTRUCT, &made);
    assert_eq!(side.ended(), [(id, Status::SUCCESS)]);
    side.core.handle_timeout(now);
    side
}

#[test]
fn a_destruct_is_sent_in_the_form_of_the_server() {
    for (version, procs) in [("4.2.2", vec![]), ("5.0.11", vec![peer(0), peer(1)])] {
        let mut side = in_group(version);
        let limit = [Info::new(keys::TIMEOUT, 1_u32)];
        let destruct = Request::GroupDestruct(request::GroupDestruct {
            group: Some("g".into()),
            procs: vec![],
            infos: limit.to_vec(),
        });
        side.core.call(destruct, None).unwrap();
        let expected = Request::GroupDestruct(request::GroupDestruct {
            group: Some("g".into()),
            procs,
            infos: limit.to_vec(),
        });
        sent_to(&mut side, version, |sent| {
            assert_eq!(sent, expected, "{version}")
        });
    }
}

/// Returns the request to leave the group.
fn leave() -> Request<'static> {
    Request::GroupLeave(request::GroupLeave {
        group: Some("g".into()),
        infos: vec![],
    })
}

#[test]
fn a_leave_that_is_refused_leaves_the_members_known_for_a_destruct() {
    let mut side = in_group("5.0.11");
    let left = side.core.call(leave(), None).unwrap();
    let status = Status::ERR_NOT_SUPPORTED;
    let refused = pmix_proto::reply::status(side.core.form(), status).unwrap();
    side.reply(Command::GROUP_LEAVE, &refused);
    assert_eq!(side.ended(), [(left, status)]);
    let members = |side: &Side| side.core.known_data().groups().members(&"g".into()).len();
    assert_eq!(members(&side), 2);
    side.core.call(leave(), None).unwrap();
    assert_eq!(members(&side), 2);
    side.succeed(Command::GROUP_LEAVE);
    assert_eq!(members(&side), 0);
}

#[test]
fn the_name_of_a_group_goes_as_members_to_a_server_that_does_not_resolve_it() {
    let of_group = |rank| Proc::new("g", rank);
    for (version, expected) in [
        ("4.2.2", vec![of_group(Rank::WILDCARD)]),
        ("5.0.11", vec![peer(0), peer(1)]),
    ] {
        let mut side = in_group(version);
        let named = [of_group(Rank::WILDCARD)];
        side.core
            .call(
                Request::Fence(request::Fence {
                    procs: named.to_vec(),
                    infos: vec![],
                }),
                None,
            )
            .unwrap();
        sent_to(&mut side, version, |sent| match sent {
            Request::Fence(fence) => assert_eq!(fence.procs, expected, "{version}"),
            other => panic!("{other:?}"),
        });
        let range = Info::new(keys::EVENT_CUSTOM_RANGE, named[0].clone());
        let event = Request::Notify(request::Notify {
            status: Status::EVENT_JOB_END,
            range: DataRange::CUSTOM,
            infos: vec![range],
        });
        side.core.call(event, None).unwrap();
        sent_to(&mut side, version, |sent| {
            let Request::Notify(event) = sent else {
                panic!("{sent:?}");
            };
            match &event.infos[0].value {
                Value::Proc(proc) => assert_eq!(std::slice::from_ref(proc), expected),
                Value::DataArray(DataArray::Proc(procs)) => assert_eq!(*procs, expected),
                other => panic!("{other:?}"),
            }
        });
    }
    let mut side = in_group("5.0.11");
    let beyond = of_group(Rank::new(2));
    let error = side.core.call(
        Request::Fence(request::Fence {
            procs: vec![beyond],
            infos: vec![],
        }),
        None,
    );
    assert_eq!(error.unwrap_err().status(), Status::ERR_NOT_FOUND);
    let second = of_group(Rank::new(1));
    side.core.get(&second, "key", &[], None).unwrap();
    sent_to(&mut side, "5.0.11", |sent| match sent {
        Request::Get(get) => assert_eq!(Proc::new(get.nspace, get.rank), peer(1)),
        other => panic!("{other:?}"),
    });
}

fn leave_of(name: &'static str) -> Request<'static> {
    Request::GroupLeave(request::GroupLeave {
        group: Some(name.into()),
        infos: vec![],
    })
}

#[test]
fn a_leave_is_an_event_for_the_other_members_since_7_0() {
    let mut side = in_group("7.0.0");
    side.core.call(leave_of("g"), None).unwrap();
    let expected = Request::Notify(request::Notify {
        status: Status::GROUP_LEFT,
        range: DataRange::CUSTOM,
        infos: vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, vec![peer(1)]),
            Info::new(keys::EVENT_AFFECTED_PROC, peer(0)),
            Info::new(keys::GROUP_ID, "g"),
        ],
    });
    sent_to(&mut side, "7.0.0", |sent| assert_eq!(sent, expected));
    let again = side.core.call(leave_of("h"), None);
    assert_eq!(again.unwrap_err().status(), Status::ERR_NOT_FOUND);
}

#[test]
fn shared_infos_of_a_group_begin_with_the_process_since_6_0() {
    let shared = |infos: &[Info<'static>]| vec![Info::new(keys::GROUP_INFO, infos.to_vec())];
    let (own, card) = (Info::new(keys::PROCID, peer(0)), Info::new("card", 7_u32));
    for (version, is_named) in [("5.0.11", false), ("6.0.0", true), ("7.0.0", true)] {
        let mut side = Side::begun_under(version);
        for given in [vec![card.clone()], vec![own.clone(), card.clone()]] {
            let has_name = is_named || given.len() == 2;
            let construct = Request::GroupConstruct(request::GroupConstruct {
                group: Some("g".into()),
                procs: vec![peer(0)],
                infos: shared(&given),
            });
            side.core.call(construct, None).unwrap();
            sent_to(&mut side, version, |sent| {
                let Request::GroupConstruct(sent) = sent else {
                    panic!("{sent:?}");
                };
                let expected = match has_name {
                    true => shared(&[own.clone(), card.clone()]),
                    false => shared(std::slice::from_ref(&card)),
                };
                assert_eq!(sent.infos, expected, "{version}");
            });
        }
    }
}
