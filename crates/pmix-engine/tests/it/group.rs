// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: constructed and destructed, used by name, and the failures of members.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pmix_engine::{Config, EngineEvent, GroupChange, HostReply, Upcall};
use pmix_proto::{Event, Request, reply, request};
use pmix_types::{DataRange, GroupOperation, Info, Proc, Rank, Scope, Status, Text, Value, keys};

use crate::collective::{DONE, ask_all, fence_of, limit, missing, procs, statuses};
use crate::exchange::commit;
use crate::world::{Reaction, Who, World, hello};

pub(crate) fn construct(
    name: &'static str,
    members: &[u32],
    infos: Vec<Info<'static>>,
) -> Request<'static> {
    let members: Vec<_> = members.iter().map(|rank| ("job", *rank)).collect();
    construct_of(name, procs(&members), infos)
}

pub(crate) fn construct_of(
    name: &'static str,
    procs: Vec<Proc<'static>>,
    infos: Vec<Info<'static>>,
) -> Request<'static> {
    Request::GroupConstruct(request::GroupConstruct {
        group: Some(name.into()),
        procs,
        infos,
    })
}

pub(crate) fn destruct(name: &'static str, infos: Vec<Info<'static>>) -> Request<'static> {
    Request::GroupDestruct(request::GroupDestruct {
        group: Some(name.into()),
        procs: vec![],
        infos,
    })
}

pub(crate) fn leave(name: &'static str) -> Request<'static> {
    Request::GroupLeave(request::GroupLeave {
        group: Some(name.into()),
        infos: vec![],
    })
}

pub(crate) fn context() -> Vec<Info<'static>> {
    vec![Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)]
}

/// Connects a job with the given numbers of processes on its nodes.
pub(crate) fn world(per_node: &[u32]) -> (World, Vec<Who>) {
    world_with(per_node, &Config::default())
}

pub(crate) fn world_with(per_node: &[u32], config: &Config) -> (World, Vec<Who>) {
    let mut world = World::with(per_node.len(), config);
    world.job("job", per_node);
    let all = world.join_all("job", per_node);
    (world, all)
}

/// Returns the description of its group that a client received.
fn described(world: &World, who: Who, tag: pmix_proto::Tag) -> reply::Group<'_> {
    let client = &world.clients[who];
    let response = client.reply(tag).expect("no reply");
    reply::Group::decode(client.session.form(), None, &response.payload).unwrap()
}

/// Constructs a group of these processes, which are all of its members.
pub(crate) fn make(world: &mut World, all: &[Who], name: &'static str, ranks: &[u32]) {
    make_with(world, all, name, ranks, &[]);
}

pub(crate) fn make_with(
    world: &mut World,
    all: &[Who],
    name: &'static str,
    ranks: &[u32],
    more: &[Info<'static>],
) {
    let tags = ask_all(world, all, &construct(name, ranks, more.to_vec()));
    assert_eq!(statuses(world, all, &tags), vec![DONE; all.len()]);
}

pub(crate) fn num_groups(world: &World) -> usize {
    world
        .nodes
        .iter()
        .map(|node| node.engine.stats().num_groups)
        .sum()
}

pub(crate) fn listen(world: &mut World, all: &[Who], codes: &[Status]) {
    let codes = codes.to_vec();
    let request = Request::RegisterEvents(request::RegisterEvents {
        codes,
        infos: vec![],
    });
    for who in all {
        assert_eq!(world.status_of(*who, &request), DONE);
    }
}

/// Returns the events that a client received: status, group, and affected process.
pub(crate) fn heard(world: &World, who: Who) -> Vec<(Status, String, Option<Rank>)> {
    let client = &world.clients[who];
    let form = client.session.form();
    let events = client.notices.iter();
    let events = events.map(|notice| Event::decode(form, None, &notice.payload).unwrap());
    fn of<'a>(event: &Event<'a>, key: &str) -> Option<Value<'a>> {
        let info = event.infos.iter().find(|info| info.key.is(key));
        info.map(|info| info.value.clone())
    }
    let heard = events.map(|event| {
        let name = match of(&event, keys::GROUP_ID) {
            Some(Value::String(Some(name))) => name.to_string(),
            _ => String::new(),
        };
        let rank = match of(&event, keys::EVENT_AFFECTED_PROC) {
            Some(Value::Proc(proc)) => Some(proc.rank),
            _ => None,
        };
        (event.status, name, rank)
    });
    heard.collect()
}

