// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of the publish and lookup service.

/// Limits what processes may publish and wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PubSubLimits {
    /// The most bytes that the processes of one job may have published at a time.
    pub bytes_per_job: usize,
    /// The most keys that one process may wait for at a time.
    pub waiting_keys_per_proc: usize,
    /// The most keys that one lookup may name.
    pub keys_per_lookup: usize,
}

impl Default for PubSubLimits {
    fn default() -> Self {
        Self {
            bytes_per_job: 64 << 20,
            waiting_keys_per_proc: 4096,
            keys_per_lookup: 1 << 16,
        }
    }
}
