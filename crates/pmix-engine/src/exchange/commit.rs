// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes of this node put.

use pmix_proto::request;
use pmix_types::Status;

use crate::peers::Ticket;
use crate::{Engine, Error};

impl Engine {
    /// COMMIT: what a process put since its last commit, or all of it. Who waits for it goes on.
    pub(crate) fn commit(&mut self, ticket: Ticket, request: &request::Commit<'_>) {
        match self.store_commit(&ticket, request) {
            Ok(proc) => {
                self.reply_status(ticket, Status::SUCCESS);
                self.data_came(&proc);
            }
            Err(error) => self.reply_error(ticket, &error),
        }
    }

    fn store_commit(
        &mut self,
        ticket: &Ticket,
        request: &request::Commit<'_>,
    ) -> Result<pmix_types::Proc<'static>, Error> {
        let member = self.member(ticket)?;
        let Some(client) = member.client else {
            return Err(Error::denied("a tool has no data to share"));
        };
        let (proc, form) = (member.proc.clone(), member.form);
        let wire = self.wire(&form);
        self.store.change_puts(&proc.nspace, |puts| {
            puts.commit(&wire, proc.rank, request.blocks)
        })?;
        if let Some(client) = self.registry.client_mut(client) {
            client.has_committed = true;
        }
        Ok(proc)
    }
}
