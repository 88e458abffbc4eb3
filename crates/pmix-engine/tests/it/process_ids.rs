// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process ids of local processes (`PMIX_PROC_PID`), which the host records after their start.

use pmix_types::{Proc, Rank, Status, Value, keys};

use crate::exchange::{ask, get};
use crate::world::World;

#[test]
fn the_process_id_of_a_started_process_is_found() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let who = world.join(0, "job", 0);
    let asked = get("job", 1, keys::PROC_PID);
    assert_eq!(world.status_of(who, &asked), Some(Status::ERR_NOT_FOUND));
    let engine = &mut world.nodes[0].engine;
    let started = Proc::new("job", Rank::new(1));
    engine.client_started(&started, 4711).unwrap();
    let stranger = Proc::new("job", Rank::new(2));
    let refused = engine.client_started(&stranger, 4712).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_FOUND);
    for _ in 0..2 {
        let tag = ask(&mut world, who, &asked);
        let found = world.clients[who].value(tag, keys::PROC_PID);
        assert_eq!(found, Some(Value::Pid(4711)));
        // It stays known after the end of the process.
        let _ = world.nodes[0].engine.deregister_client(&started);
    }
}