#[test]
fn all_members_get_the_membership_and_context_id() {
    for per_node in [&[4][..], &[2, 2]] {
        let (mut world, all) = world(per_node);
        let mut first = None;
        // The order of the list is the order of the group ranks.
        let tags = ask_all(&mut world, &all, &construct("g", &[3, 0, 2, 1], context()));
        for (who, tag) in all.iter().zip(&tags) {
            let group = described(&world, *who, *tag);
            let ranks: Vec<_> = group
                .members
                .iter()
                .map(|proc| proc.rank.as_raw())
                .collect();
            assert_eq!((group.status, ranks), (Status::SUCCESS, vec![3, 0, 2, 1]));
            assert!(group.context_id.is_some_and(|id| id > 0));
            assert_eq!(*first.get_or_insert(group.context_id), group.context_id);
        }
        assert_eq!(num_groups(&world), per_node.len());
        let tags = ask_all(&mut world, &all, &destruct("g", vec![]));
        assert_eq!(statuses(&world, &all, &tags), [DONE; 4]);
        assert_eq!(num_groups(&world), 0);
    }
}

#[test]
fn a_group_waits_only_for_its_members() {
    let (mut world, all) = world(&[2, 2]);
    let group = construct("g", &[0, 2], vec![]);
    let first = world.ask(all[0], &group);
    world.run();
    assert_eq!(world.clients[all[0]].status(first), None);
    assert_eq!(world.status_of(all[2], &group), DONE);
    assert_eq!(world.clients[all[0]].status(first), DONE);
    let first = world.ask(all[2], &destruct("g", vec![]));
    world.run();
    assert_eq!(world.clients[all[2]].status(first), None);
    assert_eq!(world.status_of(all[0], &destruct("g", vec![])), DONE);
    assert_eq!(world.clients[all[2]].status(first), DONE);
}

#[test]
fn groups_of_equal_members_and_different_names_are_distinct() {
    let (mut world, all) = world(&[2, 1]);
    let one = ask_all(
        &mut world,
        &all[..2],
        &construct("one", &[0, 1, 2], context()),
    );
    let two = ask_all(
        &mut world,
        &all[1..],
        &construct("two", &[0, 1, 2], context()),
    );
    assert_eq!(statuses(&world, &all[..2], &one), [None; 2]);
    assert_eq!(statuses(&world, &all[1..], &two), [None; 2]);
    let last = world.ask(all[0], &construct("two", &[2, 1, 0], context()));
    world.run();
    assert_eq!(world.clients[all[0]].status(last), DONE);
    assert_eq!(statuses(&world, &all[1..], &two), [DONE; 2]);
    assert_eq!(statuses(&world, &all[..2], &one), [None; 2]);
    let end = world.ask(all[2], &construct("one", &[0, 1, 2], context()));
    world.run();
    assert_eq!(statuses(&world, &all[..2], &one), [DONE; 2]);
    let ids = [
        described(&world, all[2], end),
        described(&world, all[0], last),
    ];
    assert_ne!(ids[0].context_id, ids[1].context_id);
}

#[test]
fn groups_of_one_name_and_different_members_are_distinct() {
    let (mut world, all) = world(&[4]);
    make(&mut world, &all[..2], "g", &[0, 1]);
    make(&mut world, &all[2..], "g", &[2, 3]);
    assert_eq!(num_groups(&world), 2);
    let tags = ask_all(&mut world, &all[2..], &destruct("g", vec![]));
    assert_eq!(statuses(&world, &all[2..], &tags), [DONE; 2]);
    assert_eq!(num_groups(&world), 1);
    let across = fence_of(procs(&[("g", Rank::WILDCARD.as_raw())]), vec![]);
    let tags = ask_all(&mut world, &all[..2], &across);
    assert_eq!(statuses(&world, &all[..2], &tags), [DONE; 2]);
}

