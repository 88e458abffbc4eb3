// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packing of job info for gets about another job. A separate test binary, because its
//! allocator counts the memory of every thread.
//!
//! The job info is packed in one pass, without an array on the heap for each process. So the test
//! counts allocations.

#[path = "../../bfrops/tests/meter/mod.rs"]
mod meter;

use bfrops::{Layout, Module};
use gds_hash::{Codec, Job, LocalNode};
use pmix_types::{Info, Release, keys};

#[global_allocator]
static METER: meter::Meter = meter::Meter;

/// Returns the number of allocations for packing a job of two nodes, and the length of the result.
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
    let (kvals, cost) = meter::of(|| job.kvals(&codec, Release::V5_0_11).unwrap());
    (cost.calls, kvals.len())
}

#[test]
fn another_job_is_packed_without_unpacking_its_processes() {
    let (few_calls, few_bytes) = cost_of_kvals(10);
    let (calls, bytes) = cost_of_kvals(1_000);
    assert!(bytes > few_bytes + 2 * 990 * 60, "{few_bytes} to {bytes}");
    // Only the reply, which doubles when it is full, and the list of peers on a node allocate more.
    assert!(calls < few_calls + 40, "{few_calls} to {calls} allocations");
}
