// SPDX-License-Identifier: MIT OR Apache-2.0
//! A construct with a leader, and processes that are lost on other nodes than the leader's.

use std::time::Duration;

use pmix_engine::{Config, HostObject, HostReply, Upcall};
use pmix_proto::{Request, Tag, request};
use pmix_types::{DataRange, Info, Proc, Rank, Status, keys};

use crate::collective::{DONE, ask_all, limit, procs, statuses};
use crate::group::{construct_of, destruct, heard, listen, world};
use crate::group_led_steps::{
    ABORTED, LEADER_GONE, LOST, about, call, called, called_unheard, check_members, check_over,
    codes, leads, lose, of, of_four, without,
};
use crate::world::{Reaction, Who, World};

#[test]
fn a_leader_decides_about_a_loss_on_another_node() {
    // Other processes of that node have called, have not called yet, or do not exist.
    for (per_node, early, late) in [
        (&[2, 2][..], &[0, 1, 2][..], None),
        (&[2, 2], &[0, 1], Some(2)),
        (&[2, 2], &[0, 2], Some(1)),
        (&[3, 1], &[0, 1, 2], None),
        (&[1, 1, 1, 1], &[0, 2], Some(1)),
    ] {
        let (mut world, all) = world(per_node);
        let tags = called(&mut world, &all, early);
        lose(&mut world, &all, 3);
        let failed = (Status::GROUP_INVITE_FAILED, Some(3));
        assert_eq!(codes(&world, all[0]), [failed], "{per_node:?}");
        assert_eq!(codes(&world, all[1]), []);
        assert_eq!(world.clients[all[0]].status(tags[0]), None);
        assert_eq!(world.status_of(all[0], &without(3)), DONE);
        let mut asked: Vec<_> = early.iter().copied().zip(tags).collect();
        if let Some(late) = late {
            assert_eq!(world.clients[all[0]].status(asked[0].1), None);
            asked.push((late, call(&mut world, all[late])));
        }
        check_members(&world, &all, asked, &[0, 1, 2]);
        check_over(&world);
    }
}

#[test]
fn a_leader_is_notified_of_earlier_losses_on_other_nodes() {
    for per_node in [&[3, 1][..], &[2, 2]] {
        let (mut world, all) = world(per_node);
        lose(&mut world, &all, 3);
        let mut tags = called(&mut world, &all[..3], &[0]);
        let failed = (Status::GROUP_INVITE_FAILED, Some(3));
        assert_eq!(codes(&world, all[0]), [failed]);
        tags.extend([1, 2].map(|rank| call(&mut world, all[rank])));
        assert_eq!(world.status_of(all[0], &without(3)), DONE);
        check_members(&world, &all, tags.into_iter().enumerate(), &[0, 1, 2]);
        check_over(&world);
    }
}

#[test]
fn a_server_without_participants_adds_the_members_of_the_leader() {
    let (mut world, all) = world(&[3, 1, 1]);
    let mut tags = called(&mut world, &all, &[0, 1, 2]);
    lose(&mut world, &all, 3);
    let adds = Info::new(keys::GROUP_ADD_MEMBERS, procs(&[("job", 4)]));
    let replaced = about(Status::GROUP_INVITE_FAILED, 3, &[adds]);
    assert_eq!(world.status_of(all[0], &replaced), DONE);
    assert_eq!(codes(&world, all[4]), [(Status::GROUP_INVITED, Some(0))]);
    assert_eq!(world.clients[all[0]].status(tags[0]), None);
    tags.push(world.ask(all[4], &construct_of("g", vec![], vec![])));
    world.run();
    let asked = [0, 1, 2, 4].into_iter().zip(tags);
    check_members(&world, &all, asked, &[0, 1, 2, 4]);
    check_over(&world);
}

