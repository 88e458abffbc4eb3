// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of clients of release 7.0, which expect another status than earlier ones when a member is lost.

use pmix_types::Status;

use crate::collective::{DONE, ask_all, statuses};
use crate::group::{construct, destruct, make};
use crate::world::{Who, World, hello};

/// Connects a job with one process of each release on its nodes.
fn world_of(per_node: &[&[&'static str]]) -> (World, Vec<Who>) {
    let mut world = World::new(per_node.len());
    let counts: Vec<u32> = per_node
        .iter()
        .map(|on_node| u32::try_from(on_node.len()).unwrap())
        .collect();
    world.job("job", &counts);
    let mut all = Vec::new();
    for (node, on_node) in per_node.iter().enumerate() {
        for version in *on_node {
            let mut greeting = hello("job", u32::try_from(all.len()).unwrap());
            greeting.version = (*version).into();
            all.push(world.connect(node, &greeting));
        }
    }
    world.run();
    (world, all)
}

#[test]
fn a_construct_that_loses_a_member_is_aborted_for_7_0() {
    let one_node: &[&[&str]] = &[&["7.0.0", "5.0.11", "7.0.0", "7.0.0"]];
    let two_nodes: &[&[&str]] = &[&["7.0.0", "5.0.11"], &["7.0.0", "7.0.0"]];
    for per_node in [one_node, two_nodes] {
        let (mut world, all) = world_of(per_node);
        let callers = [all[0], all[1], all[3]];
        let call = construct("g", &[0, 1, 2, 3], vec![]);
        let tags = ask_all(&mut world, &callers, &call);
        world.run();
        world.kill(all[2]);
        world.run();
        let abort = Some(Status::GROUP_CONSTRUCT_ABORT);
        let expected = [abort, Some(Status::ERR_LOST_CONNECTION), abort];
        assert_eq!(statuses(&world, &callers, &tags), expected);
    }
}

#[test]
fn a_destruct_that_loses_a_member_completes_for_7_0() {
    for (version, expected) in [
        ("7.0.0", DONE),
        ("5.0.11", Some(Status::ERR_LOST_CONNECTION)),
    ] {
        let (mut world, all) = world_of(&[&[version, version, version]]);
        make(&mut world, &all, "g", &[0, 1, 2]);
        let tags = ask_all(&mut world, &all[..2], &destruct("g", vec![]));
        world.run();
        world.kill(all[2]);
        world.run();
        assert_eq!(statuses(&world, &all[..2], &tags), [expected; 2]);
    }
}
