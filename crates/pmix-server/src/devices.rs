// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distances between the devices of this node and processors, for processes that cannot compute them themselves.
//!
//! Source: PMIx Standard, chapter "Process-Related Non-Reserved Keys", heading "Device distances".

use std::sync::OnceLock;

use pmix_engine::host::DeviceDistances;
use pmix_topology::{Cpuset, DeviceFilter, Error, Topology};
use pmix_types::{DeviceDistance, Status};

/// The devices of this node, read on first use.
///
/// A process sends a topology with its request, which the server ignores. The process asks about devices that it does
/// not see. Parsing a topology of a peer would also cost the server time that the peer determines.
pub(crate) struct Devices {
    hostname: String,
    /// The topology described by the host, if it includes devices.
    described: Option<Topology>,
    seen: OnceLock<Topology>,
}

impl Devices {
    pub(crate) fn new(hostname: String, described: Option<Topology>) -> Self {
        // A topology of processors only would hide the devices of this node.
        let described = described.filter(Topology::has_devices);
        Self {
            hostname,
            described: described.map(Topology::without_xml),
            seen: OnceLock::new(),
        }
    }

    /// Returns the distances that a process requests.
    pub(crate) fn distances(
        &self,
        call: &DeviceDistances,
    ) -> Result<Vec<DeviceDistance<'static>>, Status> {
        let cpus = match &call.cpus {
            None => Cpuset::full(),
            Some(list) => match list.as_str().map(processors) {
                Some(Ok(cpus)) => cpus,
                _ => {
                    tracing::debug!(proc = ?call.proc, cpus = %list, "not a list of processors");
                    return Err(Status::ERR_BAD_PARAM);
                }
            },
        };
        let seen = || self.seen.get_or_init(Topology::of_system);
        let node = self.described.as_ref().unwrap_or_else(seen);
        let filter = DeviceFilter::of_infos(&call.infos);
        node.distances(&cpus, &self.hostname, &filter)
            .map_err(|error: Error| {
                tracing::debug!(proc = ?call.proc, %error, "no distances are available");
                error.status()
            })
    }
}

/// Parses a list of processors in the form of the wire, `0,2-3`, or of `PMIX_CPUSET`, `hwloc:0,2-3`.
fn processors(list: &str) -> Result<Cpuset, Error> {
    match list.contains(':') {
        true => Cpuset::from_pmix(list),
        false => Cpuset::parse(list),
    }
}