/// Loses the leader after all processes of its node have called, while the other node still gathers.
fn leader_lost_late() -> (World, Vec<Who>, Vec<Tag>) {
    let (mut world, all) = world(&[2, 2]);
    let tags = called(&mut world, &all, &[0, 1, 2]);
    lose(&mut world, &all, 0);
    for rank in [1, 2] {
        let failed = (Status::GROUP_LEADER_FAILED, Some(0));
        assert_eq!(codes(&world, all[rank]), [failed]);
        assert_eq!(world.clients[all[rank]].status(tags[rank]), None);
    }
    (world, all, tags)
}

#[test]
fn a_leader_lost_after_its_server_called_is_replaced() {
    for new in [1, 2] {
        let (mut world, all, tags) = leader_lost_late();
        let lead = about(Status::GROUP_LEADER_FAILED, 0, &leads());
        for rank in [new, 3 - new] {
            assert_eq!(world.status_of(all[rank], &lead), DONE);
        }
        lose(&mut world, &all, 3);
        let failed = (Status::GROUP_INVITE_FAILED, Some(3));
        assert_eq!(codes(&world, all[new]).last(), Some(&failed));
        assert_eq!(world.clients[all[1]].status(tags[1]), None);
        assert_eq!(world.status_of(all[new], &without(3)), DONE);
        for rank in [1, 2] {
            // The host had received the previous leader.
            check_members(&world, &all, [(rank, tags[rank])], &[0, 1, 2]);
            let heard = codes(&world, all[rank]);
            let selected = (Status::GROUP_LEADER_SELECTED, Some(0));
            assert_eq!(heard.iter().filter(|told| **told == selected).count(), 1);
        }
        check_over(&world);
    }
}

#[test]
fn a_construct_ends_on_all_nodes_without_a_new_leader() {
    let abort = about(Status::GROUP_CONSTRUCT_ABORT, 0, &[]);
    for (said, expected) in [(None, LEADER_GONE), (Some(abort), ABORTED)] {
        for rank in [1, 2] {
            let (mut world, all, tags) = leader_lost_late();
            match &said {
                Some(said) => assert_eq!(world.status_of(all[rank], said), DONE),
                None => world.advance(Config::default().leader_time),
            }
            let two = of(&all, &[1, 2]);
            assert_eq!(statuses(&world, &two, &tags[1..]), [expected; 2]);
            let last = call(&mut world, all[3]);
            assert_eq!(world.clients[all[3]].status(last), expected);
            check_over(&world);
        }
    }
}

#[test]
fn a_new_leader_decides_about_losses_during_its_election() {
    let (mut world, all) = world(&[2, 2]);
    let tags = called(&mut world, &all, &[0, 2]);
    lose(&mut world, &all, 0);
    lose(&mut world, &all, 3);
    let last = call(&mut world, all[1]);
    let lead = about(Status::GROUP_LEADER_FAILED, 0, &leads());
    assert_eq!(world.status_of(all[2], &lead), DONE);
    assert_eq!(world.clients[all[1]].status(last), None);
    assert_eq!(world.status_of(all[2], &without(3)), DONE);
    check_members(&world, &all, [(1, last), (2, tags[1])], &[1, 2]);
    check_over(&world);
}

#[test]
fn the_first_leader_by_name_leads_across_nodes() {
    for order in [[0, 2], [2, 0]] {
        let (mut world, all) = world(&[2, 2]);
        listen(&mut world, &all, &[Status::GROUP_INVITE_FAILED]);
        for rank in order {
            world.ask(all[rank], &of_four(leads()));
            world.run();
        }
        lose(&mut world, &all, 3);
        lose(&mut world, &all, 1);
        assert_eq!(heard(&world, all[0]).len(), 2, "{order:?}");
        assert_eq!(heard(&world, all[2]).len(), 0, "{order:?}");
    }
}

