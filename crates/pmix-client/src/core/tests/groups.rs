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
