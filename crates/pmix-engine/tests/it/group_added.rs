// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups whose members do not all know each other: leaders add others, or know only their number.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pmix_engine::{Credentials, HostObject, HostReply, Upcall};
use pmix_proto::{Request, Tag, reply};
use pmix_types::{GroupOperation, Info, Proc, Rank, Status, Value, keys};

use crate::collective::{DONE, ask_all, fence_of, limit, procs, statuses};
use crate::event_rights::listens;
use crate::group::{construct, construct_of, context, destruct, heard, listen, num_groups, world};
use crate::world::{Reaction, UID, Who, World, hello};

fn ranks(list: &[u32]) -> Vec<Proc<'static>> {
    let ranks: Vec<_> = list.iter().map(|rank| ("job", *rank)).collect();
    procs(&ranks)
}

fn adds(list: &[u32]) -> Info<'static> {
    Info::new(keys::GROUP_ADD_MEMBERS, ranks(list))
}

fn order(list: &[u32]) -> Info<'static> {
    Info::new(keys::GROUP_FINAL_MEMBERSHIP_ORDER, ranks(list))
}

fn one_of(count: u64) -> Info<'static> {
    Info::new(keys::GROUP_BOOTSTRAP, Value::Size(count))
}

fn joins(infos: Vec<Info<'static>>) -> Request<'static> {
    construct_of("g", vec![], infos)
}

/// Returns the status, members and context id that a client received.
fn told(world: &World, who: Who, tag: Tag) -> (Status, Vec<u32>, Option<u64>) {
    let client = &world.clients[who];
    let response = client.reply(tag).expect("no reply");
    let group = reply::Group::decode(client.session.form(), None, &response.payload).unwrap();
    let ranks = group.members.iter().map(|proc| proc.rank.as_raw());
    (group.status, ranks.collect(), group.context_id)
}

/// Fences by the name of the group, and destructs it.
fn use_and_part(world: &mut World, all: &[Who]) {
    let fence = fence_of(procs(&[("g", Rank::WILDCARD.as_raw())]), vec![]);
    let tags = ask_all(world, all, &fence);
    assert_eq!(statuses(world, all, &tags), vec![DONE; all.len()]);
    let tags = ask_all(world, all, &destruct("g", vec![]));
    assert_eq!(statuses(world, all, &tags), vec![DONE; all.len()]);
    assert_eq!(num_groups(world), 0);
}

#[test]
fn leaders_with_a_list_of_leaders_add_members() {
    for per_node in [&[5][..], &[2, 3], &[1, 2, 2]] {
        let (mut world, all) = world(per_node);
        let added = [1, 3].map(|rank| world.ask(all[rank], &joins(vec![])));
        world.run();
        let led = [
            world.ask(all[0], &construct("g", &[4, 0], vec![])),
            world.ask(
                all[4],
                &construct("g", &[4, 0], [context(), vec![adds(&[3, 1])]].concat()),
            ),
        ];
        world.run();
        let asked = [(0, led[0]), (1, added[0]), (3, added[1]), (4, led[1])];
        for (rank, tag) in asked {
            let expected = (Status::SUCCESS, vec![4, 0, 1, 3], Some(1));
            assert_eq!(
                told(&world, all[rank], tag),
                expected,
                "{per_node:?} {rank}"
            );
        }
        use_and_part(&mut world, &[all[0], all[1], all[3], all[4]]);
    }
}

#[test]
fn leaders_with_a_count_of_leaders_form_one_construct() {
    for per_node in [&[4][..], &[2, 2]] {
        let (mut world, all) = world(per_node);
        let first = vec![one_of(2), adds(&[1]), order(&[3, 2])];
        let second = vec![one_of(2), adds(&[2])];
        let tags = [
            world.ask(all[0], &construct("g", &[0], first)),
            // Libraries up to 5.0 refuse an empty list.
            world.ask(all[1], &construct("g", &[1], vec![one_of(0)])),
            world.ask(all[2], &joins(vec![])),
            world.ask(all[3], &construct("g", &[3], second)),
        ];
        world.run();
        for (who, tag) in all.iter().zip(tags) {
            let expected = (Status::SUCCESS, vec![3, 2, 0, 1], None);
            assert_eq!(told(&world, *who, tag), expected, "{per_node:?}");
        }
        use_and_part(&mut world, &all);
    }
}

#[test]
fn members_have_the_order_that_a_member_requests() {
    for per_node in [&[3][..], &[2, 1]] {
        let (mut world, all) = world(per_node);
        let plain = construct("g", &[0, 1, 2], vec![]);
        let tags = [
            world.ask(all[0], &plain),
            world.ask(all[1], &plain),
            world.ask(all[2], &construct("g", &[0, 1, 2], vec![order(&[2, 0, 1])])),
        ];
        world.run();
        for (who, tag) in all.iter().zip(tags) {
            let expected = (Status::SUCCESS, vec![2, 0, 1], None);
            assert_eq!(told(&world, *who, tag), expected, "{per_node:?}");
        }
        use_and_part(&mut world, &all);
        // Two members request different orders.
        let tags = [
            world.ask(all[0], &construct("g", &[0, 1], vec![order(&[0, 1])])),
            world.ask(all[1], &construct("g", &[0, 1], vec![order(&[1, 0])])),
        ];
        world.run();
        let bad = Some(Status::ERR_BAD_PARAM);
        assert_eq!(statuses(&world, &all[..2], &tags), [bad; 2]);
        assert_eq!(num_groups(&world), 0);
    }
}

#[test]
fn the_host_gets_the_callers() {
    let (mut world, all) = world(&[3]);
    let calls = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&calls);
    world.rule(move |_, call| match call {
        Upcall::Group(group) => {
            seen.borrow_mut().push(group.clone());
            Reaction::Silence
        }
        _ => Reaction::Usual,
    });
    world.ask(all[1], &joins(vec![]));
    world.run();
    // Only the server of a process states its user.
    let claimed = Info::new(keys::USERID, UID + 1);
    let led = vec![one_of(1), adds(&[1]), claimed];
    world.ask(all[0], &construct("g", &[0], led));
    world.run();
    let calls = calls.borrow();
    let [added, leader] = &calls[..] else {
        panic!("{calls:?}");
    };
    let who = |rank| Info::new(keys::PROCID, ranks(&[rank]).remove(0));
    assert_eq!(added.operation, GroupOperation::CONSTRUCT);
    assert_eq!(added.procs, []);
    let user = [keys::USERID, keys::GRPID].map(|key| Info::new(key, UID));
    let [first, second] = user.clone();
    assert_eq!(added.directives, [first, second, who(1)]);
    assert_eq!(leader.procs, ranks(&[0]));
    assert!(leader.directives.contains(&who(0)));
    assert!(leader.directives.contains(&one_of(1)));
    assert!(leader.directives.contains(&adds(&[1])));
    let users = leader.directives.iter();
    let users: Vec<_> = users.filter(|info| info.key.is(keys::USERID)).collect();
    assert_eq!(users, [&user[0]]);
}

