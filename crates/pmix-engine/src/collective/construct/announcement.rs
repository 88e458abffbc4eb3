// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages between servers about constructs with a leader, by which a leader decides about processes of all nodes.
//!
//! | event | source | receivers | meaning |
//! | --- | --- | --- | --- |
//! | `PMIX_GROUP_LEADER_SELECTED` without `PMIX_EVENT_AFFECTED_PROC` | leader | other servers | the process leads from its call on; with `PMIX_GROUP_OPTIONAL` the group is formed without lost members |
//! | the same with `PMIX_LOCAL_COLLECTIVE_STATUS` | leader | other servers | the construct has ended on the node of the leader |
//! | `PMIX_GROUP_LEADER_FAILED`, `_SELECTED` with `PMIX_EVENT_AFFECTED_PROC` | server | all | the leader is lost; its successor, or none |
//! | `PMIX_GROUP_CONSTRUCT_ABORT` with it | server | other servers | a member ended the construct during an election |
//!
//! The first two have the participants as their range, and clients do not receive them. A server that receives the
//! first one begins the construct as if one of its processes had called. The leader is then asked about lost processes
//! there, even if no process is left to call.

use pmix_types::{DataArray, Info, Nspace, Proc, Status, Text, Value, keys};

use super::super::group_call::{GroupOutcome, is_tolerant};
use super::super::kind::Collective;
use super::super::participants::Participants;
use super::super::table::Collectives;
use super::super::tracker::{Key, Phase, Slot, Tracker};
use super::leadership::{Announcement, Leader, Leadership};
use crate::cx::Cx;
use crate::ids::TrackerId;
use crate::infos::{is_set, value};

/// The limit of announcements that wait for the registration of their jobs.
const MAX_EARLY: usize = 64;

