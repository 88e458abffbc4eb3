// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of client registrations against their job.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_register_client`.

use pmix_types::{Proc, Status, keys};

use super::Engine;
use crate::Error;
use crate::registry::ClientState;

impl Engine {
    /// Checks that a process may be registered as a client of this server. Without this check before
    /// [`register_client`](Self::register_client), a mistake of the host shows when the process connects, or never.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the job is not registered or does not have the rank; `PMIX_ERR_BAD_PARAM` if the
    /// maps place the process on another node; `PMIX_ERR_EXISTS` if the process is registered and has not connected
    /// since. A process that has connected may be registered again for a restart, even if the server has not noticed
    /// its end yet.
    pub fn check_client(&self, proc: &Proc<'_>) -> Result<(), Error> {
        let Proc { nspace, rank } = proc;
        let Some(registered) = self.cx.store.job(nspace) else {
            let message = format!("job {nspace} is not registered: register it before its clients");
            return Err(Error::not_found(message));
        };
        let job = registered.job();
        let stated = job.get(&gds_hash::Request::new(
            pmix_types::Rank::WILDCARD,
            keys::JOB_SIZE,
        ));
        let size = stated.ok().and_then(|size| size.to_number::<u64>().ok());
        let is_known = match job.num_ranks() {
            // Without maps, the ranks are 0 to the job size - 1.
            0 => size.is_none_or(|size| u64::from(rank.as_raw()) < size) || job.has_rank(*rank),
            _ => job.has_rank(*rank),
        };
        if rank.is_valid() && !is_known {
            let size =
                size.map_or_else(String::new, |size| format!(", which has {size} processes"));
            let message = format!("rank {rank} is not in job {nspace}{size}");
            return Err(Error::not_found(message));
        }
        if let Some(node) = job.other_node(*rank) {
            let (node, own) = (node.escape_ascii(), self.cx.store.local_node().name());
            let own = own.escape_ascii();
            let message = format!(
                "rank {rank} of job {nspace} is on node {node}, but this server is on node {own}"
            );
            return Err(Error::bad(message));
        }
        let client = self.cx.registry.client_of(proc);
        if client.is_some_and(|client| client.state == ClientState::Expected) {
            let message = format!("rank {rank} of job {nspace} is already registered");
            return Err(Error::new(Status::ERR_EXISTS, message));
        }
        Ok(())
    }
}
