// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large a map may become before it is refused.
//!
//! Source: none outside; the figures are chosen for the largest machines that are known.

/// Bounds what a parser accepts; input beyond a bound is an error before anything is allocated for
/// it.
///
/// A few bytes can stand for a large map, so what a value costs has bounds of its own: the first
/// three say how much a value may stand for, the others how much memory that may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The greatest number of names in a node list, and of nodes in a process map.
    pub max_nodes: u64,
    /// The greatest number of ranks in a process map, over all nodes.
    pub max_ranks: u64,
    /// The greatest number of bytes of the text that a map stands for, whether or not that text is
    /// ever made.
    pub max_bytes: u64,
    /// The greatest number of bytes of text that is made: an inflated value, or a map written out as a list.
    pub max_text: u64,
    /// The greatest number of bytes of memory that a map takes once it is decoded.
    pub max_memory: u64,
    /// The greatest number of bytes of one name.
    pub max_name: u64,
}

impl Default for Limits {
    /// 16,777,216 nodes, 134,217,728 ranks (a million nodes of 128 and a little more), 2 GiB of
    /// text that is folded and 256 MiB that is made, 256 MiB of memory, names of 1 MiB.
    fn default() -> Self {
        Self {
            max_nodes: 1 << 24,
            max_ranks: 1 << 27,
            max_bytes: 1 << 31,
            max_text: 1 << 28,
            max_memory: 1 << 28,
            max_name: 1 << 20,
        }
    }
}

impl Limits {
    /// Checks that text of so many bytes may be made.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` with the number of bytes and the limit.
    pub fn check_text(&self, len: usize) -> Result<(), crate::Error> {
        match u64::try_from(len) {
            Ok(len) if len <= self.max_text => Ok(()),
            _ => Err(crate::Error::limit("bytes of text", self.max_text)),
        }
    }

    /// Checks that a map may take so many bytes of memory.
    pub(crate) fn check_memory(&self, bytes: usize) -> Result<(), crate::Error> {
        match u64::try_from(bytes) {
            Ok(bytes) if bytes <= self.max_memory => Ok(()),
            _ => Err(crate::Error::limit("bytes of memory", self.max_memory)),
        }
    }
}