#[test]
fn leaders_with_a_count_ignore_other_users_and_jobs() {
    for (uid, count) in [(UID + 1, 2), (UID + 1, 3), (UID, 3)] {
        let (mut world, all) = world(&[2, 2]);
        world.job_of("other", &[1, 1], uid);
        let others: Vec<_> = [(0, 0), (1, 1)]
            .map(|(node, rank)| listens(&mut world, node, uid, &hello("other", rank)))
            .into();
        let own = |rank, count| {
            let named = procs(&[("other", rank)]);
            construct_of("g", named, vec![one_of(count)])
        };
        let first = world.ask(all[0], &construct("g", &[0], vec![one_of(2)]));
        let other = world.ask(others[0], &own(0, count));
        world.run();
        let second = world.ask(all[3], &construct("g", &[3], vec![one_of(2)]));
        world.run();
        for (rank, tag) in [(0, first), (3, second)] {
            let expected = (Status::SUCCESS, vec![0, 3], None);
            assert_eq!(told(&world, all[rank], tag), expected, "{uid} {count}");
        }
        // The process waits for its own group.
        assert!(world.clients[others[0]].reply(other).is_none());
        if count == 2 {
            let last = world.ask(others[1], &own(1, count));
            world.run();
            for (who, tag) in others.into_iter().zip([other, last]) {
                let expected = (Status::SUCCESS, vec![0, 1], None);
                assert_eq!(told(&world, who, tag), expected, "{uid} {count}");
            }
        }
    }
}

#[test]
fn members_of_several_users_that_list_each_other_are_refused() {
    let local = Info::new(keys::GROUP_LOCAL_ONLY, true);
    // All members on one node, with and without the host; and a member on another node.
    for (per_node, infos) in [
        (&[3][..], vec![]),
        (&[3], vec![local]),
        (&[3], vec![adds(&[2])]),
        (&[2, 1], vec![]),
        (&[1, 2], vec![]),
    ] {
        let mut world = World::new(per_node.len());
        world.job("job", per_node);
        let node_of_1 = usize::from(per_node[0] == 1);
        let other = pmix_engine::Credentials::new(UID + 1, UID + 1);
        let engine = &mut world.nodes[node_of_1].engine;
        engine
            .register_client(&ranks(&[1])[0], other, HostObject(1))
            .unwrap();
        let all: Vec<_> = (0..3)
            .map(|rank| {
                let is_first = rank < per_node[0];
                let uid = if rank == 1 { UID + 1 } else { UID };
                listens(&mut world, usize::from(!is_first), uid, &hello("job", rank))
            })
            .collect();
        let members: &[u32] = if infos
            .iter()
            .any(|info| info.key.is(keys::GROUP_ADD_MEMBERS))
        {
            &[0, 1]
        } else {
            &[0, 1, 2]
        };
        let all = &all[..members.len()];
        let tags = ask_all(&mut world, all, &construct("g", members, infos.clone()));
        let denied = vec![Some(Status::ERR_NO_PERMISSIONS); all.len()];
        assert_eq!(
            statuses(&world, all, &tags),
            denied,
            "{per_node:?} {infos:?}"
        );
        assert_eq!(num_groups(&world), 0);
    }
}

