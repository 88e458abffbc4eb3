// SPDX-License-Identifier: MIT OR Apache-2.0
//! The amount of data about remote processes and nodes in the job info of a client.
//!
//! A client requests missing data when it needs them, except for the following, which it only looks
//! up locally:
//!
//! | release | of a process | of a node |
//! | --- | --- | --- |
//! | 4.2 | `pmix.hname` | everything: it looks up keys of the node of a process as optional ones |
//! | 5.0 and later | `pmix.hname`, `pmix.nodeid`, `pmix.appnum` | nothing |
//!
//! Source: none outside; the decision is `docs/decisions/0011-large-jobs-are-told-in-part.md`.

use pmix_types::Release;

use super::stated::{APPNUM, Followed, HOSTNAME, NODEID};

/// The amount of data about remote processes and nodes in the job info of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remote {
    /// All data.
    #[default]
    Whole,
    /// The node of each process, and all other data that clients do not request later. Every get
    /// finds the same value as with all data.
    Places,
    /// No data. A client learns the node of a process only together with other requested values of
    /// the process, and must not look up keys of its node before.
    Nothing,
}

/// The keys that a client does not request if they are missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeverAsked {
    /// The keys of processes.
    pub(super) of_procs: &'static [Followed],
    /// `true` if the client does not request keys of nodes.
    pub(super) of_nodes: bool,
}

impl NeverAsked {
    pub(super) const fn by(release: Release) -> Self {
        match release {
            Release::V4_2_2 => Self {
                of_procs: &[HOSTNAME],
                of_nodes: true,
            },
            _ => Self {
                of_procs: &[HOSTNAME, NODEID, APPNUM],
                of_nodes: false,
            },
        }
    }
}
