// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of clients of release 7.0: they expect another status than earlier ones when a member is lost, and leave
//! invitations to the server.

use std::time::Duration;

use pmix_engine::{HostReply, Upcall};
use pmix_proto::{Event, Request, request};
use pmix_types::{DataArray, Info, Proc, Rank, Status, Value, keys};

use crate::collective::{DONE, ask_all, statuses};
use crate::group::{construct, destruct, listen, make, num_groups};
use crate::world::{Reaction, Who, World, hello};

/// Connects a job with one process of each release on its nodes.
fn world_of(per_node: &[&[&'static str]]) -> (World, Vec<Who>) {
    let mut world = World::new(per_node.len());
    let counts: Vec<u32> = per_node
        .iter()
        .map(|on_node| u32::try_from(on_node.len()).unwrap())
        .collect();
    world.job("job", &counts);
    let mut all = Vec::new();
    for (node, on_node) in per_node.iter().enumerate() {
        for version in *on_node {
            let mut greeting = hello("job", u32::try_from(all.len()).unwrap());
            greeting.version = (*version).into();
            all.push(world.connect(node, &greeting));
        }
    }
    world.run();
    (world, all)
}

#[test]
fn a_construct_that_loses_a_member_is_aborted_for_7_0() {
    let one_node: &[&[&str]] = &[&["7.0.0", "5.0.11", "7.0.0", "7.0.0"]];
    let two_nodes: &[&[&str]] = &[&["7.0.0", "5.0.11"], &["7.0.0", "7.0.0"]];
    for per_node in [one_node, two_nodes] {
        let (mut world, all) = world_of(per_node);
        let callers = [all[0], all[1], all[3]];
        let call = construct("g", &[0, 1, 2, 3], vec![]);
        let tags = ask_all(&mut world, &callers, &call);
        world.run();
        world.kill(all[2]);
        world.run();
        let abort = Some(Status::GROUP_CONSTRUCT_ABORT);
        let expected = [abort, Some(Status::ERR_LOST_CONNECTION), abort];
        assert_eq!(statuses(&world, &callers, &tags), expected);
    }
}

#[test]
fn a_destruct_that_loses_a_member_completes_for_7_0() {
    for (version, expected) in [
        ("7.0.0", DONE),
        ("5.0.11", Some(Status::ERR_LOST_CONNECTION)),
    ] {
        let (mut world, all) = world_of(&[&[version, version, version]]);
        make(&mut world, &all, "g", &[0, 1, 2]);
        let tags = ask_all(&mut world, &all[..2], &destruct("g", vec![]));
        world.run();
        world.kill(all[2]);
        world.run();
        assert_eq!(statuses(&world, &all[..2], &tags), [expected; 2]);
    }
}

/// The events about the group "g" that the process of each client received, with the members and the context id.
fn outcomes(world: &World, all: &[Who]) -> Vec<Vec<(Status, usize, Option<u64>)>> {
    let of = |who: &Who| {
        let client = &world.clients[*who];
        let form = client.session.form();
        let events = client.notices.iter();
        let events = events.map(|frame| Event::decode(form, None, &frame.payload).unwrap());
        let outcome = events.map(|event| {
            let value = |key| event.infos.iter().find(|info| info.key.is(key));
            let members = match value(keys::GROUP_MEMBERSHIP).map(|info| &info.value) {
                Some(Value::DataArray(DataArray::Proc(procs))) => procs.len(),
                _ => 0,
            };
            let id = value(keys::GROUP_CONTEXT_ID).and_then(|info| info.value.to_number().ok());
            (event.status, members, id)
        });
        outcome.collect()
    };
    all.iter().map(of).collect()
}

const CODES: [Status; 6] = [
    Status::GROUP_INVITED,
    Status::GROUP_INVITE_ACCEPTED,
    Status::GROUP_INVITE_DECLINED,
    Status::GROUP_INVITE_FAILED,
    Status::GROUP_CONSTRUCT_COMPLETE,
    Status::GROUP_CONSTRUCT_ABORT,
];

fn invite(procs: Vec<Proc<'static>>, is_optional: bool, has_id: bool) -> Request<'static> {
    Request::GroupInvite(request::GroupInvite {
        group: Some("g".into()),
        procs,
        timeout: 5,
        is_optional,
        assigns_context_id: has_id,
    })
}

fn answer(answer: Status, leader: Option<Proc<'static>>) -> Request<'static> {
    Request::GroupJoin(request::GroupJoin {
        group: Some("g".into()),
        answer,
        leader,
    })
}

/// Connects three processes of 7.0 on two nodes, which listen to the events of invitations.
fn invited(is_optional: bool, has_id: bool) -> (World, Vec<Who>) {
    let (mut world, all) = world_of(&[&["7.0.0", "7.0.0"], &["7.0.0"]]);
    world.rule(|_, call| match call {
        Upcall::JobControl(_) => {
            let id = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(17));
            Reaction::HostReply(HostReply::Infos(Status::SUCCESS, vec![id]))
        }
        _ => Reaction::Usual,
    });
    listen(&mut world, &all, &CODES);
    let whole = vec![Proc::new("job", Rank::WILDCARD)];
    assert_eq!(
        world.status_of(all[0], &invite(whole, is_optional, has_id)),
        DONE
    );
    (world, all)
}

#[test]
fn the_server_forms_the_group_of_an_invitation_that_all_accept() {
    for has_id in [false, true] {
        let (mut world, all) = invited(false, has_id);
        let leader = Proc::new("job", Rank::new(0));
        for (who, named) in [(all[1], None), (all[2], Some(leader))] {
            let join = answer(Status::GROUP_INVITE_ACCEPTED, named);
            assert_eq!(world.status_of(who, &join), DONE);
        }
        world.run();
        let formed = (Status::GROUP_CONSTRUCT_COMPLETE, 3, has_id.then_some(17));
        let accepted = (Status::GROUP_INVITE_ACCEPTED, 0, None);
        let invited = (Status::GROUP_INVITED, 0, None);
        let expected = [
            vec![accepted, accepted, formed],
            vec![invited, formed],
            vec![invited, formed],
        ];
        assert_eq!(outcomes(&world, &all), expected);
        assert_eq!(num_groups(&world), 2);
        let tags = ask_all(&mut world, &all, &destruct("g", vec![]));
        assert_eq!(statuses(&world, &all, &tags), [DONE; 3]);
    }
}

#[test]
fn a_missing_answer_aborts_the_invitation_or_leaves_the_process_out() {
    for is_optional in [false, true] {
        for reason in ["declines", "is lost", "is silent"] {
            let (mut world, all) = invited(is_optional, false);
            let join = answer(Status::GROUP_INVITE_ACCEPTED, None);
            assert_eq!(world.status_of(all[1], &join), DONE);
            match reason {
                "declines" => {
                    let no = answer(Status::GROUP_INVITE_DECLINED, None);
                    assert_eq!(world.status_of(all[2], &no), DONE);
                }
                "is lost" => world.kill(all[2]),
                _ => world.advance(Duration::from_secs(6)),
            }
            world.run();
            let last = match is_optional {
                true => (Status::GROUP_CONSTRUCT_COMPLETE, 2, None),
                false => (Status::GROUP_CONSTRUCT_ABORT, 0, None),
            };
            let seen = outcomes(&world, &all[..2]);
            assert!(
                seen.iter().all(|of| of.last() == Some(&last)),
                "{reason}: {seen:?}"
            );
            assert_eq!(num_groups(&world) > 0, is_optional, "{reason}");
        }
    }
}

#[test]
fn invalid_invitations_and_answers_are_refused() {
    let (mut world, all) = world_of(&[&["7.0.0", "7.0.0"]]);
    let other = vec![Proc::new("job", Rank::new(1))];
    let without_caller = invite(other, false, false);
    assert_eq!(
        world.status_of(all[0], &without_caller),
        Some(Status::ERR_NOT_A_MEMBER)
    );
    let join = answer(Status::GROUP_INVITE_ACCEPTED, None);
    assert_eq!(world.status_of(all[1], &join), Some(Status::ERR_NOT_FOUND));
    let odd = answer(Status::SUCCESS, None);
    assert_eq!(world.status_of(all[1], &odd), Some(Status::ERR_BAD_PARAM));
    let whole = vec![Proc::new("job", Rank::WILDCARD)];
    assert_eq!(
        world.status_of(all[0], &invite(whole.clone(), false, false)),
        DONE
    );
    let again = world.status_of(all[0], &invite(whole, false, false));
    assert_eq!(again, Some(Status::ERR_EXISTS));
    // The invitation ends with its leader.
    world.kill(all[0]);
    world.advance(Duration::from_secs(60));
    assert_eq!(num_groups(&world), 0);
}

#[test]
fn an_invitation_of_too_many_processes_is_refused_before_they_are_listed() {
    let (mut world, all) = world_of(&[&["7.0.0"]]);
    world.job("large", &[1 << 12]);
    // Each entry names the whole job again: 20 million processes in one request.
    let mut procs = vec![Proc::new("job", Rank::new(0))];
    procs.extend((0..5_000).map(|_| Proc::new("large", Rank::WILDCARD)));
    let invite = Request::GroupInvite(request::GroupInvite {
        group: Some("g".into()),
        procs,
        timeout: 0,
        is_optional: false,
        assigns_context_id: false,
    });
    let refused = Some(Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(world.status_of(all[0], &invite), refused);
}
