// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members that are lost, restarted, or leave while their group is constructed or destructed.

use std::time::Duration;

use pmix_engine::{Credentials, HostObject, HostReply, Upcall};
use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, Proc, Rank, Status, keys};

use crate::collective::{DONE, ask_all, limit, procs, statuses};
use crate::group::{
    construct, construct_of, destruct, heard, leave, listen, make, make_with, num_groups, world,
};
use crate::group_led_steps::LOST;
use crate::world::{Reaction, UID, Who, World};

/// Returns the event of a lost member of the group "g".
fn failed(rank: u32) -> (Status, String, Option<Rank>) {
    let status = Status::GROUP_MEMBER_FAILED;
    (status, "g".to_owned(), Some(Rank::new(rank)))
}

fn notifies(is_so: bool) -> Info<'static> {
    Info::new(keys::GROUP_NOTIFY_TERMINATION, is_so)
}

/// Registers a process of a node again.
fn register(world: &mut World, node: usize, rank: u32) {
    let (proc, user) = (
        Proc::new("job", Rank::new(rank)),
        Credentials::new(UID, UID),
    );
    let engine = &mut world.nodes[node].engine;
    let object = HostObject(rank.into());
    engine.register_client(&proc, user, object).unwrap();
}

/// Returns the number of open upcalls of each node.
fn num_host_calls(world: &World) -> Vec<usize> {
    let nodes = world.nodes.iter();
    nodes
        .map(|node| node.engine.stats().num_host_calls)
        .collect()
}

fn destructed(world: &mut World, all: &[Who], expected: Option<Status>) {
    let tags = ask_all(world, all, &destruct("g", vec![]));
    assert_eq!(statuses(world, all, &tags), vec![expected; all.len()]);
}

#[test]
fn a_destruct_keeps_other_groups_of_the_name() {
    let (mut world, all) = world(&[3]);
    make(&mut world, &all, "g", &[0, 1, 2]);
    for who in &all[..2] {
        assert_eq!(world.status_of(*who, &leave("g")), DONE);
    }
    make(&mut world, &all[..2], "g", &[0, 1]);
    assert_eq!(world.status_of(all[2], &destruct("g", vec![])), DONE);
    assert_eq!(num_groups(&world), 1);
    destructed(&mut world, &all[..2], DONE);
}

#[test]
fn a_process_that_is_started_again_has_groups_of_its_own() {
    let (mut world, all) = world(&[1, 2]);
    make_with(&mut world, &all, "g", &[0, 1, 2], &[notifies(true)]);
    world.kill(all[0]);
    register(&mut world, 0, 0);
    let back = world.join(0, "job", 0);
    make(&mut world, &[back], "g", &[0]);
    destructed(&mut world, &all[1..], DONE);
    assert_eq!(num_groups(&world), 1);
    destructed(&mut world, &[back], DONE);
}

#[test]
fn a_failed_destruct_is_not_repeated_for_the_last_lost_member() {
    let (mut world, all) = world(&[2, 1]);
    make(&mut world, &all, "g", &[0, 1, 2]);
    world.ask(all[0], &destruct("g", vec![]));
    world.run();
    world.kill(all[0]);
    world.kill(all[1]);
    assert_eq!(world.status_of(all[2], &destruct("g", vec![])), LOST);
    assert_eq!(num_host_calls(&world), [0, 0]);
}

#[test]
fn members_lost_and_removed_during_the_upcall_are_reported() {
    for per_node in [&[3][..], &[2, 1]] {
        for (is_removed, is_back) in [(true, false), (true, true), (false, true)] {
            let (mut world, all) = world(per_node);
            listen(&mut world, &all, &[Status::GROUP_MEMBER_FAILED]);
            world.slow_host(true);
            let call = construct("g", &[0, 1, 2], vec![notifies(true)]);
            let tags = ask_all(&mut world, &all, &call);
            world.run();
            world.kill(all[2]);
            let last = per_node.len() - 1;
            if is_removed {
                let engine = &mut world.nodes[last].engine;
                let proc = Proc::new("job", Rank::new(2));
                engine.deregister_client(&proc).unwrap();
            }
            let back = is_back.then(|| {
                register(&mut world, last, 2);
                world.join(last, "job", 2)
            });
            world.slow_host(false);
            world.run();
            let case = format!("{per_node:?} {is_removed} {is_back}");
            assert_eq!(statuses(&world, &all[..2], &tags[..2]), [DONE; 2], "{case}");
            for who in &all[..2] {
                assert_eq!(heard(&world, *who), [failed(2)], "{case}");
            }
            // The restarted process is no member.
            if let Some(back) = back {
                let absent = Some(Status::ERR_NOT_FOUND);
                assert_eq!(world.status_of(back, &destruct("g", vec![])), absent);
            }
            destructed(&mut world, &all[..2], DONE);
            assert_eq!(num_host_calls(&world), vec![0; per_node.len()], "{case}");
        }
    }
}

