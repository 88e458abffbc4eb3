// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a message may cost.

/// What unpacking may cost, whatever the bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How deep values may be nested in arrays.
    pub depth: u32,
    /// How many bytes of memory a message may take for each byte it has.
    pub memory_factor: usize,
    /// How many bytes of memory any message may take beyond that.
    pub memory_base: usize,
}

impl Default for Limits {
    /// 64 levels; eight times the message and 63 KiB, which with an error makes less than 64 KiB.
    fn default() -> Self {
        Self {
            depth: 64,
            memory_factor: 8,
            memory_base: 63 * 1024,
        }
    }
}

impl Limits {
    /// The memory that a message of this length may take.
    pub(crate) const fn memory(&self, len: usize) -> usize {
        len.saturating_mul(self.memory_factor)
            .saturating_add(self.memory_base)
    }
}
