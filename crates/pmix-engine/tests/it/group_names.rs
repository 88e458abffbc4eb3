// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of groups in other requests.

use std::cell::RefCell;
use std::rc::Rc;

use pmix_engine::Upcall;
use pmix_proto::{Request, reply, request};
use pmix_types::{
    DataArray, DataRange, Info, IntoOwned, IofChannel, Proc, Rank, Scope, Status, Text, Value, keys,
};

use crate::collective::{DONE, fence_of, procs, statuses};
use crate::event_rights::tool;
use crate::exchange::{commit, get};
use crate::group::{construct_of, heard, listen, make, world, world_with};
use crate::world::{Reaction, UID, Who, World};

#[test]
fn a_group_can_fence_by_name_and_group_rank() {
    let (mut world, all) = world(&[2, 2]);
    make(&mut world, &[all[3], all[1]], "g", &[3, 1]);
    let whole = Rank::WILDCARD.as_raw();
    for list in [
        &[("g", whole)][..],
        &[("g", 0), ("g", 1)],
        &[("g", 0), ("job", 1)],
    ] {
        let fence = fence_of(procs(list), vec![]);
        let first = world.ask(all[3], &fence);
        world.run();
        assert_eq!(world.clients[all[3]].status(first), None);
        assert_eq!(
            world.status_of(all[1], &fence_of(procs(&[("job", 1), ("job", 3)]), vec![])),
            DONE
        );
        assert_eq!(world.clients[all[3]].status(first), DONE);
    }
    let beyond = fence_of(procs(&[("g", 2)]), vec![]);
    assert_eq!(
        world.status_of(all[1], &beyond),
        Some(Status::ERR_NOT_FOUND)
    );
    // For other processes, the name is unknown.
    let by_name = fence_of(procs(&[("g", whole)]), vec![]);
    assert_eq!(
        world.status_of(all[0], &by_name),
        Some(Status::ERR_BAD_PARAM)
    );
}

#[test]
fn the_host_gets_processes_for_a_group_in_a_connect_or_disconnect() {
    let (mut world, all) = world(&[2, 2]);
    let calls = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&calls);
    world.rule(move |_, call| {
        match call {
            Upcall::Connect(call) => seen.borrow_mut().push(call.procs.clone()),
            Upcall::Disconnect(call) => seen.borrow_mut().push(call.procs.clone()),
            _ => {}
        }
        Reaction::Usual
    });
    let three = [3, 1, 0].map(|rank| all[rank]);
    make(&mut world, &three, "g", &[3, 1, 0]);
    let whole = Rank::WILDCARD.as_raw();
    let lists = [
        &[("g", whole)][..],
        &[("g", 2), ("g", 0), ("g", 1)],
        &[("g", 1), ("job", 0), ("job", 3)],
    ];
    let connect = |procs| {
        let infos = vec![];
        Request::Connect(request::Connect {
            procs,
            infos,
            shared: Vec::new(),
        })
    };
    let disconnect = |procs| {
        let infos = vec![];
        Request::Disconnect(request::Disconnect { procs, infos })
    };
    let requests: [&dyn Fn(Vec<Proc<'static>>) -> Request<'static>; 2] = [&connect, &disconnect];
    for request in requests {
        // Each member names them differently.
        let mut tags = Vec::new();
        for (who, list) in three.iter().zip(lists) {
            assert_eq!(statuses(&world, &three, &tags), vec![None; tags.len()]);
            tags.push(world.ask(*who, &request(procs(list))));
            world.run();
        }
        assert_eq!(statuses(&world, &three, &tags), [DONE; 3]);
        let members = procs(&[("job", 0), ("job", 1), ("job", 3)]);
        assert_eq!(calls.take(), [members.clone(), members]);
        let beyond = request(procs(&[("g", 3)]));
        let refused = Some(Status::ERR_NOT_FOUND);
        assert_eq!(world.status_of(all[1], &beyond), refused);
        // For a process in no group, the name is unknown.
        let named = request(procs(&[("g", whole)]));
        assert!(
            world
                .status_of(all[2], &named)
                .is_some_and(|status| !status.is_success())
        );
        assert_eq!(calls.take(), Vec::<Vec<Proc<'_>>>::new());
    }
}

#[test]
fn the_host_gets_processes_for_a_group_in_a_pull_push_or_control() {
    let (mut world, all) = world(&[2, 2]);
    let calls = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&calls);
    world.rule(move |_, call| {
        match call {
            Upcall::IofPull(call) => seen.borrow_mut().push(call.procs.clone()),
            Upcall::PushStdin(call) => seen.borrow_mut().push(call.targets.clone()),
            Upcall::JobControl(call) => seen.borrow_mut().push(call.targets.clone()),
            _ => {}
        }
        Reaction::Usual
    });
    make(&mut world, &[all[3], all[1]], "g", &[3, 1]);
    let whole = || procs(&[("g", Rank::WILDCARD.as_raw())]);
    let infos = || vec![Info::new(keys::JOB_CTRL_PAUSE, true)];
    let requests = [
        Request::IofPull(request::IofPull {
            procs: whole(),
            infos: vec![],
            channels: IofChannel::STDOUT_CHANNEL,
            local_id: 1,
        }),
        Request::IofPush(request::IofPush {
            procs: whole(),
            infos: vec![],
            data: Some(b"input".to_vec().into()),
        }),
        Request::JobControl(request::JobControl {
            targets: whole(),
            infos: infos(),
        }),
    ];
    for request in &requests {
        world.ask(all[1], request);
        world.run();
        assert_eq!(calls.take(), [procs(&[("job", 3), ("job", 1)])]);
    }
    let beyond = Request::JobControl(request::JobControl {
        targets: procs(&[("g", 2)]),
        infos: infos(),
    });
    let refused = Some(Status::ERR_NOT_FOUND);
    assert_eq!(world.status_of(all[1], &beyond), refused);
}

