// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs on several nodes: the nodes that `--host`, `--hostfile` and allocations name, and the division of the processes
//! over them.

use std::ffi::OsString;
use std::time::Duration;

use pmix_launch::{Agents, DividedRanks, Division, Layout, MapBy, NodeSlots, TooFewSlots};
use pmix_map::Limits;
use pmix_topology::Level;

use crate::args::{Run, Several};
use crate::failure::Failure;

/// The time after which a node that has not answered fails the job.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The command that reaches a node. It must not ask questions, because the agent has no terminal. It notices within 30 s
/// that a node has no power or no network. It leaves no master connection, which would be an orphan of the job; one that
/// exists is used.
const REACH: &[&str] = &[
    "ssh",
    "-x",
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ServerAliveInterval=10",
    "-o",
    "ServerAliveCountMax=3",
    "-o",
    "ControlMaster=no",
];

/// The nodes that an option names, with their slots; `true` for this node.
pub(super) struct NamedNodes {
    /// The option with its value.
    pub(super) origin: String,
    pub(super) all: Vec<(String, u32, bool)>,
}

/// The nodes of a job, each once, in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobNodes {
    nodes: Vec<NodeSlots>,
    /// The option or variable that names them.
    origin: String,
}

/// Returns the division of processes over nodes that the options select.
pub(super) fn division(args: &Run) -> Division {
    let map_by = args.map_by.unwrap_or_default();
    Division {
        by_node: map_by.part.map_by() == MapBy::Level(Level::Node),
        procs_each: map_by.procs_each,
        oversubscribes: args.habits.oversubscribe || map_by.oversubscribe == Some(true),
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
        division: Division,
        limits: &Limits,
    ) -> Result<Layout, Failure> {
        let mut ranks = DividedRanks::default();
        let divided = ranks.add(&self.nodes, num_procs, division);
        divided.map_err(|TooFewSlots { room }| {
            let message = format!(
                "{}: {num_procs} processes need more than the {room} slots of the nodes",
                self.origin
            );
            Failure::usage(message).cure(
                "give the number of slots of each node, as in --host n1:4,n2:4 or `n1 slots=4`, or use --oversubscribe",
            )
        })?;
        let invalid = |error| Failure::usage(format!("{}: {error}", self.origin));
        ranks.layout(host, limits).map_err(invalid)
    }

    /// Returns the nodes with their slots.
    pub(super) fn into_slots(self) -> Vec<NodeSlots> {
        self.nodes
    }
}

/// Returns the settings for agents on other nodes.
///
/// # Errors
/// The command that reaches nodes is no command.
pub(super) fn agents(
    several: &Several,
    nodes: Vec<NodeSlots>,
    division: Division,
) -> Result<Agents, Failure> {
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
        nodes,
        division,
    })
}
