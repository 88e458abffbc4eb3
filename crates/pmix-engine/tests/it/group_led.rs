// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructs with a leader: the leader decides after a loss, and another process leads after the loss of the leader.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pmix_engine::{Config, Credentials, HostObject, HostReply, Upcall};
use pmix_types::{DataArray, Info, Proc, Rank, Status, Value, keys};

use crate::collective::{DONE, procs, statuses};
use crate::group::{construct, construct_of, heard, listen, num_groups, world};
use crate::group_led_steps::{
    ABORTED, LEADER_GONE, LOST, about, call, called, called_unheard, check_members, check_over,
    codes, leads, lose, members, of, without,
};
use crate::world::{Reaction, UID};

#[test]
fn only_the_leader_is_notified_of_a_loss_and_can_continue() {
    // Rank 3 is on the node of rank 0.
    for per_node in [&[4][..], &[4, 2]] {
        let (mut world, all) = world(per_node);
        let tags = called(&mut world, &all, &[0, 1, 2]);
        lose(&mut world, &all, 3);
        let three = of(&all, &[0, 1, 2]);
        assert_eq!(statuses(&world, &three, &tags), [None; 3]);
        let failed = (Status::GROUP_INVITE_FAILED, Some(3));
        assert_eq!(codes(&world, all[0]), [failed]);
        assert_eq!(codes(&world, all[1]), []);
        assert_eq!(world.status_of(all[0], &without(3)), DONE);
        assert_eq!(statuses(&world, &three, &tags), [DONE; 3]);
        for (who, tag) in three.iter().zip(&tags) {
            assert_eq!(members(&world, *who, *tag), [0, 1, 2]);
            let last = codes(&world, *who).pop();
            assert_eq!(last, Some((Status::GROUP_MEMBERSHIP_UPDATE, None)));
        }
    }
}

#[test]
fn a_leader_is_asked_about_losses_before_its_call() {
    let (mut world, all) = world(&[4]);
    for rank in [1, 3] {
        world.kill(all[rank]);
    }
    world.run();
    let left = of(&all, &[0, 2]);
    let codes = [Status::GROUP_INVITE_FAILED];
    listen(&mut world, &left, &codes);
    let tags = called_unheard(&mut world, &all, &[0, 2]);
    assert_eq!(heard(&world, all[0]).len(), 2);
    assert_eq!(world.status_of(all[0], &without(1)), DONE);
    assert_eq!(statuses(&world, &left, &tags), [None; 2]);
    assert_eq!(world.status_of(all[0], &without(3)), DONE);
    assert_eq!(statuses(&world, &left, &tags), [DONE; 2]);
    assert_eq!(members(&world, all[2], tags[1]), [0, 2]);
}

#[test]
fn a_lost_caller_that_the_leader_drops_is_no_member() {
    let (mut world, all) = world(&[4]);
    let tags = called(&mut world, &all, &[0, 1, 2]);
    world.kill(all[2]);
    world.run();
    assert_eq!(world.status_of(all[0], &without(2)), DONE);
    let last = call(&mut world, all[3]);
    check_members(&world, &all, [(3, last), (1, tags[1])], &[0, 1, 3]);
}

