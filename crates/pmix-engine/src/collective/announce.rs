// SPDX-License-Identifier: MIT OR Apache-2.0
//! What servers tell each other of constructions that are led, so that a leader decides about processes of all nodes.
//!
//! | event | source | for | says |
//! | --- | --- | --- | --- |
//! | `PMIX_GROUP_LEADER_SELECTED` without `PMIX_EVENT_AFFECTED_PROC` | leader | servers of the others | it leads, from its call on; `PMIX_GROUP_OPTIONAL`: who is lost is done without |
//! | the same with `PMIX_LOCAL_COLLECTIVE_STATUS` | leader | servers of the others | it ended on the leader's node |
//! | `PMIX_GROUP_LEADER_FAILED`, `_SELECTED` with it | server | all | the leader is lost; who leads in its place, if anybody does |
//! | `PMIX_GROUP_CONSTRUCT_ABORT` with it | server | servers of the others | a member ended it while another was to be chosen |
//!
//! The first two have the participants as their range and are kept from clients. A server that hears the first
//! begins the construction as if one of its processes had called, so that the leader is asked about those that are
//! lost there, also where nobody is left to call.

use pmix_types::{DataArray, Info, Nspace, Proc, Status, Text, Value, keys};

use super::group_call::{GroupOutcome, is_tolerant};
use super::kind::Collective;
use super::leadership::{Announcement, Leadership};
use super::participants::Participants;
use super::table::Collectives;
use super::tracker::{Key, Phase, Slot, Tracker};
use crate::cx::Cx;
use crate::ids::TrackerId;
use crate::infos::{is_set, value};
use crate::timer::Timer;

/// How many announcements wait for their jobs to be registered.
const MAX_EARLY: usize = 64;

impl Collectives {
    /// Tells the servers of other nodes that a process of this one leads.
    pub(super) fn announce(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let infos = tracker.said.iter().map(|(_, infos)| infos);
        let is_tolerant = { infos }.any(|infos| is_tolerant(infos));
        let (_, participants, Some(name)) = &tracker.key else {
            return;
        };
        let (name, participants) = (name.clone(), participants.to_procs());
        if let Some(leadership) = &mut tracker.leadership
            && let Some(leader) = leadership.leader.clone()
        {
            leadership.announced = Some(leader.clone());
            cx.group_outcomes
                .push_back(GroupOutcome::Announced(Announcement {
                    name,
                    leader,
                    participants,
                    is_tolerant,
                    ended: None,
                }));
        }
    }

