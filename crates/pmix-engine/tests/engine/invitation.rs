// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invitations to groups that pass by: who waits for a process that is gone is told, whenever it went.

use pmix_engine::Config;
use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, Proc, Rank, Status, keys};

use crate::collective::{DONE, procs};
use crate::group::{heard, listen, world, world_with};
use crate::meter;
use crate::world::{Who, World};

const ABORTED: Option<Status> = Some(Status::GROUP_CONSTRUCT_ABORT);

fn say(status: Status, to: &[(&'static str, u32)], more: Vec<Info<'static>>) -> Request<'static> {
    let mut infos = vec![
        Info::new(keys::EVENT_CUSTOM_RANGE, procs(to)),
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::GROUP_ID, "g"),
    ];
    infos.extend(more);
    Request::Notify(request::Notify {
        status,
        range: DataRange::CUSTOM,
        infos,
    })
}

fn invite(to: &[(&'static str, u32)]) -> Request<'static> {
    say(Status::GROUP_INVITED, to, vec![])
}

fn accept() -> Request<'static> {
    let leader = Proc::new("job", Rank::new(0));
    let mut accept = say(Status::GROUP_INVITE_ACCEPTED, &[], vec![]);
    if let Request::Notify(accept) = &mut accept {
        // Libraries say one process, and no list.
        accept.infos[0] = Info::new(keys::EVENT_CUSTOM_RANGE, leader);
    }
    accept
}

fn complete(members: &[(&'static str, u32)]) -> Request<'static> {
    say(Status::GROUP_CONSTRUCT_COMPLETE, members, vec![])
}

fn all_hear(world: &mut World, all: &[Who]) {
    let codes = [
        Status::GROUP_INVITE_FAILED,
        Status::GROUP_LEADER_FAILED,
        Status::GROUP_INVITE_ACCEPTED,
    ];
    listen(world, all, &codes);
}

/// What is said of a process, if anything is.
fn told(world: &World, who: Who) -> Vec<(Status, Option<Rank>)> {
    let heard = heard(world, who).into_iter();
    heard.map(|(status, _, about)| (status, about)).collect()
}

fn bytes(world: &World) -> usize {
    let nodes = world.nodes.iter();
    nodes.map(|node| node.engine.stats().group_bytes).sum()
}

#[test]
fn the_leader_hears_of_each_that_is_lost_and_each_hears_of_the_leader() {
    for per_node in [&[4][..], &[1, 3], &[2, 2], &[3, 1]] {
        let (mut world, all) = world(per_node);
        all_hear(&mut world, &all);
        let to = [("job", 1), ("job", 2), ("job", 3)];
        assert_eq!(world.status_of(all[0], &invite(&to)), DONE);
        assert_eq!(world.status_of(all[1], &accept()), DONE);
        // One that has accepted, one that has not.
        for lost in [1, 3] {
            world.kill(all[lost]);
            world.run();
        }
        let expected = [
            (Status::GROUP_INVITE_ACCEPTED, None),
            (Status::GROUP_INVITE_FAILED, Some(Rank::new(1))),
            (Status::GROUP_INVITE_FAILED, Some(Rank::new(3))),
        ];
        assert_eq!(told(&world, all[0]), expected, "{per_node:?}");
        assert_eq!(told(&world, all[2]), []);
        world.kill(all[0]);
        world.run();
        let failed = (Status::GROUP_LEADER_FAILED, Some(Rank::new(0)));
        assert_eq!(told(&world, all[2]), [failed], "{per_node:?}");
        assert_eq!(world.status_of(all[2], &accept()), ABORTED);
        assert_eq!(bytes(&world), 0);
    }
}

#[test]
fn who_has_left_before_the_invitation_is_reported_at_once() {
    for per_node in [&[3][..], &[1, 2]] {
        for everybody in [false, true] {
            let (mut world, all) = world(per_node);
            all_hear(&mut world, &all);
            assert_eq!(world.status_of(all[1], &Request::Finalize), DONE);
            world.kill(all[1]);
            world.kill(all[2]);
            world.run();
            let to: &[_] = match everybody {
                true => &[("job", Rank::WILDCARD.as_raw())],
                false => &[("job", 1), ("job", 2)],
            };
            assert_eq!(world.status_of(all[0], &invite(to)), DONE);
            let failed = |rank| (Status::GROUP_INVITE_FAILED, Some(Rank::new(rank)));
            assert_eq!(told(&world, all[0]), [failed(1), failed(2)]);
        }
    }
}

#[test]
fn an_invitation_that_has_ended_is_accepted_by_nobody() {
    for per_node in [&[3][..], &[1, 2]] {
        let (mut world, all) = world(per_node);
        all_hear(&mut world, &all);
        assert_eq!(world.status_of(all[1], &accept()), ABORTED);
        let to = [("job", 1)];
        let abort = say(Status::GROUP_CONSTRUCT_ABORT, &to, vec![]);
        for end in [abort, complete(&[("job", 0), ("job", 1)])] {
            assert_eq!(world.status_of(all[0], &invite(&to)), DONE);
            assert_eq!(world.status_of(all[1], &accept()), DONE);
            // This one was not invited.
            assert_eq!(world.status_of(all[2], &accept()), ABORTED);
            assert_eq!(world.status_of(all[0], &end), DONE);
            assert_eq!(world.status_of(all[1], &accept()), ABORTED);
        }
        world.kill(all[1]);
        world.run();
        let accepted = (Status::GROUP_INVITE_ACCEPTED, None);
        assert_eq!(told(&world, all[0]), [accepted; 2]);
    }
}

#[test]
fn what_cannot_be_an_invitation_is_refused() {
    let mut config = Config::default();
    config.group_bytes_per_job = 2000;
    let (mut world, all) = world_with(&[3], &config);
    let beyond = world.status_of(all[0], &invite(&[("job", 1), ("job", 7)]));
    assert_eq!(beyond, Some(Status::ERR_NOT_FOUND));
    // Who is invited again takes nothing more.
    for _ in 0..100 {
        assert_eq!(world.status_of(all[0], &invite(&[("job", 1)])), DONE);
    }
    let held = bytes(&world);
    assert!(held > 0 && held < 1000, "{held}");
    let many: Vec<_> = (0..100).map(|rank| ("other", rank)).collect();
    let refused = world.status_of(all[0], &invite(&many));
    assert_eq!(refused, Some(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!(bytes(&world), held);
    world.kill(all[0]);
    world.run();
    assert_eq!(bytes(&world), 0);
}

#[test]
fn a_list_that_names_a_job_again_and_again_costs_no_more_than_its_length() {
    let all_of_job = ("job", Rank::WILDCARD.as_raw());
    let cost = |times: usize| {
        let (mut world, all) = world(&[200]);
        for who in &all[1..] {
            world.kill(*who);
        }
        world.run();
        let to = vec![all_of_job; times];
        let request = invite(&to);
        let (told, cost) = meter::of(|| world.status_of(all[0], &request));
        assert_eq!(told, DONE);
        cost.peak
    };
    let (once, often) = (cost(1), cost(2000));
    assert!(often < once + (2 << 20), "{once} bytes, then {often}");
}