#[test]
fn a_server_drops_a_construct_that_ended_at_its_leader() {
    let (mut world, all) = world(&[2, 2]);
    listen(&mut world, &all, &[Status::GROUP_INVITE_FAILED]);
    let infos = [leads(), limit(3)].concat();
    let first = world.ask(all[0], &of_four(infos));
    world.run();
    assert_eq!(world.nodes[1].engine.stats().num_collectives, 1);
    world.advance(Duration::from_secs(3));
    let late = Some(Status::ERR_TIMEOUT);
    assert_eq!(world.clients[all[0]].status(first), late);
    assert_eq!(world.nodes[1].engine.stats().num_collectives, 0);
    lose(&mut world, &all, 3);
    assert_eq!(heard(&world, all[0]), []);
}

#[test]
fn a_server_drops_a_leader_reported_after_the_end() {
    let (mut world, all) = world(&[2, 2]);
    let events = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let held = std::rc::Rc::clone(&events);
    world.rule(move |_, upcall| match upcall {
        Upcall::NotifyEvent(event) => {
            held.borrow_mut().push(event.clone());
            Reaction::HostReply(HostReply::Done(Status::SUCCESS))
        }
        _ => Reaction::Usual,
    });
    let tags = called_unheard(&mut world, &all, &[0, 1, 2, 3]);
    assert_eq!(statuses(&world, &all, &tags), [DONE; 4]);
    let now = world.now;
    for event in events.take() {
        let engine = &mut world.nodes[1].engine;
        let told = engine.notify(event.status, &event.source, event.range, &event.infos, now);
        told.unwrap();
    }
    check_over(&world);
}

#[test]
fn a_leader_is_not_asked_about_a_loss_reported_too_late() {
    let (mut world, all) = world(&[3, 1]);
    let events = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let held = std::rc::Rc::clone(&events);
    world.rule(move |node, upcall| match upcall {
        Upcall::NotifyEvent(event) if node == 0 => {
            held.borrow_mut().push(event.clone());
            Reaction::HostReply(HostReply::Done(Status::SUCCESS))
        }
        _ => Reaction::Usual,
    });
    let last = call(&mut world, all[3]);
    let mut tags = called(&mut world, &all, &[0, 1, 2]);
    tags.push(last);
    check_members(&world, &all, tags.into_iter().enumerate(), &[0, 1, 2, 3]);
    lose(&mut world, &all, 3);
    for event in events.take() {
        let now = world.now;
        let engine = &mut world.nodes[1].engine;
        let told = engine.notify(event.status, &event.source, event.range, &event.infos, now);
        told.unwrap();
        world.run();
        assert_eq!(codes(&world, all[0]), []);
    }
    world.advance(Config::default().leader_time);
    assert_eq!(codes(&world, all[0]), []);
    let tags = ask_all(&mut world, &all[..3], &destruct("g", vec![]));
    assert_eq!(statuses(&world, &all[..3], &tags), [LOST; 3]);
    check_over(&world);
}

#[test]
fn a_leader_is_asked_about_a_loss_after_another_construct_ended() {
    for calls_again in [false, true] {
        let (mut world, all) = world(&[2, 2]);
        called(&mut world, &all, &[]);
        let infos = limit(3);
        let tags: Vec<_> = [1, 2, 3]
            .map(|rank| world.ask(all[rank], &of_four(infos.clone())))
            .to_vec();
        world.advance(Duration::from_secs(4));
        let late = Some(Status::ERR_TIMEOUT);
        assert_eq!(statuses(&world, &all[1..], &tags), [late; 3]);
        let last = world.ask(all[0], &of_four(infos));
        world.run();
        assert_eq!(world.clients[all[0]].status(last), late);
        lose(&mut world, &all, 3);
        let mut tags = called_unheard(&mut world, &all, &[0, 1]);
        assert_eq!(codes(&world, all[0]), []);
        match calls_again {
            true => tags.push(call(&mut world, all[2])),
            false => world.advance(Config::default().leader_time),
        }
        let failed = (Status::GROUP_INVITE_FAILED, Some(3));
        assert_eq!(codes(&world, all[0]), [failed]);
        assert_eq!(world.status_of(all[0], &without(3)), DONE);
        if !calls_again {
            tags.push(call(&mut world, all[2]));
        }
        check_members(&world, &all, tags.into_iter().enumerate(), &[0, 1, 2]);
        check_over(&world);
    }
}

