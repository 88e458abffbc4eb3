// SPDX-License-Identifier: MIT OR Apache-2.0
//! The display of a job and its node before its processes start.

use std::fmt::Write as _;

use pmix_topology::{Level, Topology};
use pmix_types::Rank;

use super::node;
use crate::Plan;
use crate::job_info::Bound;

/// The levels of a topology that are displayed.
const LEVELS: [Level; 7] = [
    Level::Package,
    Level::Numa,
    Level::L3Cache,
    Level::L2Cache,
    Level::L1Cache,
    Level::Core,
    Level::HwThread,
];

/// The parts to display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Display {
    /// The placement of each process (`PMIX_DISPLAY_MAP`).
    pub(crate) map: bool,
    /// The placement with programs (`PMIX_DISPLAY_MAP_DETAILED`).
    pub(crate) detailed: bool,
    /// The resources of the node (`PMIX_DISPLAY_ALLOCATION`).
    pub(crate) allocation: bool,
    /// The topology of the node (`PMIX_DISPLAY_TOPOLOGY`).
    pub(crate) topology: bool,
    /// The processors that are available to processes (`PMIX_DISPLAY_PROCESSORS`).
    pub(crate) processors: bool,
    /// `true` for lines that programs can parse: the kind of the line, then `name=value` pairs
    /// (`PMIX_DISPLAY_PARSEABLE_OUTPUT`).
    pub(crate) is_parseable: bool,
}

impl Display {
    /// Returns the lines to display for a job; empty if nothing is requested.
    pub(crate) fn lines(self, plan: &Plan, bound: &Bound) -> String {
        let host = String::from_utf8_lossy(plan.layout.host());
        let mut lines = String::new();
        if self.allocation {
            self.allocation(&mut lines, &host);
        }
        if self.processors {
            let cpus = node::processors(plan.cpus.as_ref());
            line(
                &mut lines,
                match self.is_parseable {
                    true => format!("processors host={host} cpus={cpus}"),
                    false => format!("processes on {host} can run on processors {cpus}"),
                },
            );
        }
        if self.topology {
            self.topology(&mut lines, &host, bound);
        }
        if self.map || self.detailed {
            self.map(&mut lines, &host, plan, bound);
        }
        lines
    }

    fn allocation(self, lines: &mut String, host: &str) {
        let (processors, memory) = (
            node::num_processors(),
            crate::topology::memory_kb().unwrap_or(0),
        );
        line(
            lines,
            match self.is_parseable {
                true => {
                    format!("allocation host={host} processors={processors} memory_kb={memory}")
                }
                false => format!("{host} has {processors} processors and {memory} kB of memory"),
            },
        );
    }

    fn topology(self, lines: &mut String, host: &str, bound: &Bound) {
        let read;
        let topology = match &bound.topology {
            Some(topology) => topology,
            None => {
                read = Topology::of_system();
                &read
            }
        };
        let counts = LEVELS.map(|level| (level.name(), topology.parts(level).len()));
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let text: String = match self.is_parseable {
            true => counts
                .map(|(name, count)| format!(" {name}={count}"))
                .collect(),
            false => {
                let counts: Vec<_> = counts
                    .map(|(name, count)| format!("{name} {count}"))
                    .collect();
                counts.join(", ")
            }
        };
        line(
            lines,
            match self.is_parseable {
                true => format!("topology host={host}{text}"),
                false => format!("{host} has the topology {text}"),
            },
        );
    }

    fn map(self, lines: &mut String, host: &str, plan: &Plan, bound: &Bound) {
        let here = plan.layout.here();
        let all = (0..u32::try_from(plan.layout.num_procs()).unwrap_or(u32::MAX)).map(Rank::new);
        let ranks: Vec<_> = match plan.has_agents() {
            true => all.collect(),
            false => here.to_vec(),
        };
        for rank in ranks {
            let index = here.binary_search(&rank).ok();
            let cpus = index.and_then(|index| bound.cpus.get(index));
            let node = plan.layout.host_of(rank);
            let node = String::from_utf8_lossy(&node);
            let host = if index.is_some() { host } else { &*node };
            let mut text = match (self.is_parseable, cpus) {
                // Each node binds its own processes.
                (false, _) if index.is_none() => format!("rank {rank} on {host}"),
                (false, Some(cpus)) => format!("rank {rank} on {host}: bound to processors {cpus}"),
                (false, None) => format!("rank {rank} on {host}: not bound"),
                (true, cpus) => {
                    let cpus = cpus.map_or_else(|| "none".to_owned(), ToString::to_string);
                    format!(
                        "map nspace={} rank={rank} host={host} cpus={cpus}",
                        plan.nspace
                    )
                }
            };
            let app = plan.app_of(rank.as_raw()).filter(|_| self.detailed);
            if let Some((number, app)) = app.and_then(|app| Some((app, plan.apps.get(app)?))) {
                let program = app.program.to_string_lossy();
                let wdir = app.wdir.as_deref().unwrap_or_else(|| ".".as_ref());
                let wdir = std::path::absolute(wdir).unwrap_or_else(|_| wdir.to_owned());
                let written = match self.is_parseable {
                    true => write!(text, " app={number} program={program:?} wdir={wdir:?}"),
                    false => write!(
                        text,
                        ", {program} of application {number} in {}",
                        wdir.display()
                    ),
                };
                // Writing to a `String` cannot fail.
                debug_assert!(written.is_ok());
            }
            line(lines, text);
        }
    }
}

fn line(lines: &mut String, text: impl AsRef<str>) {
    lines.push_str(text.as_ref());
    lines.push('\n');
}