#[test]
fn an_invalid_group_is_refused() {
    let (mut world, all) = world(&[3]);
    let long: &'static str = Box::leak("g".repeat(256).into_boxed_str());
    let whole = Rank::WILDCARD.as_raw();
    for (request, expected) in [
        (construct("", &[0, 1], vec![]), Status::ERR_BAD_PARAM),
        (construct(long, &[0, 1], vec![]), Status::ERR_BAD_PARAM),
        (construct("job", &[0, 1], vec![]), Status::ERR_BAD_PARAM),
        (construct("g", &[0, 1, 0], vec![]), Status::ERR_BAD_PARAM),
        (construct("g", &[whole, 1], vec![]), Status::ERR_BAD_PARAM),
        (construct("g", &[1, 2], vec![]), Status::ERR_BAD_PARAM),
        (construct("g", &[0, 7], vec![]), Status::ERR_NOT_FOUND),
        (destruct("g", vec![]), Status::ERR_NOT_FOUND),
        (leave("g"), Status::ERR_NOT_FOUND),
    ] {
        assert_eq!(
            world.status_of(all[0], &request),
            Some(expected),
            "{request:?}"
        );
    }
    let most: &'static str = Box::leak("g".repeat(255).into_boxed_str());
    make(&mut world, &all[..1], most, &[0]);
    let again = construct(most, &[0, 1], vec![]);
    assert_eq!(world.status_of(all[0], &again), Some(Status::ERR_EXISTS));
}

#[test]
fn a_lost_member_ends_the_construct_and_frees_the_name() {
    for per_node in [&[3][..], &[1, 2]] {
        let (mut world, all) = world(per_node);
        listen(&mut world, &all, &[Status::GROUP_INVITE_FAILED]);
        let tags = ask_all(&mut world, &all[..2], &construct("g", &[0, 1, 2], vec![]));
        world.kill(all[2]);
        let lost = Some(Status::ERR_LOST_CONNECTION);
        assert_eq!(statuses(&world, &all[..2], &tags), [lost; 2]);
        assert_eq!(num_groups(&world), 0);
        let event = (
            Status::GROUP_INVITE_FAILED,
            "g".to_owned(),
            Some(Rank::new(2)),
        );
        assert_eq!(heard(&world, all[1]), [event]);
        make(&mut world, &all[..2], "g", &[0, 1]);
    }
}

#[test]
fn a_lost_optional_member_is_dropped() {
    let (mut world, all) = world(&[3]);
    let optional = vec![Info::new(keys::GROUP_OPTIONAL, true)];
    let tags = ask_all(&mut world, &all[..2], &construct("g", &[0, 2, 1], optional));
    world.kill(all[2]);
    for (who, tag) in all[..2].iter().zip(tags) {
        let group = described(&world, *who, tag);
        let ranks: Vec<_> = group
            .members
            .iter()
            .map(|proc| proc.rank.as_raw())
            .collect();
        assert_eq!((group.status, ranks), (Status::SUCCESS, vec![0, 1]));
    }
}

#[test]
fn a_construct_times_out() {
    let (mut world, all) = world(&[2, 1]);
    let group = construct("g", &[0, 1, 2], limit(5));
    let tags = ask_all(&mut world, &all[..1], &group);
    world.advance(Duration::from_secs(4));
    assert_eq!(statuses(&world, &all[..1], &tags), [None]);
    world.advance(Duration::from_secs(2));
    let late = Some(Status::ERR_TIMEOUT);
    assert_eq!(statuses(&world, &all[..1], &tags), [late]);
    assert_eq!(
        missing(&world, 0),
        [(vec![Rank::new(1)], Status::ERR_TIMEOUT)]
    );
    // Later callers get the same status.
    assert_eq!(world.status_of(all[1], &group), late);
    assert_eq!(world.status_of(all[2], &group), late);
}