#[test]
fn a_server_drops_remote_leaders_of_a_deregistered_job() {
    let (mut world, all) = world(&[2, 2]);
    let tags = called(&mut world, &all, &[0]);
    let job = "job".into();
    world.nodes[1].engine.deregister_nspace(&job).unwrap();
    world.run();
    assert_eq!(world.nodes[1].engine.stats().num_collectives, 0);
    drop(tags);
}

#[test]
fn the_leader_is_known_if_the_job_is_registered_later() {
    let mut world = World::new(2);
    world.job("job", &[2, 2]);
    let mut all = vec![world.join(0, "job", 0), world.join(0, "job", 1)];
    let late = &mut world.nodes[1].engine;
    late.deregister_nspace(&"job".into()).unwrap();
    let mut tags = called(&mut world, &all, &[0, 1]);
    assert_eq!(world.nodes[1].engine.stats().num_collectives, 0);
    let infos = [
        Info::new(keys::NODE_MAP, "n00,n01"),
        Info::new(keys::PROC_MAP, "0,1;2,3"),
    ];
    let late = &mut world.nodes[1].engine;
    late.register_nspace(&"job".into(), 2, &infos).unwrap();
    for rank in [2, 3] {
        let proc = Proc::new("job", Rank::new(rank));
        let user = pmix_engine::Credentials::new(1000, 1000);
        let object = HostObject(rank.into());
        let late = &mut world.nodes[1].engine;
        late.register_client(&proc, user, object).unwrap();
    }
    all.extend([2, 3].map(|rank| world.join(1, "job", rank)));
    tags.push(call(&mut world, all[2]));
    lose(&mut world, &all, 3);
    assert_eq!(world.status_of(all[0], &without(3)), DONE);
    check_members(&world, &all, tags.into_iter().enumerate(), &[0, 1, 2]);
}

#[test]
fn a_process_cannot_announce_a_leader_for_its_server() {
    let (mut world, all) = world(&[2, 2]);
    let own = Proc::new("job", Rank::new(0));
    let announce = Request::Notify(request::Notify {
        status: Status::GROUP_LEADER_SELECTED,
        range: DataRange::CUSTOM,
        infos: vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, procs(&[("job", 0), ("job", 2)])),
            Info::new(keys::GROUP_ID, "g"),
            Info::new(keys::GROUP_LEADER, own),
        ],
    });
    let denied = Some(Status::ERR_NO_PERMISSIONS);
    assert_eq!(world.status_of(all[0], &announce), denied);
    assert_eq!(world.nodes[1].engine.stats().num_collectives, 0);
}

#[test]
fn leader_announcements_reach_servers_only() {
    let is_notice = |upcall: &Upcall| matches!(upcall, Upcall::NotifyEvent(_));
    for (infos, expected) in [(vec![], 0), (leads(), 2)] {
        let (mut world, all) = world(&[2, 2]);
        listen(&mut world, &all, &[Status::GROUP_LEADER_SELECTED]);
        let count = std::rc::Rc::new(std::cell::Cell::new(0));
        let counted = std::rc::Rc::clone(&count);
        world.rule(move |_, upcall| {
            counted.set(counted.get() + u32::from(is_notice(upcall)));
            Reaction::Usual
        });
        for rank in [0, 1, 2, 3] {
            let infos = if rank == 0 { infos.clone() } else { vec![] };
            world.ask(all[rank], &of_four(infos));
        }
        world.run();
        assert_eq!(count.get(), expected);
        assert!(all.iter().all(|who| heard(&world, *who).is_empty()));
    }
}
