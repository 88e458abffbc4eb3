// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a client is told of its job when it has connected.

use pmix_proto::{reply, request};
use pmix_types::Status;

use crate::peers::{Payload, Ticket};
use crate::{Engine, Error};

impl Engine {
    /// REQ: the job of the client as a whole; a tool gets its own name back.
    pub(crate) fn job_info(&mut self, ticket: Ticket) {
        match self.own_job(&ticket) {
            Ok(payload) => self.reply(ticket, payload),
            Err(error) => self.reply_error(ticket, &error),
        }
    }

    /// A client of 7.0 that cannot read what it was told asks for another form. There is one only,
    /// the one that every client can read.
    pub(crate) fn gds_fallback(&mut self, ticket: Ticket, request: &request::GdsFallback<'_>) {
        match request.module.as_ref().is_none_or(|name| *name == "hash") {
            true => self.job_info(ticket),
            false => self.reply_status(ticket, Status::ERR_NOT_SUPPORTED),
        }
    }

    fn own_job(&self, ticket: &Ticket) -> Result<Payload, Error> {
        let member = self.member(ticket)?;
        let nspace = &member.proc.nspace;
        if let Some(job) = self.store.job(nspace) {
            let reply = job.reply(&self.wire(&member.form), member.form.release)?;
            return Ok(reply.into());
        }
        let alone = reply::JobInfo {
            nspace: nspace.clone(),
            kvals: &[],
        };
        Ok(alone.encode(&member.form, None)?.into())
    }
}
