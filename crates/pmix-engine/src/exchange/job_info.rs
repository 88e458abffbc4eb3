// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a client is told of its job when it has connected.

use gds_hash::{Job, Remote};
use pmix_proto::{reply, request};
use pmix_types::Status;

use crate::peers::{Member, Payload, Ticket};
use crate::{Engine, Error};

impl Engine {
    /// REQ: the job of the client, as much of it as it does not ask for later; a tool gets its own
    /// name back.
    pub(crate) fn job_info(&mut self, ticket: Ticket) {
        match self.own_job(&ticket) {
            Ok(payload) => self.cx.reply(ticket, payload),
            Err(error) => self.cx.reply_error(ticket, &error),
        }
    }

    /// A client of 7.0 that cannot read what it was told asks for another form. There is one only,
    /// the one that every client can read.
    pub(crate) fn gds_fallback(&mut self, ticket: Ticket, request: &request::GdsFallback<'_>) {
        match request.module.as_ref().is_none_or(|name| *name == "hash") {
            true => self.job_info(ticket),
            false => self.cx.reply_status(ticket, Status::ERR_NOT_SUPPORTED),
        }
    }

    fn own_job(&mut self, ticket: &Ticket) -> Result<Payload, Error> {
        let member = self.cx.member(ticket)?;
        let nspace = &member.proc.nspace;
        if let Some(job) = self.cx.store.job(nspace) {
            let remote = self.told_to(member, job.job());
            let wire = self.cx.codec(&member.form);
            let reply = job.reply(&wire, member.form.release, remote)?;
            let nspace = nspace.clone();
            if self.cx.registry.tell(&nspace) {
                job.forget_replies();
            }
            return Ok(reply.into());
        }
        let alone = reply::JobInfo {
            nspace: nspace.clone(),
            kvals: &[],
        };
        Ok(alone.encode(&member.form, None)?.into())
    }

    /// How much a client is told of processes elsewhere. Clients before 4.2 may not ask for more,
    /// and one that the maps have elsewhere would not find itself.
    pub(super) fn told_to(&self, member: &Member, job: &Job) -> Remote {
        let form = &member.form;
        match self.cx.config.reply.remote(job.num_ranks()) {
            _ if (form.major, form.minor) < (4, 2) => Remote::Whole,
            Remote::Nothing if !job.is_here(member.proc.rank) => Remote::Places,
            remote => remote,
        }
    }
}