#[test]
fn a_second_call_of_a_leader_or_an_added_member_is_refused() {
    let (mut world, all) = world(&[2, 2]);
    let led = construct("g", &[0], vec![one_of(2), adds(&[2])]);
    let first = world.ask(all[0], &led);
    let waits = world.ask(all[2], &joins(vec![]));
    let again = [
        world.ask(all[0], &led),
        world.ask(all[2], &joins(vec![])),
        world.ask(all[2], &construct("g", &[2], vec![one_of(2)])),
    ];
    world.run();
    let bad = Some(Status::ERR_BAD_PARAM);
    let told_again = statuses(&world, &[all[0], all[2], all[2]], &again);
    assert_eq!(told_again, [bad; 3]);
    let second = world.ask(all[3], &construct("g", &[3], vec![one_of(2)]));
    world.run();
    for (rank, tag) in [(0, first), (2, waits), (3, second)] {
        let expected = (Status::SUCCESS, vec![0, 3, 2], None);
        assert_eq!(told(&world, all[rank], tag), expected);
    }
    use_and_part(&mut world, &[all[0], all[2], all[3]]);
}

#[test]
fn a_restarted_leader_or_added_member_can_call_again() {
    for (per_node, lost) in [(&[3][..], 0), (&[2, 1], 0), (&[3], 1), (&[2, 1], 1)] {
        for is_registered_anew in [false, true] {
            let (mut world, mut all) = world(per_node);
            let call = |rank: u32| match rank {
                1 => joins(vec![]),
                0 => construct("g", &[0], vec![one_of(2), adds(&[1])]),
                _ => construct("g", &[2], vec![one_of(2)]),
            };
            let rank = u32::try_from(lost).unwrap();
            let mut tags = [0, 1].map(|rank| world.ask(all[usize::from(rank == 1)], &call(rank)));
            world.run();
            world.kill(all[lost]);
            world.end_proc("job", rank);
            if is_registered_anew {
                let engine = &mut world.nodes[0].engine;
                let proc = Proc::new("job", Rank::new(rank));
                engine.deregister_client(&proc).unwrap();
                let user = Credentials::new(UID, UID);
                engine.register_client(&proc, user, HostObject(0)).unwrap();
            }
            all[lost] = world.join(0, "job", rank);
            tags[lost] = world.ask(all[lost], &call(rank));
            // The process has called; a second call is refused.
            let bad = Some(Status::ERR_BAD_PARAM);
            assert_eq!(world.status_of(all[lost], &call(rank)), bad);
            let last = world.ask(all[2], &call(2));
            world.run();
            let case = format!("{per_node:?} {lost} {is_registered_anew}");
            for (who, tag) in all.iter().zip([tags[0], tags[1], last]) {
                let expected = (Status::SUCCESS, vec![0, 2, 1], None);
                assert_eq!(told(&world, *who, tag), expected, "{case}");
            }
            assert_eq!(num_groups(&world), per_node.len(), "{case}");
            use_and_part(&mut world, &all);
        }
    }
}

#[test]
fn a_host_reply_without_members_cannot_add_members() {
    let (mut world, all) = world(&[2]);
    world.rule(|_, call| match call {
        Upcall::Group(_) => Reaction::HostReply(HostReply::Infos(Status::SUCCESS, vec![])),
        _ => Reaction::Usual,
    });
    let not_supported = Some(Status::ERR_NOT_SUPPORTED);
    for request in [
        joins(vec![]),
        construct("g", &[0], vec![one_of(1)]),
        construct("g", &[0], vec![adds(&[1])]),
    ] {
        assert_eq!(
            world.status_of(all[0], &request),
            not_supported,
            "{request:?}"
        );
    }
    assert_eq!(num_groups(&world), 0);
}