#[test]
fn an_unsupported_group_request_is_answered_at_once() {
    let (mut world, all) = world(&[2]);
    world.rule(|_, call| match call {
        Upcall::Group(_) => Reaction::HostReply(HostReply::NotSupported),
        _ => Reaction::Usual,
    });
    let tags = ask_all(&mut world, &all, &construct("g", &[0, 1], vec![]));
    let refused = Some(Status::ERR_NOT_SUPPORTED);
    assert_eq!(statuses(&world, &all, &tags), [refused; 2]);
    let local = [Info::new(keys::GROUP_LOCAL_ONLY, true)];
    // One of the members does not restrict the group to this node, or requests a context id of the host.
    for second in [vec![], [&local[..], &context()].concat()] {
        let first = world.ask(all[0], &construct("g", &[0, 1], local.to_vec()));
        let second = world.ask(all[1], &construct("g", &[0, 1], second));
        world.run();
        assert_eq!(statuses(&world, &all, &[first, second]), [refused; 2]);
    }
    // A group restricted to this node needs no host.
    make_with(&mut world, &all, "g", &[0, 1], &local);
}

#[test]
fn an_error_of_the_host_with_a_context_id_creates_no_group() {
    let (mut world, all) = world(&[2]);
    world.rule(|_, call| match call {
        Upcall::Group(_) => {
            let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(1));
            Reaction::HostReply(HostReply::Infos(Status::ERR_OUT_OF_RESOURCE, vec![context]))
        }
        _ => Reaction::Usual,
    });
    let tags = ask_all(&mut world, &all, &construct("g", &[0, 1], context()));
    let refused = Some(Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(statuses(&world, &all, &tags), [refused; 2]);
    assert_eq!(num_groups(&world), 0);
}

#[test]
fn the_host_gets_the_merged_directives_once() {
    let (mut world, all) = world(&[2]);
    let calls = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&calls);
    world.rule(move |_, call| {
        if let Upcall::Group(group) = call {
            seen.borrow_mut().push(group.clone());
        }
        Reaction::Usual
    });
    world.ask(all[0], &construct("g", &[1, 0], limit(9)));
    world.ask(all[1], &construct("g", &[1, 0], context()));
    world.run();
    let tags = ask_all(&mut world, &all, &destruct("g", vec![]));
    assert_eq!(statuses(&world, &all, &tags), [DONE; 2]);
    let calls = calls.borrow();
    let [made, ended] = calls.as_slice() else {
        panic!("{calls:?}");
    };
    assert_eq!(
        (made.operation, ended.operation),
        (GroupOperation::CONSTRUCT, GroupOperation::DESTRUCT)
    );
    let whole = procs(&[("job", Rank::WILDCARD.as_raw())]);
    assert_eq!((&made.id, &made.procs), (&Text::from("g"), &whole));
    let mut keys: Vec<_> = made
        .directives
        .iter()
        .map(|info| info.key.to_string())
        .collect();
    keys.sort_unstable();
    let expected = [
        keys::GRPID,
        keys::USERID,
        keys::GROUP_ASSIGN_CONTEXT_ID,
        keys::GROUP_MEMBERSHIP,
        keys::TIMEOUT,
    ];
    assert_eq!(keys, expected);
}

#[test]
fn shared_group_info_is_found_by_the_context_id() {
    for per_node in [&[2][..], &[1, 1]] {
        let (mut world, all) = world(per_node);
        let share = |rank: u32| {
            let cid = Info::new(keys::GROUP_LOCAL_CID, Value::Size(100 + u64::from(rank)));
            let mut infos = context();
            infos.push(Info::new(keys::GROUP_INFO, vec![cid]));
            infos
        };
        let tags: Vec<_> = (0..2)
            .map(|rank| world.ask(all[rank as usize], &construct("g", &[0, 1], share(rank))))
            .collect();
        world.run();
        let context_id = described(&world, all[0], tags[0]).context_id.unwrap();
        let get = |rank, context_id| {
            let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context_id));
            Request::Get(request::Get {
                nspace: "job".into(),
                rank: Rank::new(rank),
                infos: vec![context.qualifier()],
                key: Some(keys::GROUP_LOCAL_CID.into()),
            })
        };
        for who in &all {
            for rank in 0..2 {
                let tag = world.ask(*who, &get(rank, context_id));
                world.run();
                let value = world.clients[*who]
                    .value(tag, keys::QUALIFIED_VALUE)
                    .unwrap();
                let found = format!("{value:?}");
                assert!(found.contains(&(100 + rank).to_string()), "{found}");
            }
            let other = world.status_of(*who, &get(0, context_id + 1));
            assert_eq!(other, Some(Status::ERR_NOT_FOUND));
        }
    }
}

