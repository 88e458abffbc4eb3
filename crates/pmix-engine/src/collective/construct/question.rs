// SPDX-License-Identifier: MIT OR Apache-2.0
//! The questions to the leader of a construct about lost processes.
//!
//! Source: the draft "PMIx Groups", "Group construct"; PMIx Standard, chapter "Process Sets and Groups".

use std::collections::BTreeSet;
use std::time::Instant;

use pmix_types::{Info, Proc, Status, keys};

use super::super::group_call::{GroupOutcome, procs_of};
use super::super::kind::Collective;
use super::super::participants::Participants;
use super::super::table::Collectives;
use super::super::tracker::{Phase, Tracker};
use super::leadership::{Leader, LeaderQuestion, Leadership};
use crate::cx::Cx;
use crate::ids::{ClientId, TrackerId};
use crate::timer::Timer;

impl Collectives {
    /// Returns the leader of a construct that has not ended.
    pub(in super::super) fn leader_of(&self, id: TrackerId) -> Option<&Proc<'static>> {
        self.get(id)?.construct.leadership.as_ref()?.leader()
    }

    pub(in super::super) fn leadership_of(&mut self, id: TrackerId) -> Option<&mut Leadership> {
        self.get_mut(id)?.construct.leadership.as_mut()
    }

    /// Registers a caller that leads, and asks it about the processes that are already lost. The first such caller of a
    /// node leads; of several nodes, the first by name.
    pub(in super::super) fn add_leader(&mut self, cx: &mut Cx, id: TrackerId, client: ClientId) {
        let leader = cx.registry.client(client);
        let Some(leader) = leader.map(|client| client.proc.clone()) else {
            return;
        };
        let Some(tracker) = self.get(id) else {
            return;
        };
        let known = tracker.construct.leadership.as_ref();
        // Servers learn of each other's leaders at different times, so names decide between nodes
        // (docs/decisions/0017).
        let may_lead = known.is_none_or(|known| {
            let other = known.leader();
            other.is_some_and(|other| !cx.registry.was_here(other) && leader < *other)
        });
        if tracker.key.0 != Collective::GroupConstruct || !may_lead {
            return;
        }
        let is_local = Self::is_local(cx, &tracker.key.1);
        if let Some(leadership) = self.begin_leadership(id, is_local) {
            leadership.leader = Leader::Leads(leader);
        }
        if !is_local {
            self.announce(cx, id);
        }
        self.ask_about_lost(cx, id);
    }

    /// Returns the leadership of a construct, and creates it if there is none.
    pub(in super::super) fn begin_leadership(
        &mut self,
        id: TrackerId,
        is_local: bool,
    ) -> Option<&mut Leadership> {
        let tracker = self.trackers.get_mut(&id)?;
        if let (_, _, Some(name)) = &tracker.key
            && !matches!(tracker.phase, Phase::Failed(_))
        {
            self.led.insert(name, id);
        }
        let leadership = tracker.construct.leadership.get_or_insert_default();
        leadership.is_local = is_local;
        Some(leadership)
    }

    /// Asks a new leader about all lost processes.
    pub(in super::super) fn ask_about_lost(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        // A tolerant construct drops lost participants without a decision.
        if tracker.phase != Phase::Gathering || tracker.is_tolerant {
            return;
        }
        let mut lost = BTreeSet::new();
        // The leader decides about these processes, so they do not fail the construct.
        if std::mem::take(&mut tracker.has_lost_participant) {
            let participants = tracker.key.1.clone();
            lost = Self::lost_of(cx, &participants);
        }
        if let Some(leadership) = self.leadership_of(id) {
            lost.append(&mut leadership.undecided);
            if let Some(until) = leadership.until.take() {
                cx.timers.cancel(until, Timer::Leadership(id));
            }
        }
        for proc in lost {
            self.ask_leader(cx, id, &proc);
        }
    }

    /// Returns the lost local participants.
    pub(in super::super) fn lost_of(
        cx: &Cx,
        participants: &Participants,
    ) -> BTreeSet<Proc<'static>> {
        let lost = Self::local(cx, participants).into_iter();
        let lost = lost.filter(|client| Self::is_lost(cx, *client));
        let lost = lost.filter_map(|client| cx.registry.client(client));
        let mut lost: BTreeSet<_> = lost.map(|client| client.proc.clone()).collect();
        for (nspace, ranks, job) in participants.local_jobs(&cx.registry) {
            let deregistered = job.deregistered.iter().filter(|rank| ranks.has(**rank));
            lost.extend(deregistered.map(|rank| Proc::new(nspace.clone(), *rank)));
        }
        lost
    }

    /// Asks the leader about a lost process.
    pub(in super::super) fn ask_leader(
        &mut self,
        cx: &mut Cx,
        id: TrackerId,
        about: &Proc<'static>,
    ) {
        if let Some(leadership) = self.leadership_of(id) {
            leadership.undecided.insert(about.clone());
            let Some(leader) = leadership.leader().cloned() else {
                return;
            };
            let more = vec![Info::new(keys::GROUP_LEADER, leader.clone())];
            let status = Status::GROUP_INVITE_FAILED;
            self.ask_for_decision(cx, id, status, vec![leader], about, more);
        }
    }

    /// Asks for a decision, with the time limit [`Config::leader_time`](crate::Config::leader_time).
    pub(super) fn ask_for_decision(
        &mut self,
        cx: &mut Cx,
        id: TrackerId,
        status: Status,
        to: Vec<Proc<'static>>,
        about: &Proc<'static>,
        more: Vec<Info<'static>>,
    ) {
        let until = cx.after(cx.config.leader_time);
        self.wait_until(cx, id, until);
        self.notify(cx, id, status, to, about, more, true);
    }

    /// Sets the time limit of a decision, unless one is set.
    pub(in super::super) fn wait_until(
        &mut self,
        cx: &mut Cx,
        id: TrackerId,
        until: Option<Instant>,
    ) {
        if let Some(leadership) = self.leadership_of(id)
            && leadership.until.is_none()
            && let Some(until) = until
        {
            leadership.until = Some(until);
            cx.timers.set(until, Timer::Leadership(id));
        }
    }

    /// Notifies processes of a question or of a decision.
    #[expect(
        clippy::too_many_arguments,
        reason = "each argument is a part of one event"
    )]
    pub(in super::super) fn notify(
        &self,
        cx: &mut Cx,
        id: TrackerId,
        status: Status,
        to: Vec<Proc<'static>>,
        about: &Proc<'static>,
        more: Vec<Info<'static>>,
        asks: bool,
    ) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        let (Some(name), Some(leadership)) = (&tracker.key.2, &tracker.construct.leadership) else {
            return;
        };
        let is_elsewhere = match &*to {
            [one] => !cx.registry.was_here(one),
            _ => !leadership.is_local,
        };
        cx.group_outcomes
            .push_back(GroupOutcome::Led(LeaderQuestion {
                status,
                name: name.clone(),
                to,
                about: about.clone(),
                more,
                asks: asks.then_some(id),
                is_elsewhere,
            }));
    }

    /// Ends all pending decisions.
    pub(in super::super) fn close_leadership(&mut self, cx: &mut Cx, id: TrackerId) {
        if let Some(until) = self.leadership_of(id).and_then(Leadership::close) {
            cx.timers.cancel(until, Timer::Leadership(id));
        }
    }

    /// Ends the wait for a decision whose time limit has expired.
    pub(crate) fn leadership_expired(&mut self, cx: &mut Cx, id: TrackerId) {
        if let Some(leadership) = self.leadership_of(id) {
            leadership.until = None;
        }
        if self.is_held_back(id) {
            self.ask_held_back(cx, id);
            return self.go_on(cx, id);
        }
        self.leader_unreachable(cx, id);
    }

    /// Ends the leadership of a construct that has failed.
    pub(in super::super) fn stop_asking(&mut self, cx: &mut Cx, id: TrackerId, status: Status) {
        let Some(tracker) = self
            .get(id)
            .filter(|open| open.construct.leadership.is_some())
        else {
            return;
        };
        if let Some(name) = tracker.key.2.clone() {
            self.led.remove(&name, id);
        }
        self.close_leadership(cx, id);
        // The other servers must not wait for decisions of its leader any more.
        self.announce_end(cx, id, status);
    }
}

