// SPDX-License-Identifier: MIT OR Apache-2.0
//! The knowledge of a host about its nodes, and their limits.

use pmix_types::Nspace;

use crate::groups::Processes;

/// The knowledge of a host about its nodes. An inner node of a tree has one number for each of its branches.
pub trait Nodes: Processes {
    /// Returns the nodes that processes of a job are or were at, in any order. [`Processes::server_of`] returns the same
    /// numbers; in a tree it returns `None` for a process that is on no branch.
    fn nodes_of_job(&self, nspace: &Nspace<'_>) -> Vec<NodeShare>;

    /// Returns `true` if a node is lost, so that it will not call.
    fn is_lost(&self, node: usize) -> bool;
}

/// The processes of a job on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeShare {
    /// The number of the node.
    pub node: usize,
    /// The number of its processes that have not ended.
    pub num_running: usize,
}

impl NodeShare {
    /// Creates the share of a node.
    #[must_use]
    pub const fn new(node: usize, num_running: usize) -> Self {
        Self { node, num_running }
    }
}

/// The limits of the calls of one node that are not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectiveLimits {
    /// The number of calls.
    pub calls: usize,
    /// The memory of their contributions, and of the collectives that they began, in bytes.
    pub bytes: usize,
}

impl Default for CollectiveLimits {
    fn default() -> Self {
        // As many collectives as the server of one node has under way for a job.
        let calls = 1 << 16;
        Self {
            calls,
            bytes: 1 << 30,
        }
    }
}
