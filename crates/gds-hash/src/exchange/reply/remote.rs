// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of remote processes and nodes is in the job info of a client.
//!
//! What a client was not told it asks for when it needs it, but for this, which it looks for only
//! in what it has:
//!
//! | release | of a process | of a node |
//! | --- | --- | --- |
//! | 4.2 | `pmix.hname` | everything: it asks for keys of the node of a process as optional ones |
//! | 5.0 and later | `pmix.hname`, `pmix.nodeid`, `pmix.appnum` | nothing |
//!
//! Source: none outside; the decision is `docs/decisions/0011-large-jobs-are-told-in-part.md`.

use pmix_types::Release;

use super::stated::{APPNUM, Followed, HOSTNAME, NODEID};

/// Says how much of remote processes and nodes is in the job info for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remote {
    /// All that is known of them is there.
    #[default]
    Whole,
    /// Where each process is, and all else that clients do not ask for later. Every get finds the
    /// value that it finds after a whole reply.
    Places,
    /// Nothing. Clients do not learn where a process is unless they ask for something else that is
    /// known of it first, and must not ask for keys of its node before.
    Nothing,
}

/// What a client does not ask for where it was not told.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeverAsked {
    /// Of processes.
    pub(super) of_procs: &'static [Followed],
    /// Whether it does not ask for keys of nodes.
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
