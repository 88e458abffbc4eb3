// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits on the cost of unpacking a message.
//!
//! Source: none outside; the limits are this project's own, in bytes and in levels.

/// The limits on the cost of unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The greatest depth of nested arrays; a message without arrays needs 0.
    pub depth: u32,
    /// The bytes of memory that a message may take for each of its bytes.
    pub memory_factor: usize,
    /// The additional bytes of memory that any message may take.
    pub memory_base: usize,
}

impl Default for Limits {
    /// Returns 64 levels, and eight times the message plus 63 KiB, which is less than 64 KiB
    /// including an error.
    fn default() -> Self {
        Self {
            depth: Self::DEPTH,
            memory_factor: 8,
            memory_base: 63 * 1024,
        }
    }
}

impl Limits {
    /// The default depth of nested arrays in packed data.
    pub const DEPTH: u32 = 64;

    /// Returns the memory that a message of this length may take.
    pub(crate) const fn memory(&self, len: usize) -> usize {
        len.saturating_mul(self.memory_factor)
            .saturating_add(self.memory_base)
    }
}
