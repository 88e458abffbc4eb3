// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collectives of group members while one of them leaves or is lost.

use std::time::Duration;

use pmix_engine::Config;
use pmix_proto::{Event, Request, request};
use pmix_types::{Info, Rank, Status, Value, keys};

use crate::collective::{DONE, ask_all, fence_of, limit, procs, statuses};

use crate::group::{construct, destruct, heard, leave, listen, make, make_with, num_groups, world};
use crate::group_led_steps::{LOST, members};
use crate::ledger::tool;

/// Returns the results of the remaining members, after one has left the group.
fn outcome(
    per_node: &[u32],
    what: &Request<'static>,
    first: usize,
    leaver: usize,
) -> Vec<Option<Status>> {
    let (mut world, all) = world(per_node);
    make(&mut world, &all, "g", &[0, 1, 2]);
    let mut tags = vec![world.ask(all[first], what)];
    world.run();
    assert_eq!(statuses(&world, &all[first..=first], &tags), [None]);
    assert_eq!(world.status_of(all[leaver], &leave("g")), DONE);
    let last = (0..3).find(|who| ![first, leaver].contains(who)).unwrap();
    tags.push(world.ask(all[last], what));
    world.run();
    let mut seen = statuses(&world, &[all[first], all[last]], &tags);
    world.advance(Duration::from_secs(30));
    seen.extend(statuses(&world, &[all[first], all[last]], &tags));
    seen
}

#[test]
fn a_leaving_member_is_dropped_from_an_optional_fence_and_any_destruct() {
    let everybody = || procs(&[("g", Rank::WILDCARD.as_raw())]);
    let adjusts = || Info::new(keys::GROUP_FT_COLLECTIVE, true);
    let limit = || limit(20);
    for per_node in [&[3][..], &[1, 2], &[2, 1], &[1, 1, 1]] {
        for (first, leaver) in [(0, 1), (0, 2), (1, 0), (2, 0), (2, 1)] {
            let with = [limit(), vec![adjusts()]].concat();
            let fence = fence_of(everybody(), with.clone());
            let connect = Request::Connect(request::Connect {
                procs: everybody(),
                infos: with,
                shared: Vec::new(),
            });
            for what in [fence, connect, destruct("g", limit())] {
                // A server whose members have all called has already passed the departing member to the host.
                let is_destruct = matches!(what, Request::GroupDestruct(_));
                let has_told = per_node.len() > 1 && is_alone(per_node, first) && !is_destruct;
                let seen = outcome(per_node, &what, first, leaver);
                match has_told {
                    false => assert_eq!(seen, [DONE; 4], "{per_node:?} {first} {leaver} {what:?}"),
                    // All members get the same result.
                    true => assert_eq!(seen[2], seen[3], "{per_node:?} {first} {leaver} {what:?}"),
                }
                assert!(seen[2].is_some() && seen[3].is_some());
            }
            let rigid = outcome(per_node, &fence_of(everybody(), limit()), first, leaver);
            assert_ne!(rigid[2..], [DONE; 2], "{per_node:?} {first} {leaver}");
        }
    }
}

/// Returns `true` if a process is the only one of its node.
fn is_alone(per_node: &[u32], rank: usize) -> bool {
    let mut first = 0;
    let node = per_node.iter().find(|count| {
        first += usize::try_from(**count).unwrap();
        rank < first
    });
    node == Some(&1)
}

#[test]
fn an_optional_fence_drops_lost_members() {
    for (per_node, adjusts) in [(&[3][..], true), (&[2, 1], true), (&[3], false)] {
        let (mut world, all) = world(per_node);
        make(&mut world, &all, "g", &[0, 1, 2]);
        let infos = match adjusts {
            true => vec![Info::new(keys::GROUP_FT_COLLECTIVE, true)],
            false => vec![],
        };
        let fence = fence_of(procs(&[("g", Rank::WILDCARD.as_raw())]), infos);
        let rest = [all[0], all[2]];
        let tags = ask_all(&mut world, &rest, &fence);
        assert_eq!(statuses(&world, &rest, &tags), [None; 2]);
        world.kill(all[1]);
        world.run();
        let expected = match adjusts {
            true => DONE,
            false => Some(Status::ERR_LOST_CONNECTION),
        };
        assert_eq!(statuses(&world, &rest, &tags), [expected; 2]);
    }
}

