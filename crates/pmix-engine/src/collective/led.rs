// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructions of groups that one of the members leads (`PMIX_GROUP_LEADER`). A loss does not end them at once:
//!
//! ```text
//! loss of another ── INVITE_FAILED to the leader ── it reports that back ── PMIX_GROUP_OPTIONAL: without the one
//!     ├── PMIX_GROUP_ADD_MEMBERS: without the one, and these are added ── CONSTRUCT_ABORT: ended
//!     └── neither of them, or the time is over: ended
//! loss of the leader ── LEADER_FAILED to all ── the first that reports it back with PMIX_GROUP_LEADER leads, and
//!     LEADER_SELECTED tells all ── CONSTRUCT_ABORT of any: ended ── nobody leads, or the time is over: ended
//! ```
//!
//! The server of the process that is lost asks, while the host and other servers wait for its call; it knows who leads
//! from the leader's server, see `announce`. Nobody is asked who is not registered for the event. What is said is
//! taken in `decide`.
//!
//! Source: the draft "PMIx Groups", "Group construct"; PMIx Standard, chapter "Process Sets and Groups".

use std::collections::BTreeSet;
use std::time::Instant;

use pmix_types::{Info, Proc, Status, keys};

use super::group_call::{GroupOutcome, procs_of};
use super::kind::Collective;
use super::leadership::{LeaderQuestion, Leadership};
use super::participants::Participants;
use super::table::Collectives;
use super::tracker::{Phase, Slot, Tracker};
use crate::cx::Cx;
use crate::ids::{ClientId, TrackerId};
use crate::timer::Timer;

