// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that misuse groups to consume time or memory of their server, or to take names of others.

use pmix_engine::Config;
use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, Proc, Query, Rank, Scope, Status, Value, keys};

use crate::collective::{DONE, ask_all, fence_of, limit, procs, statuses};
use crate::exchange::{commit, get};
use crate::group::{construct_of, context, destruct, world, world_with};
use crate::meter;
use crate::world::{Who, World};

const WHOLE: u32 = Rank::WILDCARD.as_raw();

/// Constructs a group of a process and a thousand of another job.
fn with_many(world: &mut World, who: Who, name: &'static str) {
    let far = (0..1000).map(|rank| Proc::new("far", Rank::new(rank)));
    let members = procs(&[("job", 0)]).into_iter().chain(far);
    let request = construct_of(name, members.collect(), vec![]);
    assert_eq!(world.status_of(who, &request), DONE);
}

fn complete(name: &'static str, members: &[(&'static str, u32)]) -> Request<'static> {
    Request::Notify(request::Notify {
        status: Status::GROUP_CONSTRUCT_COMPLETE,
        range: DataRange::CUSTOM,
        infos: vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, procs(members)),
            Info::new(keys::GROUP_ID, name),
        ],
    })
}

#[test]
fn a_group_named_repeatedly_in_a_request_counts_once() {
    let (mut world, all) = world(&[2]);
    with_many(&mut world, all[0], "g");
    for rank in [WHOLE, 0] {
        world.ask(all[0], &fence_of(procs(&[("g", rank); 1000]), vec![]));
        let ((), cost) = meter::of(|| world.run());
        assert!(cost.peak < 1 << 20, "rank {rank}: {} bytes", cost.peak);
    }
}

#[test]
fn a_query_for_the_number_of_groups_visits_no_members() {
    let (mut world, all) = world(&[2]);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in names {
        with_many(&mut world, all[0], name);
    }
    let mut ask = |key: &'static str, qualifiers| {
        let keys = vec![key.into()];
        let queries = vec![Query { keys, qualifiers }];
        world.ask(all[0], &Request::Query(request::Query { queries }));
        meter::of(|| world.run()).1.peak
    };
    let one = ask(
        keys::QUERY_GROUP_MEMBERSHIP,
        vec![Info::new(keys::GROUP_ID, "c")],
    );
    let number = ask(keys::QUERY_NUM_GROUPS, vec![]);
    assert!(number * 10 < one, "{number} bytes, {one} for the members");
}

/// Registers a job on other nodes of which only the size is known.
fn far_job(world: &mut World, nspace: &'static str, size: u32) {
    let infos = [Info::new(keys::JOB_SIZE, size)];
    let engine = &mut world.nodes[0].engine;
    engine.register_nspace(&nspace.into(), 0, &infos).unwrap();
}

#[test]
fn a_group_of_more_processes_than_fit_into_a_list_is_refused() {
    let (mut world, all) = world(&[2]);
    far_job(&mut world, "far", u32::MAX);
    let members = procs(&[("job", 0), ("far", WHOLE)]);
    let order = Info::new(keys::GROUP_FINAL_MEMBERSHIP_ORDER, procs(&[("job", 0)]));
    for infos in [vec![], vec![order]] {
        let request = construct_of("g", members.clone(), infos);
        let (refused, cost) = meter::of(|| world.status_of(all[0], &request));
        assert_eq!(refused, Some(Status::ERR_OUT_OF_RESOURCE));
        assert!(cost.peak < 1 << 20, "{} bytes", cost.peak);
    }
}

#[test]
fn the_events_of_a_lost_process_list_a_bounded_number_of_members() {
    let members = procs(&[("job", WHOLE), ("far", WHOLE)]);
    let notifies = Info::new(keys::GROUP_NOTIFY_TERMINATION, true);
    let peak = |names: &[&'static str]| {
        let (mut world, all) = world(&[3]);
        far_job(&mut world, "far", 400_000);
        for name in names {
            let request = construct_of(name, members.clone(), vec![notifies.clone()]);
            let tags = ask_all(&mut world, &all, &request);
            assert_eq!(statuses(&world, &all, &tags), [DONE; 3]);
            let leave = Request::GroupLeave(request::GroupLeave {
                group: Some((*name).into()),
                infos: Vec::new(),
            });
            // From now on an event lists the processes of the jobs one by one.
            assert_eq!(world.status_of(all[2], &leave), DONE);
        }
        meter::of(|| world.kill(all[1])).1.peak
    };
    let (one, many) = (peak(&["a"]), peak(&["a", "b", "c", "d"]));
    assert!(
        many < 3 * one,
        "{many} bytes for four groups, {one} for one"
    );
}

