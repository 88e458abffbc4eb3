// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much events may take.

use std::time::Duration;

/// How much one peer may register and how much is kept for those who register later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits {
    /// The most codes that one peer may be registered for.
    pub codes_per_peer: usize,
    /// The most processes that the registrations of one peer may name.
    pub procs_per_peer: usize,
    /// The most events that are kept; a new one takes the place of the oldest.
    pub kept: usize,
    /// The most of them that one process has raised.
    pub kept_per_source: usize,
    /// The most bytes that the kept events take, together.
    pub kept_bytes: usize,
    /// How long an event is kept.
    pub kept_for: Duration,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self {
            codes_per_peer: 1024,
            procs_per_peer: 4096,
            // As many and as long as the libraries of 4.2 and 5.0 keep them.
            kept: 512,
            kept_for: Duration::from_secs(120),
            kept_per_source: 64,
            kept_bytes: 1 << 20,
        }
    }
}
