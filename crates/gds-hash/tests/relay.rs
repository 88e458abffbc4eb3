// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of its own: its allocator counts what every thread takes.
//!
//! The job information of another job is written as it is sent: nothing of it is packed, unpacked
//! and packed again. An unpacked process is an array on the heap, so the test counts allocations.

#[path = "../../bfrops/tests/meter/mod.rs"]
mod meter;

use bfrops::{Layout, Module};
use gds_hash::{Codec, Job, LocalNode};
use pmix_types::{Info, Release, keys};

#[global_allocator]
static METER: meter::Meter = meter::Meter;

/// How often memory is asked for to pack the information of a job of two nodes, and how many bytes
/// it has.
fn cost_of_kvals(procs_per_node: u32) -> (usize, usize) {
    let preg = pmix_builtin::open_preg(&preg_core::Params::default()).unwrap();
    let procs = format!(
        "0-{};{procs_per_node}-{}",
        procs_per_node - 1,
        2 * procs_per_node - 1
    );
    let infos = [
        Info::new(keys::NODE_MAP, "n0,n1"),
        Info::new(keys::PROC_MAP, procs),
    ];
    let job = Job::register(&preg, &LocalNode::new("n0"), "job", &infos).unwrap();
    let codec = Codec::new(Layout::new(Module::V41));
    let (kvals, cost) = meter::of(|| job.kvals(&codec, Release::V5_0_11));
    (cost.calls, kvals.len())
}

#[test]
fn a_job_of_others_is_told_without_unpacking_its_processes() {
    let (few_calls, few_bytes) = cost_of_kvals(10);
    let (calls, bytes) = cost_of_kvals(1_000);
    assert!(bytes > few_bytes + 2 * 990 * 60, "{few_bytes} to {bytes}");
    // What grows is the reply itself, by doubling, and the list of peers of a node.
    assert!(calls < few_calls + 40, "{few_calls} to {calls} allocations");
}
