// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory limit of the groups of a job.

use pmix_engine::Config;
use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, Status, keys};

use crate::collective::{DONE, ask_all, procs, statuses};
use crate::group::{construct, destruct, make, make_with, num_groups, world, world_with};
use crate::world::{Who, World};

/// Creates servers with room for `num_groups` groups of ranks 0 and 1 with names of one letter.
fn world_for(per_node: &[u32], num_groups: usize) -> (World, Vec<Who>) {
    let (mut roomy, all) = world(&[2]);
    make(&mut roomy, &all, "x", &[0, 1]);
    let one = roomy.nodes[0].engine.stats().group_bytes;
    assert!(one > 0);
    let mut config = Config::default();
    config.group_bytes_per_job = num_groups * one;
    world_with(per_node, &config)
}

fn group_bytes(world: &World) -> Vec<usize> {
    let nodes = world.nodes.iter();
    nodes.map(|node| node.engine.stats().group_bytes).collect()
}

#[test]
fn bytes_of_the_groups_of_a_job_are_bounded() {
    let (mut world, all) = world_for(&[2], 2);
    let full = Some(Status::ERR_OUT_OF_RESOURCE);
    make(&mut world, &all, "a", &[0, 1]);
    make(&mut world, &all, "b", &[0, 1]);
    let tags = ask_all(&mut world, &all, &construct("c", &[0, 1], vec![]));
    assert_eq!(statuses(&world, &all, &tags), [full; 2]);
    assert_eq!(num_groups(&world), 2);
    let tags = ask_all(&mut world, &all, &destruct("a", vec![]));
    assert_eq!(statuses(&world, &all, &tags), [DONE; 2]);
    // A group with a longer name does not fit into the remaining room.
    let tags = ask_all(&mut world, &all, &construct("cc", &[0, 1], vec![]));
    assert_eq!(statuses(&world, &all, &tags), [full; 2]);
    make(&mut world, &all, "c", &[0, 1]);
    for name in ["b", "c"] {
        let tags = ask_all(&mut world, &all, &destruct(name, vec![]));
        assert_eq!(statuses(&world, &all, &tags), [DONE; 2]);
    }
    assert_eq!(group_bytes(&world), [0]);
}

#[test]
fn concurrent_constructs_succeed_up_to_the_byte_limit() {
    let (mut world, all) = world_for(&[2], 2);
    let requests = ["a", "b", "c"].map(|name| construct(name, &[0, 1], vec![]));
    let first = requests
        .each_ref()
        .map(|request| world.ask(all[0], request));
    world.run();
    assert_eq!(num_groups(&world), 0);
    let second = requests
        .each_ref()
        .map(|request| world.ask(all[1], request));
    world.run();
    let full = Some(Status::ERR_OUT_OF_RESOURCE);
    for (who, tags) in [(all[0], first), (all[1], second)] {
        let told = tags.map(|tag| world.clients[who].status(tag));
        assert_eq!(told, [DONE, DONE, full]);
    }
    assert_eq!(num_groups(&world), 2);
}

#[test]
fn bytes_of_invited_groups_are_bounded_on_every_node() {
    let (mut world, all) = world_for(&[1, 1], 2);
    let complete = |name: &'static str| {
        Request::Notify(request::Notify {
            status: Status::GROUP_CONSTRUCT_COMPLETE,
            range: DataRange::CUSTOM,
            infos: vec![
                Info::new(keys::EVENT_CUSTOM_RANGE, procs(&[("job", 0), ("job", 1)])),
                Info::new(keys::EVENT_NON_DEFAULT, true),
                Info::new(keys::GROUP_ID, name),
            ],
        })
    };
    let local = [Info::new(keys::GROUP_LOCAL_ONLY, true)];
    make_with(&mut world, &all[1..], "l", &[1], &local);
    assert_eq!(world.status_of(all[0], &complete("a")), DONE);
    assert_eq!(num_groups(&world), 3);
    // The first node has room for one more, the second one does not.
    assert_eq!(world.status_of(all[0], &complete("b")), DONE);
    assert_eq!(num_groups(&world), 4);
    let full = Some(Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(world.status_of(all[0], &complete("c")), full);
    assert_eq!(num_groups(&world), 4);
    for who in all {
        world.kill(who);
    }
    assert_eq!(group_bytes(&world), [0, 0]);
}

#[test]
fn groups_of_a_process_are_bounded() {
    let mut config = Config::default();
    config.groups_per_process = 3;
    let (mut world, all) = world_with(&[2], &config);
    for name in ["a", "b", "c"] {
        make(&mut world, &all, name, &[0, 1]);
    }
    let full = Some(Status::ERR_OUT_OF_RESOURCE);
    let tags = ask_all(&mut world, &all, &construct("d", &[0, 1], vec![]));
    assert_eq!(statuses(&world, &all, &tags), [full; 2]);
    let tags = ask_all(&mut world, &all, &destruct("a", vec![]));
    assert_eq!(statuses(&world, &all, &tags), [DONE; 2]);
    // Of two simultaneous constructs, one succeeds.
    let requests = ["d", "e"].map(|name| construct(name, &[0, 1], vec![]));
    let mut tags = Vec::new();
    for who in &all {
        tags.extend(requests.each_ref().map(|request| world.ask(*who, request)));
    }
    world.run();
    let made: Vec<_> = [(0, 0), (0, 1), (1, 2), (1, 3)]
        .map(|(who, tag): (usize, usize)| world.clients[all[who]].status(tags[tag]))
        .into();
    assert_eq!(made, [DONE, full, DONE, full]);
    assert_eq!(num_groups(&world), 3);
}

#[test]
fn invitations_of_a_leader_are_bounded() {
    let mut config = Config::default();
    config.invitations_per_process = 2;
    let (mut world, all) = world_with(&[2], &config);
    let invite = |name: &'static str| {
        let to = procs(&[("job", 1)]);
        let infos = vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, to),
            Info::new(keys::GROUP_ID, name),
        ];
        Request::Notify(request::Notify {
            status: Status::GROUP_INVITED,
            range: DataRange::CUSTOM,
            infos,
        })
    };
    let full = Some(Status::ERR_OUT_OF_RESOURCE);
    for (name, expected) in [("a", DONE), ("b", DONE), ("c", full), ("a", DONE)] {
        assert_eq!(world.status_of(all[0], &invite(name)), expected, "{name}");
    }
    // Each process has its own limit.
    assert_eq!(world.status_of(all[1], &invite("d")), DONE);
    world.kill(all[0]);
    world.kill(all[1]);
}
