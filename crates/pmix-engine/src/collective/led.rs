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
//! The server of the process that is lost asks, while the host and other servers wait for its call. Nobody is
//! asked who is not registered for the event.
//!
//! Source: the draft "PMIx Groups", "Group construct"; PMIx Standard, chapter "Process Sets and Groups".

use std::collections::BTreeSet;

use pmix_types::{DataArray, Info, Nspace, Proc, Status, Value, keys};

use super::group_call::{GroupNews, procs_of};
use super::kind::Collective;
use super::leadership::{Leadership, LedEvent};
use super::participants::Participants;
use super::table::Collectives;
use super::tracker::{Phase, Slot, Tracker};
use crate::Error;
use crate::cx::Cx;
use crate::ids::{ClientId, TrackerId};
use crate::infos::{is_set, value};
use crate::peers::Ticket;
use crate::timer::Timer;

/// What somebody says about a construction.
struct Said<'s> {
    source: &'s Proc<'static>,
    status: Status,
    about: Proc<'static>,
    infos: &'s [Info<'s>],
}

impl Collectives {
    /// Who leads a construction that is under way.
    pub(super) fn leader_of(&self, id: TrackerId) -> Option<&Proc<'static>> {
        self.get(id)?.leadership.as_ref()?.leader.as_ref()
    }

    /// One that leads has called: it is asked about those that are gone already.
    pub(super) fn led(&mut self, cx: &mut Cx, id: TrackerId, client: ClientId) {
        let Some(leader) = cx.registry.client(client) else {
            return;
        };
        let leader = leader.proc.clone();
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        if tracker.key.0 != Collective::GroupConstruct || tracker.leadership.is_some() {
            return;
        }
        tracker.leadership = Some(Leadership {
            leader: Some(leader),
            ..Leadership::default()
        });
        if !tracker.has_lost_participant || tracker.is_tolerant {
            return;
        }
        tracker.has_lost_participant = false;
        let participants = tracker.key.1.clone();
        for proc in Self::lost_of(cx, &participants) {
            self.ask_leader(cx, id, &proc);
        }
    }

    /// The local participants that are gone.
    fn lost_of(cx: &Cx, participants: &Participants) -> BTreeSet<Proc<'static>> {
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
        let Some(leadership) = &mut tracker.leadership else {
            return false;
        };
        tracker.said.retain(|(other, _)| *other != client);
        match leadership.leader.take_if(|leader| leader == proc) {
            Some(_) => {
                leadership.lost_leader = Some(proc.clone());
                let to = tracker.key.1.to_procs();
                let more = vec![Info::new(keys::GROUP_LEADER, proc.clone())];
                self.ask(cx, id, Status::GROUP_LEADER_FAILED, to, proc, more);
            }
            // Whoever leads next is asked.
            None if leadership.leader.is_none() => {
                leadership.undecided.insert(proc.clone());
                self.settle_leader(cx, id);
            }
            None => self.ask_leader(cx, id, proc),
        }
        true
    }

    fn ask_leader(&mut self, cx: &mut Cx, id: TrackerId, about: &Proc<'static>) {
        let leadership = self.get_mut(id).and_then(|open| open.leadership.as_mut());
        if let Some(leadership) = leadership
            && let Some(leader) = leadership.leader.clone()
        {
            leadership.undecided.insert(about.clone());
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
        self.asking.insert(id);
        let leadership = self.get_mut(id).and_then(|open| open.leadership.as_mut());
        if let Some(leadership) = leadership
            && leadership.until.is_none()
            && let Some(until) = until
        {
            leadership.until = Some(until);
            cx.timers.set(until, Timer::Leadership(id));
        }
        self.tell(cx, id, status, to, about, more, true);
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of one event")]
    fn tell(
        &self,
        cx: &mut Cx,
        id: TrackerId,
        status: Status,
        to: Vec<Proc<'static>>,
        about: &Proc<'static>,
        more: Vec<Info<'static>>,
        asks: bool,
    ) {
        let Some((_, participants, Some(name))) = self.get(id).map(|tracker| &tracker.key) else {
            return;
        };
        let is_elsewhere = match &*to {
            [one] => !cx.registry.was_here(one),
            _ => !Self::is_local(cx, participants),
        };
        cx.group_news.push_back(GroupNews::Led(LedEvent {
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
    pub(crate) fn nobody_decides(&mut self, cx: &mut Cx, id: TrackerId) {
        let leadership = self.get(id).and_then(|open| open.leadership.as_ref());
        let Some(leadership) = leadership.filter(|leadership| leadership.is_open()) else {
            return;
        };
        let (status, old) = (leadership.status(), leadership.lost_leader.clone());
        if let (Some(old), Some(tracker)) = (old, self.get(id)) {
            let (to, selected) = (tracker.key.1.to_procs(), Status::GROUP_LEADER_SELECTED);
            self.tell(cx, id, selected, to, &old, Vec::new(), false);
        }
        self.fail(cx, id, status);
    }

    /// The time to decide is over.
    pub(crate) fn leadership_expired(&mut self, cx: &mut Cx, id: TrackerId) {
        if let Some(leadership) = self.get_mut(id).and_then(|open| open.leadership.as_mut()) {
            leadership.until = None;
        }
        self.nobody_decides(cx, id);
    }

    /// A local process reports an event. Tells whether it decides what becomes of a construction, so that nobody
    /// else is to hear of it.
    ///
    /// # Errors
    ///
    /// Why those whom a leader adds cannot be: they are no list of processes, or of jobs that it may not name.
    pub(crate) fn heed_member(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        status: Status,
        infos: &[Info<'_>],
    ) -> Result<bool, Error> {
        let member = cx.member(ticket)?;
        let source = member.proc.clone();
        let found = self.asked(&source, status, infos);
        let Some((id, said)) = found.filter(|_| member.client.is_some()) else {
            return Ok(false);
        };
        if let Some(Value::DataArray(DataArray::Proc(procs))) =
            value(infos, keys::GROUP_ADD_MEMBERS)
        {
            let size = |nspace: &Nspace<'_>| cx.readable_size(member, nspace);
            let is_here = |nspace: &Nspace<'_>, rank| cx.registry.find(nspace, rank).is_some();
            Participants::of(procs, &member.proc.nspace, size, is_here)?;
        }
        self.decided(cx, id, &said);
        Ok(true)
    }

    /// The host brings an event of a process of another node. Tells the same as
    /// [`heed_member`](Self::heed_member).
    pub(crate) fn heed_other(
        &mut self,
        cx: &mut Cx,
        source: &Proc<'_>,
        status: Status,
        infos: &[Info<'_>],
    ) -> bool {
        let source = Proc::new(source.nspace.to_shared(), source.rank);
        if cx.registry.was_here(&source) {
            return false;
        }
        let Some((id, said)) = self.asked(&source, status, infos) else {
            return false;
        };
        self.decided(cx, id, &said);
        true
    }

    /// The construction that what a process says may decide about.
    fn asked<'s>(
        &self,
        source: &'s Proc<'static>,
        status: Status,
        infos: &'s [Info<'s>],
    ) -> Option<(TrackerId, Said<'s>)> {
        let concerns = [
            Status::GROUP_INVITE_FAILED,
            Status::GROUP_LEADER_FAILED,
            Status::GROUP_CONSTRUCT_ABORT,
        ];
        if self.asking.is_empty() || !concerns.contains(&status) {
            return None;
        }
        let (name, about) = (
            value(infos, keys::GROUP_ID)?,
            value(infos, keys::EVENT_AFFECTED_PROC)?,
        );
        let (Value::String(Some(name)), Value::Proc(about)) = (name, about) else {
            return None;
        };
        let about = Proc::new(about.nspace.to_shared(), about.rank);
        let is_it = |id: &&TrackerId| {
            let Some(tracker) = self.get(**id) else {
                return false;
            };
            let is_open = tracker.leadership.as_ref().is_some_and(|leadership| {
                leadership.lost_leader.as_ref() == Some(&about)
                    || leadership.undecided.contains(&about)
            });
            is_open
                && tracker.key.1.has(source)
                && tracker.key.2.as_ref().is_some_and(|of| of == name)
        };
        let id = *self.asking.iter().find(is_it)?;
        let said = Said {
            source,
            status,
            about,
            infos,
        };
        Some((id, said))
    }

    /// Somebody says how a construction goes on.
    fn decided(&mut self, cx: &mut Cx, id: TrackerId, said: &Said<'_>) {
        let is_in = self.has_called(cx, id, said.source);
        let leadership = self.get_mut(id).and_then(|open| open.leadership.as_mut());
        let Some(leadership) = leadership else {
            return;
        };
        let leads = leadership.leader.as_ref() == Some(said.source);
        let is_old = leadership.lost_leader.as_ref() == Some(&said.about);
        match said.status {
            Status::GROUP_CONSTRUCT_ABORT if leads || (is_old && is_in) => {
                self.fail(cx, id, Status::GROUP_CONSTRUCT_ABORT);
            }
            Status::GROUP_INVITE_FAILED if leads => self.leader_decided(cx, id, said),
            Status::GROUP_LEADER_FAILED if is_old && is_in => {
                if is_set(said.infos, keys::GROUP_LEADER) {
                    return self.new_leader(cx, id, said.source);
                }
                leadership.declined.insert(said.source.clone());
                self.settle_leader(cx, id);
            }
            _ => {}
        }
    }

    /// Whether a process takes part: one of another node may.
    fn has_called(&self, cx: &Cx, id: TrackerId, proc: &Proc<'_>) -> bool {
        let Some(client) = cx.registry.find(&proc.nspace, proc.rank) else {
            return !cx.registry.was_here(proc);
        };
        let tracker = self.get(id);
        tracker.is_some_and(|tracker| {
            matches!(tracker.slots.get(&client), Some(Slot::Arrived(_)))
                && tracker.said.iter().any(|(other, _)| *other == client)
        })
    }

    fn leader_decided(&mut self, cx: &mut Cx, id: TrackerId, said: &Said<'_>) {
        let added = procs_of_any(said.infos, keys::GROUP_ADD_MEMBERS);
        if added.is_empty() && !is_set(said.infos, keys::GROUP_OPTIONAL) {
            return self.fail(cx, id, Status::ERR_LOST_CONNECTION);
        }
        let leader = cx.registry.find(&said.source.nspace, said.source.rank);
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let of_leader = |(client, _): &(ClientId, _)| Some(*client) == leader;
        // One that leads from another node adds in the call of the first process here.
        let place = tracker.said.iter().position(of_leader).unwrap_or_default();
        match tracker.said.get_mut(place) {
            _ if added.is_empty() => {}
            Some((_, infos)) => {
                let mut all = procs_of(infos, keys::GROUP_ADD_MEMBERS)
                    .map(<[_]>::to_vec)
                    .unwrap_or_default();
                all.extend(added.iter().cloned());
                infos.retain(|info| !info.key.is(keys::GROUP_ADD_MEMBERS));
                infos.push(Info::new(keys::GROUP_ADD_MEMBERS, all));
                let more = vec![Info::new(keys::GROUP_ADD_MEMBERS, added.clone())];
                let invited = Status::GROUP_INVITED;
                self.tell(cx, id, invited, added, said.source, more, false);
            }
            None => return self.fail(cx, id, Status::ERR_LOST_CONNECTION),
        }
        self.is_decided(cx, id, &said.about);
    }

    /// It is decided to do without a process.
    fn is_decided(&mut self, cx: &mut Cx, id: TrackerId, about: &Proc<'static>) {
        let leadership = self.get_mut(id).and_then(|open| open.leadership.as_mut());
        let Some(leadership) = leadership else {
            return;
        };
        leadership.undecided.remove(about);
        if !leadership.is_open() {
            if let Some(until) = leadership.until.take() {
                cx.timers.cancel(until, Timer::Leadership(id));
            }
            self.asking.remove(&id);
        }
        self.go_on(cx, id);
    }

    /// One leads in the place of the leader that is lost, without whom the group is formed.
    fn new_leader(&mut self, cx: &mut Cx, id: TrackerId, leader: &Proc<'static>) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let to = tracker.key.1.to_procs();
        let Some(leadership) = &mut tracker.leadership else {
            return;
        };
        let Some(old) = leadership.lost_leader.take() else {
            return;
        };
        leadership.leader = Some(leader.clone());
        leadership.declined.clear();
        let left: Vec<_> = leadership.undecided.iter().cloned().collect();
        if let Some(until) = leadership.until.take() {
            cx.timers.cancel(until, Timer::Leadership(id));
        }
        let more = vec![Info::new(keys::GROUP_LEADER, leader.clone())];
        let selected = Status::GROUP_LEADER_SELECTED;
        self.tell(cx, id, selected, to, &old, more, false);
        for proc in left {
            self.ask_leader(cx, id, &proc);
        }
        self.is_decided(cx, id, &old);
    }

    /// Ends a construction without a leader if all have called, and none of them leads.
    fn settle_leader(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        let Some(leadership) = &tracker.leadership else {
            return;
        };
        let is_local = Self::is_local(cx, &tracker.key.1);
        let has_declined = |client: &ClientId| {
            let client = cx.registry.client(*client);
            client.is_none_or(|client| leadership.declined.contains(&client.proc))
        };
        let mut called = tracker.said.iter().map(|(client, _)| client);
        if is_local && tracker.is_complete() && called.all(has_declined) {
            self.nobody_decides(cx, id);
        }
    }

    /// Nobody is asked any longer: a construction has ended.
    pub(super) fn stop_asking(&mut self, cx: &mut Cx, id: TrackerId) {
        self.asking.remove(&id);
        let leadership = self.get_mut(id).and_then(|open| open.leadership.take());
        if let Some(until) = leadership.and_then(|leadership| leadership.until) {
            cx.timers.cancel(until, Timer::Leadership(id));
        }
    }
}

impl Tracker {
    /// Whether somebody is to decide what becomes of it.
    pub(super) fn is_undecided(&self) -> bool {
        self.phase == Phase::Gathering && self.leadership.as_ref().is_some_and(Leadership::is_open)
    }
}

/// The processes that infos name under a key.
fn procs_of_any(infos: &[Info<'_>], key: &str) -> Vec<Proc<'static>> {
    match value(infos, key) {
        Some(Value::DataArray(DataArray::Proc(procs))) => Proc::owned_list(procs),
        _ => Vec::new(),
    }
}
