// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invitations to groups: processes that wait for a lost process are notified, whenever it was lost.

use pmix_engine::Config;
use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, Proc, Rank, Status, keys};

use crate::collective::{DONE, ask_all, procs, statuses};
use crate::group::{construct, heard, listen, world, world_with};
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
    accept_of(0)
}

fn accept_of(leader: u32) -> Request<'static> {
    let leader = Proc::new("job", Rank::new(leader));
    let mut accept = say(Status::GROUP_INVITE_ACCEPTED, &[], vec![]);
    if let Request::Notify(accept) = &mut accept {
        // Libraries send one process, not a list.
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

/// Returns the events about processes that a client received.
fn told(world: &World, who: Who) -> Vec<(Status, Option<Rank>)> {
    let heard = heard(world, who).into_iter();
    heard.map(|(status, _, about)| (status, about)).collect()
}

fn bytes(world: &World) -> usize {
    let nodes = world.nodes.iter();
    nodes.map(|node| node.engine.stats().group_bytes).sum()
}

#[test]
fn losses_are_reported_to_the_leader_and_its_loss_to_all() {
    for per_node in [&[4][..], &[1, 3], &[2, 2], &[3, 1]] {
        let (mut world, all) = world(per_node);
        all_hear(&mut world, &all);
        let to = [("job", 1), ("job", 2), ("job", 3)];
        assert_eq!(world.status_of(all[0], &invite(&to)), DONE);
        assert_eq!(world.status_of(all[1], &accept()), DONE);
        // One process that has accepted, and one that has not.
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
fn a_process_that_left_before_the_invitation_is_reported_at_once() {
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
fn an_ended_invitation_cannot_be_accepted() {
    for per_node in [&[3][..], &[1, 2]] {
        let (mut world, all) = world(per_node);
        all_hear(&mut world, &all);
        assert_eq!(world.status_of(all[1], &accept()), ABORTED);
        let to = [("job", 1)];
        let abort = say(Status::GROUP_CONSTRUCT_ABORT, &to, vec![]);
        for end in [abort, complete(&[("job", 0), ("job", 1)])] {
            assert_eq!(world.status_of(all[0], &invite(&to)), DONE);
            assert_eq!(world.status_of(all[1], &accept()), DONE);
            // This process was not invited.
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
fn an_invalid_invitation_is_refused() {
    let mut config = Config::default();
    config.group_bytes_per_job = 2000;
    let (mut world, all) = world_with(&[3], &config);
    let beyond = world.status_of(all[0], &invite(&[("job", 1), ("job", 7)]));
    assert_eq!(beyond, Some(Status::ERR_NOT_FOUND));
    // A repeated invitation takes no more memory.
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
fn a_list_with_a_repeated_job_costs_its_length() {
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

#[test]
fn an_abort_of_an_invited_process_keeps_its_later_invitation() {
    for is_over in [false, true] {
        let (mut world, all) = world(&[1, 1]);
        all_hear(&mut world, &all);
        let abort = |to| say(Status::GROUP_CONSTRUCT_ABORT, &[("job", to)], vec![]);
        assert_eq!(world.status_of(all[0], &invite(&[("job", 1)])), DONE);
        assert_eq!(world.status_of(all[1], &accept()), DONE);
        if is_over {
            assert_eq!(world.status_of(all[0], &abort(1)), DONE);
        }
        assert_eq!(world.status_of(all[1], &abort(0)), DONE);
        assert_eq!(world.status_of(all[1], &invite(&[("job", 0)])), DONE);
        assert_eq!(world.status_of(all[0], &accept_of(1)), DONE, "{is_over}");
    }
}

#[test]
fn an_end_before_its_invitation_is_kept_for_a_minute() {
    for (after, expected) in [(1, ABORTED), (61, DONE)] {
        let (mut world, all) = world(&[1, 1]);
        let leader = Proc::new("job", Rank::new(0));
        let told = |status| match say(status, &[("job", 1)], vec![]) {
            Request::Notify(notify) => (notify.status, notify.range, notify.infos),
            _ => unreachable!(),
        };
        let (abort, invited) = (Status::GROUP_CONSTRUCT_ABORT, Status::GROUP_INVITED);
        for (status, range, infos) in [told(abort), told(invited)] {
            let now = world.now;
            let engine = &mut world.nodes[1].engine;
            engine.notify(status, &leader, range, &infos, now).unwrap();
            world.advance(std::time::Duration::from_secs(after));
        }
        assert_eq!(world.status_of(all[1], &accept()), expected);
    }
}

#[test]
fn an_end_before_the_last_invitation_message_ends_that_too() {
    let (abort, invited) = (Status::GROUP_CONSTRUCT_ABORT, Status::GROUP_INVITED);
    let first = [("job", 1)];
    let (last, all_of_them) = ([("job", 2)], [("job", 1), ("job", 2)]);
    let in_order = [(invited, &last[..]), (abort, &all_of_them[..])];
    let overtaken = [(abort, &all_of_them[..]), (invited, &last[..])];
    for order in [in_order, overtaken] {
        let (mut world, all) = world(&[1, 2]);
        let leader = Proc::new("job", Rank::new(0));
        let brings = |world: &mut World, status, to: &[(&'static str, u32)]| {
            let Request::Notify(told) = say(status, to, vec![]) else {
                unreachable!();
            };
            let (now, engine) = (world.now, &mut world.nodes[1].engine);
            engine
                .notify(status, &leader, told.range, &told.infos, now)
                .unwrap();
            world.run();
        };
        brings(&mut world, invited, &first);
        assert_eq!(world.status_of(all[1], &accept()), DONE);
        for (status, to) in order {
            brings(&mut world, status, to);
        }
        assert_eq!(world.status_of(all[2], &accept()), ABORTED);
        // The next invitation is another one.
        brings(&mut world, invited, &all_of_them);
        assert_eq!(world.status_of(all[2], &accept()), DONE);
    }
}

#[test]
fn members_lost_while_the_group_forms_are_reported() {
    let failed = [(Status::GROUP_MEMBER_FAILED, Some(Rank::new(2)))];
    for per_node in [&[3][..], &[2, 1], &[1, 2], &[1, 1, 1]] {
        for notifies in [true, false] {
            let (mut world, all) = world(per_node);
            listen(&mut world, &all, &[Status::GROUP_MEMBER_FAILED]);
            let invited = [("job", 1), ("job", 2)];
            assert_eq!(world.status_of(all[0], &invite(&invited)), DONE);
            for who in &all[1..] {
                assert_eq!(world.status_of(*who, &accept()), DONE);
            }
            world.kill(all[2]);
            let more = [Info::new(keys::GROUP_NOTIFY_TERMINATION, notifies)];
            let members = [("job", 0), ("job", 1), ("job", 2)];
            let formed = say(Status::GROUP_CONSTRUCT_COMPLETE, &members, more.into());
            assert_eq!(world.status_of(all[0], &formed), DONE);
            let expected = if notifies { &failed[..] } else { &[] };
            for who in &all[..2] {
                assert_eq!(told(&world, *who), expected, "{per_node:?}");
            }
        }
    }
}

#[test]
fn members_lost_during_the_upcall_are_reported() {
    let failed = [(Status::GROUP_MEMBER_FAILED, Some(Rank::new(2)))];
    for per_node in [&[3][..], &[2, 1], &[1, 2], &[1, 1, 1]] {
        for notifies in [true, false] {
            let (mut world, all) = world(per_node);
            listen(&mut world, &all, &[Status::GROUP_MEMBER_FAILED]);
            world.slow_host(true);
            let more = vec![Info::new(keys::GROUP_NOTIFY_TERMINATION, notifies)];
            let tags = ask_all(&mut world, &all, &construct("g", &[0, 1, 2], more));
            world.run();
            world.kill(all[2]);
            world.slow_host(false);
            world.run();
            let both = &all[..2];
            assert_eq!(statuses(&world, both, &tags[..2]), [DONE; 2]);
            let expected = if notifies { &failed[..] } else { &[] };
            for who in both {
                assert_eq!(told(&world, *who), expected, "{per_node:?}");
            }
        }
    }
}

#[test]
fn exited_processes_count_in_the_bytes_of_an_invitation() {
    let (mut world, all) = world(&[20]);
    let everybody = [("job", Rank::WILDCARD.as_raw())];
    assert_eq!(world.status_of(all[0], &invite(&everybody)), DONE);
    let before = bytes(&world);
    for who in &all[1..] {
        world.kill(*who);
        world.run();
    }
    let more = bytes(&world) - before;
    assert!(more >= 19 * size_of::<Proc<'_>>(), "{more}");
    world.kill(all[0]);
    world.run();
    assert_eq!(bytes(&world), 0);
}

#[test]
fn an_invitation_over_the_event_limit_leaves_no_state() {
    let (mut world, all) = world(&[2]);
    let most = Config::default().procs_per_request;
    let to: Vec<_> = (0..=u32::try_from(most).unwrap())
        .map(|rank| ("far", rank))
        .collect();
    let status = world.status_of(all[0], &invite(&to));
    assert_eq!(status, Some(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!(world.nodes[0].engine.stats().group_bytes, 0);
}
