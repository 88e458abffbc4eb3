// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of what a process may put.
//!
//! Source: none outside; the limits are this project's own, in bytes.

/// Bounds what a process may have put, and what a commit may hold: twice as many keys, as a global
/// value stands in it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLimits {
    /// The number of bytes ([`ModexStore::num_bytes`](crate::ModexStore::num_bytes)).
    pub bytes: usize,
    /// The number of keys ([`ModexStore::num_keys`](crate::ModexStore::num_keys)).
    pub keys: usize,
}

impl CommitLimits {
    /// Bounds nothing.
    pub const NONE: Self = Self {
        bytes: usize::MAX,
        keys: usize::MAX,
    };

    /// Returns the limits that remain after one more key of this many bytes, or `None` if the key
    /// exceeds them.
    pub(crate) fn beside(self, bytes: usize) -> Option<Self> {
        Some(Self {
            bytes: self.bytes.checked_sub(bytes)?,
            keys: self.keys.checked_sub(1)?,
        })
    }
}