#[test]
fn a_lost_added_member_ends_the_construct_unless_optional() {
    let optional = Info::new(keys::GROUP_OPTIONAL, true);
    for (more, expected) in [
        (vec![], (Status::ERR_LOST_CONNECTION, vec![], None)),
        (vec![optional], (Status::SUCCESS, vec![0, 1, 2], None)),
    ] {
        let (mut world, all) = world(&[2, 2]);
        let infos = [vec![adds(&[2, 3])], more].concat();
        let tags = ask_all(&mut world, &all[..2], &construct("g", &[0, 1], infos));
        let waits = world.ask(all[2], &joins(vec![]));
        world.run();
        world.kill(all[3]);
        world.end_proc("job", 3);
        for (who, tag) in all.iter().zip([tags[0], tags[1], waits]) {
            assert_eq!(told(&world, *who, tag), expected);
        }
    }
}

#[test]
fn a_group_is_stored_once_if_an_added_member_is_answered_first() {
    let (mut world, all) = world(&[1, 2]);
    listen(&mut world, &all, &[Status::GROUP_MEMBER_FAILED]);
    world.rule(|_, call| match call {
        Upcall::Group(_) => Reaction::Later,
        _ => Reaction::Usual,
    });
    let notifies = vec![Info::new(keys::GROUP_NOTIFY_TERMINATION, true)];
    let added = world.ask(all[1], &joins(vec![]));
    world.run();
    let led = world.ask(all[2], &construct("g", &[0, 2], notifies));
    world.run();
    let members = vec![Info::new(keys::GROUP_MEMBERSHIP, ranks(&[0, 2, 1]))];
    for _ in 0..2 {
        world.answer("Group", HostReply::Infos(Status::SUCCESS, members.clone()));
        assert_eq!(num_groups(&world), 1);
    }
    for (rank, tag) in [(1, added), (2, led)] {
        let expected = (Status::SUCCESS, vec![0, 2, 1], None);
        assert_eq!(told(&world, all[rank], tag), expected);
    }
    world.kill(all[1]);
    let failed = (
        Status::GROUP_MEMBER_FAILED,
        "g".to_owned(),
        Some(Rank::new(1)),
    );
    assert_eq!(heard(&world, all[2]), [failed]);
}

#[test]
fn a_lost_leader_ends_the_construct_for_added_members() {
    for per_node in [&[3][..], &[2, 1]] {
        let (mut world, all) = world(per_node);
        let waits = world.ask(all[2], &joins(vec![]));
        let leads = world.ask(all[0], &construct("g", &[0, 1], vec![adds(&[2])]));
        world.run();
        world.kill(all[1]);
        let lost = Some(Status::ERR_LOST_CONNECTION);
        let told = statuses(&world, &[all[0], all[2]], &[leads, waits]);
        assert_eq!(told, [lost; 2], "{per_node:?}");
    }
}

#[test]
fn a_caller_that_is_never_added_times_out() {
    let (mut world, all) = world(&[2]);
    let tag = world.ask(all[1], &joins(limit(3)));
    world.advance(Duration::from_secs(2));
    assert_eq!(statuses(&world, &all[1..], &[tag]), [None]);
    world.advance(Duration::from_secs(60));
    assert_eq!(
        statuses(&world, &all[1..], &[tag]),
        [Some(Status::ERR_TIMEOUT)]
    );
}

#[test]
fn invalid_added_members_are_refused() {
    let (mut world, all) = world(&[3]);
    let list = |key: &'static str, value: Value<'static>| vec![Info::new(key, value)];
    for (request, expected) in [
        // A leader that gives the number of leaders lists only itself.
        (
            construct("g", &[0, 1], vec![one_of(2)]),
            Status::ERR_BAD_PARAM,
        ),
        (construct("g", &[1], vec![one_of(2)]), Status::ERR_BAD_PARAM),
        (construct("g", &[1], vec![one_of(0)]), Status::ERR_BAD_PARAM),
        (
            construct("g", &[0], vec![adds(&[7])]),
            Status::ERR_NOT_FOUND,
        ),
        (
            construct("g", &[0], vec![order(&[7])]),
            Status::ERR_NOT_FOUND,
        ),
        (
            construct("g", &[0], list(keys::GROUP_ADD_MEMBERS, Value::from(true))),
            Status::ERR_BAD_PARAM,
        ),
        (construct_of("job", vec![], vec![]), Status::ERR_BAD_PARAM),
    ] {
        let told = world.status_of(all[0], &request);
        assert_eq!(told, Some(expected), "{request:?}");
    }
}

#[test]
fn a_leader_lost_before_any_local_call_ends_the_construct_on_other_nodes() {
    let (mut world, all) = world(&[2, 3]);
    let led = world.ask(all[0], &construct("g", &[0, 4], vec![]));
    let added = world.ask(all[1], &joins(vec![]));
    world.run();
    world.kill(all[4]);
    world.end_proc("job", 4);
    let lost = Status::ERR_LOST_CONNECTION;
    assert_eq!(told(&world, all[0], led).0, lost);
    // A process that no leader has added so far is not affected.
    assert!(world.clients[all[1]].reply(added).is_none());
    assert_eq!(num_groups(&world), 0);
}
