// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs on several nodes: the nodes that `--host`, `--hostfile` and allocations name, and the division of the processes
//! over them.

use std::ffi::OsString;
use std::time::Duration;

use pmix_launch::{Agents, Layout, MapBy};
use pmix_map::{Limits, NodeListBuilder, ProcMapBuilder};
use pmix_topology::Level;
use pmix_types::Rank;

use super::refused;
use crate::args::{Run, Several};
use crate::failure::Failure;

/// The time after which a node that has not answered fails the job.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The command that reaches a node. It must not ask questions, because the agent has no terminal.
const REACH: &[&str] = &["ssh", "-x", "-T", "-o", "BatchMode=yes"];

/// The nodes that an option names, with their slots; `true` for this node.
pub(super) struct NamedNodes {
    /// The option with its value.
    pub(super) origin: String,
    pub(super) all: Vec<(String, u32, bool)>,
}

/// A node with its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeSlots {
    pub(super) name: String,
    pub(super) slots: u32,
}

/// The nodes of a job, each once, in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobNodes {
    nodes: Vec<NodeSlots>,
    /// The option or variable that names them.
    origin: String,
}

/// The division of processes over nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mapping {
    /// `true` for one process after another on each node, `false` to fill each node.
    by_node: bool,
    /// The number of processes on each node, or on each part of a node.
    procs_each: Option<u32>,
    /// `true` if a node can have more processes than slots.
    oversubscribes: bool,
}

impl Mapping {
    /// Returns the division that the options select.
    pub(super) fn of(args: &Run) -> Self {
        let map_by = args.map_by.unwrap_or_default();
        Self {
            by_node: map_by.part.map_by() == MapBy::Level(Level::Node),
            procs_each: map_by.procs_each,
            oversubscribes: args.habits.oversubscribe || map_by.oversubscribe == Some(true),
        }
    }
}

impl JobNodes {
    /// Returns the nodes of a list, or `None` if all of them are this node. `host` is the name of this node in the maps.
    pub(super) fn of(named: NamedNodes, host: &str) -> Option<Self> {
        let NamedNodes { origin, all } = named;
        if all.iter().all(|(.., is_here)| *is_here) {
            return None;
        }
        let mut nodes: Vec<NodeSlots> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for (name, slots, is_here) in all {
            let name = if is_here { host.to_owned() } else { name };
            let place = *places.entry(name.clone()).or_insert(nodes.len());
            match nodes.get_mut(place) {
                Some(node) => node.slots = node.slots.saturating_add(slots),
                None => nodes.push(NodeSlots { name, slots }),
            }
        }
        Some(Self { nodes, origin })
    }

    /// Returns the number of all slots.
    fn num_slots(&self) -> u64 {
        self.nodes.iter().map(|node| u64::from(node.slots)).sum()
    }

    /// Returns the number of processes without `-n`.
    ///
    /// # Errors
    /// No node has a slot.
    pub(super) fn num_procs(&self, args: &Run) -> Result<u32, Failure> {
        let wanted = match args.map_by.and_then(|map_by| map_by.procs_each) {
            Some(each) => u64::from(each) * u64::try_from(self.nodes.len()).unwrap_or(u64::MAX),
            None => self.num_slots(),
        };
        match u32::try_from(wanted) {
            Ok(0) => {
                let failure =
                    Failure::usage(format!("{}: no node in the list has a slot", self.origin));
                Err(failure
                    .cure("use -n N for the number of processes, or give slots, as in n1:4,n2:4"))
            }
            Ok(wanted) => Ok(wanted),
            Err(_) => Err(Failure::usage(
                "the number of processes exceeds the largest rank",
            )),
        }
    }