#[test]
fn a_leaving_member_is_removed_and_the_others_are_notified() {
    for per_node in [&[3][..], &[1, 2]] {
        let (mut world, all) = world(per_node);
        listen(&mut world, &all, &[Status::GROUP_LEFT]);
        make(&mut world, &all, "g", &[0, 1, 2]);
        assert_eq!(world.status_of(all[1], &leave("g")), DONE);
        let left = (Status::GROUP_LEFT, "g".to_owned(), Some(Rank::new(1)));
        let told = [left];
        assert_eq!(heard(&world, all[0]), told);
        assert_eq!(heard(&world, all[2]), told);
        assert_eq!(heard(&world, all[1]), []);
        assert_eq!(
            world.status_of(all[1], &leave("g")),
            Some(Status::ERR_NOT_FOUND)
        );
        let rest = [all[0], all[2]];
        for request in [
            fence_of(procs(&[("g", Rank::WILDCARD.as_raw())]), vec![]),
            destruct("g", vec![]),
        ] {
            let tags = ask_all(&mut world, &rest, &request);
            assert_eq!(statuses(&world, &rest, &tags), [DONE; 2]);
        }
        assert_eq!(num_groups(&world), 0);
    }
}

#[test]
fn a_destruct_fails_on_a_loss_unless_terminations_are_reported() {
    for per_node in [&[3][..], &[1, 2]] {
        for notifies in [false, true] {
            let (mut world, all) = world(per_node);
            listen(&mut world, &all, &[Status::GROUP_MEMBER_FAILED]);
            let more = [Info::new(keys::GROUP_NOTIFY_TERMINATION, notifies)];
            make_with(&mut world, &all, "g", &[0, 1, 2], &more);
            let first = world.ask(all[0], &destruct("g", vec![]));
            world.run();
            world.kill(all[2]);
            let last = world.ask(all[1], &destruct("g", vec![]));
            world.run();
            let expected = match notifies {
                true => DONE,
                false => Some(Status::ERR_LOST_CONNECTION),
            };
            let tags = [first, last];
            assert_eq!(statuses(&world, &all[..2], &tags), [expected; 2]);
            let event = (
                Status::GROUP_MEMBER_FAILED,
                "g".to_owned(),
                Some(Rank::new(2)),
            );
            let events = if notifies { vec![event] } else { vec![] };
            assert_eq!(heard(&world, all[0]), events);
            assert_eq!(heard(&world, all[1]), events);
            assert_eq!(num_groups(&world), 0);
        }
    }
}

#[test]
fn a_group_is_removed_with_its_last_process() {
    let (mut world, all) = world(&[2]);
    make(&mut world, &all, "g", &[0, 1]);
    world.kill(all[0]);
    assert_eq!(num_groups(&world), 1);
    assert_eq!(world.status_of(all[1], &Request::Finalize), DONE);
    world.kill(all[1]);
    assert_eq!(num_groups(&world), 0);
}