#[test]
fn a_caller_registered_again_during_the_upcall_is_a_member() {
    for (is_lost, is_named) in [(false, true), (false, false), (true, false)] {
        let (mut world, all) = world(&[4]);
        world.rule(|_, call| match call {
            Upcall::Group(_) => Reaction::Later,
            _ => Reaction::Usual,
        });
        let callers: &[usize] = if is_lost { &[0, 1, 2] } else { &[0, 1, 2, 3] };
        let tags = called(&mut world, &all, callers);
        if is_lost {
            world.kill(all[3]);
            assert_eq!(world.status_of(all[0], &without(3)), DONE);
        }
        let engine = &mut world.nodes[0].engine;
        let proc = Proc::new("job", Rank::new(3));
        engine.deregister_client(&proc).unwrap();
        world.run();
        if !is_lost {
            let engine = &mut world.nodes[0].engine;
            let credentials = Credentials::new(UID, UID);
            engine
                .register_client(&proc, credentials, HostObject(3))
                .unwrap();
        }
        let named = procs(&[("job", 0), ("job", 1), ("job", 2), ("job", 3)]);
        let named = is_named.then(|| Info::new(keys::GROUP_MEMBERSHIP, named));
        let infos = named.into_iter().collect();
        world.answer("Group", HostReply::Infos(Status::SUCCESS, infos));
        let expected = if is_lost {
            &[0, 1, 2][..]
        } else {
            &[0, 1, 2, 3]
        };
        for rank in [0, 1, 2] {
            let told = members(&world, all[rank], tags[rank]);
            assert_eq!(told, expected, "{is_lost} {is_named}");
        }
    }
}

/// Returns the members passed to the host, and those that rank 0 receives, if a process is lost and deregistered before
/// the host is called.
fn without_one_removed(
    infos: fn() -> Vec<Info<'static>>,
    has_called: bool,
    is_decided: bool,
) -> (Vec<u32>, Vec<u32>) {
    let (mut world, all) = world(&[4, 1]);
    let calls = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&calls);
    world.rule(move |node, call| {
        if let (0, Upcall::Group(call)) = (node, call) {
            let mut infos = call.directives.iter();
            let members = infos.find(|info| info.key.is(keys::GROUP_MEMBERSHIP));
            seen.borrow_mut().push(members.unwrap().value.clone());
        }
        Reaction::Usual
    });
    listen(&mut world, &all, &[Status::GROUP_INVITE_FAILED]);
    let group = |infos| construct("g", &[0, 1, 2, 3, 4], infos);
    let tag = world.ask(all[0], &group(infos()));
    let _ = world.ask(all[1], &group(vec![]));
    if has_called {
        let _ = world.ask(all[3], &group(vec![]));
    }
    world.run();
    world.kill(all[3]);
    world.run();
    if is_decided {
        assert_eq!(world.status_of(all[0], &without(3)), DONE);
    }
    let proc = Proc::new("job", Rank::new(3));
    world.nodes[0].engine.deregister_client(&proc).unwrap();
    for who in [all[2], all[4]] {
        let _ = world.ask(who, &group(vec![]));
    }
    world.run();
    let calls = calls.borrow();
    let [Value::DataArray(DataArray::Proc(told))] = calls.as_slice() else {
        panic!("{calls:?}");
    };
    let told = told.iter().map(|proc| proc.rank.as_raw()).collect();
    (told, members(&world, all[0], tag))
}

#[test]
fn a_process_removed_before_the_upcall_is_a_member_only_if_it_called_and_was_kept() {
    let optional = || vec![Info::new(keys::GROUP_OPTIONAL, true)];
    let (all, others) = (vec![0, 1, 2, 3, 4], vec![0, 1, 2, 4]);
    let cases = [
        (optional as fn() -> _, false, false, &others),
        (optional, true, false, &all),
        (leads, false, true, &others),
        (leads, true, true, &others),
    ];
    for (infos, has_called, is_decided, expected) in cases {
        let (told, members) = without_one_removed(infos, has_called, is_decided);
        assert_eq!(
            (&told, &members),
            (expected, expected),
            "{has_called} {is_decided}"
        );
    }
}

#[test]
fn a_construct_ends_by_abort_refusal_or_silence_of_its_leader() {
    let ends = [
        (Some(about(Status::GROUP_INVITE_FAILED, 3, &[])), LOST),
        (Some(about(Status::GROUP_CONSTRUCT_ABORT, 3, &[])), ABORTED),
        (None, LOST),
    ];
    for per_node in [&[4][..], &[2, 2]] {
        for (said, expected) in &ends {
            let (mut world, all) = world(per_node);
            let tags = called(&mut world, &all, &[0, 1, 2]);
            lose(&mut world, &all, 3);
            match said {
                Some(said) => assert_eq!(world.status_of(all[0], said), DONE),
                None => {
                    let time = Config::default().leader_time;
                    world.advance(time - Duration::from_millis(1));
                    assert_eq!(world.clients[all[0]].status(tags[0]), None);
                    world.advance(Duration::from_millis(2));
                }
            }
            let three = of(&all, &[0, 1, 2]);
            assert_eq!(statuses(&world, &three, &tags), [*expected; 3]);
            assert_eq!(num_groups(&world), 0);
            check_over(&world);
        }
    }
}

