// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits on the data that a process may put.
//!
//! Source: none outside; the limits are this project's own, in bytes.

/// Limits on the data that a process may have put. A commit may have twice as many keys, because it
/// contains a global value twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLimits {
    /// The number of bytes ([`ModexStore::num_bytes`](crate::ModexStore::num_bytes)).
    pub bytes: usize,
    /// The number of keys ([`ModexStore::num_keys`](crate::ModexStore::num_keys)).
    pub keys: usize,
}

impl CommitLimits {
    /// No limits.
    pub const NONE: Self = Self {
        bytes: usize::MAX,
        keys: usize::MAX,
    };

    /// Returns the limits that remain after one more key with this number of bytes, or `None` if
    /// the key exceeds them.
    pub(crate) fn beside(self, bytes: usize) -> Option<Self> {
        Some(Self {
            bytes: self.bytes.checked_sub(bytes)?,
            keys: self.keys.checked_sub(1)?,
        })
    }
}