impl Collectives {
    /// Who leads a construction that is under way.
    pub(super) fn leader_of(&self, id: TrackerId) -> Option<&Proc<'static>> {
        self.get(id)?.leadership.as_ref()?.leader.as_ref()
    }

    pub(super) fn leadership_of(&mut self, id: TrackerId) -> Option<&mut Leadership> {
        self.get_mut(id)?.leadership.as_mut()
    }

    /// One that leads has called: it is asked about those that are gone already. The first of a node leads; of
    /// those of several nodes the first by name.
    pub(super) fn led(&mut self, cx: &mut Cx, id: TrackerId, client: ClientId) {
        let leader = cx.registry.client(client);
        let Some(leader) = leader.map(|client| client.proc.clone()) else {
            return;
        };
        let Some(tracker) = self.get(id) else {
            return;
        };
        let known = tracker.leadership.as_ref();
        let may_lead = known.is_none_or(|known| {
            let other = known.leader.as_ref();
            other.is_some_and(|other| !cx.registry.was_here(other) && leader < *other)
        });
        if tracker.key.0 != Collective::GroupConstruct || !may_lead {
            return;
        }
        let is_local = Self::is_local(cx, &tracker.key.1);
        if let Some(leadership) = self.begin_leadership(id, is_local) {
            leadership.leader = Some(leader);
        }
        if !is_local {
            self.announce(cx, id);
        }
        self.ask_anew(cx, id);
    }

    /// What is kept of a construction that is led: from now on, if it was not led before.
    pub(super) fn begin_leadership(
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
        let leadership = tracker.leadership.get_or_insert_default();
        leadership.is_local = is_local;
        Some(leadership)
    }

    /// Asks one that leads from now on about all that are lost.
    pub(super) fn ask_anew(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        if tracker.phase != Phase::Gathering || tracker.is_tolerant {
            return;
        }
        let mut lost = BTreeSet::new();
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

    /// The local participants that are gone.
    pub(super) fn lost_of(cx: &Cx, participants: &Participants) -> BTreeSet<Proc<'static>> {
        let lost = Self::local(cx, participants).into_iter();
        let lost = lost.filter(|client| Self::is_lost(cx, *client));
        let lost = lost.filter_map(|client| cx.registry.client(client));
        let mut lost: BTreeSet<_> = lost.map(|client| client.proc.clone()).collect();
        for (nspace, ranks, job) in participants.local_jobs(&cx.registry) {
            let gone = job.gone.iter().filter(|rank| ranks.has(**rank));
            lost.extend(gone.map(|rank| Proc::new(nspace.clone(), *rank)));
        }
        lost
    }

    /// A participant is gone. Tells whether somebody is to decide what follows.
    pub(super) fn lost_while_led(
        &mut self,
        cx: &mut Cx,
        id: TrackerId,
        client: ClientId,
        proc: &Proc<'static>,
    ) -> bool {
        let Some(tracker) = self.get_mut(id).filter(|tracker| !tracker.is_tolerant) else {
            return false;
        };
        let Some(leadership) = tracker.leadership.as_mut().filter(|led| led.is_led()) else {
            return false;
        };
        let has_called = matches!(tracker.slots.get(&client), Some(Slot::Arrived(_)));
        // Its connection is closed, and then it is deregistered.
        if has_called && !leadership.lost_callers.insert(client) {
            return true;
        }
        leadership.declined.remove(proc);
        let leads = leadership.leader.as_ref().map(|leader| leader == proc);
        match leads {
            Some(true) => self.leader_lost(cx, id, proc),
            Some(false) if leadership.is_held_back => _ = leadership.undecided.insert(proc.clone()),
            Some(false) => self.ask_leader(cx, id, proc),
            // Whoever leads next is asked.
            None => {
                leadership.undecided.insert(proc.clone());
                if leadership.lost_elsewhere.is_some() {
                    self.wait_for_selection(cx, id);
                }
                self.settle_leader(cx, id);
            }
        }
        true
    }

    /// A participant is gone after the host was called. If it led, another leads while other servers gather, and
    /// the one that is lost stays a member as any other that is lost then.
    pub(super) fn lost_while_hosting(&mut self, cx: &mut Cx, id: TrackerId, proc: &Proc<'static>) {
        let leadership = self.get(id).and_then(|open| open.leadership.as_ref());
        if leadership.is_some_and(|led| led.leader.as_ref() == Some(proc) && !led.is_local) {
            self.leader_lost(cx, id, proc);
        }
    }

    /// The leader is gone: all are asked who leads in its place.
    fn leader_lost(&mut self, cx: &mut Cx, id: TrackerId, proc: &Proc<'static>) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let to = tracker.key.1.to_procs();
        if let Some(leadership) = &mut tracker.leadership {
            leadership.leader = None;
            leadership.lost_leader = Some(proc.clone());
        }
        let more = vec![Info::new(keys::GROUP_LEADER, proc.clone())];
        self.ask(cx, id, Status::GROUP_LEADER_FAILED, to, proc, more);
    }

    pub(super) fn ask_leader(&mut self, cx: &mut Cx, id: TrackerId, about: &Proc<'static>) {
        if let Some(leadership) = self.leadership_of(id) {
            leadership.undecided.insert(about.clone());
            let Some(leader) = leadership.leader.clone() else {
                return;
            };
            let more = vec![Info::new(keys::GROUP_LEADER, leader.clone())];
            let status = Status::GROUP_INVITE_FAILED;
            self.ask(cx, id, status, vec![leader], about, more);
        }
    }

    /// Asks what is to follow, and waits for as long as leaders are waited for.
    fn ask(
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
        self.tell(cx, id, status, to, about, more, true);
    }

    /// Waits for what the server of a leader that is lost says, for as long as that may take.
    pub(super) fn wait_for_selection(&mut self, cx: &mut Cx, id: TrackerId) {
        let until = cx.after(cx.config.leader_time.saturating_mul(2));
        self.wait_until(cx, id, until);
    }

    pub(super) fn wait_until(&mut self, cx: &mut Cx, id: TrackerId, until: Option<Instant>) {
        if let Some(leadership) = self.leadership_of(id)
            && leadership.until.is_none()
            && let Some(until) = until
        {
            leadership.until = Some(until);
            cx.timers.set(until, Timer::Leadership(id));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of one event")]
    pub(super) fn tell(
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
        let (Some(name), Some(leadership)) = (&tracker.key.2, &tracker.leadership) else {
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

    /// Nobody decides: nobody is registered for the event, or the time is over.
    pub(crate) fn leader_unreachable(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        let phase = tracker.phase;
        let Some(leadership) = tracker.leadership.as_ref().filter(|led| led.is_open()) else {
            return;
        };
        let (status, old) = (leadership.status(), leadership.lost_leader.clone());
        if let Some(old) = old {
            let (to, selected) = (tracker.key.1.to_procs(), Status::GROUP_LEADER_SELECTED);
            self.tell(cx, id, selected, to, &old, Vec::new(), false);
        }
        match phase {
            Phase::Gathering => self.fail(cx, id, status),
            // The servers that gather end it.
            _ => self.close_leadership(cx, id),
        }
    }

    /// Nothing is to be decided any longer.
    pub(super) fn close_leadership(&mut self, cx: &mut Cx, id: TrackerId) {
        if let Some(until) = self.leadership_of(id).and_then(Leadership::close) {
            cx.timers.cancel(until, Timer::Leadership(id));
        }
    }

    /// The time to decide is over.
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

    /// Nobody is asked any longer: a construction has ended without success.
    pub(super) fn stop_asking(&mut self, cx: &mut Cx, id: TrackerId, status: Status) {
        let Some(tracker) = self.get(id).filter(|open| open.leadership.is_some()) else {
            return;
        };
        if let Some(name) = tracker.key.2.clone() {
            self.led.remove(&name, id);
        }
        self.close_leadership(cx, id);
        self.announce_end(cx, id, status);
    }
}

impl Tracker {
    /// Whether somebody is to decide what becomes of it.
    pub(super) fn is_undecided(&self) -> bool {
        let waits = |led: &Leadership| led.is_open() || led.is_held_back;
        self.phase == Phase::Gathering && self.leadership.as_ref().is_some_and(waits)
    }

    /// All who are left have called: what they said is that of those who are not lost, and of those whom leaders
    /// added in the place of others.
    pub(super) fn take_decisions(&mut self) {
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        let lost = std::mem::take(&mut leadership.lost_callers);
        if !lost.is_empty() {
            self.said.retain(|(client, _)| !lost.contains(client));
        }
        let added = std::mem::take(&mut leadership.added);
        if added.is_empty() {
            return;
        }
        // Where nobody is left, the server says it by itself.
        let first = self.said.first_mut().map(|(_, infos)| infos);
        let infos = first.unwrap_or(&mut self.infos);
        let key = keys::GROUP_ADD_MEMBERS;
        let mut all = procs_of(infos, key).map_or_else(Vec::new, <[_]>::to_vec);
        all.extend(added);
        infos.retain(|info| !info.key.is(key));
        infos.push(Info::new(key, all));
    }
}
