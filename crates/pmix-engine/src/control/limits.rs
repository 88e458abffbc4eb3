// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much processes may ask to be done later.

/// How much processes may ask to be done later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLimits {
    /// The most paths that a job may ask to be removed when it, or processes of it, end.
    pub cleanups_per_job: usize,
    /// The most heartbeat monitors that one process may have.
    pub monitors_per_peer: usize,
}

impl Default for ControlLimits {
    fn default() -> Self {
        Self {
            cleanups_per_job: 8192,
            monitors_per_peer: 64,
        }
    }
}