    /// Tells them that it has ended here: one that hears of the leader when it has ended there, too, does not wait
    /// for another of these members.
    pub(super) fn announce_end(&mut self, cx: &mut Cx, id: TrackerId, status: Status) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let (_, participants, Some(name)) = &tracker.key else {
            return;
        };
        let announced = tracker.leadership.as_mut();
        if let Some(leader) = announced.and_then(|led| led.announced.take()) {
            cx.group_outcomes
                .push_back(GroupOutcome::Announced(Announcement {
                    name: name.clone(),
                    leader,
                    participants: participants.to_procs(),
                    is_tolerant: false,
                    ended: Some(status),
                }));
        }
    }

    /// Whether an event is of a server that says who leads, which processes do not say.
    pub(super) fn is_announcement(status: Status, infos: &[Info<'_>]) -> bool {
        status == Status::GROUP_LEADER_SELECTED
            && value(infos, keys::EVENT_AFFECTED_PROC).is_none()
            && matches!(value(infos, keys::GROUP_LEADER), Some(Value::Proc(_)))
    }

    /// The host brings an event of another node. Tells the same as [`handle_member_decision`](Self::handle_member_decision).
    pub(crate) fn handle_remote_decision(
        &mut self,
        cx: &mut Cx,
        source: &Proc<'_>,
        status: Status,
        infos: &[Info<'_>],
    ) -> bool {
        let source = Proc::new(source.nspace.to_shared(), source.rank);
        let is_announcement = Self::is_announcement(status, infos);
        if cx.registry.was_here(&source) {
            return is_announcement;
        }
        if is_announcement {
            if let Some(said) = Announcement::of(source, infos) {
                self.announced(cx, said);
            }
            return true;
        }
        if let Some((id, said)) = self.asked(&source, status, infos) {
            self.decided(cx, id, &said);
            return true;
        }
        // The job of a process is known, that of a server is not.
        cx.store.job(&source.nspace).is_none() && self.handle_server_event(cx, status, infos)
    }

    /// One leads on another node, or what it led has ended there.
    pub(super) fn announced(&mut self, cx: &mut Cx, said: Announcement) {
        let (list, own) = (&said.participants, &said.leader.nspace);
        let size = |nspace: &Nspace<'_>| Ok(cx.job_size(nspace));
        let Ok(participants) = Participants::of(list, own, size, |_, _| true) else {
            return;
        };
        if !participants.has(&said.leader) {
            return;
        }
        let is_known = !participants.local_jobs(&cx.registry).is_empty();
        if !is_known || Self::is_early(cx, &participants) {
            self.announced_early(cx, said);
            return;
        }
        let key = (Collective::GroupConstruct, participants, Some(said.name));
        match said.ended {
            None => self.leads_elsewhere(cx, key, &said.leader, said.is_tolerant),
            Some(_) => self.ended_elsewhere(cx, &key, &said.leader),
        }
    }

    fn leads_elsewhere(
        &mut self,
        cx: &mut Cx,
        key: Key,
        leader: &Proc<'static>,
        is_tolerant: bool,
    ) {
        let is_next = |tracker: &Tracker| {
            let leadership = tracker.leadership.as_ref();
            leadership.is_none_or(|led| !led.heard_of.contains(leader))
        };
        let has_part = |cx: &Cx, participants| {
            !Self::local(cx, participants).is_empty() || !Self::lost_of(cx, participants).is_empty()
        };
        let known = self.first(&key, is_next);
        let has_ended = known.is_none() && self.take_recent(&key);
        let id = match known {
            Some(id) => id,
            None if !has_part(cx, &key.1) => return,
            None => match self.begin(cx, key, leader.nspace.clone()) {
                Ok(id) => id,
                Err(error) => {
                    tracing::warn!(%error, "a leader of another node is not asked");
                    return;
                }
            },
        };
        let is_first = { self.get(id) }.is_some_and(|tracker| tracker.leadership.is_none());
        let Some(leadership) = self.begin_leadership(id, false) else {
            return;
        };
        leadership.heard_of.push(leader.clone());
        // Of several the first by name leads on all nodes.
        let leads = match &leadership.leader {
            Some(known) => leader < known,
            None => is_first,
        };
        if leads {
            leadership.leader = Some(leader.clone());
        }
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        if matches!(tracker.phase, Phase::Failed(_)) {
            return;
        }
        tracker.is_tolerant |= is_tolerant;
        match leads {
            true if has_ended => self.hold_back(cx, id),
            true => self.ask_anew(cx, id),
            false => {}
        }
        self.go_on(cx, id);
    }

    /// It ended on the node of one that leads: nobody decides any longer, and it is as if it had not begun here
    /// where nobody has called.
    fn ended_elsewhere(&mut self, cx: &mut Cx, key: &Key, leader: &Proc<'static>) {
        let is_it = |tracker: &Tracker| {
            let leadership = tracker.leadership.as_ref();
            tracker.phase == Phase::Gathering
                && leadership.is_some_and(|led| led.heard_of.contains(leader))
        };
        let Some(id) = self.first(key, is_it) else {
            return;
        };
        if self.get(id).is_some_and(Tracker::is_without_calls) {
            return self.drop_led(cx, id);
        }
        let Some(leadership) = self.leadership_of(id) else {
            return;
        };
        leadership.heard_of.retain(|known| known != leader);
        leadership.leader.take_if(|known| known == leader);
        if leadership.leader.is_none() {
            match leadership.is_open() {
                true => self.leader_unreachable(cx, id),
                false => self.close_leadership(cx, id),
            }
        }
    }

    /// Forgets a construction for which no process of this node has called.
    fn drop_led(&mut self, cx: &mut Cx, id: TrackerId) {
        self.close_leadership(cx, id);
        self.queue_upcall(cx, id, None);
        if let Some(tracker) = self.remove(id) {
            Self::cancel_deadline(cx, id, &tracker);
        }
    }

    /// Keeps what a leader says until its jobs are registered.
    fn announced_early(&mut self, cx: &Cx, said: Announcement) {
        let early = &mut self.early_announcements;
        if said.ended.is_some() {
            let is_it = |(_, other): &(_, Announcement)| {
                other.leader == said.leader && other.name == said.name
            };
            if let Some(place) = early.iter().position(is_it) {
                early.remove(place);
            }
            return;
        }
        while early.len() >= MAX_EARLY {
            early.pop_front();
        }
        early.push_back((cx.now, said));
    }

    /// Jobs or their processes are registered by now, or not any longer.
    pub(super) fn take_announcements(&mut self, cx: &mut Cx) {
        for (at, said) in std::mem::take(&mut self.early_announcements) {
            let age = { cx.now.zip(at) }.map(|(now, at)| now.saturating_duration_since(at));
            if age.is_none_or(|age| age < cx.config.registration_time) {
                self.announced(cx, said);
            }
        }
    }

    /// A job is gone: what is led, and what nobody of this node can take part in any longer, ends here.
    pub(crate) fn led_job_gone(&mut self, cx: &mut Cx) {
        let is_of_nobody = |tracker: &Tracker| {
            tracker.phase == Phase::Gathering
                && tracker.leadership.is_some()
                && tracker.key.1.local_jobs(&cx.registry).is_empty()
        };
        for id in self.which(is_of_nobody) {
            let is_begun = self.get(id).is_some_and(|tracker| {
                let leadership = tracker.leadership.as_ref();
                !tracker.is_without_calls() || leadership.is_some_and(Leadership::is_open)
            });
            match is_begun {
                true => self.fail(cx, id, Status::ERR_LOST_CONNECTION),
                false => self.drop_led(cx, id),
            }
        }
    }

    /// Another server says what becomes of a construction whose leader is lost. Tells whether nobody else is to
    /// hear of it.
    fn handle_server_event(&mut self, cx: &mut Cx, status: Status, infos: &[Info<'_>]) -> bool {
        let Some(Value::String(Some(name))) = value(infos, keys::GROUP_ID) else {
            return false;
        };
        let Some(Value::Proc(about)) = value(infos, keys::EVENT_AFFECTED_PROC) else {
            return false;
        };
        let old = Proc::new(about.nspace.to_shared(), about.rank);
        let is_it = |id: &TrackerId| {
            let leadership = self.get(*id).and_then(|open| open.leadership.as_ref());
            leadership
                .is_some_and(|led| [&led.leader, &led.lost_elsewhere].contains(&&Some(old.clone())))
        };
        let Some(id) = self.led.of(name).find(is_it) else {
            return false;
        };
        match status {
            Status::GROUP_LEADER_FAILED => self.leader_lost_elsewhere(cx, id, old),
            Status::GROUP_LEADER_SELECTED => {
                let leader = match value(infos, keys::GROUP_LEADER) {
                    Some(Value::Proc(leader)) => {
                        Some(Proc::new(leader.nspace.to_shared(), leader.rank))
                    }
                    _ => None,
                };
                self.selected_elsewhere(cx, id, leader);
            }
            Status::GROUP_CONSTRUCT_ABORT => {
                if self
                    .get(id)
                    .is_some_and(|open| open.phase == Phase::Gathering)
                {
                    self.fail(cx, id, status);
                }
                return true;
            }
            _ => {}
        }
        false
    }

    fn leader_lost_elsewhere(&mut self, cx: &mut Cx, id: TrackerId, old: Proc<'static>) {
        self.ask_held_back(cx, id);
        let Some(leadership) = self.leadership_of(id) else {
            return;
        };
        leadership.leader = None;
        leadership.lost_elsewhere = Some(old);
        let until = leadership.until.take();
        let waits = leadership.is_open();
        if let Some(until) = until {
            cx.timers.cancel(until, Timer::Leadership(id));
        }
        if waits {
            self.wait_for_selection(cx, id);
        }
    }

    /// Another server says who leads in the place of a leader of its node; nobody, if nobody does.
    fn selected_elsewhere(&mut self, cx: &mut Cx, id: TrackerId, leader: Option<Proc<'static>>) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let phase = tracker.phase;
        let Some(leadership) = &mut tracker.leadership else {
            return;
        };
        leadership.lost_elsewhere = None;
        leadership.leader = leader;
        match (&leadership.leader, phase) {
            (Some(_), _) => self.ask_anew(cx, id),
            (None, Phase::Gathering) => self.fail(cx, id, Status::GROUP_LEADER_FAILED),
            (None, _) => {}
        }
    }
}

impl Tracker {
    /// Whether no process of this node has called.
    fn is_without_calls(&self) -> bool {
        let mut slots = self.slots.values();
        self.said.is_empty() && !slots.any(|slot| matches!(slot, Slot::Arrived(_)))
    }
}

impl Announcement {
    /// What an event of the server of a leader says.
    fn of(source: Proc<'static>, infos: &[Info<'_>]) -> Option<Self> {
        let name = match value(infos, keys::GROUP_ID)? {
            Value::String(Some(name)) => Text::from(name.as_bytes().to_vec()),
            _ => return None,
        };
        let participants = match value(infos, keys::EVENT_CUSTOM_RANGE)? {
            Value::DataArray(DataArray::Proc(procs)) => Proc::owned_list(procs),
            _ => return None,
        };
        let leads =
            matches!(value(infos, keys::GROUP_LEADER)?, Value::Proc(leader) if *leader == source);
        let ended = match value(infos, keys::LOCAL_COLLECTIVE_STATUS) {
            Some(Value::Status(status)) => Some(*status),
            _ => None,
        };
        leads.then_some(Self {
            name,
            leader: source,
            participants,
            is_tolerant: is_set(infos, keys::GROUP_OPTIONAL),
            ended,
        })
    }

    /// The infos of that event.
    pub(crate) fn into_infos(self) -> Vec<Info<'static>> {
        let mut infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_DO_NOT_CACHE, true),
            Info::new(keys::EVENT_CUSTOM_RANGE, self.participants),
            Info::new(keys::GROUP_ID, Value::String(Some(self.name))),
            Info::new(keys::GROUP_LEADER, self.leader),
        ];
        if self.is_tolerant {
            infos.push(Info::new(keys::GROUP_OPTIONAL, true));
        }
        infos.extend(
            self.ended
                .map(|status| Info::new(keys::LOCAL_COLLECTIVE_STATUS, status)),
        );
        infos
    }
}