#[test]
fn an_invited_process_is_a_member_once_the_leader_completes_the_group() {
    for per_node in [&[3][..], &[1, 2]] {
        let (mut world, all) = world(per_node);
        listen(&mut world, &all, &[Status::GROUP_CONSTRUCT_COMPLETE]);
        let complete = |name: &'static str, members: &[(&'static str, u32)]| {
            Request::Notify(request::Notify {
                status: Status::GROUP_CONSTRUCT_COMPLETE,
                range: DataRange::CUSTOM,
                infos: vec![
                    Info::new(keys::EVENT_CUSTOM_RANGE, procs(members)),
                    Info::new(keys::EVENT_NON_DEFAULT, true),
                    Info::new(keys::GROUP_ID, name),
                ],
            })
        };
        let members = [("job", 0), ("job", 2)];
        for (name, members) in [("job", &members[..]), ("g", &[("job", 1), ("job", 2)])] {
            let status = world.status_of(all[0], &complete(name, members));
            assert_eq!(status, Some(Status::ERR_BAD_PARAM));
        }
        assert_eq!(world.status_of(all[0], &complete("g", &members)), DONE);
        assert_eq!(world.status_of(all[0], &complete("g", &members)), DONE);
        assert_eq!(heard(&world, all[2]).len(), 2);
        assert_eq!(num_groups(&world), per_node.len());
        let pair = [all[0], all[2]];
        let fence = fence_of(procs(&[("g", Rank::WILDCARD.as_raw())]), vec![]);
        for request in [fence, destruct("g", vec![])] {
            let tags = ask_all(&mut world, &pair, &request);
            assert_eq!(statuses(&world, &pair, &tags), [DONE; 2]);
        }
        assert_eq!(num_groups(&world), 0);
    }
}

#[test]
fn clients_of_4_2_and_5_0_can_share_a_group() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let mut old = hello("job", 0);
    old.version = "4.2.2".into();
    let old = world.connect(0, &old);
    let new = world.connect(0, &hello("job", 1));
    world.run();
    let both = [old, new];
    let tags = ask_all(&mut world, &both, &construct("g", &[0, 1], context()));
    let told = [
        described(&world, old, tags[0]),
        described(&world, new, tags[1]),
    ];
    assert_eq!(told[0].context_id, told[1].context_id);
    assert_eq!((told[0].members.len(), told[1].members.len()), (0, 2));
    let tags = ask_all(&mut world, &both, &destruct("g", vec![]));
    assert_eq!(statuses(&world, &both, &tags), [DONE; 2]);
}

#[test]
fn ten_thousand_groups_leave_no_state() {
    let (mut world, all) = world(&[2]);
    commit(&mut world, all[0], 0, &[(Scope::GLOBAL, "card", 1)]);
    let before = world.nodes[0].engine.stats();
    for _ in 0..10_000 {
        for request in [construct("g", &[0, 1], context()), destruct("g", vec![])] {
            let tags = ask_all(&mut world, &all, &request);
            assert_eq!(statuses(&world, &all, &tags), [DONE; 2]);
        }
    }
    assert_eq!(world.nodes[0].engine.stats(), before);
}

#[test]
fn the_driver_gets_group_outcomes_and_failures() {
    let (mut world, all) = world(&[3]);
    make(&mut world, &all, "g", &[2, 0, 1]);
    assert_eq!(world.status_of(all[1], &leave("g")), DONE);
    let others = [all[0], all[2]];
    let tags = ask_all(&mut world, &others, &destruct("g", vec![]));
    assert_eq!(statuses(&world, &others, &tags), [DONE; 2]);
    let late = construct("late", &[0, 1], limit(1));
    ask_all(&mut world, &[all[0]], &late);
    world.advance(Duration::from_secs(2));
    let events = world.nodes[0].events.iter();
    let changes: Vec<_> = events
        .filter_map(|event| match event {
            EngineEvent::Group { name, change } => Some((name.to_string(), change.clone())),
            _ => None,
        })
        .collect();
    let members = procs(&[("job", 2), ("job", 0), ("job", 1)]);
    let expected = [
        GroupChange::Formed(members.clone()),
        GroupChange::Left(members[2].clone()),
        GroupChange::Destructed(members),
    ];
    assert_eq!(changes, expected.map(|change| ("g".to_owned(), change)));
    let failed = world.nodes[0].events.iter().find_map(|event| match event {
        EngineEvent::FenceMissing { group, missing, .. } => Some((group, missing)),
        _ => None,
    });
    let (group, missing) = failed.expect("a construct has failed");
    assert_eq!(group.as_ref(), Some(&Text::from("late")));
    assert_eq!(*missing, procs(&[("job", 1)]));
}
