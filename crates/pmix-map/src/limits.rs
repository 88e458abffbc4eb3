// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large a map may become before it is refused.

/// Upper bounds on what a parser accepts; exceeding one is an error, never an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most names of a node list, and most nodes of a process map.
    pub max_nodes: u64,
    /// Most ranks of a process map, over all nodes.
    pub max_ranks: u64,
    /// Most bytes of decoded text.
    pub max_bytes: u64,
}

impl Default for Limits {
    /// 16,777,216 nodes, 134,217,728 ranks (a million nodes of 128 and a little more), 2 GiB of text.
    fn default() -> Self {
        Self {
            max_nodes: 1 << 24,
            max_ranks: 1 << 27,
            max_bytes: 1 << 31,
        }
    }
}
