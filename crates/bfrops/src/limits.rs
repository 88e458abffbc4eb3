// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of what unpacking a message may cost.
//!
//! Source: none outside; the limits are this project's own, in bytes and in levels.

/// Bounds what unpacking may cost, whatever the bytes state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of arrays that may stand in one another; a message without arrays needs 0.
    pub depth: u32,
    /// The bytes of memory that a message may take for each byte it has.
    pub memory_factor: usize,
    /// The bytes of memory that any message may take beyond that.
    pub memory_base: usize,
}

impl Default for Limits {
    /// 64 levels; eight times the message and 63 KiB, which with an error makes less than 64 KiB.
    fn default() -> Self {
        Self {
            depth: Self::DEPTH,
            memory_factor: 8,
            memory_base: 63 * 1024,
        }
    }
}

impl Limits {
    /// The number of arrays that may stand in one another in what others are sent, by default.
    pub const DEPTH: u32 = 64;

    /// The memory that a message of this length may take.
    pub(crate) const fn memory(&self, len: usize) -> usize {
        len.saturating_mul(self.memory_factor)
            .saturating_add(self.memory_base)
    }
}
