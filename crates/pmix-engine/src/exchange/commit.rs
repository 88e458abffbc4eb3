// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes of this node put.

use pmix_proto::request;
use pmix_types::{Proc, Scope, Status};

use super::answer;
use crate::ids::ClientId;
use crate::peers::Ticket;
use crate::{Engine, Error};

impl Engine {
    /// COMMIT: what a process put since its last commit, or all of it. Who waits for it goes on.
    pub(crate) fn commit(&mut self, ticket: Ticket, request: &request::Commit<'_>) {
        match self.store_commit(&ticket, request) {
            Ok(proc) => {
                self.cx.reply_status(ticket, Status::SUCCESS);
                self.data_came(&proc);
            }
            Err(error) => self.cx.reply_error(ticket, &error),
        }
    }

    fn store_commit(
        &mut self,
        ticket: &Ticket,
        request: &request::Commit<'_>,
    ) -> Result<Proc<'static>, Error> {
        let member = self.cx.member(ticket)?;
        let Some(client) = member.client else {
            return Err(Error::denied("a tool has no data to share"));
        };
        let (proc, form) = (member.proc.clone(), member.form);
        let len = request.blocks.len();
        let put_bytes = self.put_room(client, len)?;
        let wire = self.cx.codec(&form);
        self.cx.store.update_modex(&proc.nspace, |puts| {
            puts.commit(&wire, proc.rank, request.blocks)
        })?;
        if let Some(client) = self.cx.registry.client_mut(client) {
            client.has_committed = true;
            client.put_bytes = put_bytes + len;
        }
        Ok(proc)
    }

    /// How many bytes a process has put at the most, if so many more are not too many.
    ///
    /// Clients up to 5.0 repeat everything in each commit, so that what they have sent says little
    /// of what is there; that is looked at only when it matters.
    fn put_room(&self, client: ClientId, len: usize) -> Result<usize, Error> {
        let most = self.cx.config.put_bytes_per_process;
        let client = self.cx.registry.client(client);
        let client = client.ok_or_else(|| Error::not_found("the process is deregistered"))?;
        if client.put_bytes.saturating_add(len) <= most {
            return Ok(client.put_bytes);
        }
        let there = self.num_put_bytes(&client.proc)?;
        match there.saturating_add(len) <= most {
            true => Ok(there),
            false => Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!("{len} bytes of data beside {there}, more than {most}"),
            )),
        }
    }

    /// How many bytes the data of a process take when they travel.
    fn num_put_bytes(&self, proc: &Proc<'_>) -> Result<usize, Error> {
        let Some(job) = self.cx.store.job(&proc.nspace) else {
            return Ok(0);
        };
        let puts = job.modex_store();
        let form = self.cx.config.modex_form();
        let mut packed = Vec::new();
        let kvals = puts.all(proc.rank, Scope::GLOBAL)?;
        answer::bare(&form, self.cx.framer(), kvals, &mut packed)?;
        Ok(packed.len())
    }
}
