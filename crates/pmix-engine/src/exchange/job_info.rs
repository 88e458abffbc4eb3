// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job info that a client gets when it has connected.

use gds_hash::{Job, Remote};
use pmix_proto::{reply, request};
use pmix_types::Status;

use super::state::Exchange;
use crate::Error;
use crate::cx::Cx;
use crate::peers::{Member, Payload, Peer, Ticket};

impl Exchange {
    /// REQ: the job of the client, as much of it as it does not ask for later; a tool gets its own
    /// name back.
    pub(crate) fn job_info(&mut self, cx: &mut Cx, ticket: Ticket) {
        match Self::own_job(cx, &ticket) {
            Ok(payload) => {
                let peer = cx.peers.get_mut(ticket.peer());
                if let Some(member) = peer.and_then(Peer::member_mut) {
                    member.has_job_info = true;
                }
                cx.reply(ticket, payload);
            }
            Err(error) => cx.reply_error(ticket, &error),
        }
    }

    /// A client of 7.0 that cannot read what it was told asks for another form. There is one only,
    /// the one that every client can read.
    pub(crate) fn gds_fallback(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::GdsFallback<'_>,
    ) {
        match request.module.as_ref().is_none_or(|name| *name == "hash") {
            true => self.job_info(cx, ticket),
            false => cx.reply_status(ticket, Status::ERR_NOT_SUPPORTED),
        }
    }

    fn own_job(cx: &mut Cx, ticket: &Ticket) -> Result<Payload, Error> {
        let member = cx.member(ticket)?;
        let nspace = &member.proc.nspace;
        if let Some(job) = cx.store.job(nspace) {
            let remote = Self::told_to(cx, member, job.job());
            let wire = cx.codec(&member.form);
            let reply = job.reply(&wire, member.form.release, remote)?;
            let nspace = nspace.clone();
            if cx.registry.tell(&nspace) {
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
    pub(super) fn told_to(cx: &Cx, member: &Member, job: &Job) -> Remote {
        let form = &member.form;
        match cx.config.reply.remote(job.num_ranks()) {
            _ if (form.major, form.minor) < (4, 2) => Remote::Whole,
            Remote::Nothing if !job.is_here(member.proc.rank) => Remote::Places,
            remote => remote,
        }
    }
}
