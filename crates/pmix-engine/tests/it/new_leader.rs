// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loss of an invitation's leader: the processes that accepted elect exactly one new leader.

use std::time::Duration;

use pmix_engine::{Config, HostReply};
use pmix_proto::{Event, Request, request};
use pmix_types::{DataRange, Info, Proc, Rank, Status, Value, keys};

use crate::collective::{DONE, procs};
use crate::group::{listen, world};
use crate::world::{Reaction, Who, World};

fn proc(rank: u32) -> Proc<'static> {
    Proc::new("job", Rank::new(rank))
}

fn say(status: Status, to: &[u32], more: Vec<Info<'static>>) -> Request<'static> {
    let to: Vec<_> = to.iter().map(|rank| ("job", *rank)).collect();
    say_to(status, &to, more)
}

fn say_to(
    status: Status,
    to: &[(&'static str, u32)],
    more: Vec<Info<'static>>,
) -> Request<'static> {
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

/// Creates a reply to the loss of a leader.
fn answer(status: Status, old: u32, leads: bool) -> Request<'static> {
    let mut more = vec![Info::new(keys::EVENT_AFFECTED_PROC, proc(old))];
    if leads {
        more.push(Info::new(keys::GROUP_LEADER, true));
    }
    say(status, &[old], more)
}

/// Returns the events about leaders that a client received: lost and elected ones.
fn heard(world: &World, who: Who) -> Vec<(Status, Option<Proc<'static>>)> {
    let client = &world.clients[who];
    let form = client.session.form();
    let events = client.notices.iter();
    let events = events.map(|notice| Event::decode(form, None, &notice.payload).unwrap());
    let heard = events.filter_map(|event| {
        let key = match event.status {
            Status::GROUP_LEADER_FAILED => keys::EVENT_AFFECTED_PROC,
            Status::GROUP_LEADER_SELECTED => keys::GROUP_LEADER,
            Status::GROUP_CONSTRUCT_ABORT => return Some((event.status, None)),
            _ => return None,
        };
        let mut infos = event.infos.iter();
        let about = match infos.find(|info| info.key.is(key)).map(|info| &info.value) {
            Some(Value::Proc(proc)) => Some(Proc::owned_list(std::slice::from_ref(proc)).remove(0)),
            _ => None,
        };
        Some((event.status, about))
    });
    heard.collect()
}

/// Lets the first of four processes invite the others, which accept, and loses it.
fn leaderless(per_node: &[u32]) -> (World, Vec<Who>) {
    let (mut world, all) = world(per_node);
    let codes = [
        Status::GROUP_LEADER_FAILED,
        Status::GROUP_LEADER_SELECTED,
        Status::GROUP_CONSTRUCT_ABORT,
    ];
    listen(&mut world, &all, &codes);
    let invite = say(Status::GROUP_INVITED, &[1, 2, 3], vec![]);
    assert_eq!(world.status_of(all[0], &invite), DONE);
    for who in &all[1..] {
        let accept = say(Status::GROUP_INVITE_ACCEPTED, &[0], vec![]);
        assert_eq!(world.status_of(*who, &accept), DONE);
    }
    world.kill(all[0]);
    world.run();
    (world, all)
}

fn selected(leader: Option<u32>) -> Vec<(Status, Option<Proc<'static>>)> {
    vec![
        (Status::GROUP_LEADER_FAILED, Some(proc(0))),
        (Status::GROUP_LEADER_SELECTED, leader.map(proc)),
    ]
}

fn bytes(world: &World) -> usize {
    let nodes = world.nodes.iter();
    nodes.map(|node| node.engine.stats().group_bytes).sum()
}

const NODES: [&[u32]; 4] = [&[4], &[2, 2], &[1, 3], &[1, 1, 2]];

#[test]
fn the_first_volunteer_leads_and_all_members_are_notified() {
    for per_node in NODES {
        let (mut world, all) = leaderless(per_node);
        for (rank, leads) in [(1, false), (3, true), (2, true)] {
            let answer = answer(Status::GROUP_LEADER_FAILED, 0, leads);
            assert_eq!(world.status_of(all[rank], &answer), DONE);
        }
        for who in &all[1..] {
            assert_eq!(heard(&world, *who), selected(Some(3)), "{per_node:?}");
        }
        // The new leader invites the others again, and the group is formed.
        let invite = say(Status::GROUP_INVITED, &[1, 2], vec![]);
        assert_eq!(world.status_of(all[3], &invite), DONE);
        for rank in [1, 2] {
            let accept = say(Status::GROUP_INVITE_ACCEPTED, &[3], vec![]);
            assert_eq!(world.status_of(all[rank], &accept), DONE);
        }
        let complete = say(Status::GROUP_CONSTRUCT_COMPLETE, &[1, 2, 3], vec![]);
        assert_eq!(world.status_of(all[3], &complete), DONE);
        for who in &all[1..] {
            world.kill(*who);
            world.run();
        }
        assert_eq!(bytes(&world), 0);
    }
}

#[test]
fn members_are_notified_at_once_if_no_process_leads() {
    for per_node in NODES {
        let (mut world, all) = leaderless(per_node);
        // A lost process is not awaited.
        world.kill(all[3]);
        world.run();
        for rank in [1, 2] {
            assert_eq!(heard(&world, all[rank]).len(), 1);
            let answer = answer(Status::GROUP_LEADER_FAILED, 0, false);
            assert_eq!(world.status_of(all[rank], &answer), DONE);
        }
        for rank in [1, 2] {
            assert_eq!(heard(&world, all[rank]), selected(None), "{per_node:?}");
        }
        assert_eq!(bytes(&world), 0);
    }
}

#[test]
fn an_election_without_replies_ends_after_the_leader_time() {
    let time = Config::default().leader_time;
    for per_node in NODES {
        let (mut world, all) = leaderless(per_node);
        world.advance(time - Duration::from_millis(1));
        assert_eq!(heard(&world, all[1]).len(), 1);
        world.advance(Duration::from_millis(2));
        for who in &all[1..] {
            assert_eq!(heard(&world, *who), selected(None), "{per_node:?}");
        }
        assert_eq!(bytes(&world), 0);
    }
}

#[test]
fn a_server_without_an_election_result_ends_the_wait_of_its_clients() {
    let (mut world, all) = leaderless(&[1, 3]);
    world.rule(|_, upcall| match upcall.name() {
        "NotifyEvent" => Reaction::HostReply(HostReply::Done(Status::SUCCESS)),
        _ => Reaction::Usual,
    });
    let answer = answer(Status::GROUP_LEADER_FAILED, 0, true);
    assert_eq!(world.status_of(all[1], &answer), DONE);
    world.advance(2 * Config::default().leader_time);
    for who in &all[1..] {
        assert_eq!(heard(&world, *who), selected(None));
    }
    assert_eq!(bytes(&world), 0);
}

#[test]
fn an_abort_of_a_member_ends_the_construct_for_all() {
    for per_node in NODES {
        let (mut world, all) = leaderless(per_node);
        let abort = answer(Status::GROUP_CONSTRUCT_ABORT, 0, false);
        assert_eq!(world.status_of(all[2], &abort), DONE);
        let aborted = (Status::GROUP_CONSTRUCT_ABORT, None);
        for rank in [1, 3] {
            assert_eq!(
                heard(&world, all[rank]).last(),
                Some(&aborted),
                "{per_node:?}"
            );
        }
        world.advance(3 * Config::default().leader_time);
        assert_eq!(heard(&world, all[1]).len(), 2);
        assert_eq!(bytes(&world), 0);
    }
}

#[test]
fn a_lost_new_leader_is_replaced() {
    for per_node in NODES {
        let (mut world, all) = leaderless(per_node);
        let lead = answer(Status::GROUP_LEADER_FAILED, 0, true);
        assert_eq!(world.status_of(all[1], &lead), DONE);
        world.kill(all[1]);
        world.run();
        let lead = answer(Status::GROUP_LEADER_FAILED, 1, true);
        assert_eq!(world.status_of(all[2], &lead), DONE);
        for who in &all[2..] {
            let expected = [
                selected(Some(1)),
                vec![
                    (Status::GROUP_LEADER_FAILED, Some(proc(1))),
                    (Status::GROUP_LEADER_SELECTED, Some(proc(2))),
                ],
            ];
            assert_eq!(heard(&world, *who), expected.concat(), "{per_node:?}");
        }
    }
}

#[test]
fn processes_select_a_leader_only_where_no_invitation_has_one() {
    // Programs that elect a leader themselves report it to each other.
    let (mut world, all) = world(&[2, 2]);
    let codes = [Status::GROUP_LEADER_SELECTED];
    listen(&mut world, &all, &codes);
    let chosen = say(Status::GROUP_LEADER_SELECTED, &[0, 2], vec![]);
    assert_eq!(world.status_of(all[1], &chosen), DONE);
    assert_eq!(heard(&world, all[2]).len(), 1);
    // The servers elect the leader of an invitation.
    let (mut world, all) = leaderless(&[2, 2]);
    let denied = Some(Status::ERR_NO_PERMISSIONS);
    assert_eq!(world.status_of(all[1], &chosen), denied);
    // A leader that is connected cannot be replaced.
    let (mut world, all) = leaderless(&[2, 2]);
    let lead = answer(Status::GROUP_LEADER_FAILED, 3, true);
    assert_eq!(world.status_of(all[1], &lead), DONE);
    assert_eq!(heard(&world, all[2]).len(), 1);
}

/// Works as [`leaderless`], but the last invited process has not accepted.
fn leaderless_but_one(per_node: &[u32]) -> (World, Vec<Who>) {
    let (mut world, all) = world(per_node);
    let codes = [Status::GROUP_LEADER_FAILED, Status::GROUP_LEADER_SELECTED];
    listen(&mut world, &all, &codes);
    let invite = say(Status::GROUP_INVITED, &[1, 2, 3], vec![]);
    assert_eq!(world.status_of(all[0], &invite), DONE);
    for who in &all[1..3] {
        let accept = say(Status::GROUP_INVITE_ACCEPTED, &[0], vec![]);
        assert_eq!(world.status_of(*who, &accept), DONE);
    }
    world.kill(all[0]);
    world.run();
    (world, all)
}

#[test]
fn a_process_that_has_not_accepted_cannot_lead() {
    for per_node in NODES {
        let (mut world, all) = leaderless_but_one(per_node);
        for (rank, leads) in [(3, true), (1, false), (2, true)] {
            let answer = answer(Status::GROUP_LEADER_FAILED, 0, leads);
            assert_eq!(world.status_of(all[rank], &answer), DONE);
        }
        for who in &all[1..] {
            assert_eq!(heard(&world, *who), selected(Some(2)), "{per_node:?}");
        }
    }
}

#[test]
fn a_process_that_aborts_after_accepting_cannot_lead() {
    for per_node in NODES {
        let (mut world, all) = leaderless(per_node);
        // The process declines before the others reply; its later offer to lead has no effect.
        let declined = say(Status::GROUP_INVITE_DECLINED, &[0], vec![]);
        assert_eq!(world.status_of(all[3], &declined), DONE);
        for (rank, leads) in [(3, true), (1, false)] {
            let answer = answer(Status::GROUP_LEADER_FAILED, 0, leads);
            assert_eq!(world.status_of(all[rank], &answer), DONE);
        }
        assert_eq!(heard(&world, all[1]).len(), 1, "{per_node:?}");
        let answer = answer(Status::GROUP_LEADER_FAILED, 0, true);
        assert_eq!(world.status_of(all[2], &answer), DONE);
        for who in &all[1..3] {
            assert_eq!(heard(&world, *who), selected(Some(2)), "{per_node:?}");
        }
    }
}

#[test]
fn the_abort_of_the_last_candidate_ends_the_election() {
    for per_node in NODES {
        let (mut world, all) = leaderless(per_node);
        for rank in [1, 2] {
            let answer = answer(Status::GROUP_LEADER_FAILED, 0, false);
            assert_eq!(world.status_of(all[rank], &answer), DONE);
        }
        let declined = say(Status::GROUP_INVITE_DECLINED, &[0], vec![]);
        assert_eq!(world.status_of(all[3], &declined), DONE);
        assert_eq!(heard(&world, all[1]), selected(None), "{per_node:?}");
    }
}

#[test]
fn a_new_leader_that_aborts_before_it_invites_counts_as_lost() {
    for per_node in NODES {
        let (mut world, all) = leaderless(per_node);
        let leads = answer(Status::GROUP_LEADER_FAILED, 0, true);
        assert_eq!(world.status_of(all[3], &leads), DONE);
        // The process declined before it received its election.
        let declined = say(Status::GROUP_INVITE_DECLINED, &[0], vec![]);
        assert_eq!(world.status_of(all[3], &declined), DONE);
        for (rank, leads) in [(1, false), (2, true)] {
            let answer = answer(Status::GROUP_LEADER_FAILED, 3, leads);
            assert_eq!(world.status_of(all[rank], &answer), DONE);
        }
        let mut expected = selected(Some(3));
        expected.push((Status::GROUP_LEADER_FAILED, Some(proc(3))));
        expected.push((Status::GROUP_LEADER_SELECTED, Some(proc(2))));
        for who in &all[1..3] {
            assert_eq!(heard(&world, *who), expected, "{per_node:?}");
        }
        for who in &all[1..] {
            world.kill(*who);
            world.run();
        }
        assert_eq!(bytes(&world), 0);
    }
}

#[test]
fn a_leader_elected_while_it_finalizes_ends_its_other_invitations() {
    let of_other = |mut request: Request<'static>| {
        if let Request::Notify(notify) = &mut request {
            let infos = notify.infos.iter_mut();
            let name = { infos }.find(|info| info.key.is(keys::GROUP_ID));
            *name.unwrap() = Info::new(keys::GROUP_ID, "other");
        }
        request
    };
    for per_node in NODES {
        let (mut world, all) = leaderless(per_node);
        let invite = of_other(say(Status::GROUP_INVITED, &[2, 3], vec![]));
        assert_eq!(world.status_of(all[1], &invite), DONE);
        for rank in [2, 3] {
            let accept = of_other(say(Status::GROUP_INVITE_ACCEPTED, &[1], vec![]));
            assert_eq!(world.status_of(all[rank], &accept), DONE);
        }
        world.rule(|_, call| match call.name() {
            "ClientFinalized" => Reaction::Later,
            _ => Reaction::Usual,
        });
        let finalize = world.ask(all[1], &Request::Finalize);
        let lead = answer(Status::GROUP_LEADER_FAILED, 0, true);
        assert_eq!(world.status_of(all[1], &lead), DONE);
        assert_eq!(world.clients[all[1]].status(finalize), None);
        // The process does not lead in place of the lost leader any more; the other group is not affected.
        let mut expected = selected(Some(1));
        expected.push((Status::GROUP_LEADER_FAILED, Some(proc(1))));
        for who in &all[2..] {
            assert_eq!(heard(&world, *who), expected, "{per_node:?}");
        }
        let abort = of_other(say(Status::GROUP_CONSTRUCT_ABORT, &[2, 3], vec![]));
        assert_eq!(world.status_of(all[1], &abort), DONE);
        expected.push((Status::GROUP_CONSTRUCT_ABORT, None));
        for who in &all[2..] {
            assert_eq!(heard(&world, *who), expected, "{per_node:?}");
        }
    }
}

#[test]
fn a_node_without_invited_processes_keeps_no_new_leader() {
    let mut world = World::new(2);
    world.job("job", &[3]);
    world.job("other", &[0, 1]);
    let all = world.join_all("job", &[3]);
    let other = world.join(1, "other", 0);
    listen(
        &mut world,
        &[all[1], other],
        &[Status::GROUP_LEADER_SELECTED],
    );
    let invited = [("job", 1), ("job", 2), ("other", 0)];
    let invite = say_to(Status::GROUP_INVITED, &invited, vec![]);
    assert_eq!(world.status_of(all[0], &invite), DONE);
    for who in [all[1], all[2], other] {
        let accept = say(Status::GROUP_INVITE_ACCEPTED, &[0], vec![]);
        assert_eq!(world.status_of(who, &accept), DONE);
    }
    world.kill(all[0]);
    world.run();
    world.kill(other);
    world.run();
    let leads = answer(Status::GROUP_LEADER_FAILED, 0, true);
    assert_eq!(world.status_of(all[1], &leads), DONE);
    assert_eq!(heard(&world, all[1]), selected(Some(1))[1..]);
    let engine = &mut world.nodes[1].engine;
    engine.deregister_nspace(&"other".into()).unwrap();
    assert_eq!(
        engine.stats().group_bytes,
        0,
        "no invited process is left on this node"
    );
    assert!(bytes(&world) > 0, "the new leader has not invited yet");
    world.kill(all[1]);
    world.kill(all[2]);
    world.run();
    assert_eq!(bytes(&world), 0);
}
