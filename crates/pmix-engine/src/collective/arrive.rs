// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of participants, up to the upcall.

use std::time::{Duration, Instant};

use pmix_proto::request;
use pmix_types::{Info, IntoOwned, Nspace, Proc, Status, keys};

use super::construct::Leadership;
use super::contribution::contribution;
use super::group_call::{GroupCall, stays_local, wanted_order};
use super::group_members::{absent, members_now};
use super::kind::{Collective, GroupName};
use super::participants::Participants;
use super::table::Collectives;
use super::tracker::{Key, Phase, Tracker};
use crate::Error;
use crate::cx::Cx;
use crate::ids::{ClientId, TrackerId};
use crate::infos::{is_set, timeout};
use crate::obeyed;
use crate::peers::Ticket;
use crate::registry::ClientState;
use crate::timer::Timer;

impl Collectives {
    /// Handles FENCENB.
    pub(crate) fn fence(&mut self, cx: &mut Cx, ticket: Ticket, request: &request::Fence<'_>) {
        self.take_part(
            cx,
            ticket,
            (Collective::Fence, None),
            &request.procs,
            request.infos.clone().into_owned(),
        );
    }

    /// Handles CONNECT.
    pub(crate) fn connect(&mut self, cx: &mut Cx, ticket: Ticket, request: &request::Connect<'_>) {
        let mut infos = request.infos.clone().into_owned();
        infos.extend(request.shared.clone().into_owned());
        let kind = (Collective::Connect, None);
        self.take_part(cx, ticket, kind, &request.procs, infos);
    }

    /// Handles DISCONNECT.
    pub(crate) fn disconnect(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::Disconnect<'_>,
    ) {
        self.take_part(
            cx,
            ticket,
            (Collective::Disconnect, None),
            &request.procs,
            request.infos.clone().into_owned(),
        );
    }

    /// Handles the call of a process for the construct or destruct of a group.
    pub(crate) fn take_part_in_group(&mut self, cx: &mut Cx, call: GroupCall) {
        // A call that others wait for joins them. If it were refused alone, they would wait for it until their time
        // limit.
        if let Some(error) = &call.refusal
            && !self.has_begun(cx, &call)
        {
            return cx.reply_error(call.ticket, error);
        }
        // Departed members are dropped before the call joins, or the destruct would wait for them.
        self.begin_without(cx, &call);
        self.take_part(cx, call.ticket, call.collective, &call.procs, call.infos);
    }

    /// Returns `true` if other members have called already.
    fn has_begun(&self, cx: &Cx, call: &GroupCall) -> bool {
        let found = Self::caller_and_participants(cx, &call.ticket, &call.procs);
        found.is_ok_and(|(client, participants)| {
            let (kind, group) = call.collective.clone();
            self.find(&(kind, participants, group), client).is_some()
        })
    }