#[test]
fn only_the_leader_decides_about_others() {
    let (mut world, all) = world(&[4]);
    let tags = called(&mut world, &all, &[0, 1, 2]);
    lose(&mut world, &all, 3);
    let abort = about(Status::GROUP_CONSTRUCT_ABORT, 3, &[]);
    for said in [without(3), abort] {
        assert_eq!(world.status_of(all[1], &said), DONE);
        assert_eq!(world.clients[all[0]].status(tags[0]), None);
    }
    // The leader cannot decide about a process that is connected either.
    assert_eq!(world.status_of(all[0], &without(1)), DONE);
    assert_eq!(world.clients[all[0]].status(tags[0]), None);
}

#[test]
fn a_loss_ends_the_construct_if_the_leader_has_no_handler() {
    for per_node in [&[4][..], &[2, 2]] {
        let (mut world, all) = world(per_node);
        let tags = called_unheard(&mut world, &all, &[0, 1, 2]);
        lose(&mut world, &all, 3);
        let three = of(&all, &[0, 1, 2]);
        assert_eq!(statuses(&world, &three, &tags), [LOST; 3]);
    }
}

#[test]
fn a_leader_can_replace_a_lost_member() {
    let (mut world, all) = world(&[5]);
    let tags = called(&mut world, &all, &[0, 1, 2]);
    lose(&mut world, &all, 3);
    let four = vec![Proc::new("job", Rank::new(4))];
    let adds = Info::new(keys::GROUP_ADD_MEMBERS, four);
    let replaced = about(Status::GROUP_INVITE_FAILED, 3, &[adds]);
    assert_eq!(world.status_of(all[0], &replaced), DONE);
    assert_eq!(codes(&world, all[4]), [(Status::GROUP_INVITED, Some(0))]);
    assert_eq!(world.clients[all[0]].status(tags[0]), None);
    let added = world.ask(all[4], &construct_of("g", vec![], vec![]));
    world.run();
    let mut tags = tags;
    tags.push(added);
    let asked = [0, 1, 2, 4].into_iter().zip(tags);
    check_members(&world, &all, asked, &[0, 1, 2, 4]);
    // Processes of an unknown job cannot be added.
    let (mut world, all) = self::world(&[4]);
    let tags = called(&mut world, &all, &[0, 1, 2]);
    lose(&mut world, &all, 3);
    let adds = Info::new(keys::GROUP_ADD_MEMBERS, procs(&[("job", 9)]));
    let replaced = about(Status::GROUP_INVITE_FAILED, 3, &[adds]);
    let refused = Some(Status::ERR_NOT_FOUND);
    assert_eq!(world.status_of(all[0], &replaced), refused);
    assert_eq!(world.clients[all[0]].status(tags[0]), None);
}

#[test]
fn the_first_volunteer_replaces_a_lost_leader() {
    // The host has the calls of the other servers, and their processes may lead, too.
    for (per_node, new) in [(&[4][..], 2), (&[2, 2], 1), (&[2, 2], 3)] {
        let (mut world, all) = world(per_node);
        let tags = called(&mut world, &all, &[0, 2, 3]);
        world.kill(all[0]);
        world.run();
        let lead = |lost| about(Status::GROUP_LEADER_FAILED, lost, &leads());
        if new != 1 {
            assert_eq!(world.status_of(all[new], &lead(0)), DONE);
        }
        let last = call(&mut world, all[1]);
        if new == 1 {
            assert_eq!(world.status_of(all[new], &lead(0)), DONE);
        }
        let asked = [(1, last), (2, tags[1]), (3, tags[2])];
        for (rank, tag) in asked {
            assert_eq!(members(&world, all[rank], tag), [1, 2, 3], "{per_node:?}");
            let expected = [
                (Status::GROUP_LEADER_FAILED, Some(0)),
                (Status::GROUP_LEADER_SELECTED, Some(0)),
                (Status::GROUP_MEMBERSHIP_UPDATE, None),
            ];
            assert_eq!(codes(&world, all[rank]), expected, "{per_node:?} {rank}");
        }
    }
}