fn query(key: &'static str, qualifiers: Vec<Info<'static>>) -> Request<'static> {
    let keys = vec![key.into()];
    let queries = vec![pmix_types::Query { keys, qualifiers }];
    Request::Query(request::Query { queries })
}

/// Returns the value in the reply to a query of one key.
fn asked(world: &mut World, who: Who, request: &Request<'_>) -> Option<Value<'static>> {
    let tag = world.ask(who, request);
    world.run();
    let client = &world.clients[who];
    let response = client.reply(tag).expect("no reply");
    let form = client.session.form();
    let infos = reply::Infos::decode(form, None, &response.payload).unwrap();
    Some(infos.infos?.into_iter().next()?.value.into_owned())
}

#[test]
fn only_members_find_their_groups_by_queries() {
    let (mut world, all) = world(&[3]);
    make(&mut world, &all[1..], "g", &[2, 1]);
    make(&mut world, &all[1..], "h", &[1, 2]);
    let names = query(keys::QUERY_GROUP_NAMES, vec![]);
    let expected = ["g", "h"].map(|name| Some(Text::from(name))).to_vec();
    let expected = Value::DataArray(DataArray::String(expected));
    assert_eq!(asked(&mut world, all[1], &names), Some(expected));
    let none = Value::DataArray(DataArray::String(vec![]));
    assert_eq!(asked(&mut world, all[0], &names), Some(none));
    let number = query(keys::QUERY_NUM_GROUPS, vec![]);
    assert_eq!(asked(&mut world, all[2], &number), Some(Value::Size(2)));
    let members = query(
        keys::QUERY_GROUP_MEMBERSHIP,
        vec![Info::new(keys::GROUP_ID, "g")],
    );
    let expected = Value::from(procs(&[("job", 2), ("job", 1)]));
    assert_eq!(asked(&mut world, all[1], &members), Some(expected));
    assert_eq!(asked(&mut world, all[0], &members), None);
}

#[test]
fn a_tool_finds_groups_of_readable_jobs() {
    let mut config = pmix_engine::Config::default();
    config.user = Some((UID, UID));
    config.foreign_tools = true;
    let (mut world, all) = world_with(&[3], &config);
    make(&mut world, &all[1..], "g", &[2, 1]);
    let names = query(keys::QUERY_GROUP_NAMES, vec![]);
    let number = query(keys::QUERY_NUM_GROUPS, vec![]);
    let members = query(
        keys::QUERY_GROUP_MEMBERSHIP,
        vec![Info::new(keys::GROUP_ID, "g")],
    );
    let of_job = Value::from(procs(&[("job", 2), ("job", 1)]));
    for (uid, expected) in [(UID, &["g"][..]), (0, &["g"]), (7, &[])] {
        let who = tool(&mut world, 0, uid);
        let listed = expected.iter().map(|name| Some(Text::from(*name)));
        let listed = Value::DataArray(DataArray::String(listed.collect()));
        assert_eq!(asked(&mut world, who, &names), Some(listed), "{uid}");
        let num = Some(Value::Size(expected.len().try_into().unwrap()));
        assert_eq!(asked(&mut world, who, &number), num, "{uid}");
        let found = asked(&mut world, who, &members);
        let of_job = (!expected.is_empty()).then(|| of_job.clone());
        assert_eq!(found, of_job, "{uid}");
    }
}

#[test]
fn data_of_a_member_is_found_by_its_group_rank() {
    let (mut world, all) = world(&[2, 1]);
    for (who, rank) in all.iter().zip(0..) {
        commit(
            &mut world,
            *who,
            rank,
            &[(Scope::GLOBAL, "card", 100 + rank)],
        );
    }
    make(&mut world, &all, "g", &[2, 0, 1]);
    for (place, rank) in [(0, 2), (1, 0), (2, 1)] {
        let tag = world.ask(all[0], &get("g", place, "card"));
        world.run();
        // The reply has the name of the request, under which the client searches.
        let objects = world.clients[all[0]].objects(tag);
        assert_eq!(objects.last().unwrap().0, Rank::new(place));
        let value = world.clients[all[0]].value(tag, "card");
        assert_eq!(value, Some(Value::Uint32(100 + rank)));
    }
    let beyond = world.status_of(all[0], &get("g", 3, "card"));
    assert_eq!(beyond, Some(Status::ERR_NOT_FOUND));
}

#[test]
fn an_event_reaches_a_group_by_its_name() {
    let (mut world, all) = world(&[3]);
    let code = Status::from_raw(-4000);
    listen(&mut world, &all, &[code]);
    make(&mut world, &all[1..], "g", &[1, 2]);
    for target in [
        Value::from(procs(&[("g", Rank::WILDCARD.as_raw())])),
        Value::from(Proc::new("g", Rank::new(1))),
    ] {
        let event = Request::Notify(request::Notify {
            status: code,
            range: DataRange::CUSTOM,
            infos: vec![Info::new(keys::EVENT_CUSTOM_RANGE, target)],
        });
        assert_eq!(world.status_of(all[1], &event), DONE);
    }
    let heard = [0, 1, 2].map(|who| heard(&world, all[who]).len());
    assert_eq!(heard, [0, 0, 2]);
}

#[test]
fn members_read_job_info_and_data_of_other_members() {
    let mut world = World::new(2);
    world.job("job", &[2, 0]);
    world.job("other", &[0, 3]);
    let own = world.join_all("job", &[2, 0]);
    let other = world.join_all("other", &[0, 3]);
    commit(&mut world, other[2], 2, &[(Scope::GLOBAL, "card", 7)]);
    let both = || procs(&[("job", 1), ("other", 2)]);
    let first = world.ask(own[1], &construct_of("g", both(), vec![]));
    assert_eq!(
        world.status_of(other[2], &construct_of("g", both(), vec![])),
        DONE
    );
    assert_eq!(world.clients[own[1]].status(first), DONE);
    // The job of the other member, whose processes are all on another node.
    let whole = Rank::WILDCARD.as_raw();
    let tag = world.ask(own[1], &get("other", whole, keys::JOB_SIZE));
    world.run();
    let size = world.clients[own[1]].value(tag, keys::JOB_SIZE);
    assert_eq!(size, Some(Value::Uint32(3)));
    // By its own name and by its group rank.
    for (nspace, rank) in [("other", 2), ("g", 1)] {
        let tag = world.ask(own[1], &get(nspace, rank, "card"));
        world.run();
        let card = world.clients[own[1]].value(tag, "card");
        assert_eq!(card, Some(Value::Uint32(7)), "{nspace} {rank}");
    }
    // In a connect, the name of the group selects both members.
    let connect = Request::Connect(request::Connect {
        procs: procs(&[("g", whole)]),
        infos: vec![],
        shared: Vec::new(),
    });
    let first = world.ask(other[2], &connect);
    world.run();
    assert_eq!(world.clients[other[2]].status(first), None);
    assert_eq!(world.status_of(own[1], &connect), DONE);
    assert_eq!(world.clients[other[2]].status(first), DONE);
}