#[test]
fn members_get_the_new_membership_if_some_were_dropped() {
    for per_node in [&[3][..], &[1, 2]] {
        let (mut world, all) = world(per_node);
        listen(&mut world, &all, &[Status::GROUP_MEMBERSHIP_UPDATE]);
        let optional = vec![Info::new(keys::GROUP_OPTIONAL, true)];
        make(&mut world, &all, "all", &[0, 1, 2]);
        let request = construct("g", &[0, 2, 1], optional);
        let tags = ask_all(&mut world, &all[..2], &request);
        world.kill(all[2]);
        let done = statuses(&world, &all[..2], &tags);
        assert_eq!(done, [DONE; 2], "{per_node:?}");
        for who in &all[..2] {
            let client = &world.clients[*who];
            let form = client.session.form();
            let [update] = &client.notices[..] else {
                panic!("{per_node:?} heard {:?}", heard(&world, *who));
            };
            let update = Event::decode(form, None, &update.payload).unwrap();
            assert_eq!(update.status, Status::GROUP_MEMBERSHIP_UPDATE);
            let members = Value::from(procs(&[("job", 0), ("job", 1)]));
            let says = |key: &str, value: &Value<'_>| {
                let mut infos = update.infos.iter();
                infos.any(|info| info.key.is(key) && info.value == *value)
            };
            assert!(says(keys::GROUP_ID, &Value::from("g")), "{update:?}");
            assert!(says(keys::GROUP_MEMBERSHIP, &members), "{update:?}");
        }
    }
}

#[test]
fn a_construct_that_reports_terminations_drops_a_lost_member() {
    for per_node in [&[3][..], &[1, 2], &[2, 1]] {
        let (mut world, all) = world(per_node);
        listen(&mut world, &all, &[Status::GROUP_INVITE_FAILED]);
        let notifies = vec![Info::new(keys::GROUP_NOTIFY_TERMINATION, true)];
        let request = construct("g", &[0, 1, 2], notifies);
        let early = world.ask(all[0], &request);
        world.run();
        world.kill(all[2]);
        world.end_proc("job", 2);
        let late = world.ask(all[1], &request);
        world.run();
        for (who, tag) in [(all[0], early), (all[1], late)] {
            assert_eq!(members(&world, who, tag), [0, 1], "{per_node:?}");
        }
        let tags = ask_all(&mut world, &all[..2], &destruct("g", vec![]));
        assert_eq!(statuses(&world, &all[..2], &tags), [DONE; 2]);
        assert_eq!(num_groups(&world), 0);
    }
}

#[test]
fn a_leave_before_the_construct_completes_is_refused() {
    for per_node in [&[3][..], &[1, 2]] {
        let (mut world, all) = world(per_node);
        let request = construct("g", &[0, 1, 2], vec![]);
        let mut tags = ask_all(&mut world, &all[..2], &request);
        let refused = Some(Status::ERR_NOT_FOUND);
        assert_eq!(world.status_of(all[0], &leave("g")), refused);
        assert_eq!(statuses(&world, &all[..2], &tags), [None; 2]);
        tags.push(world.ask(all[2], &request));
        world.run();
        for (who, tag) in all.iter().zip(tags) {
            assert_eq!(members(&world, *who, tag), [0, 1, 2], "{per_node:?}");
        }
        assert_eq!(world.status_of(all[0], &leave("g")), DONE);
    }
}

#[test]
fn a_finalized_process_is_lost_for_a_construct_after_the_return_time() {
    for per_node in [&[3][..], &[1, 2]] {
        let (mut world, all) = world(per_node);
        let tags = ask_all(&mut world, &all[..2], &construct("g", &[0, 1, 2], vec![]));
        assert_eq!(world.status_of(all[2], &Request::Finalize), DONE);
        world.kill(all[2]);
        assert_eq!(statuses(&world, &all[..2], &tags), [None; 2]);
        world.advance(Config::default().return_time.unwrap());
        assert_eq!(
            statuses(&world, &all[..2], &tags),
            [LOST; 2],
            "{per_node:?}"
        );
    }
}

#[test]
fn a_finalized_member_is_removed() {
    for per_node in [&[3][..], &[1, 2]] {
        for notifies in [true, false] {
            let (mut world, all) = world(per_node);
            listen(&mut world, &all, &[Status::GROUP_MEMBER_FAILED]);
            let more = [Info::new(keys::GROUP_NOTIFY_TERMINATION, notifies)];
            make_with(&mut world, &all, "g", &[0, 1, 2], &more);
            assert_eq!(world.status_of(all[2], &Request::Finalize), DONE);
            world.kill(all[2]);
            let failed = (
                Status::GROUP_MEMBER_FAILED,
                "g".to_owned(),
                Some(Rank::new(2)),
            );
            let told = if notifies { vec![failed] } else { vec![] };
            assert_eq!(heard(&world, all[0]), told, "{per_node:?}");
            let tags = ask_all(&mut world, &all[..2], &destruct("g", vec![]));
            world.advance(Config::default().return_time.unwrap());
            let expected = if notifies { DONE } else { LOST };
            assert_eq!(
                statuses(&world, &all[..2], &tags),
                [expected; 2],
                "{per_node:?}"
            );
        }
    }
}

