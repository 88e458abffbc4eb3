// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job info for connecting clients.

use gds_hash::{Job, Remote};
use pmix_proto::{reply, request};
use pmix_types::Status;

use super::state::Exchange;
use crate::Error;
use crate::cx::Cx;
use crate::peers::{Member, Payload, Peer, Ticket};

impl Exchange {
    /// Handles REQ: replies with the info of the client's job, without values that it requests later. A tool gets its
    /// own name.
    pub(crate) fn job_info(&mut self, cx: &mut Cx, ticket: Ticket) {
        match Self::own_job(cx, &ticket) {
            Ok(payload) => {
                let peer = cx.peers.get_mut(ticket.peer());
                if let Some(member) = peer.and_then(Peer::member_mut) {
                    // A tool may take over the connection of its launcher only after this request
                    // (docs/decisions/0028).
                    member.has_job_info = true;
                }
                cx.reply(ticket, payload);
            }
            Err(error) => cx.reply_error(ticket, &error),
        }
    }

    /// Handles the request of a 7.0 client for another form of its job info. The only form is the one of module `hash`,
    /// which every client can read.
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
            let remote = Self::remote_data_for(cx, member, job.job());
            let wire = cx.codec(&member.form);
            let reply = job.reply(&wire, member.form.release, remote)?;
            let nspace = nspace.clone();
            // All local clients have the job info, so the packed replies are not needed any more.
            if cx.registry.record_job_info_sent(&nspace) {
                job.forget_replies();
            }
            return Ok(reply.into());
        }
        // A tool has no registered job, but its init waits for this reply.
        let alone = reply::JobInfo {
            nspace: nspace.clone(),
            kvals: &[],
        };
        Ok(alone.encode(&member.form, None)?.into())
    }

    /// Returns the amount of data about remote processes for a client. Clients before 4.2 may not request more later,
    /// and a process that the maps place on another node would not find its own data.
    pub(super) fn remote_data_for(cx: &Cx, member: &Member, job: &Job) -> Remote {
        let form = &member.form;
        match cx.config.reply.remote(job.num_ranks()) {
            _ if (form.major, form.minor) < (4, 2) => Remote::Whole,
            Remote::Nothing if !job.is_here(member.proc.rank) => Remote::Places,
            remote => remote,
        }
    }
}
