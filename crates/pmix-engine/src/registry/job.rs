// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local part of a job.

use std::collections::BTreeMap;

use pmix_types::Rank;

use super::ClientId;

/// The local part of a job.
#[derive(Debug, Default)]
pub(crate) struct LocalJob {
    /// How many local processes the host said it has.
    pub(crate) num_local: u32,
    /// Those that are registered.
    pub(crate) clients: BTreeMap<Rank, ClientId>,
    /// The user whose job it is: that of the first process that was registered.
    pub(crate) owner: Option<u32>,
}

impl LocalJob {
    /// Whether all its local processes are registered, so that all others are known to be remote.
    pub(crate) fn is_complete(&self) -> bool {
        u32::try_from(self.clients.len()).is_ok_and(|known| known >= self.num_local)
    }
}
