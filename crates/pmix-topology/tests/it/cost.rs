// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time to parse a description is proportional to its length, for any content.

use std::time::{Duration, Instant};

use pmix_topology::{Cpuset, Topology};

/// A limit that only quadratic growth exceeds.
const LIMIT: Duration = Duration::from_secs(30);

fn read(inside: &str, count: usize) -> Option<Topology> {
    let xml = format!(
        "<topology><object type=\"Machine\" cpuset=\"0x1\">{}</object></topology>",
        inside.repeat(count)
    );
    let begun = Instant::now();
    let topology = Topology::of_xml(xml).ok();
    if let Some(topology) = &topology {
        let cpus = Cpuset::from_iter([0]);
        assert!(topology.locality(&cpus).is_some());
        assert!(
            topology
                .distances(&cpus, "n1", &Default::default())
                .is_err()
        );
        assert!(topology.clone().without_xml().to_xml().len() > count);
    }
    let took = begun.elapsed();
    assert!(took < LIMIT, "{count} of {inside}: {took:?}");
    topology
}

const PU: &str = "<object type=\"PU\" cpuset=\"0x1\"/>";

#[test]
fn very_many_parts_take_linear_time() {
    let group = format!("<object type=\"Group\" cpuset=\"0x1\">{PU}</object>");
    assert!(read(&group, 250_000).is_some());
    let memory = |index: u32| {
        let numa = format!("<object type=\"NUMANode\" os_index=\"{index}\" cpuset=\"0x1\"/>");
        format!("{PU}{numa}")
    };
    assert!(read(&memory(1023), 50_000).is_some());
    assert!(read(&memory(1024), 50_000).is_none());
    // Nested threads are not a valid machine.
    let open = "<object type=\"PU\" cpuset=\"0x1\">".repeat(200);
    let deep = format!("{open}{}", "</object>".repeat(200));
    assert!(read(&deep, 2_000).is_none());
}
