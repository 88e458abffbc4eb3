// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local part of a job.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::Rank;

use crate::ids::ClientId;

/// The local part of a job.
#[derive(Debug, Default)]
pub(crate) struct LocalJob {
    /// How many local processes the host said it has; none if it has not said it yet.
    pub(crate) num_local: Option<u32>,
    /// Those that are registered.
    pub(crate) clients: BTreeMap<Rank, ClientId>,
    /// Those that were and are no longer.
    pub(crate) gone: BTreeSet<Rank>,
    /// The user whose job it is: that of the first process that was registered.
    pub(crate) owner: Option<u32>,
    /// How many processes were told of the job since all of them had been.
    pub(super) num_told: u32,
}

impl LocalJob {
    /// Whether all its local processes are registered, so that all others are known to be remote.
    pub(crate) fn is_complete(&self) -> bool {
        let known = self.clients.len() + self.gone.len();
        let known = u32::try_from(known).unwrap_or(u32::MAX);
        self.num_local.is_some_and(|expected| known >= expected)
    }
}