#[test]
fn infos_that_members_share_are_bounded_together() {
    let mut config = Config::default();
    config.request_bytes = 30_000;
    let (mut world, all) = world_with(&[2], &config);
    let share = |len: usize| Info::new(keys::GROUP_INFO, vec![Info::new("k", "x".repeat(len))]);
    for (len, expected) in [(10_000, DONE), (20_000, Some(Status::ERR_OUT_OF_RESOURCE))] {
        let members = procs(&[("job", 0), ("job", 1)]);
        let tags = ask_all(
            &mut world,
            &all,
            &construct_of("g", members, vec![share(len)]),
        );
        assert_eq!(statuses(&world, &all, &tags), [expected; 2], "{len}");
        if expected == DONE {
            let tags = ask_all(&mut world, &all, &destruct("g", vec![]));
            assert_eq!(statuses(&world, &all, &tags), [DONE; 2]);
        }
    }
}

#[test]
fn group_ranks_of_whole_jobs_follow_the_order_of_the_jobs() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    world.job("other", &[3]);
    let all = world.join_all("job", &[2]);
    let others = world.join_all("other", &[3]);
    commit(&mut world, all[1], 1, &[(Scope::GLOBAL, "card", 101)]);
    let members = procs(&[("other", WHOLE), ("job", WHOLE)]);
    let both = [&all[..], &others[..]].concat();
    let tags = ask_all(&mut world, &both, &construct_of("g", members, vec![]));
    assert_eq!(statuses(&world, &both, &tags), [DONE; 5]);
    let tag = world.ask(all[0], &get("g", 4, "card"));
    world.run();
    let value = world.clients[all[0]].value(tag, "card");
    assert_eq!(value, Some(Value::Uint32(101)));
    let beyond = world.status_of(all[0], &get("g", 5, "card"));
    assert_eq!(beyond, Some(Status::ERR_NOT_FOUND));
    let pair = [all[0], others[2]];
    let fence = fence_of(procs(&[("g", 2), ("g", 3), ("g", 2)]), vec![]);
    let tags = ask_all(&mut world, &pair, &fence);
    assert_eq!(statuses(&world, &pair, &tags), [DONE; 2]);
    let fence = fence_of(procs(&[("g", 3), ("g", 5)]), vec![]);
    assert_eq!(world.status_of(all[0], &fence), Some(Status::ERR_NOT_FOUND));
}

#[test]
fn a_process_cannot_move_members_between_groups_of_one_name() {
    for per_node in [&[4][..], &[1, 3]] {
        let (mut world, all) = world(per_node);
        let first = complete("g", &[("job", 0), ("job", 2)]);
        assert_eq!(world.status_of(all[0], &first), DONE);
        let second = complete("g", &[("job", 1), ("job", 2)]);
        assert_eq!(world.status_of(all[1], &second), Some(Status::ERR_EXISTS));
        // Other processes may use the name.
        let third = complete("g", &[("job", 1), ("job", 3)]);
        assert_eq!(world.status_of(all[1], &third), DONE);
        let pair = [all[0], all[2]];
        let tags = ask_all(&mut world, &pair, &destruct("g", vec![]));
        assert_eq!(statuses(&world, &pair, &tags), [DONE; 2]);
        // A process that has left is free to join another group.
        assert_eq!(world.status_of(all[0], &first), DONE);
        let leave = Request::GroupLeave(request::GroupLeave {
            group: Some("g".into()),
            infos: vec![],
        });
        for who in [all[2], all[3]] {
            assert_eq!(world.status_of(who, &leave), DONE);
        }
        let fourth = complete("g", &[("job", 2), ("job", 3)]);
        assert_eq!(world.status_of(all[2], &fourth), DONE);
    }
}

