// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a launcher for a described job of many nodes. The job is registered in folded form, so the memory
//! does not grow with the number of nodes or processes.
//!
//! This is a test binary of its own because its allocator counts the allocations of all threads.

#[path = "../../bfrops/tests/meter/mod.rs"]
mod meter;

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use pmix_launch::{App, Layout, Output, Plan, Policy, Standard, launch};
use pmix_map::{Limits, NodeListBuilder, ProcMapBuilder, Progression};
use pmix_mca::Params;
use pmix_types::Rank;

#[global_allocator]
static METER: meter::Meter = meter::Meter;

const EACH: u32 = 128;

/// Returns the plan of a job with this number of nodes of which only rank 0 runs on this node.
fn plan(num_nodes: u32, tmpdir: &std::path::Path) -> Plan {
    let limits = Limits::default();
    let mut nodes = NodeListBuilder::new(&limits);
    nodes.name(b"here").unwrap();
    let far = Progression {
        prefix: b"node",
        width: 7,
        first: 1,
        step: 1,
        count: u64::from(num_nodes - 1),
        suffix: b"",
    };
    nodes.progression(&far).unwrap();
    let mut procs = ProcMapBuilder::new(&limits);
    procs.range(Rank::new(0), Rank::new(0)).unwrap();
    procs.end_node().unwrap();
    for node in 1..num_nodes {
        let first = 1 + (node - 1) * EACH;
        let last = first + EACH - 1;
        procs.range(Rank::new(first), Rank::new(last)).unwrap();
        procs.end_node().unwrap();
    }
    let params = Params::default();
    Plan {
        nspace: "described@1".to_owned(),
        part: pmix_launch::Part::Alone,
        layout: Layout::of_maps(b"here", nodes.finish(), procs.finish()).unwrap(),
        apps: vec![App {
            program: "/bin/true".into(),
            args: Vec::new(),
            num_procs: 1 + (num_nodes - 1) * EACH,
            wdir: None,
            exports: Vec::new(),
        }],
        policy: Policy::default(),
        environment: Vec::new().into(),
        preg: Arc::new(pmix_builtin::open_preg(&params).unwrap()),
        params,
        tmpdir: tmpdir.to_owned(),
        syslog: "/dev/log".into(),
        output: Output::default(),
        timeout: Some(Duration::from_secs(60)),
        grace: Duration::from_secs(1),
        keep_going: false,
        adopt: true,
        forward_io: false,
        max_spawned: 16,
        max_spawn_depth: 4,
        max_restarts: 0,
        system_server: None,
        watcher: None,
        wrapper: None,
        cpus: None,
        compat_env: true,
        interfaces: pmix_launch::Interfaces::default(),
        client_library: None,
        stdin_rank: Some(pmix_types::Rank::new(0)),
        announce: false,
        diagnosis: pmix_launch::Diagnosis::default(),
        stops: pmix_launch::DebugStops::default(),
        process_sets: Vec::new(),
    }
}

/// Returns the peak of the launcher's memory in bytes.
fn peak(num_nodes: u32) -> usize {
    let tmp = tempfile::tempdir().unwrap();
    let plan = plan(num_nodes, tmp.path());
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let standard = Standard {
        input: null.as_fd(),
        output: null.as_fd(),
        errors: null.as_fd(),
    };
    let (outcome, cost) = meter::of(|| launch(&plan, standard, None).unwrap());
    assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
    cost.peak
}

#[test]
fn a_job_of_many_nodes_costs_the_launcher_no_more_than_one_of_two() {
    // The first job includes one-time initialization.
    peak(2);
    let (small, large) = (peak(2), peak(100_000));
    // The text of the two maps has 105 MB.
    assert!(large < small + 64 * 1024, "{small} bytes, then {large}");
}
