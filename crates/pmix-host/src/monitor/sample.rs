// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache of the last measurement, so that many requests cost no more than one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pmix_types::{DiskStats, NetStats, NodeStats, Proc, ProcStats, Text};

use crate::usage::Detail;
use crate::{Error, usage};

/// The lifetime of a measurement.
const FRESH: Duration = Duration::from_millis(250);

/// The measurements that are not too old.
#[derive(Debug, Default)]
pub(super) struct Samples {
    processes: HashMap<i32, Sample>,
    node: Option<(Instant, NodeStats<'static>)>,
}

#[derive(Debug)]
struct Sample {
    at: Instant,
    /// The measured figures.
    detail: Detail,
    stats: ProcStats<'static>,
}

impl Samples {
    /// Measures processes of a node. A process that has just ended is omitted.
    pub(super) fn processes(
        &mut self,
        procs: &[(Proc<'static>, i32)],
        node: &Text<'static>,
        detail: Detail,
        now: Instant,
    ) -> Vec<ProcStats<'static>> {
        let is_fresh = |sample: &Sample| now.saturating_duration_since(sample.at) < FRESH;
        // Only samples of the last quarter of a second stay, so the table needs no other bound.
        self.processes.retain(|_, sample| is_fresh(sample));
        let mut measured = Vec::with_capacity(procs.len());
        for (proc, pid) in procs {
            let known = self.processes.get(pid);
            // The kernel may have given the number of an ended process to another one.
            let known = known.filter(|known| known.stats.proc == *proc);
            if let Some(known) = known.filter(|known| known.detail >= detail) {
                measured.push(known.stats.clone());
                continue;
            }
            let stats = match usage::process(*pid, detail) {
                Ok(stats) => ProcStats {
                    node: Some(node.clone()),
                    proc: proc.clone(),
                    ..stats
                },
                Err(error) => {
                    tracing::debug!(%error, "cannot measure a process");
                    continue;
                }
            };
            measured.push(stats.clone());
            let sample = Sample {
                at: now,
                detail,
                stats,
            };
            self.processes.insert(*pid, sample);
        }
        measured
    }

    /// Drops the measurements of processes.
    pub(super) fn forget_processes(&mut self) {
        self.processes.clear();
    }

    /// Measures the node, its disks and its interfaces.
    pub(super) fn node(
        &mut self,
        name: &Text<'static>,
        now: Instant,
    ) -> Result<&NodeStats<'static>, Error> {
        let is_fresh = |at: &Instant| now.saturating_duration_since(*at) < FRESH;
        let known = self.node.take().filter(|(at, _)| is_fresh(at));
        let (at, stats) = match known {
            Some(known) => known,
            None => (now, measure(name)?),
        };
        let (_, stats) = self.node.insert((at, stats));
        Ok(stats)
    }
}

fn measure(name: &Text<'static>) -> Result<NodeStats<'static>, Error> {
    // A kernel may lack either of these files.
    let none = |error: Error| tracing::debug!(%error, "cannot measure a part of the node");
    let diskstats: Vec<DiskStats<'static>> = usage::disks().map_err(none).unwrap_or_default();
    let netstats: Vec<NetStats<'static>> = usage::interfaces().map_err(none).unwrap_or_default();
    Ok(NodeStats {
        node: Some(name.clone()),
        diskstats,
        netstats,
        ..usage::node()?
    })
}
