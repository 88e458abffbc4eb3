// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with long lists.

use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, Proc, Query, Rank, Status, Text, Value, keys};

use super::{count, far, is_linear, requests_are_linear, with_client};
use crate::world::{Who, World};
use crate::{group, group_led_steps};

fn construct(procs: Vec<Proc<'static>>, infos: Vec<Info<'static>>) -> Vec<Request<'static>> {
    let group = Some("g".into());
    let construct = request::GroupConstruct {
        group: group.clone(),
        procs,
        infos,
    };
    let destruct = request::GroupDestruct {
        group,
        procs: vec![],
        infos: vec![],
    };
    vec![
        Request::GroupConstruct(construct),
        Request::GroupDestruct(destruct),
    ]
}

fn own() -> Proc<'static> {
    Proc::new("job", Rank::new(0))
}

#[test]
fn groups_constructed_and_destructed() {
    requests_are_linear(
        "infos of a construct",
        500,
        |size| {
            let info = |n: usize| Info::new(format!("key{n}"), Value::Uint32(count(n)));
            construct(vec![own()], (0..size).map(info).collect())
        },
        Status::SUCCESS,
    );
    requests_are_linear(
        "members of a group",
        500,
        |size| construct([far(size), vec![own()]].concat(), vec![]),
        Status::SUCCESS,
    );
    requests_are_linear(
        "jobs of a group",
        250,
        |size| {
            let job = |n: usize| Proc::new(format!("far{n}"), Rank::WILDCARD);
            let jobs: Vec<_> = (0..size).map(job).collect();
            construct([jobs, vec![own()]].concat(), vec![])
        },
        Status::SUCCESS,
    );
}

#[test]
fn members_of_many_groups_in_one_request() {
    let name = |n: usize| Text::from(format!("g{n}"));
    let queries = |size: usize| {
        let qualifiers = vec![Info::new(
            keys::GROUP_ID,
            Value::String(Some(name(size - 1))),
        )];
        let keys = vec![keys::QUERY_GROUP_MEMBERSHIP.into()];
        let query = Query { keys, qualifiers };
        let queries = vec![query; size];
        Request::Query(request::Query { queries })
    };
    let prepare = |size| {
        let (mut world, who) = with_client();
        for n in 0..size {
            let construct = request::GroupConstruct {
                group: Some(name(n)),
                procs: vec![own()],
                infos: vec![],
            };
            world.ask(who, &Request::GroupConstruct(construct));
        }
        world.run();
        world.ask(who, &queries(size));
        world
    };
    is_linear("queries for members", 200, prepare, World::run);
}

#[test]
fn processes_lost_beside_invitations_of_others() {
    let prepare = |size| {
        let (mut world, who) = with_client();
        for n in 0..count(size) {
            let to = Proc::new("far", Rank::new(n));
            let invite = request::Notify {
                status: Status::GROUP_INVITED,
                range: DataRange::CUSTOM,
                infos: vec![
                    Info::new(keys::EVENT_CUSTOM_RANGE, to),
                    Info::new(keys::GROUP_ID, format!("g{n}")),
                ],
            };
            world.ask(who, &Request::Notify(invite));
        }
        world.run();
        // The job is known, so no losses are kept for its later registration.
        let lost = (0..count(size)).map(|n| Proc::new("job", Rank::new(2 + n)));
        let lost: Vec<_> = lost.collect();
        (world, [Info::new(keys::EVENT_AFFECTED_PROCS, lost)])
    };
    is_linear(
        "losses beside invitations",
        200,
        prepare,
        |(world, infos)| {
            let source = Proc::new("host", Rank::new(0));
            let (status, now) = (Status::ERR_PROC_ABORTED, world.now);
            let engine = &mut world.nodes[0].engine;
            engine
                .notify(status, &source, DataRange::GLOBAL, infos, now)
                .unwrap();
        },
    );
}

#[test]
fn many_waiting_constructs() {
    let ask = |number: usize, procs, infos| {
        let group = Some(Text::from(format!("g{number}")));
        Request::GroupConstruct(request::GroupConstruct {
            group,
            procs,
            infos,
        })
    };
    let time = Info::new(keys::TIMEOUT, 60_u32);
    let leads = |number| {
        let adds = Info::new(
            keys::GROUP_ADD_MEMBERS,
            vec![Proc::new("job", Rank::new(1))],
        );
        ask(number, vec![own()], vec![adds, time.clone()])
    };
    let joins = |number| ask(number, vec![], vec![time.clone()]);
    for is_first in [true, false] {
        let prepare = |size: usize| {
            let mut world = World::new(1);
            world.job("job", &[2]);
            let all = world.join_all("job", &[2]);
            let (leader, added) = (all[0], all[1]);
            for number in 0..size {
                match is_first {
                    true => world.ask(leader, &leads(number)),
                    false => world.ask(added, &joins(number)),
                };
            }
            world.run();
            let come = |number| match is_first {
                true => (added, joins(number)),
                false => (leader, leads(number)),
            };
            let come: Vec<_> = (0..size).map(come).collect();
            (world, come)
        };
        is_linear("constructions at once", 25, prepare, |(world, come)| {
            let asked: Vec<_> = come
                .iter()
                .map(|(who, request)| (*who, world.ask(*who, request)))
                .collect();
            world.run();
            for (who, tag) in asked {
                assert_eq!(world.clients[who].status(tag), Some(Status::SUCCESS));
            }
        });
    }
}

/// Starts a construct of `size` processes of one node, of which the first leads and all but the last have called.
fn led(size: usize) -> (World, Vec<Who>) {
    let (mut world, all) = group::world(&[count(size)]);
    let codes = [Status::GROUP_INVITE_FAILED, Status::GROUP_LEADER_FAILED];
    group::listen(&mut world, &all[..1], &codes);
    let members: Vec<_> = (0..count(size)).collect();
    for who in &all[..size - 1] {
        let infos = match *who == all[0] {
            true => group_led_steps::leads(),
            false => vec![],
        };
        world.ask(*who, &group::construct("g", &members, infos));
    }
    world.run();
    (world, all)
}

#[test]
fn members_of_a_led_construct_lost_or_declining_to_lead() {
    let first = 16;
    let lost_leader = |size| {
        let (mut world, all) = led(size);
        group::listen(&mut world, &all[1..2], &[Status::GROUP_LEADER_FAILED]);
        world.kill(all[0]);
        let declines = group_led_steps::about(Status::GROUP_LEADER_FAILED, 0, &[]);
        for who in &all[1..size - 1] {
            world.ask(*who, &declines);
        }
        (world, all)
    };
    is_linear("declines to lead", first, lost_leader, |(world, all)| {
        world.run();
        assert_eq!(world.nodes[0].engine.stats().num_collectives, 1);
        drop(std::mem::take(all));
    });
    let lost = |size| {
        let (mut world, all) = led(size);
        let closed = all[1..size - 1].iter();
        let peers: Vec<_> = closed
            .filter_map(|who| world.clients[*who].peer.take())
            .collect();
        (world, peers)
    };
    is_linear("losses of members", first, lost, |(world, peers)| {
        let engine = &mut world.nodes[0].engine;
        for peer in std::mem::take(peers) {
            engine.handle_closed(peer, world.now);
        }
        assert_eq!(engine.stats().num_collectives, 1);
    });
}