    /// Handles the call of a process for a collective, of a group if a name is given.
    fn take_part(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        (kind, group): (Collective, GroupName),
        procs: &[Proc<'_>],
        infos: Vec<Info<'static>>,
    ) {
        let (client, participants) = match Self::caller_and_participants(cx, &ticket, procs) {
            Ok(found) => found,
            Err(error) => return cx.reply_error(ticket, &error),
        };
        // Before all local processes are registered, a list of ranks and a wildcard cannot be compared.
        if Self::is_early(cx, &participants) {
            return self.add_early_call(cx, ticket, client, (kind, participants, group), infos);
        }
        let until = Self::limit(cx, &infos);
        self.add_participant(
            cx,
            ticket,
            client,
            (kind, participants, group),
            infos,
            until,
        );
    }

    /// Adds a participant whose call lists processes of registered jobs.
    pub(super) fn add_participant(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        client: ClientId,
        key: Key,
        infos: Vec<Info<'static>>,
        until: Option<Instant>,
    ) {
        match self.tracker_of(cx, client, key) {
            Ok(id) => self.arrived(cx, id, client, ticket, infos, until),
            Err(error) => cx.reply_error(ticket, &error),
        }
    }

    /// Returns the time limit of a collective that begins now: that of a participant, or of the configuration.
    pub(super) fn limit(cx: &Cx, infos: &[Info<'_>]) -> Option<Instant> {
        let time = timeout(infos).or(cx.config.collective_time);
        time.and_then(|time| cx.after(time))
    }

    /// Returns the calling client and the participants.
    pub(super) fn caller_and_participants(
        cx: &Cx,
        ticket: &Ticket,
        procs: &[Proc<'_>],
    ) -> Result<(ClientId, Participants), Error> {
        let member = cx.member(ticket)?;
        let Some(client) = member.client else {
            return Err(Error::denied("tools cannot participate in collectives"));
        };
        let size = |nspace: &Nspace<'_>| cx.readable_size(member, nspace);
        let is_here = |nspace: &Nspace<'_>, rank| cx.registry.find(nspace, rank).is_some();
        let participants = Participants::of(procs, &member.proc.nspace, size, is_here)?;
        if !participants.has(&member.proc) {
            return Err(Error::bad("the caller is not among the participants"));
        }
        Ok((client, participants))
    }

    /// Returns the tracker that a call of a client belongs to, and creates it for the first call.
    pub(super) fn tracker_of(
        &mut self,
        cx: &mut Cx,
        client: ClientId,
        key: Key,
    ) -> Result<TrackerId, Error> {
        if let Some(id) = self.find(&key, client) {
            return Ok(id);
        }
        let job = cx.registry.client(client);
        let job = job.map(|client| client.proc.nspace.clone());
        let job = job.unwrap_or_default();
        let id = self.begin(cx, key, job)?;
        // A process that was deregistered after its call gets no reply, but the others do.
        if let Some(tracker) = self.get_mut(id) {
            tracker.expect(client);
        }
        Ok(id)
    }

    /// Begins a collective, which counts for a job.
    pub(super) fn begin(
        &mut self,
        cx: &Cx,
        key: Key,
        job: Nspace<'static>,
    ) -> Result<TrackerId, Error> {
        self.check_room(&job)?;
        let (local, has_lost_participant) = (Self::local(cx, &key.1), Self::has_lost(cx, &key.1));
        let mut tracker = Tracker::new(key, job, cx.now);
        tracker.has_lost_participant = has_lost_participant;
        for client in local {
            tracker.expect(client);
            // A restarted process is another incarnation and does not participate in this collective.
            if Self::is_lost(cx, client) {
                tracker.mark_lost(client);
            }
        }
        Ok(self.add(tracker))
    }

    /// Returns the participants of this node.
    pub(crate) fn local(cx: &Cx, participants: &Participants) -> Vec<ClientId> {
        let mut local = Vec::new();
        // A job that is not registered has no process here.
        for (_, ranks, job) in participants.local_jobs(&cx.registry) {
            match ranks.listed() {
                None => local.extend(job.clients.values()),
                Some(ranks) => {
                    local.extend(ranks.iter().filter_map(|rank| job.clients.get(rank)));
                }
            }
        }
        local
    }

    /// Records the call of a participant, and ends the gathering if it was the last one.
    fn arrived(
        &mut self,
        cx: &mut Cx,
        id: TrackerId,
        client: ClientId,
        ticket: Ticket,
        infos: Vec<Info<'static>>,
        until: Option<Instant>,
    ) {
        // The call is recorded first: the next call of this process belongs to a later tracker.
        self.join(id, client);
        let Some(tracker) = self.get_mut(id) else {
            return cx.reply_status(ticket, Status::ERR_NOT_FOUND);
        };
        let leads = is_set(&infos, keys::GROUP_LEADER);
        let is_of_other_user = tracker.is_of_other_user(&infos);
        // The host is not called for a fence of this node.
        let is_own = tracker.key.0 == Collective::Fence && Self::is_local(cx, &tracker.key.1);
        let refusal = is_own.then(|| obeyed::check("PMIx_Fence", &infos).err());
        // Since 7.0 a destruct completes on the members that are left.
        if tracker.key.0 == Collective::GroupDestruct
            && cx.form(ticket.peer()).is_some_and(|form| form.major >= 7)
        {
            tracker.is_tolerant = true;
        }
        tracker.arrive(client, ticket, infos);
        if tracker.key.0 == Collective::GroupConstruct {
            self.calls_again(cx, id, client);
        }
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        // A late participant of a failed collective gets the status of the others.
        if let Phase::Failed(status) = tracker.phase {
            return self.reply_failed(cx, id, status);
        }
        // The infos that callers share are copied for all of them in one step. A call that is refused alone would let
        // the others wait, so the collective fails for all.
        let (shared, most) = (tracker.shared_bytes, cx.config.request_bytes);
        if shared > most {
            tracing::warn!(
                "the callers of a {:?} share {shared} bytes on this node, more than {most}",
                tracker.key.0
            );
            return self.fail(cx, id, Status::ERR_OUT_OF_RESOURCE);
        }
        // A process may list processes of other users, so the users are compared when they call (docs/decisions/0017).
        if is_of_other_user {
            tracing::warn!("group construction failed: its members belong to different users");
            return self.fail(cx, id, Status::ERR_NO_PERMISSIONS);
        }
        if let Some(error) = refusal.flatten() {
            tracing::warn!(%error, "PMIx_Fence by processes of {} was rejected", tracker.job);
            return self.fail(cx, id, error.status());
        }
        if let Some(until) = until {
            tracker.limit_time(cx, id, until);
        }
        // The call shows that the announced construct has not ended on this node.
        self.ask_held_back(cx, id);
        if leads {
            self.add_leader(cx, id, client);
        }
        self.go_on(cx, id);
    }

    /// Sends the status of a failed collective to a late participant.
    fn reply_failed(&mut self, cx: &mut Cx, id: TrackerId, status: Status) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let (kind, tickets) = (tracker.key.0, tracker.take_tickets());
        self.destruct_failed(cx, id, &tickets);
        self.tidy(id);
        reply_failure(cx, kind, tickets, status);
    }

    /// Ends the gathering if no participant is missing, or if one of them will never call.
    pub(super) fn go_on(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        if tracker.phase != Phase::Gathering || tracker.is_undecided() {
            return;
        }
        // The lost participant will not call, so the others would wait forever.
        if tracker.has_lost_participant && !tracker.is_tolerant {
            self.fail(cx, id, Status::ERR_LOST_CONNECTION);
        } else if tracker.is_complete() {
            self.call_host(cx, id);
        }
    }

    /// Returns `true` if a local participant is lost and not expected to connect again.
    pub(super) fn has_lost(cx: &Cx, participants: &Participants) -> bool {
        Self::any_lost(cx, participants, |_| true)
    }

    /// Returns `true` if a local participant that satisfies `is_so` is lost and not expected to connect again.
    pub(super) fn any_lost(
        cx: &Cx,
        participants: &Participants,
        is_so: impl Fn(&Proc<'static>) -> bool,
    ) -> bool {
        let mut jobs = participants.local_jobs(&cx.registry).into_iter();
        // A deregistered process has no client any more; only its rank is left.
        let is_gone = jobs.any(|(nspace, ranks, job)| {
            let mut deregistered = job.deregistered.iter().filter(|rank| ranks.has(**rank));
            deregistered.any(|rank| is_so(&Proc::new(nspace.clone(), *rank)))
        });
        let mut local = Self::local(cx, participants).into_iter();
        is_gone || {
            local.any(|id| {
                let client = cx.registry.client(id);
                Self::is_lost(cx, id) && client.is_none_or(|client| is_so(&client.proc))
            })
        }
    }

    /// Returns `true` if a process is lost and not expected to connect again.
    pub(super) fn is_lost(cx: &Cx, client: ClientId) -> bool {
        let client = cx.registry.client(client);
        client.is_none_or(|client| matches!(client.state, ClientState::Lost | ClientState::Left))
    }

    /// Calls the host once all local participants have called, unless the collective ends without the host.
    fn call_host(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        // The host must not get the directives of callers that were dropped.
        tracker.take_decisions();
        if tracker.key.0 == Collective::GroupConstruct {
            // The host passes these members to all servers. A process that is registered later is no absent one.
            tracker.construct.absent = absent(cx, tracker);
        }
        let tracker = &*tracker;
        if tracker.key.0 == Collective::Fence && Self::is_local(cx, &tracker.key.1) {
            // No upcall is needed, but later ones of the same participants may wait for this turn.
            self.queue_upcall(cx, id, None);
            return self.succeed(cx, id);
        }
        if tracker.key.0.is_of_group()
            && Self::is_local(cx, &tracker.key.1)
            && stays_local(&tracker.caller_infos)
            && wanted_order(&tracker.caller_infos).is_ok()
        {
            return self.end_locally(cx, id);
        }
        let data = match tracker.key.0 {
            Collective::Fence => contribution(cx, tracker),
            // Callers of this node that disagree fail the construct everywhere, so the host is called with the failure.
            Collective::GroupConstruct => wanted_order(&tracker.caller_infos).map(|_| Vec::new()),
            _ => Ok(Vec::new()),
        };
        match data {
            Ok(data) => self.queue_host_call(cx, id, data),
            Err(error) => {
                tracing::warn!(%error, "cannot pack the contribution of this node");
                self.fail(cx, id, error.status());
            }
        }
    }

    /// Ends the construct or destruct of a group with local members only that does not request the host.
    fn end_locally(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        let function = match tracker.key.0 {
            Collective::GroupDestruct => "PMIx_Group_destruct",
            _ => "PMIx_Group_construct",
        };
        let mut caller_infos = tracker.caller_infos.iter();
        // The host does not receive the directives, so the server refuses required ones that it does not support.
        let checked = caller_infos.try_for_each(|(_, infos)| obeyed::check(function, infos));
        if let Err(error) = checked {
            tracing::warn!(%error, "{function} by processes of {} was rejected", tracker.job);
            return self.fail(cx, id, error.status());
        }
        self.queue_upcall(cx, id, None);
        self.succeed(cx, id);
    }

    /// Calls the host for a collective, with the contribution of this node.
    fn queue_host_call(&mut self, cx: &mut Cx, id: TrackerId, data: Vec<u8>) {
        let mut infos = self.limit_host(cx, id);
        if let Some(tracker) = self.get(id)
            && tracker.key.0 == Collective::GroupConstruct
        {
            let members = members_now(
                cx,
                &tracker.key.1,
                &tracker.caller_infos,
                &tracker.construct.absent,
            );
            let members = match members {
                Ok(members) => members,
                Err(error) => return self.fail_before_host(cx, id, &error),
            };
            infos.push(Info::new(keys::GROUP_MEMBERSHIP, members));
            // The host must not end the construct for a loss on another node: the leader decides about it.
            if tracker
                .construct
                .leadership
                .as_ref()
                .is_some_and(Leadership::is_led)
            {
                infos.push(Info::new(keys::GROUP_LEADER, true));
            }
        }
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        infos.append(&mut tracker.shared);
        let call = match tracker.call(infos, data, None) {
            Ok(call) => call,
            Err(error) => return self.fail_before_host(cx, id, &error),
        };
        // From here on, the loss of a process does not end the collective. Other servers may already have reported its
        // success.
        tracker.phase = Phase::Hosting;
        self.queue_upcall(cx, id, Some(call));
    }

    /// Fails a collective for which the host cannot be called.
    fn fail_before_host(&mut self, cx: &mut Cx, id: TrackerId, error: &Error) {
        tracing::warn!(%error, "the host cannot be called for a collective");
        self.fail(cx, id, error.status());
    }

    /// Returns the infos for the host: those of the participants, and the remaining seconds. The host should end the
    /// collective consistently for all servers, so this server waits slightly longer.
    fn limit_host(&mut self, cx: &mut Cx, id: TrackerId) -> Vec<Info<'static>> {
        let Some(tracker) = self.get_mut(id) else {
            return Vec::new();
        };
        let mut infos = tracker.infos.clone();
        let (Some(until), Some(now)) = (tracker.until, cx.now) else {
            return infos;
        };
        let left = until.saturating_duration_since(now);
        // `PMIX_TIMEOUT` has whole seconds, and 0 means no limit, so the rest is rounded up.
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let seconds = u32::try_from(seconds.max(1)).unwrap_or(u32::MAX);
        infos.retain(|info| !info.key.is(keys::TIMEOUT));
        infos.push(Info::new(keys::TIMEOUT, seconds));
        let time = Duration::from_secs(seconds.into()).saturating_add(cx.config.host_grace);
        cx.timers.cancel(until, Timer::Collective(id));
        tracker.until = now.checked_add(time);
        if let Some(until) = tracker.until {
            cx.timers.set(until, Timer::Collective(id));
        }
        infos
    }

    /// Returns `true` if all participants are of this node.
    pub(super) fn is_local(cx: &Cx, participants: &Participants) -> bool {
        participants.jobs().all(|(nspace, ranks)| {
            let Some(job) = cx.registry.job(nspace) else {
                return false;
            };
            match ranks.listed() {
                Some(ranks) => ranks.iter().all(|rank| job.clients.contains_key(rank)),
                // A job without a registered size is as large as its part on this node.
                None => {
                    let size = cx.job_size(nspace);
                    size.is_none_or(|size| u32::try_from(job.clients.len()) == Ok(size))
                }
            }
        })
    }
}

/// Replies to the participants of a failed collective.
///
/// Since 7.0 a construct that loses a member is aborted: its callers expect `PMIX_GROUP_CONSTRUCT_ABORT`, as between
/// servers and clients of that release.
pub(super) fn reply_failure(cx: &mut Cx, kind: Collective, tickets: Vec<Ticket>, status: Status) {
    for ticket in tickets {
        let is_newer = cx.form(ticket.peer()).is_some_and(|form| form.major >= 7);
        let is_lost = kind == Collective::GroupConstruct && status == Status::ERR_LOST_CONNECTION;
        let status = match is_newer && is_lost {
            true => Status::GROUP_CONSTRUCT_ABORT,
            false => status,
        };
        cx.reply_status(ticket, status);
    }
}
