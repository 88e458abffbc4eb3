// SPDX-License-Identifier: MIT OR Apache-2.0
//! The division of the processes of a job over nodes with slots.

use std::collections::HashMap;

use pmix_map::{Limits, NodeListBuilder, ProcMapBuilder};
use pmix_types::Rank;

use crate::{Error, Layout};

/// A node with its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSlots {
    /// The name of the node in the maps of jobs.
    pub name: String,
    /// The number of processes that the node has room for.
    pub slots: u32,
}

/// The manner in which processes are divided over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// `true` for one process after another on each node, `false` to fill each node.
    pub by_node: bool,
    /// The number of processes on each node, or on each part of a node.
    pub procs_each: Option<u32>,
    /// `true` if a node can have more processes than slots.
    pub oversubscribes: bool,
}

/// The nodes have too few slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewSlots {
    /// The number of slots of all nodes.
    pub room: u64,
}

/// The ranks of nodes, as inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DividedRanks {
    nodes: Vec<RanksOfNode>,
    /// The places of the nodes by name, because a cyclic division comes to each node again and again.
    places: HashMap<String, usize>,
    next: u32,
}

/// The ranks of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RanksOfNode {
    name: String,
    ranges: Vec<(u32, u32)>,
    num_ranks: u32,
}

impl DividedRanks {
    /// Gives the next ranks to nodes.
    ///
    /// # Errors
    /// Returns [`TooFewSlots`] if the nodes have fewer slots than there are processes, and must not be oversubscribed.
    pub fn add(
        &mut self,
        nodes: &[NodeSlots],
        num_procs: u32,
        division: Division,
    ) -> Result<(), TooFewSlots> {
        let Division {
            by_node,
            procs_each,
            oversubscribes,
        } = division;
        let most = |node: &NodeSlots| match procs_each {
            Some(each) if by_node => u64::from(each),
            _ => u64::from(node.slots),
        };
        let room: u64 = nodes.iter().map(most).sum();
        if nodes.is_empty() || u64::from(num_procs) > room && !oversubscribes {
            return Err(TooFewSlots { room });
        }
        let mut counts: Vec<u64> = nodes.iter().map(most).collect();
        let mut left = num_procs;
        let is_cyclic = by_node && procs_each.is_none();
        while left > 0 {
            let before = left;
            for (node, count) in nodes.iter().zip(&mut counts) {
                let wanted = if is_cyclic { 1 } else { left };
                let room = u32::try_from(*count).unwrap_or(u32::MAX);
                let num = room.min(wanted).min(left);
                self.give(&node.name, num);
                left -= num;
                *count -= u64::from(num);
            }
            if left == before {
                // All slots are taken, and processes may share them: another round.
                counts = nodes.iter().map(|node| most(node).max(1)).collect();
            }
        }
        Ok(())
    }

    fn give(&mut self, name: &str, num: u32) {
        if num == 0 {
            return;
        }
        let place = self.places.get(name).copied().unwrap_or_else(|| {
            let place = self.nodes.len();
            self.places.insert(name.to_owned(), place);
            self.nodes.push(RanksOfNode {
                name: name.to_owned(),
                ..RanksOfNode::default()
            });
            place
        });
        let (first, last) = (self.next, self.next.saturating_add(num - 1));
        if let Some(node) = self.nodes.get_mut(place) {
            node.num_ranks = node.num_ranks.saturating_add(num);
            match node.ranges.last_mut() {
                Some(range) if range.1.checked_add(1) == Some(first) => range.1 = last,
                _ => node.ranges.push((first, last)),
            }
        }
        self.next = self.next.saturating_add(num);
    }

    /// Returns the number of ranks of a node.
    #[must_use]
    pub fn num_at(&self, name: &str) -> u32 {
        let place = self.places.get(name).copied();
        let node = place.and_then(|place| self.nodes.get(place));
        node.map_or(0, |node| node.num_ranks)
    }

    /// Returns the layout of the job. `host` is the name of this node.
    ///
    /// # Errors
    /// Returns [`Error`] if a name is no name of a node, or beyond the limits.
    pub fn layout(&self, host: &str, limits: &Limits) -> Result<Layout, Error> {
        let invalid = |error: pmix_map::Error| Error::request(error.to_string());
        let (mut nodes, mut procs) = (NodeListBuilder::new(limits), ProcMapBuilder::new(limits));
        for node in &self.nodes {
            nodes.name(node.name.as_bytes()).map_err(invalid)?;
            for (first, last) in &node.ranges {
                let (first, last) = (Rank::new(*first), Rank::new(*last));
                procs.range(first, last).map_err(invalid)?;
            }
            procs.end_node().map_err(invalid)?;
        }
        Layout::of_nodes(host.as_bytes(), nodes.finish(), procs.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(nodes: &[(&str, u32)], num_procs: u32, division: Division) -> String {
        let nodes = nodes.iter().map(|(name, slots)| NodeSlots {
            name: (*name).to_owned(),
            slots: *slots,
        });
        let nodes: Vec<_> = nodes.collect();
        let mut ranks = DividedRanks::default();
        // A second application continues the ranks.
        for num_procs in [num_procs - 1, 1] {
            if let Err(few) = ranks.add(&nodes, num_procs, division) {
                return format!("{} slots", few.room);
            }
        }
        let layout = ranks.layout("a", &Limits::default()).unwrap();
        let mut text = Vec::new();
        layout.procs().write_text(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn nodes_are_filled_or_take_turns_or_are_oversubscribed() {
        let nodes = [("a", 2), ("b", 0), ("c", 2)];
        let division = Division::default();
        assert_eq!(divided(&nodes, 4, division), "0,1,3;2");
        assert_eq!(divided(&nodes, 6, division), "4 slots");
        let by_node = Division {
            by_node: true,
            ..division
        };
        assert_eq!(divided(&nodes, 4, by_node), "0,2,3;1");
        let oversubscribes = Division {
            oversubscribes: true,
            ..division
        };
        assert_eq!(divided(&nodes, 7, oversubscribes), "0,1,4,5,6;2,3");
        let each = Division {
            procs_each: Some(1),
            ..by_node
        };
        assert_eq!(divided(&nodes, 3, each), "0,2;1");
        assert_eq!(divided(&nodes, 5, each), "3 slots");
    }
}