#[test]
fn remote_reports_about_local_processes_are_ignored() {
    let (mut world, all) = world(&[2, 1]);
    let members = [("job", 0), ("job", 1), ("job", 2)];
    let request = construct_of("g", procs(&members), vec![]);
    let tags = ask_all(&mut world, &all, &request);
    assert_eq!(statuses(&world, &all, &tags), [DONE; 3]);
    let query = |world: &mut World| {
        let keys = vec![keys::QUERY_NUM_GROUPS.into()];
        let qualifiers = vec![];
        let queries = vec![Query { keys, qualifiers }];
        let tag = world.ask(all[0], &Request::Query(request::Query { queries }));
        world.run();
        let client = &world.clients[all[0]];
        let response = client.reply(tag).expect("no reply");
        let infos =
            pmix_proto::reply::Infos::decode(client.session.form(), None, &response.payload);
        infos.unwrap().infos.unwrap()[0].value.clone() == Value::Size(1)
    };
    let tell = |world: &mut World, status, source: Proc<'static>, about| {
        let infos = [
            Info::new(keys::GROUP_ID, "g"),
            Info::new(
                keys::EVENT_AFFECTED_PROC,
                Proc::new("job", Rank::new(about)),
            ),
        ];
        let now = world.now;
        let engine = &mut world.nodes[0].engine;
        engine
            .notify(status, &source, DataRange::GLOBAL, &infos, now)
            .unwrap();
        world.run();
        query(world)
    };
    let process = Proc::new("job", Rank::new(2));
    for status in [Status::GROUP_LEFT, Status::GROUP_MEMBER_FAILED] {
        assert!(tell(&mut world, status, process.clone(), 0), "{status}");
    }
    // Only the server of a process may report its loss; this source may be a process of another node.
    let server = Proc::new("server", Rank::new(1));
    assert!(tell(&mut world, Status::GROUP_MEMBER_FAILED, server, 0));
}

#[test]
fn a_job_registered_later_takes_the_name_of_a_group() {
    let (mut world, all) = world(&[2]);
    let request = complete("later", &[("job", 0), ("job", 1)]);
    assert_eq!(world.status_of(all[0], &request), DONE);
    world.job("later", &[1]);
    let fence = fence_of(procs(&[("later", WHOLE)]), limit(9));
    assert_eq!(world.status_of(all[1], &fence), Some(Status::ERR_BAD_PARAM));
    // The group can still be destructed.
    let tags = ask_all(&mut world, &all, &destruct("later", vec![]));
    assert_eq!(statuses(&world, &all, &tags), [DONE; 2]);
}

#[test]
fn group_info_counts_as_put_keys() {
    let mut config = Config::default();
    config.put_keys_per_process = 10;
    for num_keys in [10, 11] {
        let mut world = World::with(1, &config);
        world.job("job", &[1]);
        let all = world.join_all("job", &[1]);
        let shared = (0..num_keys).map(|number| Info::new(format!("key{number}"), number));
        let mut infos = context();
        infos.push(Info::new(keys::GROUP_INFO, shared.collect::<Vec<_>>()));
        let request = construct_of("g", procs(&[("job", 0)]), infos);
        assert_eq!(world.status_of(all[0], &request), DONE);
        let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(1));
        let get = Request::Get(request::Get {
            nspace: "job".into(),
            rank: Rank::new(0),
            infos: vec![context.qualifier(), Info::new(keys::IMMEDIATE, true)],
            key: Some("key3".into()),
        });
        let expected = match num_keys {
            10 => DONE,
            _ => Some(Status::ERR_NOT_FOUND),
        };
        assert_eq!(world.status_of(all[0], &get), expected, "{num_keys}");
    }
}

#[test]
fn shared_infos_of_another_type_are_refused() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let all = world.join_all("job", &[1]);
    for shared in [Value::Uint32(42), Value::from(procs(&[("job", 0)]))] {
        let infos = vec![Info::new(keys::GROUP_INFO, shared)];
        let request = construct_of("g", procs(&[("job", 0)]), infos);
        let refused = Some(Status::ERR_TYPE_MISMATCH);
        assert_eq!(world.status_of(all[0], &request), refused);
    }
}
