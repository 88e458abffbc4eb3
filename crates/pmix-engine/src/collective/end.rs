// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of collectives: all participants get the same status.

use std::sync::Arc;

use gds_hash::Remote;
use pmix_proto::{PeerForm, reply};
use pmix_types::{Nspace, Proc, Status, memory};

use super::arrive::reply_failure;
use super::contribution::{absorb_contributions, failure};
use super::group_call::{EndedGroup, GroupOutcome};
use super::kind::Collective;
use super::ordered_upcalls::DueUpcall;
use super::table::{Collectives, EarlyCall, EarlyState};
use super::tracker::{Key, Phase, Slot, Tracker};
use crate::cx::Cx;
use crate::host::{HostReply, Upcall};
use crate::ids::{ClientId, TrackerId};
use crate::peers::{PeerId, Ticket};
use crate::pending::Pending;
use crate::timer::Timer;
use crate::{EngineEvent, Error, obeyed};

/// The replies to the participants of a connect, each packed once for all local callers of a job with the same form: it
/// may have megabytes, and a node has many callers.
#[derive(Default)]
struct ConnectReplies(Vec<(PeerForm, Nspace<'static>, Arc<Vec<u8>>)>);

impl ConnectReplies {
    /// Returns the reply to a participant: the jobs of the other participants, as far as this server knows them.
    fn of(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        tracker: &Tracker,
    ) -> Result<Arc<Vec<u8>>, Error> {
        let member = cx.member(ticket)?;
        let (form, own) = (member.form, member.proc.nspace.clone());
        let jobs = tracker.key.1.jobs().map(|(nspace, _)| nspace);
        let jobs = jobs.filter(|nspace| **nspace != own);
        let mut packed = self.0.iter();
        let packed = packed.find(|(of_form, of_job, _)| *of_form == form && *of_job == own);
        let packed = match packed {
            Some((_, _, packed)) => Arc::clone(packed),
            None => {
                let packed = Arc::new(Self::pack(cx, &form, jobs.clone())?);
                self.0.push((form, own.clone(), Arc::clone(&packed)));
                packed
            }
        };
        for nspace in jobs {
            // The reply has the job info, so later gets need not include it.
            if cx.store.job(nspace).is_some() {
                cx.peers.knows_job(ticket.peer(), nspace);
            }
        }
        Ok(packed)
    }

    fn pack<'j>(
        cx: &Cx,
        form: &PeerForm,
        jobs: impl Iterator<Item = &'j Nspace<'static>>,
    ) -> Result<Vec<u8>, Error> {
        let mut objects = Vec::new();
        for job in jobs.filter_map(|nspace| cx.store.job(nspace)) {
            let reply = job.reply(&cx.codec(form), form.release, Remote::Whole)?;
            memory::append(&mut objects, &reply::pack_job_object(form, &reply)?)?;
        }
        let status = Status::SUCCESS;
        let objects = &objects;
        Ok(reply::Objects { status, objects }.encode(form, None)?)
    }
}

/// The limit of missing processes in a log line.
const MAX_NAMED: usize = 8;

impl Collectives {
    /// Ends a collective by the reply of the host. The contributions of all servers to a fence are stored before the
    /// replies to the participants, whose next gets find the data.
    pub(crate) fn host_ended(
        &mut self,
        cx: &mut Cx,
        id: TrackerId,
        job: &Nspace<'static>,
        reply: HostReply,
    ) {
        // The upcall counted as active even if its tracker has failed in the meantime.
        self.end_one(job);
        // With local participants only, this server knows every order of the members that a caller has set, and needs
        // no host for a connect.
        let is_local = { self.get(id) }.is_some_and(|open| {
            let (kind, participants, _) = &open.key;
            let matters = [
                Collective::GroupConstruct,
                Collective::Connect,
                Collective::Disconnect,
            ];
            matters.contains(kind) && Self::is_local(cx, participants)
        });
        // A tracker that has failed in the meantime has already replied to its participants.
        let tracker = self.trackers.get_mut(&id);
        let Some(tracker) = tracker.filter(|tracker| tracker.phase == Phase::Hosting) else {
            return;
        };
        let result = match (tracker.key.0, reply) {
            (kind, HostReply::Infos(status, infos))
                if kind.is_of_group() && status.is_success() =>
            {
                tracker.infos = infos;
                tracker.check_gathered(is_local)
            }
            // A host may return no infos; then the members are those that the callers listed.
            (Collective::GroupConstruct, other) if other.status().is_success() => {
                tracker.infos = Vec::new();
                tracker.check_gathered(is_local)
            }
            (Collective::Fence, HostReply::Data(Ok(data))) => {
                absorb_contributions(cx, tracker, &data)
            }
            (kind, other) => match other.status() {
                status if status.is_success() => Ok(()),
                // The host does not support this call. None is needed: all participants are on this node, and all have
                // called.
                Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_IMPLEMENTED if is_local => match kind {
                    Collective::Connect if !tracker.requires_host => {
                        obeyed::check("PMIx_Connect", &tracker.infos)
                    }
                    Collective::Disconnect => obeyed::check("PMIx_Disconnect", &tracker.infos),
                    _ => Err(not_completed(other.status())),
                },
                status => Err(not_completed(status)),
            },
        };
        match result {
            Ok(()) => self.succeed(cx, id),
            Err(error) => {
                tracing::debug!(%error, "a collective that the host completed has failed");
                self.fail(cx, id, error.status());
            }
        }
    }

    /// Handles the loss of a local process, which ends the collectives that it was to participate in, unless the host
    /// was called for them.
    ///
    /// DEVIATION: the loss ends it for all participants with `PMIX_ERR_LOST_CONNECTION`; OpenPMIx continues with the
    /// remaining ones, so that some participants succeed and others fail;
    /// `a_lost_participant_ends_the_fence_for_all`.
    pub(crate) fn participant_lost(&mut self, cx: &mut Cx, client: ClientId, proc: &Proc<'static>) {
        self.lost_to_early(cx, client, proc);
        let known = |tracker: &Tracker| tracker.slots.contains_key(&client);
        for id in self.which(known) {
            let Some(tracker) = self.get_mut(id) else {
                continue;
            };
            let took_part = tracker.mark_lost(client);
            if took_part {
                tracker.note_lost(client, proc);
            }
            match tracker.phase {
                Phase::Gathering if took_part => {
                    if !self.lost_while_led(cx, id, client, proc) {
                        self.lost_in_gathering(cx, id, proc);
                    }
                }
                Phase::Hosting if took_part => self.lost_while_hosting(cx, id, proc),
                Phase::Gathering | Phase::Hosting => {}
                Phase::Failed(_) => self.tidy(id),
            }
        }
    }

    /// Handles the end of a program of a process whose other programs are connected. Its calls fail for all participants,
    /// as those of a lost process do: otherwise they would count for a later call of another program.
    pub(crate) fn caller_left(
        &mut self,
        cx: &mut Cx,
        peer: PeerId,
        client: ClientId,
        proc: &Proc<'static>,
    ) {
        let is_early = |call: &EarlyCall| matches!(&call.state, EarlyState::Waiting(ticket) if ticket.peer() == peer);
        for id in self.early.which(is_early) {
            self.early_failed(cx, id, Status::ERR_LOST_CONNECTION);
        }
        let has_called = |tracker: &Tracker| {
            let slot = tracker.slots.get(&client);
            tracker.phase == Phase::Gathering
                && matches!(slot, Some(Slot::Arrived(ticket)) if ticket.peer() == peer)
        };
        for id in self.which(has_called) {
            self.lost_in_gathering(cx, id, proc);
        }
    }

    /// Fails a collective because a participant was lost before all local participants have called.
    fn lost_in_gathering(&mut self, cx: &mut Cx, id: TrackerId, proc: &Proc<'static>) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        if tracker.key.0 == Collective::GroupConstruct
            && let (_, participants, Some(name)) = &tracker.key
        {
            let leader = self.leader_of(id).map(|leader| vec![leader.clone()]);
            cx.group_outcomes.push_back(GroupOutcome::InviteFailed {
                name: name.clone(),
                procs: leader.unwrap_or_else(|| participants.to_procs()),
                proc: proc.clone(),
            });
        }
        match tracker.is_tolerant {
            true => self.go_on(cx, id),
            false => self.fail(cx, id, Status::ERR_LOST_CONNECTION),
        }
    }

    /// Fails a collective whose time limit has expired.
    pub(crate) fn collective_expired(&mut self, cx: &mut Cx, id: TrackerId) {
        if let Some(tracker) = self.get_mut(id) {
            tracker.until = None;
        }
        self.fail(cx, id, Status::ERR_TIMEOUT);
    }

    /// Ends a collective with success.
    pub(super) fn succeed(&mut self, cx: &mut Cx, id: TrackerId) {
        // Servers that receive the leader's announcement late must not wait for its decisions.
        self.announce_end(cx, id, Status::SUCCESS);
        self.note_ended(cx, id);
        let Some(mut tracker) = self.remove(id) else {
            return;
        };
        Self::cancel_deadline(cx, id, &tracker);
        let tickets = tracker.take_tickets();
        if tracker.key.0.is_of_group() {
            return Self::end_group(cx, tracker, Status::SUCCESS, tickets);
        }
        // The data are shared before the replies, so that the participants find them.
        if tracker.collects {
            for (nspace, _) in tracker.key.1.jobs() {
                cx.share_puts(nspace);
            }
        }
        if tracker.key.0 == Collective::Fence && cx.config.reports_fences {
            cx.driver_events.push_back(EngineEvent::FenceCompleted {
                began: tracker.began,
                num_procs: tickets.len(),
            });
        }
        // Before the replies: a participant may end as soon as it has one.
        if tracker.key.0 == Collective::Fence
            && !tracker.collects
            && tracker.key.1.jobs().nth(1).is_some()
        {
            cx.driver_events.push_back(EngineEvent::FenceAcrossJobs {
                procs: tracker.key.1.to_procs(),
            });
        }
        let mut packed = ConnectReplies::default();
        for ticket in tickets {
            match tracker.key.0 {
                Collective::Connect => {
                    let packed = packed.of(cx, &ticket, &tracker);
                    cx.reply_packed(ticket, packed);
                }
                _ => cx.reply_status(ticket, Status::SUCCESS),
            }
        }
    }

    /// Passes the end to the groups, which reply to the members.
    fn end_group(cx: &mut Cx, tracker: Tracker, status: Status, tickets: Vec<Ticket>) {
        let lost = tracker.lost_callers();
        let (kind, participants, name) = tracker.key;
        cx.group_outcomes.push_back(GroupOutcome::Ended(EndedGroup {
            kind,
            name: name.unwrap_or_default(),
            participants,
            job: tracker.job,
            caller_infos: tracker.caller_infos,
            absent: tracker.construct.absent,
            lost,
            host_infos: tracker.infos,
            status,
            tickets,
        }));
    }

    /// Fails a collective, and logs the missing processes. A destruct without local participants is not logged, because
    /// no local process called it.
    pub(super) fn fail(&mut self, cx: &mut Cx, id: TrackerId, status: Status) {
        if let Some(tracker) = self.get(id).filter(|tracker| !tracker.slots.is_empty()) {
            let missing = tracker.missing.iter().copied().collect();
            Self::report(cx, &tracker.key.clone(), missing, status);
        }
        self.fail_silently(cx, id, status);
    }

    /// Fails a collective. Late callers get the same status.
    pub(super) fn fail_silently(&mut self, cx: &mut Cx, id: TrackerId, status: Status) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let (kind, was_gathering) = (tracker.key.0, tracker.phase == Phase::Gathering);
        tracker.phase = Phase::Failed(status);
        // The leader's announcement may arrive late and must not begin the construct again.
        self.note_ended(cx, id);
        self.stop_asking(cx, id, status);
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let tickets = tracker.take_tickets();
        if let Some(until) = tracker.until.take() {
            cx.timers.cancel(until, Timer::Collective(id));
        }
        // Once the host was called, the other servers learn the result from it.
        if was_gathering {
            self.notify_servers_of_failure(cx, id, status);
        }
        self.destruct_failed(cx, id, &tickets);
        // The calls of late participants must find this tracker, or they would begin the next collective.
        self.keep_failed(id);
        reply_failure(cx, kind, tickets, status);
    }

    /// Reports the members that receive the failure of a destruct to the groups.
    pub(super) fn destruct_failed(&self, cx: &mut Cx, id: TrackerId, tickets: &[Ticket]) {
        if let Some(tracker) = self.get(id)
            && let (Collective::GroupDestruct, participants, Some(name)) = &tracker.key
        {
            let recipients = tickets.iter().filter_map(|ticket| cx.member(ticket).ok());
            let recipients = recipients.map(|member| member.proc.clone()).collect();
            cx.group_outcomes.push_back(GroupOutcome::DestructFailed {
                name: name.clone(),
                participants: participants.clone(),
                recipients,
            });
        }
    }

    /// Reports the failure of a collective to the servers of other nodes; for a fence, in place of its data.
    fn notify_servers_of_failure(&mut self, cx: &mut Cx, id: TrackerId, status: Status) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        let data = match tracker.key.0 {
            Collective::Fence => failure(&cx.config.modex_form(), cx.config.fence_form, status),
            _ => Ok(Vec::new()),
        };
        let call = match data {
            // No other server participates.
            _ if Self::is_local(cx, &tracker.key.1) && !tracker.is_gathered() => Ok(None),
            Ok(data) => tracker
                .call(tracker.infos.clone(), data, Some(status))
                .map(Some),
            Err(error) => Err(error),
        };
        let call = match call {
            Ok(call) => call,
            Err(error) => {
                tracing::error!(%error, "cannot pack the failure of a collective");
                None
            }
        };
        self.queue_upcall(cx, id, call);
    }

    /// Logs the missing processes: some that have not called, and all that are lost or deregistered.
    pub(super) fn report(cx: &mut Cx, key: &Key, missing: Vec<ClientId>, status: Status) {
        let (operation, participants) = (key.0, &key.1);
        let lost = Self::local(cx, participants).into_iter();
        let missing = missing
            .into_iter()
            .chain(lost.filter(|id| Self::is_lost(cx, *id)));
        let missing = missing.filter_map(|id| cx.registry.client(id));
        let mut missing: Vec<_> = missing.map(|client| client.proc.clone()).collect();
        for (nspace, ranks, job) in participants.local_jobs(&cx.registry) {
            let deregistered = job.deregistered.iter().filter(|rank| ranks.has(**rank));
            missing.extend(deregistered.map(|rank| Proc::new(nspace.clone(), *rank)));
        }
        missing.sort_unstable();
        missing.dedup();
        // The names of all processes of a large job would fill the log.
        let named = missing.iter().take(MAX_NAMED);
        let named: Vec<_> = named
            .map(|proc| format!("{}:{}", proc.nspace, proc.rank))
            .collect();
        let num_missing = missing.len();
        tracing::warn!(%operation, %status, num_missing, missing = named.join(" "), "it failed");
        cx.driver_events.push_back(EngineEvent::FenceMissing {
            operation,
            group: key.2.clone(),
            procs: participants.to_procs(),
            missing,
            status,
        });
    }

    pub(super) fn cancel_deadline(cx: &mut Cx, id: TrackerId, tracker: &Tracker) {
        if let Some(until) = tracker.until {
            cx.timers.cancel(until, Timer::Collective(id));
        }
        let leadership = tracker.construct.leadership.as_ref();
        if let Some(until) = leadership.and_then(|led| led.until) {
            cx.timers.cancel(until, Timer::Leadership(id));
        }
    }

    /// Records the upcall of a collective, if one is needed, and makes the upcalls whose turn it is.
    pub(super) fn queue_upcall(&mut self, cx: &mut Cx, id: TrackerId, call: Option<Upcall>) {
        let Some(key) = self.get(id).map(|tracker| tracker.key.clone()) else {
            return;
        };
        for DueUpcall { id, job, call } in self.upcalls.end(&key, id, call) {
            let Some(call) = call else {
                // Without an upcall the collective stops counting now, otherwise when the host replies.
                self.end_one(&job);
                continue;
            };
            cx.call_host(call, Pending::Collective(id, job));
        }
    }
}

/// Returns the error of a collective that the host refused.
fn not_completed(status: Status) -> Error {
    Error::new(status, "the host did not complete the collective")
}