#[test]
fn a_new_leader_decides_about_later_losses() {
    let (mut world, all) = world(&[4]);
    let tags = called(&mut world, &all, &[0, 1, 2]);
    lose(&mut world, &all, 0);
    lose(&mut world, &all, 3);
    let lead = about(Status::GROUP_LEADER_FAILED, 0, &leads());
    assert_eq!(world.status_of(all[2], &lead), DONE);
    let failed = (Status::GROUP_INVITE_FAILED, Some(3));
    assert_eq!(codes(&world, all[2]).last(), Some(&failed));
    assert_eq!(world.clients[all[1]].status(tags[1]), None);
    assert_eq!(world.status_of(all[2], &without(3)), DONE);
    check_members(&world, &all, [(1, tags[1]), (2, tags[2])], &[1, 2]);
}

#[test]
fn a_construct_without_a_new_leader_ends_for_all() {
    let declines = about(Status::GROUP_LEADER_FAILED, 0, &[]);
    let abort = about(Status::GROUP_CONSTRUCT_ABORT, 0, &[]);
    let ends = [
        (vec![declines.clone(), declines], true, LEADER_GONE),
        (vec![abort], false, ABORTED),
        (vec![], true, LEADER_GONE),
    ];
    for (said, tells, expected) in ends {
        let (mut world, all) = world(&[4]);
        let tags = called(&mut world, &all, &[0, 1, 2]);
        // All have called, so the group is formed.
        let last = call(&mut world, all[3]);
        assert_eq!(world.clients[all[3]].status(last), DONE);
        drop((world, all, tags));

        let (mut world, all) = self::world(&[3]);
        listen(
            &mut world,
            &all,
            &[Status::GROUP_LEADER_FAILED, Status::GROUP_LEADER_SELECTED],
        );
        let group = |infos| construct("g", &[0, 1, 2], infos);
        let first = world.ask(all[0], &group(leads()));
        let second = world.ask(all[1], &group(vec![]));
        world.run();
        world.kill(all[0]);
        world.run();
        for one in &said {
            let status = world.status_of(all[1], one);
            assert_eq!(status, DONE);
        }
        if expected != ABORTED {
            assert_eq!(world.clients[all[1]].status(second), None);
            world.advance(Config::default().leader_time);
        }
        assert_eq!(world.clients[all[1]].status(second), expected);
        assert_eq!(world.status_of(all[2], &group(vec![])), expected);
        let selected = (Status::GROUP_LEADER_SELECTED, Some(0));
        assert_eq!(codes(&world, all[1]).contains(&selected), tells);
        assert_eq!(world.clients[all[0]].status(first), None);
    }
}

#[test]
fn a_construct_ends_at_once_if_every_caller_declines_to_lead() {
    let (mut world, all) = world(&[4]);
    let tags = called(&mut world, &all, &[0, 1, 2]);
    lose(&mut world, &all, 0);
    lose(&mut world, &all, 3);
    for rank in [1, 2] {
        assert_eq!(world.clients[all[1]].status(tags[1]), None);
        let declines = about(Status::GROUP_LEADER_FAILED, 0, &[]);
        assert_eq!(world.status_of(all[rank], &declines), DONE);
    }
    let two = of(&all, &[1, 2]);
    assert_eq!(statuses(&world, &two, &tags[1..]), [LEADER_GONE; 2]);
}