#[test]
fn a_destruct_does_not_wait_for_a_node_without_remaining_members() {
    for (per_node, lost) in [
        (&[1, 1][..], &[1][..]),
        (&[1, 2], &[2, 1]),
        (&[2, 1], &[2]),
        (&[1, 1, 1], &[2, 1]),
    ] {
        for (notifies, leaves) in [(true, false), (false, false), (true, true), (false, true)] {
            let (mut world, all) = world(per_node);
            let more = [Info::new(keys::GROUP_NOTIFY_TERMINATION, notifies)];
            let ranks: Vec<_> = (0..).zip(&all).map(|(rank, _)| rank).collect();
            make_with(&mut world, &all, "g", &ranks, &more);
            let (last, first) = lost.split_last().unwrap();
            first.iter().for_each(|rank| world.kill(all[*rank]));
            // After a departure, no event is expected.
            match leaves {
                true => assert_eq!(world.status_of(all[*last], &leave("g")), DONE),
                false => world.kill(all[*last]),
            }
            let rest: Vec<_> = { (0..all.len()).filter(|rank| !lost.contains(rank)) }
                .map(|rank| all[rank])
                .collect();
            let tags = ask_all(&mut world, &rest, &destruct("g", vec![]));
            let fails = !notifies && (!leaves || !first.is_empty());
            let expected = if fails { LOST } else { DONE };
            let seen = statuses(&world, &rest, &tags);
            let case = format!("{per_node:?} {lost:?} {notifies} {leaves}");
            assert_eq!(seen, vec![expected; rest.len()], "{case}");
            // The host has replied to all upcalls.
            for node in &world.nodes {
                let stats = node.engine.stats();
                let left = (stats.num_groups, stats.num_host_calls);
                assert_eq!((left, stats.num_collectives), ((0, 0), 0), "{case}");
            }
        }
    }
}

#[test]
fn a_loss_reaches_members_on_nodes_that_did_not_request_it() {
    for per_node in [&[1, 2][..], &[2, 1], &[1, 1, 1]] {
        let (mut world, all) = world(per_node);
        listen(&mut world, &all, &[Status::GROUP_MEMBER_FAILED]);
        let asks = vec![Info::new(keys::GROUP_NOTIFY_TERMINATION, true)];
        let construct = |infos| construct("g", &[0, 1, 2], infos);
        let tags = [asks, vec![], vec![]].map(construct);
        let tags: Vec<_> = { all.iter().zip(tags) }
            .map(|(who, request)| world.ask(*who, &request))
            .collect();
        world.run();
        assert_eq!(statuses(&world, &all, &tags), [DONE; 3]);
        world.kill(all[2]);
        let failed = (
            Status::GROUP_MEMBER_FAILED,
            "g".to_owned(),
            Some(Rank::new(2)),
        );
        for who in &all[..2] {
            assert_eq!(heard(&world, *who), std::slice::from_ref(&failed));
        }
        let tags = ask_all(&mut world, &all[..2], &destruct("g", vec![]));
        assert_eq!(statuses(&world, &all[..2], &tags), [DONE; 2]);
    }
}

#[test]
fn a_destruct_waits_for_its_timeout() {
    for per_node in [&[3][..], &[1, 2]] {
        let (mut world, all) = world(per_node);
        make(&mut world, &all, "g", &[0, 1, 2]);
        let tags = ask_all(&mut world, &all[..2], &destruct("g", limit(5)));
        world.advance(Duration::from_secs(4));
        assert_eq!(statuses(&world, &all[..2], &tags), [None; 2]);
        world.advance(Duration::from_secs(4));
        let late = Some(Status::ERR_TIMEOUT);
        assert_eq!(statuses(&world, &all[..2], &tags), [late; 2]);
        // Later callers get the same status; then the group is removed for all.
        assert_eq!(world.status_of(all[2], &destruct("g", vec![])), late);
        assert_eq!(num_groups(&world), 0);
    }
}

#[test]
fn a_tool_cannot_join_a_group() {
    let (mut world, all) = world(&[2]);
    make(&mut world, &all, "g", &[0, 1]);
    let who = tool(&mut world, 0);
    let denied = Some(Status::ERR_NO_PERMISSIONS);
    for request in [
        construct("h", &[0, 1], vec![]),
        destruct("g", vec![]),
        leave("g"),
    ] {
        assert_eq!(world.status_of(who, &request), denied, "{request:?}");
    }
    assert_eq!(num_groups(&world), 1);
}
