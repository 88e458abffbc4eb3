// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes of spawned jobs: those that a request names, those that it adds to the session, and the layout of its
//! processes on them.
//!
//! | directive | meaning |
//! | --- | --- |
//! | `PMIX_HOST`, `PMIX_HOSTFILE` | the nodes of the session on which the processes are placed |
//! | `PMIX_ADD_HOST`, `PMIX_ADD_HOSTFILE` | nodes that are added to the session, or slots that are added to its nodes |
//!
//! Without the first two, all nodes of the session with free slots are used. A node of the session that has no process yet
//! gets its agent with the first job that has one there.

use std::collections::{BTreeMap, HashMap};

use pmix_map::Limits;
use pmix_topology::Level;
use pmix_types::{Proc, Rank, Status};

use super::node;
use super::request::{NamedHost, NamedHosts, Refusal, Request};
use super::{Controller, Cx};
use crate::named::Named;
use crate::nodes::MOST_NODES;
use crate::plan::Part;
use crate::{DividedRanks, Division, Layout, MapBy, NodeSlots, Plan, TooFewSlots};

/// The nodes of a session with their slots.
#[derive(Debug, Default)]
pub(crate) struct SessionNodes {
    nodes: Vec<NodeSlots>,
}

impl SessionNodes {
    /// Returns the nodes that a plan names.
    pub(crate) fn of(plan: &Plan) -> Self {
        let nodes = match &plan.part {
            Part::Controller(agents) => agents.nodes.clone(),
            Part::Alone | Part::Member { .. } => Vec::new(),
        };
        Self { nodes }
    }

    /// Adds nodes, or slots to known nodes.
    fn add(&mut self, hosts: &[NamedHost], host: &[u8]) -> Result<(), Refusal> {
        let mut places = places_of(&self.nodes);
        for one in hosts {
            let (name, slots) = (one.name_of(host), one.slots.unwrap_or(1));
            let is_full = self.nodes.len() > MOST_NODES;
            let place = places.get(&name).copied();
            match place.and_then(|place| self.nodes.get_mut(place)) {
                Some(node) => node.slots = node.slots.saturating_add(slots),
                // This node needs no agent.
                None if is_full => {
                    let why = format!("the session has {MOST_NODES} nodes, the limit");
                    return Err(Refusal::new(Status::ERR_OUT_OF_RESOURCE, why));
                }
                None => {
                    places.insert(name.clone(), self.nodes.len());
                    self.nodes.push(NodeSlots { name, slots });
                }
            }
        }
        Ok(())
    }
}

impl Controller {
    /// Returns the layout of a requested job. Nodes that the request adds belong to the session from here on.
    pub(crate) fn lay_out(&mut self, cx: &Cx<'_>, request: &Request) -> Result<Layout, Refusal> {
        let host = cx.plan.layout.host();
        let num_procs = request.num_procs()?;
        let on_this_node =
            || Layout::on_one_node(host, num_procs).map_err(|error| Refusal::of(&error));
        let Part::Controller(agents) = &cx.plan.part else {
            request.check_hosts_here(host)?;
            return on_this_node();
        };
        if let Some(target) = request.debug_target() {
            return match are_here(cx, target) {
                true => on_this_node(),
                false => Err(Refusal::unsupported("debugger daemons on other nodes")),
            };
        }
        self.nodes.add(&request.hosts.added, host)?;
        let division = division_of(request, agents.division);
        let mut ranks = DividedRanks::default();
        if !request.beside.is_empty() {
            let nodes = beside(cx, &request.beside);
            let division = Division {
                oversubscribes: true,
                ..Division::default()
            };
            let divided = ranks.add(&nodes, num_procs, division);
            divided.map_err(|few| too_few(num_procs, few, &nodes))?;
        } else {
            let mut free = self.free_slots(cx);
            let none = NamedHosts::default();
            let of_apps = request.app_hosts.iter().chain(std::iter::repeat(&none));
            for (app, hosts) in request.apps.iter().zip(of_apps) {
                let selected = hosts.selected.as_ref().or(request.hosts.selected.as_ref());
                let nodes = match selected {
                    Some(selected) => select(selected, &free, host)?,
                    None => free.clone(),
                };
                let before: Vec<_> = free.iter().map(|node| ranks.num_at(&node.name)).collect();
                let divided = ranks.add(&nodes, app.num_procs, division);
                divided.map_err(|few| too_few(app.num_procs, few, &nodes))?;
                for (node, before) in free.iter_mut().zip(before) {
                    let taken = ranks.num_at(&node.name) - before;
                    node.slots = node.slots.saturating_sub(taken);
                }
            }
        }
        let name = String::from_utf8_lossy(host);
        let layout = ranks.layout(&name, &Limits::default());
        let layout = layout.map_err(|error| Refusal::of(&error))?;
        if layout.others().next().is_some() {
            request.check_for_several_nodes()?;
        }
        Ok(layout)
    }