impl Collectives {
    /// Announces a leader of this node to the servers of the other nodes.
    pub(in super::super) fn announce(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let infos = tracker.caller_infos.iter().map(|(_, infos)| infos);
        let is_tolerant = { infos }.any(|infos| is_tolerant(infos));
        let (_, participants, Some(name)) = &tracker.key else {
            return;
        };
        let (name, participants) = (name.clone(), participants.to_procs());
        if let Some(leadership) = &mut tracker.construct.leadership
            && let Some(leader) = leadership.leader().cloned()
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

    /// Announces that a construct has ended here. A server that receives the first announcement after the end does not
    /// wait for another construct of these members.
    pub(in super::super) fn announce_end(&mut self, cx: &mut Cx, id: TrackerId, status: Status) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let (_, participants, Some(name)) = &tracker.key else {
            return;
        };
        let announced = tracker.construct.leadership.as_mut();
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

    /// Returns `true` if an event is an announcement, which only servers raise.
    pub(in super::super) fn is_announcement(status: Status, infos: &[Info<'_>]) -> bool {
        status == Status::GROUP_LEADER_SELECTED
            && value(infos, keys::EVENT_AFFECTED_PROC).is_none()
            && matches!(value(infos, keys::GROUP_LEADER), Some(Value::Proc(_)))
    }

    /// Handles an event of another node. Returns `true` as [`handle_member_decision`](Self::handle_member_decision)
    /// does.
    pub(crate) fn handle_remote_decision(
        &mut self,
        cx: &mut Cx,
        source: &Proc<'_>,
        status: Status,
        infos: &[Info<'_>],
    ) -> bool {
        let source = Proc::new(source.nspace.to_shared(), source.rank);
        let is_announcement = Self::is_announcement(status, infos);
        // The host may return an event to its origin, where a local decision has been handled already.
        if cx.registry.was_here(&source) {
            return is_announcement;
        }
        if is_announcement {
            if let Some(announcement) = Announcement::of(source, infos) {
                self.announced(cx, announcement);
            }
            return true;
        }
        if let Some((id, decision)) = self.construct_decided_by(&source, status, infos) {
            self.decided(cx, id, &decision);
            return true;
        }
        // The namespace of a server is not a registered job, so an event from a process of a job is not handled here.
        cx.store.job(&source.nspace).is_none() && self.handle_server_event(cx, status, infos)
    }

    /// Handles an announcement, or stores it until its jobs are registered.
    pub(in super::super) fn announced(&mut self, cx: &mut Cx, announcement: Announcement) {
        let (list, own) = (&announcement.participants, &announcement.leader.nspace);
        let size = |nspace: &Nspace<'_>| Ok(cx.job_size(nspace));
        let Ok(participants) = Participants::of(list, own, size, |_, _| true) else {
            return;
        };
        // Only a participant can lead; the server of any other process would not announce it.
        if !participants.has(&announcement.leader) {
            return;
        }
        let is_known = !participants.local_jobs(&cx.registry).is_empty();
        if !is_known || Self::is_early(cx, &participants) {
            self.announced_early(cx, announcement);
            return;
        }
        let key = (
            Collective::GroupConstruct,
            participants,
            Some(announcement.name),
        );
        match announcement.ended {
            None => self.leads_elsewhere(cx, key, &announcement.leader, announcement.is_tolerant),
            Some(_) => self.ended_elsewhere(cx, &key, &announcement.leader),
        }
    }

    /// Registers a leader of another node. The construct begins here as if a participant had called, so that the leader
    /// is asked about lost processes even if no process is left to call.
    fn leads_elsewhere(
        &mut self,
        cx: &mut Cx,
        key: Key,
        leader: &Proc<'static>,
        is_tolerant: bool,
    ) {
        let is_next = |tracker: &Tracker| {
            let leadership = tracker.construct.leadership.as_ref();
            leadership.is_none_or(|led| !led.announced_leaders.contains(leader))
        };
        let has_part = |cx: &Cx, participants| {
            !Self::local(cx, participants).is_empty() || !Self::lost_of(cx, participants).is_empty()
        };
        let known = self.first(&key, is_next);
        // The host may have ended this construct before it delivered the announcement.
        let has_ended = known.is_none() && self.take_recent(&key);
        let id = match known {
            Some(id) => id,
            // Without a participant here, lost or not, this server never has to ask the leader.
            None if !has_part(cx, &key.1) => return,
            None => match self.begin(cx, key, leader.nspace.clone()) {
                Ok(id) => id,
                Err(error) => {
                    tracing::warn!(%error, "cannot invite for a leader on another node");
                    return;
                }
            },
        };
        let is_first =
            { self.get(id) }.is_some_and(|tracker| tracker.construct.leadership.is_none());
        let Some(leadership) = self.begin_leadership(id, false) else {
            return;
        };
        leadership.announced_leaders.push(leader.clone());
        // Of several leaders the first by name leads, so that all nodes agree.
        let leads = match leadership.leader() {
            Some(known) => leader < known,
            None => is_first,
        };
        if leads {
            leadership.leader = Leader::Leads(leader.clone());
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
            true => self.ask_about_lost(cx, id),
            false => {}
        }
        self.go_on(cx, id);
    }

    /// Handles the end of a construct on the node of its leader: no decision will follow. Without a local call, the
    /// construct is dropped.
    fn ended_elsewhere(&mut self, cx: &mut Cx, key: &Key, leader: &Proc<'static>) {
        let is_it = |tracker: &Tracker| {
            let leadership = tracker.construct.leadership.as_ref();
            tracker.phase == Phase::Gathering
                && leadership.is_some_and(|led| led.announced_leaders.contains(leader))
        };
        let Some(id) = self.first(key, is_it) else {
            return;
        };
        // No local process waits for a reply.
        if self.get(id).is_some_and(Tracker::is_without_calls) {
            return self.drop_led(cx, id);
        }
        let Some(leadership) = self.leadership_of(id) else {
            return;
        };
        leadership.announced_leaders.retain(|known| known != leader);
        if leadership.leader() == Some(leader) {
            leadership.leader = Leader::None;
        }
        if leadership.leader().is_none() {
            match leadership.is_open() {
                true => self.leader_unreachable(cx, id),
                false => self.close_leadership(cx, id),
            }
        }
    }

    /// Drops a construct without local calls.
    fn drop_led(&mut self, cx: &mut Cx, id: TrackerId) {
        self.close_leadership(cx, id);
        self.queue_upcall(cx, id, None);
        if let Some(tracker) = self.remove(id) {
            Self::cancel_deadline(cx, id, &tracker);
        }
    }

    /// Stores an announcement until its jobs are registered.
    fn announced_early(&mut self, cx: &Cx, announcement: Announcement) {
        let early = &mut self.early_announcements;
        // Beginning and end cancel out; the construct needs nothing of this server any more.
        if announcement.ended.is_some() {
            let is_it = |(_, other): &(_, Announcement)| {
                other.leader == announcement.leader && other.name == announcement.name
            };
            if let Some(place) = early.iter().position(is_it) {
                early.remove(place);
            }
            return;
        }
        // Other servers send these events, so their number is bounded here.
        while early.len() >= MAX_EARLY {
            early.pop_front();
        }
        early.push_back((cx.now, announcement));
    }

    /// Handles the stored announcements again after a job or process was registered or deregistered.
    pub(in super::super) fn take_announcements(&mut self, cx: &mut Cx) {
        for (at, announcement) in std::mem::take(&mut self.early_announcements) {
            let age = { cx.now.zip(at) }.map(|(now, at)| now.saturating_duration_since(at));
            // The calls of processes do not wait longer for the registration either.
            if age.is_none_or(|age| age < cx.config.registration_time) {
                self.announced(cx, announcement);
            }
        }
    }

    /// Ends the constructs with a leader that cannot have local participants any more after a job was deregistered.
    pub(crate) fn led_job_gone(&mut self, cx: &mut Cx) {
        let is_of_nobody = |tracker: &Tracker| {
            tracker.phase == Phase::Gathering
                && tracker.construct.leadership.is_some()
                && tracker.key.1.local_jobs(&cx.registry).is_empty()
        };
        for id in self.which(is_of_nobody) {
            let is_begun = self.get(id).is_some_and(|tracker| {
                let leadership = tracker.construct.leadership.as_ref();
                !tracker.is_without_calls() || leadership.is_some_and(Leadership::is_open)
            });
            match is_begun {
                true => self.fail(cx, id, Status::ERR_LOST_CONNECTION),
                false => self.drop_led(cx, id),
            }
        }
    }

    /// Handles the event of another server about a construct whose leader is lost. Returns `true` if clients should not
    /// receive it.
    fn handle_server_event(&mut self, cx: &mut Cx, status: Status, infos: &[Info<'_>]) -> bool {
        let Some(Value::String(Some(name))) = value(infos, keys::GROUP_ID) else {
            return false;
        };
        let Some(Value::Proc(about)) = value(infos, keys::EVENT_AFFECTED_PROC) else {
            return false;
        };
        let old = Proc::new(about.nspace.to_shared(), about.rank);
        let is_it = |id: &TrackerId| {
            let leadership = self
                .get(*id)
                .and_then(|open| open.construct.leadership.as_ref());
            leadership.is_some_and(|led| match &led.leader {
                Leader::Leads(leader) | Leader::ElectingElsewhere(leader) => *leader == old,
                Leader::None | Leader::Electing(_) => false,
            })
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
                self.elected_elsewhere(cx, id, leader);
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
}

impl Tracker {
    /// Returns `true` if no local process has called.
    fn is_without_calls(&self) -> bool {
        let mut slots = self.slots.values();
        self.caller_infos.is_empty() && !slots.any(|slot| matches!(slot, Slot::Arrived(_)))
    }
}

impl Announcement {
    /// Decodes an announcement from the infos of its event.
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

    /// Returns the infos of the event.
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
