// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much forwarded output may take.

/// How much forwarded output may take: what waits for a peer that reads slowly, and what is kept
/// until somebody asks for it. What exceeds it is dropped, and the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// The most pulls that one peer may have.
    pub pulls_per_peer: usize,
    /// The most processes that one pull may name.
    pub procs_per_pull: usize,
    /// How many bytes may be on their way to a peer before its output is held back.
    pub window: usize,
    /// How many bytes are held back for a pull that says nothing about it.
    pub held: usize,
    /// The most bytes that a pull can ask to be held back (`PMIX_IOF_CACHE_SIZE`).
    pub most_held: usize,
    /// How many bytes of one stream are kept until somebody pulls them.
    pub kept_per_stream: usize,
    /// How many bytes of all streams are kept until somebody pulls them.
    pub kept: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            pulls_per_peer: 256,
            procs_per_pull: 4096,
            window: 256 << 10,
            held: 1 << 20,
            most_held: 16 << 20,
            kept_per_stream: 64 << 10,
            kept: 4 << 20,
        }
    }
}