    /// Returns the layout of a number of processes.
    ///
    /// # Errors
    /// The nodes have too few slots, or their names are no names of nodes.
    pub(super) fn layout(
        &self,
        host: &str,
        num_procs: u32,
        mapping: Mapping,
        limits: &Limits,
    ) -> Result<Layout, Failure> {
        let ranks = self.divide(num_procs, mapping)?;
        let invalid = |error: pmix_map::Error| Failure::usage(format!("{}: {error}", self.origin));
        let (mut nodes, mut procs) = (NodeListBuilder::new(limits), ProcMapBuilder::new(limits));
        for (node, ranks) in self.nodes.iter().zip(ranks) {
            if ranks.is_empty() {
                continue;
            }
            nodes.name(node.name.as_bytes()).map_err(invalid)?;
            for (first, last) in ranks {
                let range = (Rank::new(first), Rank::new(last));
                procs.range(range.0, range.1).map_err(invalid)?;
            }
            procs.end_node().map_err(invalid)?;
        }
        Layout::of_nodes(host.as_bytes(), nodes.finish(), procs.finish()).map_err(refused)
    }

    /// Returns the ranks of each node, as inclusive ranges.
    fn divide(&self, num_procs: u32, mapping: Mapping) -> Result<Vec<Vec<(u32, u32)>>, Failure> {
        let Mapping {
            by_node,
            procs_each,
            oversubscribes,
        } = mapping;
        let most = |node: &NodeSlots| match procs_each {
            Some(each) if by_node => u64::from(each),
            _ => u64::from(node.slots),
        };
        let room: u64 = self.nodes.iter().map(most).sum();
        if u64::from(num_procs) > room && !oversubscribes {
            let message = format!(
                "{}: {num_procs} processes need more than the {room} slots of the nodes",
                self.origin
            );
            return Err(Failure::usage(message).cure(
                "give the number of slots of each node, as in --host n1:4,n2:4 or `n1 slots=4`, or use --oversubscribe",
            ));
        }
        let mut counts: Vec<u64> = self.nodes.iter().map(most).collect();
        let mut divided = vec![Vec::<(u32, u32)>::new(); self.nodes.len()];
        let mut next = 0;
        let mut give = |place: usize, num: u32| {
            if num > 0
                && let Some(ranks) = divided.get_mut(place)
            {
                let last = next + (num - 1);
                match ranks.last_mut() {
                    Some(range) if range.1.checked_add(1) == Some(next) => range.1 = last,
                    _ => ranks.push((next, last)),
                }
                next = next.saturating_add(num);
            }
        };
        let mut left = num_procs;
        let is_cyclic = by_node && procs_each.is_none();
        while left > 0 {
            let before = left;
            for place in 0..self.nodes.len() {
                let room = counts.get(place).copied().unwrap_or_default();
                let wanted = if is_cyclic { 1 } else { left };
                let num = u32::try_from(room)
                    .unwrap_or(u32::MAX)
                    .min(wanted)
                    .min(left);
                give(place, num);
                left -= num;
                if let Some(count) = counts.get_mut(place) {
                    *count -= u64::from(num);
                }
            }
            if left == before {
                // All slots are taken, and processes may share them: another round.
                counts = self.nodes.iter().map(|node| most(node).max(1)).collect();
            }
        }
        Ok(divided)
    }
}

/// Returns the settings for agents on other nodes.
///
/// # Errors
/// The command that reaches nodes is no command.
pub(super) fn agents(several: &Several) -> Result<Agents, Failure> {
    let reach = match &several.launch_agent {
        None => REACH.iter().map(OsString::from).collect(),
        Some(text) => {
            let words = shlex::split(text).filter(|words| !words.is_empty());
            let invalid = || {
                let message = format!("--launch-agent: `{text}` is not a command");
                Failure::usage(message)
                    .cure("for example --launch-agent 'ssh -p 2222', or 'podman exec {node}'")
            };
            words
                .ok_or_else(invalid)?
                .into_iter()
                .map(OsString::from)
                .collect()
        }
    };
    let own = || {
        std::env::current_exe().map_or_else(|_| "pmix".into(), std::path::PathBuf::into_os_string)
    };
    let program = several
        .node_command
        .clone()
        .map_or_else(own, std::path::PathBuf::into_os_string);
    Ok(Agents {
        reach,
        command: vec![program, "node".into(), "--stdio".into()],
        start_timeout: several.start_timeout.unwrap_or(START_TIMEOUT),
    })
}
