// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distribution of the processes of a job over its nodes.

use pmix_map::{Limits, NodeList, NodeListBuilder, ProcMap, ProcMapBuilder};
use pmix_types::Rank;

use crate::Error;

/// The distribution of the processes of a job over its nodes, and the ranks on this node.
#[derive(Clone, Debug)]
pub struct Layout {
    host: Vec<u8>,
    nodes: NodeList,
    procs: ProcMap,
    here: Vec<Rank>,
}

impl Layout {
    /// Returns a layout with all processes on this node, ranks from 0.
    ///
    /// # Errors
    /// Returns [`Error`] if there are no processes, or more than there are ranks.
    pub fn on_one_node(host: &[u8], num_procs: u32) -> Result<Self, Error> {
        let limits = Limits::default();
        let refused = |error: pmix_map::Error| Error::request(error.to_string());
        let Some(last) = num_procs.checked_sub(1) else {
            return Err(Error::request(
                "there are no processes to start: give -n N with a number above 0",
            ));
        };
        let mut nodes = NodeListBuilder::new(&limits);
        nodes.name(host).map_err(refused)?;
        let mut procs = ProcMapBuilder::new(&limits);
        procs
            .range(Rank::new(0), Rank::new(last))
            .map_err(refused)?;
        procs.end_node().map_err(refused)?;
        Self::of_maps(host, nodes.finish(), procs.finish())
    }

    /// Returns the layout of a larger job, of which this node runs a part.
    ///
    /// # Errors
    /// Returns [`Error`] if the maps have different numbers of nodes, or if this node is missing or has no process.
    pub fn of_maps(host: &[u8], nodes: NodeList, procs: ProcMap) -> Result<Self, Error> {
        let name = String::from_utf8_lossy(host).into_owned();
        let layout = Self::of_nodes(host, nodes, procs)?;
        match layout.here.is_empty() {
            true if layout.nodes.position(host).is_none() => {
                Err(Error::request(format!("the node map does not have {name}")))
            }
            true => Err(Error::request(format!(
                "the process map has no process on {name}"
            ))),
            false => Ok(layout),
        }
    }

    /// Returns the layout of a job on several nodes, for a controller whose node need not have a process.
    ///
    /// # Errors
    /// Returns [`Error`] if the maps have different numbers of nodes.
    pub fn of_nodes(host: &[u8], nodes: NodeList, procs: ProcMap) -> Result<Self, Error> {
        if nodes.len() != procs.num_nodes() {
            return Err(Error::request(format!(
                "the node map has {} nodes, the process map {}",
                nodes.len(),
                procs.num_nodes()
            )));
        }
        let ranks = nodes.position(host).and_then(|index| procs.ranks_of(index));
        let mut here: Vec<Rank> = ranks.into_iter().flatten().collect();
        here.sort_unstable();
        Ok(Self {
            host: host.to_vec(),
            nodes,
            procs,
            here,
        })
    }

    /// Returns the name of this node.
    #[must_use]
    pub fn host(&self) -> &[u8] {
        &self.host
    }

    /// Returns the nodes of the job.
    #[must_use]
    pub fn nodes(&self) -> &NodeList {
        &self.nodes
    }

    /// Returns the ranks of each node.
    #[must_use]
    pub fn procs(&self) -> &ProcMap {
        &self.procs
    }

    /// Returns the number of processes on all nodes.
    #[must_use]
    pub fn num_procs(&self) -> u64 {
        self.procs.num_ranks()
    }

    /// Returns the names of the other nodes that have processes.
    pub(crate) fn others(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.filter(|(index, name)| self.num_at(*index) > 0 && *name != self.host);
        nodes.map(|(_, name)| name)
    }

    /// Returns the number of processes of a node.
    pub(crate) fn num_at(&self, node: usize) -> usize {
        // The map has runs of ranks, which are not expanded for the number.
        self.procs
            .ranks_of(node)
            .map_or(0, |ranks| ranks.size_hint().0)
    }

    /// Returns the name of the node of a rank; that of this node for a rank that no node has.
    #[must_use]
    pub fn host_of(&self, rank: Rank) -> Vec<u8> {
        let node = self
            .procs
            .node_of(rank)
            .and_then(|node| self.nodes.nth(node));
        node.map_or_else(|| self.host.clone(), |name| name.to_vec())
    }

    /// Returns the ranks on this node in ascending order.
    #[must_use]
    pub fn here(&self) -> &[Rank] {
        &self.here
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(host: &str, nodes: &str, procs: &str) -> Result<Layout, Error> {
        let limits = Limits::default();
        let nodes = NodeList::parse_text(nodes.as_bytes(), &limits).unwrap();
        let procs = ProcMap::parse_text(procs.as_bytes(), &limits).unwrap();
        Layout::of_maps(host.as_bytes(), nodes, procs)
    }

    fn here(layout: &Layout) -> Vec<u32> {
        layout.here().iter().map(|rank| rank.as_raw()).collect()
    }

    #[test]
    fn one_node_has_all_ranks() {
        let layout = Layout::on_one_node(b"n1", 3).unwrap();
        assert_eq!(here(&layout), [0, 1, 2]);
        assert_eq!(layout.num_procs(), 3);
        assert_eq!(layout.nodes().nth(0).unwrap(), b"n1");
        assert!(Layout::on_one_node(b"n1", 0).is_err());
    }

    #[test]
    fn of_a_larger_job_only_the_ranks_of_this_node_are_here() {
        let layout = layout("b", "a,b", "0,2,4;1,3,5").unwrap();
        assert_eq!(here(&layout), [1, 3, 5]);
        assert_eq!(layout.num_procs(), 6);
    }

    #[test]
    fn maps_that_leave_this_node_out_are_refused() {
        let why = |host, nodes, procs| layout(host, nodes, procs).unwrap_err().to_string();
        assert_eq!(why("c", "a,b", "0;1"), "the node map does not have c");
        assert_eq!(
            why("a", "a,b", "0"),
            "the node map has 2 nodes, the process map 1"
        );
        assert_eq!(
            why("b", "a,b", "0,1;"),
            "the process map has no process on b"
        );
    }
}
