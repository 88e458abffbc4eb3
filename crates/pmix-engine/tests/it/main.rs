// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with engines, clients and a host in one process, and a simulated clock.
#![allow(clippy::disallowed_methods, reason = "a test begins at some instant")]

mod admission;
mod collective;
mod commit;
mod commit_parts;
mod connect;
mod connected_tool;
mod control;
mod cost;
mod early;
mod event_rights;
mod events;
mod exchange;
mod group;
mod group_added;
mod group_bytes;
mod group_hostile;
mod group_leave;
mod group_led;
mod group_led_nodes;
mod group_led_steps;
mod group_lost;
mod group_names;
mod group_random;
mod group_seven;
#[path = "../../../bfrops/tests/meter/growth.rs"]
mod growth;
mod handed_on;
mod hostile;
mod invitation;
mod leaving;
mod ledger;
mod long_lists;
#[path = "../../../bfrops/tests/meter/mod.rs"]
mod meter;
mod new_leader;
mod output;
mod pressure;
mod process_ids;
mod programs;
mod publish;
mod query;
mod query_wide;
mod releases;
mod resources;
mod shared;
mod told;
mod unasked;
mod waits;
mod world;

#[global_allocator]
static METER: meter::Meter = meter::Meter;
