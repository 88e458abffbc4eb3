// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may know of which job.

use gds_hash::Request;
use pmix_types::{Nspace, Rank, keys};

use crate::peers::Member;
use crate::{Engine, Error};

impl Engine {
    /// Whether a peer may know of a job: its own, one of its user, or one whose user nobody knows.
    pub(crate) fn check_reads(&self, member: &Member, nspace: &Nspace<'_>) -> Result<(), Error> {
        let reader = member.user.0;
        let is_trusted = reader == 0 || self.config.user.is_some_and(|(own, _)| own == reader);
        if member.proc.nspace == *nspace || (is_trusted && member.client.is_none()) {
            return Ok(());
        }
        match self.owner_of(nspace) {
            Some(owner) if owner != reader => Err(Error::denied(format!(
                "user {reader} may not read job {nspace} of user {owner}"
            ))),
            _ => Ok(()),
        }
    }

    /// The user whose job it is, if anyone knows.
    fn owner_of(&self, nspace: &Nspace<'_>) -> Option<u32> {
        if let Some(owner) = self.registry.job(nspace).and_then(|job| job.owner) {
            return Some(owner);
        }
        let request = Request::new(Rank::WILDCARD, keys::USERID);
        let stated = self.store.get(nspace, &request).ok()?;
        stated.to_number().ok()
    }
}
