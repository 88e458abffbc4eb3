// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that arrive before their participants are known.
//!
//! The local processes of a job are known once the job and all of these processes are registered. Before that, the
//! server cannot tell if "all of the job" and "its ranks 0 to 3" are the same. Calls that name such a job wait, and are
//! processed in order of arrival.
//!
//! A call that fails in the meantime gets its reply and remains, because the n-th calls of all participants belong
//! together.

use std::collections::BTreeSet;

use pmix_types::{Info, Nspace, Proc, Status};

use super::participants::Participants;
use super::table::{Collectives, EarlyCall, EarlyState};
use super::tracker::{Key, Phase};
use crate::cx::Cx;
use crate::ids::{ClientId, EarlyId};
use crate::peers::Ticket;
use crate::timer::Timer;

impl Collectives {
    /// Returns `true` if the participants are not known yet.
    pub(super) fn is_early(cx: &Cx, participants: &Participants) -> bool {
        let mut jobs = participants.local_jobs(&cx.registry).into_iter();
        jobs.any(|(.., job)| !job.is_complete())
    }

    /// Stores a call whose participants are not known yet.
    pub(super) fn add_early_call(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        client: ClientId,
        key: Key,
        infos: Vec<Info<'static>>,
    ) {
        let job = cx.registry.client(client);
        let job = job.map(|client| client.proc.nspace.clone());
        let job = job.unwrap_or_default();
        if let Err(error) = self.check_room(&job) {
            return cx.reply_error(ticket, &error);
        }
        // Early calls count as active. Otherwise a process could make any number before the registration.
        self.begins(&job);
        let limit = Self::limit(cx, &infos);
        // The host may never register the job, so a call without a limit of its own ends, too.
        let until = limit.or_else(|| cx.after(cx.config.registration_time));
        let has_lost_participant = Self::has_lost(cx, &key.1);
        let id = self.early.add(EarlyCall {
            client,
            job,
            key,
            infos,
            began: cx.now,
            limit,
            until,
            state: EarlyState::Waiting(ticket),
            lost: BTreeSet::new(),
        });
        if let Some(until) = until {
            cx.timers.set(until, Timer::Early(id));
        }
        if has_lost_participant {
            self.early_failed(cx, id, Status::ERR_LOST_CONNECTION);
        }
    }

    /// Fails an early call whose time limit has expired.
    pub(crate) fn early_expired(&mut self, cx: &mut Cx, id: EarlyId) {
        self.early_failed(cx, id, Status::ERR_TIMEOUT);
    }

    /// Fails the early calls with a lost participant.
    pub(super) fn lost_to_early(&mut self, cx: &mut Cx, client: ClientId, proc: &Proc<'_>) {
        let concerned = |call: &EarlyCall| call.key.1.has(proc);
        for id in self.early.which(concerned) {
            if let Some(call) = self.early.calls.get_mut(&id) {
                call.lost.insert(client);
            }
            self.early_failed(cx, id, Status::ERR_LOST_CONNECTION);
        }
    }

    /// Fails an early call, and logs the processes that have not called.
    pub(super) fn early_failed(&mut self, cx: &mut Cx, id: EarlyId, status: Status) {
        let Some(call) = self.early.calls.get_mut(&id) else {
            return;
        };
        let EarlyState::Waiting(ticket) =
            std::mem::replace(&mut call.state, EarlyState::Failed(status))
        else {
            return;
        };
        if let Some(until) = call.until.take() {
            cx.timers.cancel(until, Timer::Early(id));
        }
        let key = call.key.clone();
        let same = |call: &EarlyCall| call.key == key;
        let calls = self.early.calls.values();
        let callers: BTreeSet<_> = calls.filter(|call| same(call)).map(|c| c.client).collect();
        let local = Self::local(cx, &key.1).into_iter();
        let missing = local.filter(|client| !callers.contains(client)).collect();
        Self::report(cx, &key, missing, status);
        cx.reply_status(ticket, status);
    }

    /// Processes the early calls that wait for a job, after the job or one of its processes was registered or
    /// deregistered.
    pub(crate) fn collectives_of_job(&mut self, cx: &mut Cx, nspace: &Nspace<'static>) {
        self.take_announcements(cx);
        let concerned = |call: &EarlyCall| call.key.1.jobs().any(|(known, _)| known == nspace);
        for id in self.early.which(concerned) {
            let calls = &self.early.calls;
            if calls
                .get(&id)
                .is_some_and(|call| Self::is_early(cx, &call.key.1))
            {
                continue;
            }
            if let Some(call) = self.early.calls.remove(&id) {
                if let Some(until) = call.until {
                    cx.timers.cancel(until, Timer::Early(id));
                }
                self.end_one(&call.job);
                // The processes of a deregistered job make no calls.
                if cx.registry.job(&call.job).is_some() {
                    self.take_early(cx, call);
                }
            }
        }
    }

    /// Processes an early call as if it arrived now.
    fn take_early(&mut self, cx: &mut Cx, call: EarlyCall) {
        let (kind, participants, group) = call.key;
        // The permission of the caller was checked when its call arrived.
        let size = |nspace: &Nspace<'_>| Ok(cx.job_size(nspace));
        let is_here = |nspace: &Nspace<'_>, rank| cx.registry.find(nspace, rank).is_some();
        let known = Participants::of(&participants.to_procs(), &call.job, size, is_here);
        let key = match known {
            Ok(participants) => (kind, participants, group),
            // Now that the job is known, some participants may turn out not to exist.
            Err(error) => {
                if let EarlyState::Waiting(ticket) = call.state {
                    cx.reply_error(ticket, &error);
                }
                return;
            }
        };
        match call.state {
            EarlyState::Waiting(ticket) => {
                self.add_participant(cx, ticket, call.client, key, call.infos, call.limit);
            }
            EarlyState::Failed(status) => self.has_failed(cx, call.client, key, &call.lost, status),
        }
    }

    /// Fails the collective of a call that has failed: all participants get the same status.
    fn has_failed(
        &mut self,
        cx: &mut Cx,
        client: ClientId,
        key: Key,
        lost: &BTreeSet<ClientId>,
        status: Status,
    ) {
        let Ok(id) = self.tracker_of(cx, client, key) else {
            return;
        };
        // The failed call counts: the next call of this process belongs to a later collective.
        self.join(id, client);
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        tracker.mark_lost(client);
        for client in lost {
            tracker.mark_lost(*client);
        }
        match tracker.phase {
            Phase::Failed(_) => self.tidy(id),
            Phase::Gathering | Phase::Hosting => self.fail_silently(cx, id, status),
        }
    }
}
