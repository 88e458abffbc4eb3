// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job control, and the cleanups registered by it.

use pmix_proto::request;
use pmix_types::{Nspace, Proc, Rank, Status};

use super::Control;
use super::cleanup::{Cleanup, CleanupKey, CleanupRequest, is_about_cleanup, whole_job};
use crate::cx::Cx;
use crate::host::JobControl;
use crate::infos::with_user;
use crate::peers::{Member, Ticket};
use crate::pending::Pending;
use crate::{EngineEvent, Error};

impl Control {
    /// A process asks for something to be done to processes. What is to be removed at their end is
    /// kept here; the rest is the host's, who is told of all of it.
    pub(crate) fn job_control(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::JobControl<'_>,
    ) {
        match self.keep_cleanup(cx, &ticket, request) {
            Err(error) => cx.reply_error(ticket, &error),
            Ok(kept) if kept > 0 && kept == request.infos.len() => {
                cx.reply_infos(ticket, Status::SUCCESS, Vec::new());
            }
            Ok(_) => Self::relay_job_control(cx, ticket, request),
        }
    }

    fn relay_job_control(cx: &mut Cx, ticket: Ticket, request: &request::JobControl<'_>) {
        let Ok(member) = cx.member(&ticket) else {
            return cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        let mut directives = with_user(&request.infos, member.user);
        for info in &mut directives {
            if is_about_cleanup(info) {
                info.set_processed();
            }
        }
        let call = JobControl {
            proc: member.proc.clone(),
            targets: Proc::owned_list(&request.targets),
            directives,
        };
        cx.call_host(call, Pending::Infos(ticket));
    }

    /// Keeps what a request wants removed, and answers how many of its infos were about that.
    fn keep_cleanup(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        request: &request::JobControl<'_>,
    ) -> Result<usize, Error> {
        let requested = CleanupRequest::read(&request.infos)?;
        if requested.num_infos == 0 {
            return Ok(0);
        }
        let member = cx.member(ticket)?;
        let user = member.user;
        let mut targets = Proc::owned_list(&request.targets);
        if targets.is_empty() {
            targets.push(whole_job(&member.proc.nspace));
        }
        for target in &targets {
            Self::check_target(cx, member, target)?;
        }
        let limits = &cx.config.control;
        let added = self
            .cleanups
            .add(&targets, user, &requested.cleanup, limits)?;
        let added = added.into_iter();
        let added = added.map(|((target, user), cleanup)| EngineEvent::CleanupRegistered {
            target,
            user,
            cleanup,
        });
        cx.driver_events.extend(added);
        Ok(requested.num_infos)
    }

    /// Whether a member may ask for something at the end of a process or a job: one that this
    /// server will see, and not that of somebody else.
    fn check_target(cx: &Cx, member: &Member, target: &Proc<'_>) -> Result<(), Error> {
        let (nspace, rank) = (&target.nspace, target.rank);
        if *nspace == member.proc.nspace && member.client.is_none() {
            return Ok(());
        }
        let Some(job) = cx.registry.job(nspace) else {
            return Err(Error::not_found(format!("no job {nspace} is registered")));
        };
        if rank != Rank::WILDCARD && !job.clients.contains_key(&rank) {
            let message = format!("rank {rank} of {nspace} is not on this node");
            return Err(Error::not_found(message));
        }
        cx.check_reads(member, nspace)
    }

    /// A process has ended: what was to be removed then is handed out.
    pub(crate) fn cleanup_proc(&mut self, cx: &mut Cx, proc: &Proc<'_>) {
        let ended = self.cleanups.proc_ended(proc);
        Self::hand_out(cx, ended);
    }

    /// A job has ended: what was to be removed then is handed out, that of its processes too.
    pub(crate) fn cleanup_job(&mut self, cx: &mut Cx, nspace: &Nspace<'_>) {
        let ended = self.cleanups.job_ended(nspace);
        Self::hand_out(cx, ended);
    }

    fn hand_out(cx: &mut Cx, ended: Vec<(CleanupKey, Cleanup)>) {
        let outcomes = ended.into_iter();
        let outcomes = outcomes.map(|((target, user), cleanup)| EngineEvent::Cleanup {
            target,
            user,
            cleanup,
        });
        cx.driver_events.extend(outcomes);
    }

    /// A connection of a process is closed. The process has ended if it did not say that it leaves;
    /// a tool, key name nobody registered, has ended with its connection.
    pub(crate) fn cleanup_member(&mut self, cx: &mut Cx, member: &Member, is_lost: bool) {
        let nspace = &member.proc.nspace;
        if member.client.is_none() && cx.registry.job(nspace).is_none() {
            self.cleanup_job(cx, nspace);
        } else if is_lost {
            self.cleanup_proc(cx, &member.proc);
        }
    }
}