impl Tracker {
    /// Returns `true` if the host is not called before a pending decision.
    pub(in super::super) fn is_undecided(&self) -> bool {
        let waits = |led: &Leadership| led.is_open() || led.is_held_back;
        self.phase == Phase::Gathering && self.construct.leadership.as_ref().is_some_and(waits)
    }

    /// Applies the decisions once all remaining participants have called: drops the directives of lost callers, and
    /// adds the replacements for lost processes.
    pub(in super::super) fn take_decisions(&mut self) {
        let Some(leadership) = &mut self.construct.leadership else {
            return;
        };
        let lost = std::mem::take(&mut leadership.lost_callers);
        if !lost.is_empty() {
            self.caller_infos
                .retain(|(client, _)| !lost.contains(client));
        }
        let added = std::mem::take(&mut leadership.added);
        if added.is_empty() {
            return;
        }
        // Without remaining callers, the directives of the server itself name them.
        let first = self.caller_infos.first_mut().map(|(_, infos)| infos);
        let infos = first.unwrap_or(&mut self.infos);
        let key = keys::GROUP_ADD_MEMBERS;
        let mut all = procs_of(infos, key).map_or_else(Vec::new, <[_]>::to_vec);
        all.extend(added);
        infos.retain(|info| !info.key.is(key));
        infos.push(Info::new(key, all));
    }
}