    /// Returns the nodes of the session with the slots that no process has. Those of jobs that are prepared count as
    /// taken.
    fn free_slots(&mut self, cx: &Cx<'_>) -> Vec<NodeSlots> {
        let places = cx.agent.places();
        let mut taken = places.num_running_by_node();
        let prepared = self.spawning.queue().pending();
        for layout in prepared.filter_map(|spawn| spawn.unregistered_layout()) {
            for (index, name) in layout.nodes().iter().enumerate() {
                let num = u64::try_from(layout.num_at(index)).unwrap_or(u64::MAX);
                let known = taken.entry(name).or_insert(0);
                *known = known.saturating_add(num);
            }
        }
        let free = self.nodes.nodes.iter().map(|node| {
            let name = node.name.as_bytes();
            let taken = taken.get(name).copied().unwrap_or_default();
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            let slots = match places.is_lost_by_name(name) {
                true => 0,
                false => node.slots.saturating_sub(taken),
            };
            NodeSlots {
                name: node.name.clone(),
                slots,
            }
        });
        free.collect()
    }
}

/// Refuses a spawn that must not exceed the number of processors, if it would do so on one of its nodes together with the
/// processes that run there. The processors of a node without an agent are not known.
pub(crate) fn check_processors(
    cx: &Cx<'_>,
    request: &Request,
    layout: &Layout,
) -> Result<(), Refusal> {
    if !request.is_within_processors {
        return Ok(());
    }
    let places = cx.agent.places();
    let running = places.num_running_by_node();
    for (index, name) in layout.nodes().iter().enumerate() {
        let most = match name == layout.host() {
            true => Some(node::num_processors()),
            false => places.num_processors(&name),
        };
        let num_procs = u64::try_from(layout.num_at(index)).unwrap_or(u64::MAX);
        let running = running.get(&name).copied().unwrap_or_default();
        let node = cx.plan.has_agents().then(|| String::from_utf8_lossy(&name));
        if let Some(most) = most {
            check_on_node(node.as_deref(), num_procs, running, most)?;
        }
    }
    Ok(())
}

/// Refuses the job of a command line that must not exceed the number of processors of this node.
pub(crate) fn check_processors_here(request: &Request, num_procs: usize) -> Result<(), Refusal> {
    let num_procs = u64::try_from(num_procs).unwrap_or(u64::MAX);
    match request.is_within_processors {
        true => check_on_node(None, num_procs, 0, node::num_processors()),
        false => Ok(()),
    }
}

fn check_on_node(
    node: Option<&str>,
    num_procs: u64,
    running: u64,
    most: u32,
) -> Result<(), Refusal> {
    if running.saturating_add(num_procs) <= u64::from(most) {
        return Ok(());
    }
    let of_node = node.map_or_else(String::new, |node| format!(" of {node}"));
    let why = format!(
        "{num_procs} more processes exceed the {most} processors{of_node}: {running} processes are already running"
    );
    Err(Refusal::new(Status::ERR_JOB_FAILED_TO_MAP, why))
}

/// Returns the division of the processes of a request: that of the request, else that of the first job.
fn division_of(request: &Request, first: Division) -> Division {
    let is_by_node = request.map_by == Some(MapBy::Level(Level::Node));
    let each = request.procs_each.and_then(|each| u32::try_from(each).ok());
    Division {
        by_node: match request.map_by {
            Some(_) => is_by_node,
            None => first.by_node,
        },
        procs_each: each.filter(|_| is_by_node),
        oversubscribes: (first.oversubscribes || request.oversubscribes)
            && !request.is_within_processors,
    }
}

/// Returns the selected nodes of a session.
fn select(
    selected: &[NamedHost],
    free: &[NodeSlots],
    host: &[u8],
) -> Result<Vec<NodeSlots>, Refusal> {
    let (mut nodes, mut places) = (Vec::new(), HashMap::<String, usize>::new());
    let places_free = places_of(free);
    for one in selected {
        let name = one.name_of(host);
        let known = places_free.get(&name).and_then(|place| free.get(*place));
        let Some(known) = known else {
            let why = format!(
                "node {name} does not belong to the session: name it in `pmix run --host`, or add it with PMIX_ADD_HOST"
            );
            return Err(Refusal::new(Status::ERR_JOB_FAILED_TO_MAP, why));
        };
        let slots = one.slots.unwrap_or(known.slots);
        let place = places.get(&name).copied();
        match place.and_then(|place| nodes.get_mut(place)) {
            Some(NodeSlots { slots: known, .. }) if one.slots.is_some() => {
                *known = known.saturating_add(slots);
            }
            Some(_) => {}
            None => {
                places.insert(name.clone(), nodes.len());
                nodes.push(NodeSlots { name, slots });
            }
        }
    }
    Ok(nodes)
}

