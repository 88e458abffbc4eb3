// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls about groups, and calls with the names of groups.

use pmix_types::Scope;

use super::*;

/// Decodes the next message of a core, as a server of a release reads it.
fn sent_to(side: &mut Side, version: &str, look: impl FnOnce(Request<'_>)) {
    let form = PeerForm::new(side.core.form().layout, version.as_bytes());
    side.inbox.push(&side.core.poll_transmit().unwrap());
    let frame = side.inbox.next_frame().unwrap().unwrap();
    let request = Request::decode(&form, None, &frame.payload).unwrap();
    side.asked.push((frame.header.tag, request.command()));
    look(request);
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

/// Returns the endpoint data of a process with one value.
fn endpoints(rank: u32, number: u32) -> Info<'static> {
    let infos = vec![
        Info::new(keys::PROCID, peer(rank)),
        Info::new(keys::DATA_SCOPE, Value::Scope(Scope::REMOTE)),
        Info::new("card", number),
    ];
    Info::new(keys::PROC_INFO_ARRAY, infos)
}

/// Returns the endpoint data in the next event that a core sends.
fn sent_endpoints(side: &mut Side, status: Status) -> Vec<Info<'static>> {
    let mut found = Vec::new();
    sent_to(side, "7.0.0", |sent| {
        let Request::Notify(event) = sent else {
            panic!("{sent:?}");
        };
        assert_eq!(event.status, status);
        let infos = event.infos.into_owned().into_iter();
        found.extend(infos.filter(|info| info.key.is(keys::PROC_INFO_ARRAY)));
    });
    found
}

#[test]
fn endpoint_data_travel_with_answers_to_invitations_and_with_the_group() {
    let group = || Info::new(keys::GROUP_ID, "g");
    let begun = || {
        let mut side = Side::begun_under("7.0.0");
        side.core
            .put(Scope::REMOTE, Info::new("card", 7_u32))
            .unwrap();
        side.core
            .put(Scope::LOCAL, Info::new("local", 7_u32))
            .unwrap();
        side
    };
    let mut leader = begun();
    let procs = vec![peer(0), peer(1), peer(2)];
    let (end, now) = (None, leader.now);
    let invite = leader.core.invite("g".into(), procs.clone(), &[], end, now);
    leader.succeed(Command::REGEVENTS);
    assert_eq!(sent_endpoints(&mut leader, Status::GROUP_INVITED), []);
    let members = |own| vec![group(), own];
    // A process contributes only its own data.
    let mut forged = members(endpoints(1, 8));
    forged.push(endpoints(0, 9));
    leader.event(Status::GROUP_INVITE_ACCEPTED, forged);
    let accepted = Event {
        status: Status::GROUP_INVITE_ACCEPTED,
        source: peer(2),
        infos: vec![group()],
        range: Some(DataRange::CUSTOM),
    };
    let accepted = accepted.encode(leader.core.form(), None).unwrap();
    leader.send(Tag::EVENT, &accepted);
    while let Some((question, _)) = leader.core.poll_question() {
        leader.core.decide(&question, None, now).unwrap();
    }
    let all = [endpoints(1, 8), endpoints(0, 7)];
    assert_eq!(
        sent_endpoints(&mut leader, Status::GROUP_CONSTRUCT_COMPLETE),
        all
    );
    let known = |side: &Side, rank, infos: &[Info<'_>]| {
        let infos = [&[Info::new(keys::OPTIONAL, true)], infos].concat();
        side.core
            .known(&peer(rank), "card", &infos)
            .and_then(Result::ok)
    };
    assert_eq!(known(&leader, 1, &[]), Some(Value::Uint32(8)));
    assert!(invite.is_ok());

    let mut member = begun();
    let (end, now) = (None, member.now);
    let join = member.core.join("g".into(), Some(&peer(1)), &[], end, now);
    member.succeed(Command::REGEVENTS);
    let own = [endpoints(0, 7)];
    assert_eq!(
        sent_endpoints(&mut member, Status::GROUP_INVITE_ACCEPTED),
        own
    );
    member.succeed(Command::NOTIFY);
    let id = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(5));
    let infos = vec![
        group(),
        Info::new(keys::GROUP_MEMBERSHIP, procs),
        id.clone(),
        endpoints(0, 6),
        endpoints(1, 8),
        endpoints(2, 9),
    ];
    member.event(Status::GROUP_CONSTRUCT_COMPLETE, infos);
    assert!(join.is_ok());
    let mut of_group = id;
    of_group.set_qualifier();
    for (rank, number) in [(1, 8), (2, 9)] {
        let found = known(&member, rank, std::slice::from_ref(&of_group));
        assert_eq!(found, Some(Value::Uint32(number)));
        assert_eq!(
            known(&member, rank, &[]),
            None,
            "only with the id of the group"
        );
    }
    // Own values are found both as they were put and as the group announced them.
    let own = |infos: &[Info<'_>]| known(&member, 0, infos);
    assert_eq!(own(&[of_group]), Some(Value::Uint32(6)));
    assert_eq!(own(&[]), Some(Value::Uint32(7)));
}

#[test]
fn a_deregistration_keeps_the_events_that_groups_need() {
    let mut side = Side::begun_under("7.0.0");
    let (end, now) = (None, side.now);
    let of_group = Status::ERR_PROC_ABORTED;
    side.core.deregister_events(&[of_group]).unwrap();
    assert_eq!(side.asked(), [Command::DEREGEVENTS]);
    side.asked.clear();
    let join = side.core.join("g".into(), Some(&peer(1)), &[], end, now);
    assert!(join.is_ok());
    side.succeed(Command::REGEVENTS);
    assert_eq!(side.asked(), [Command::NOTIFY]);
    side.core.deregister_events(&[of_group]).unwrap();
    assert_eq!(side.asked(), [Command::NOTIFY]);
    side.core
        .deregister_events(&[of_group, Status::ERR_TIMEOUT])
        .unwrap();
    assert_eq!(side.asked(), [Command::NOTIFY, Command::DEREGEVENTS]);
}
