// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several programs that are connected as one process.

use pmix_engine::{ClonePolicy, Config, EngineEvent, Upcall};
use pmix_proto::Request;
use pmix_types::Status;

use crate::collective::fence;
use crate::ledger::Ledger;
use crate::world::{Reaction, World, hello};

/// Creates a server that admits several programs of a process, with a job of two processes.
fn with_clones() -> World {
    let mut config = Config::default();
    config.clone_policy = ClonePolicy::Accept;
    config.programs_per_process = 3;
    let mut world = World::with(1, &config);
    world.job("job", &[2]);
    world
}

#[test]
fn the_fence_of_a_program_that_ends_fails_while_another_one_of_its_process_lives() {
    let mut world = with_clones();
    let (first, second, other) = (
        world.join(0, "job", 0),
        world.join(0, "job", 0),
        world.join(0, "job", 1),
    );
    let fence = fence(vec![]);
    world.ask(first, &fence);
    world.run();
    world.kill(first);
    let calls = [world.ask(other, &fence), world.ask(second, &fence)];
    world.run();
    assert_eq!(
        world.clients[other].status(calls[0]),
        Some(Status::ERR_LOST_CONNECTION)
    );
    // The next call of each belongs to the next fence.
    assert_eq!(world.clients[second].status(calls[1]), None);
    let again = world.ask(other, &fence);
    world.run();
    assert_eq!(world.clients[other].status(again), Some(Status::SUCCESS));
    assert_eq!(
        world.clients[second].status(calls[1]),
        Some(Status::SUCCESS)
    );
}

#[test]
fn a_process_finalizes_with_the_last_of_its_programs() {
    let mut world = with_clones();
    let programs = [world.join(0, "job", 0), world.join(0, "job", 0)];
    let ledger = Ledger::open(&mut world, |_| Reaction::Usual);
    for (number, program) in programs.into_iter().enumerate() {
        assert_eq!(
            world.status_of(program, &Request::Finalize),
            Some(Status::SUCCESS)
        );
        let Upcall::ClientFinalized(call) = ledger.one("ClientFinalized") else {
            panic!("another upcall of this name");
        };
        assert_eq!(call.is_last, number == 1);
    }
}

#[test]
fn the_number_of_programs_of_a_process_is_limited() {
    let mut world = with_clones();
    let programs: Vec<_> = (0..3).map(|_| world.join(0, "job", 0)).collect();
    let fourth = world.connect(0, &hello("job", 0));
    world.run();
    assert!(!world.clients[fourth].is_in());
    assert_eq!(world.nodes[0].refusals(), [Status::ERR_OUT_OF_RESOURCE]);
    world.kill(programs[1]);
    world.join(0, "job", 0);
}

#[test]
fn children_may_connect_for_a_process_where_configured() {
    let mut world = with_clones();
    let parent = world.join(0, "job", 0);
    let child = world.join(0, "job", 0);
    world.kill(child);
    let lost = |world: &World| {
        let events = world.nodes[0].events.iter();
        let lost = |event: &&_| matches!(event, EngineEvent::ProcessLost { .. });
        events.filter(lost).count()
    };
    assert_eq!(lost(&world), 0);
    world.kill(parent);
    assert_eq!(lost(&world), 1);
}