/// Returns the places of nodes by name. A request may name as many nodes as a session has.
fn places_of(nodes: &[NodeSlots]) -> HashMap<String, usize> {
    let nodes = nodes.iter().enumerate();
    nodes
        .map(|(place, node)| (node.name.clone(), place))
        .collect()
}

fn too_few(num_procs: u32, few: TooFewSlots, nodes: &[NodeSlots]) -> Refusal {
    const NAMED: usize = 8;
    let names: Vec<_> = nodes
        .iter()
        .take(NAMED)
        .map(|node| &node.name[..])
        .collect();
    let more = if nodes.len() > NAMED { ", ..." } else { "" };
    let why = format!(
        "{num_procs} processes need more than the {} free slots of {}{more}: give the nodes more slots, as in \
         `--host n1:4,n2:4`, or use --oversubscribe",
        few.room,
        names.join(", ")
    );
    Refusal::new(Status::ERR_JOB_FAILED_TO_MAP, why)
}

/// Returns the nodes of processes with the number of these processes on each.
fn beside(cx: &Cx<'_>, procs: &[Proc<'_>]) -> Vec<NodeSlots> {
    let mut counts = BTreeMap::<String, u32>::new();
    for (nspace, ranks) in Named::of(procs).iter() {
        let Some(job) = cx.agent.job(&nspace) else {
            continue;
        };
        let is_meant = |rank: Rank| ranks.contains(&rank) || ranks.contains(&Rank::WILDCARD);
        for process in job.processes().filter(|process| is_meant(process.rank)) {
            let name = job.plan().layout.host_of(process.rank);
            let name = String::from_utf8_lossy(&name).into_owned();
            *counts.entry(name).or_insert(0) += 1;
        }
    }
    let counts = counts.into_iter();
    counts
        .map(|(name, slots)| NodeSlots { name, slots })
        .collect()
}

/// Returns the number of nodes of processes.
pub(crate) fn num_nodes_beside(cx: &Cx<'_>, procs: &[Proc<'_>]) -> usize {
    beside(cx, procs).len()
}

/// Returns `true` if no process with this name is on another node.
fn are_here(cx: &Cx<'_>, target: &Proc<'_>) -> bool {
    let job = cx.agent.job(&target.nspace);
    let mut processes = job.into_iter().flat_map(|job| job.processes());
    !processes.any(|process| process.node.is_some() && target.rank.matches(process.rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> Vec<NodeSlots> {
        [("n1", 1), ("n2", 0), ("n3", 4)]
            .map(|(name, slots)| NodeSlots {
                name: name.to_owned(),
                slots,
            })
            .to_vec()
    }

    fn selected(list: &str) -> Result<String, String> {
        let mut hosts = NamedHosts::default();
        hosts.take(list.as_bytes(), false).map_err(|r| r.why)?;
        let nodes = select(&hosts.selected.unwrap_or_default(), &free(), b"n1");
        let nodes = nodes.map_err(|refusal| refusal.why)?;
        let words = nodes
            .iter()
            .map(|node| format!("{}:{}", node.name, node.slots));
        Ok(words.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn named_nodes_have_their_free_slots_or_those_of_the_request() {
        assert_eq!(selected("n3,localhost").unwrap(), "n3:4,n1:1");
        assert_eq!(selected("n2:3,n3:1").unwrap(), "n2:3,n3:1");
        assert_eq!(selected("n2:1,n2:1,n3,n3").unwrap(), "n2:2,n3:4");
        assert_eq!(selected("n[1-2]").unwrap(), "n1:1,n2:0");
        assert!(
            selected("n9")
                .unwrap_err()
                .contains("node n9 does not belong")
        );
        assert!(selected("n1:x:").is_err());
    }

    #[test]
    fn added_nodes_and_slots_belong_to_the_session() {
        let mut session = SessionNodes { nodes: free() };
        let mut hosts = NamedHosts::default();
        hosts.take(b"n2:2,n3,n4:7", true).unwrap();
        session.add(&hosts.added, b"n1").unwrap();
        let slots: Vec<_> = session.nodes.iter().map(|node| node.slots).collect();
        assert_eq!(slots, [1, 2, 5, 7]);
    }
}
