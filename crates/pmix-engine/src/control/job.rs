// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job control, and the registration of cleanups.

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
    /// Handles JOB_CONTROL: registers the cleanups, and passes a request with other directives to the host.
    pub(crate) fn job_control(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::JobControl<'_>,
    ) {
        match self.keep_cleanup(cx, &ticket, request) {
            Err(error) => cx.reply_error(ticket, &error),
            // A request about cleanups only does not concern the host.
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
                // The host must not remove the paths a second time.
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

    /// Registers the cleanup of a request, and returns the number of its infos that describe it.
    fn keep_cleanup(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        request: &request::JobControl<'_>,
    ) -> Result<usize, Error> {
        let requested = CleanupRequest::read(&request.infos, &cx.config.control)?;
        if requested.num_infos == 0 {
            return Ok(0);
        }
        let member = cx.member(ticket)?;
        let user = member.user;
        let mut targets = Proc::owned_list(&request.targets);
        // Without targets, a request applies to the caller's job (PMIx Standard, `PMIx_Job_control`).
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

    /// Checks that a member may register a cleanup for a process or a job. This server must observe the end of the
    /// target, and the target must belong to a user whose jobs the member may read.
    fn check_target(cx: &Cx, member: &Member, target: &Proc<'_>) -> Result<(), Error> {
        let (nspace, rank) = (&target.nspace, target.rank);
        if *nspace == member.proc.nspace && member.client.is_none() {
            return Ok(());
        }
        let Some(job) = cx.registry.job(nspace) else {
            return Err(Error::not_found(format!("no job {nspace} is registered")));
        };
        // Only the server of a process observes its end.
        if rank != Rank::WILDCARD && !job.clients.contains_key(&rank) {
            let message = format!("rank {rank} of {nspace} is not on this node");
            return Err(Error::not_found(message));
        }
        cx.check_reads(member, nspace)
    }

    /// Emits the cleanups of a process that has ended.
    pub(crate) fn cleanup_proc(&mut self, cx: &mut Cx, proc: &Proc<'_>) {
        let ended = self.cleanups.proc_ended(proc);
        Self::hand_out(cx, ended);
    }

    /// Emits the cleanups of a job that has ended, including those of its processes.
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

    /// Emits cleanups after a disconnection. A lost process has ended. A tool has no registration, so it ends with its
    /// connection.
    pub(crate) fn cleanup_member(&mut self, cx: &mut Cx, member: &Member, is_lost: bool) {
        let nspace = &member.proc.nspace;
        if member.client.is_none() && cx.registry.job(nspace).is_none() {
            self.cleanup_job(cx, nspace);
        } else if is_lost {
            self.cleanup_proc(cx, &member.proc);
        }
    }
}
