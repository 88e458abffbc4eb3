// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much processes may ask to be done later.

/// How much processes may ask to be done later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLimits {
    /// The most paths that a job may ask to be removed when it, or processes of it, end.
    pub cleanups_per_job: usize,
    /// The most ways in which one process may be watched at a time.
    pub promises_per_peer: usize,
}

impl Default for ControlLimits {
    fn default() -> Self {
        Self {
            cleanups_per_job: 8192,
            promises_per_peer: 64,
        }
    }
}