#[test]
fn a_destruct_does_not_wait_for_a_member_that_was_lost_and_is_started_again() {
    for per_node in [&[3][..], &[2, 1], &[1, 2]] {
        for (is_told, expected) in [(true, DONE), (false, LOST)] {
            let (mut world, all) = world(per_node);
            make_with(&mut world, &all, "g", &[0, 1, 2], &[notifies(is_told)]);
            world.kill(all[0]);
            register(&mut world, 0, 0);
            world.join(0, "job", 0);
            destructed(&mut world, &all[1..], expected);
        }
    }
}

#[test]
fn a_leave_after_a_failed_destruct_does_not_affect_the_next_group() {
    let (mut world, all) = world(&[2]);
    for _ in 0..2 {
        make(&mut world, &all, "g", &[0, 1]);
        let tag = world.ask(all[0], &destruct("g", limit(5)));
        world.advance(Duration::from_secs(6));
        let late = Some(Status::ERR_TIMEOUT);
        assert_eq!(world.clients[all[0]].status(tag), late);
        assert_eq!(world.status_of(all[1], &leave("g")), DONE);
    }
    make(&mut world, &all, "g", &[0, 1]);
    destructed(&mut world, &all, DONE);
}

#[test]
fn a_leave_after_a_destruct_has_failed_leaves_the_next_group_to_the_host() {
    let (mut world, all) = world(&[2, 1]);
    make(&mut world, &all, "g", &[0, 1, 2]);
    let tags = ask_all(&mut world, &[all[0], all[2]], &destruct("g", limit(5)));
    world.advance(Duration::from_secs(9));
    let late = Some(Status::ERR_TIMEOUT);
    assert_eq!(statuses(&world, &[all[0], all[2]], &tags), [late; 2]);
    assert_eq!(world.status_of(all[1], &leave("g")), DONE);
    make(&mut world, &all, "g", &[0, 1, 2]);
    for who in &all[..2] {
        assert_eq!(world.status_of(*who, &leave("g")), DONE);
    }
    destructed(&mut world, &all[2..], DONE);
    assert_eq!(num_host_calls(&world), [0, 0]);
}

#[test]
fn members_lost_between_replies_are_reported_once() {
    let (mut world, all) = world(&[1, 2]);
    listen(&mut world, &all, &[Status::GROUP_MEMBER_FAILED]);
    world.rule(|node, call| match call {
        Upcall::Group(_) if node == 1 => Reaction::Later,
        Upcall::Group(_) => Reaction::Silence,
        _ => Reaction::Usual,
    });
    for who in &all[1..] {
        world.ask(*who, &construct_of("g", vec![], vec![notifies(true)]));
    }
    world.run();
    let members = procs(&[("job", 0), ("job", 1), ("job", 2)]);
    let infos = vec![Info::new(keys::GROUP_MEMBERSHIP, members)];
    let answer = HostReply::Infos(Status::SUCCESS, infos);
    world.answer("Group", answer.clone());
    assert_eq!(num_groups(&world), 1);
    world.kill(all[1]);
    world.kill(all[2]);
    assert_eq!(num_groups(&world), 0);
    let told = heard(&world, all[0]);
    assert_eq!(told, [failed(1), failed(2)]);
    world.answer("Group", answer);
    assert_eq!(num_groups(&world), 0);
    assert_eq!(heard(&world, all[0]), told);
    // The only call for the destruct.
    assert_eq!(num_host_calls(&world), [0, 1]);
}

#[test]
fn destruct_upcalls_without_participants_are_bounded() {
    let (mut world, all) = world(&[1, 1]);
    for number in 0..4_200 {
        let name: &'static str = format!("g{number}").leak();
        let complete = Request::Notify(request::Notify {
            status: Status::GROUP_CONSTRUCT_COMPLETE,
            range: DataRange::CUSTOM,
            infos: vec![
                Info::new(keys::GROUP_ID, name),
                Info::new(keys::EVENT_CUSTOM_RANGE, procs(&[("job", 0), ("job", 1)])),
            ],
        });
        assert_eq!(world.status_of(all[0], &complete), DONE);
        assert_eq!(world.status_of(all[0], &leave(name)), DONE);
    }
    assert_eq!(num_host_calls(&world), [4_096, 0]);
    // Deregistering the job removes them.
    for node in &mut world.nodes {
        node.engine.deregister_nspace(&"job".into()).unwrap();
    }
    world.run();
    for node in &world.nodes {
        assert_eq!(node.engine.stats().num_collectives, 0);
    }
}
