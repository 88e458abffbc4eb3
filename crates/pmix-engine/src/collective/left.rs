// SPDX-License-Identifier: MIT OR Apache-2.0
//! The collectives of a group when a member leaves it.
//!
//! The name of a group in a fence, connect or disconnect selects the current members. A collective that has begun with
//! a departing member begins again with the others, if a caller set `PMIX_GROUP_FT_COLLECTIVE`. The host's part of a
//! collective does not change.
//!
//! A destruct is for all members of the construct. All servers thus pass the same processes to the host, independent of
//! the departures and losses that they know of. The call of a departed member is not awaited. Without remaining local
//! members, the server calls the host itself.

use pmix_types::{Info, Nspace, Proc, Status};

use super::group_call::{DesertedGroup, GroupCall, MemberLeft};
use super::kind::Collective;
use super::participants::Participants;
use super::table::Collectives;
use super::tracker::{Key, Phase, Slot, Tracker};
use crate::cx::Cx;
use crate::ids::{ClientId, TrackerId};
use crate::peers::Ticket;
use crate::procs::Procs;

impl Collectives {
    /// Begins the collectives of a group again, without the member that left.
    pub(crate) fn member_left(&mut self, cx: &mut Cx, left: &MemberLeft) {
        let Some(first) = left.before.first() else {
            return;
        };
        let of = |procs: &[Proc<'static>]| {
            let size = |nspace: &Nspace<'_>| Ok(cx.job_size(nspace));
            Participants::of(procs, &first.nspace, size, |_, _| true)
        };
        let (Ok(before), Ok(members)) = (of(&left.before), of(&left.members)) else {
            return;
        };
        for kind in [
            Collective::Fence,
            Collective::Connect,
            Collective::Disconnect,
        ] {
            for id in self.of_key(&(kind, before.clone(), None)) {
                // Other callers wait for the departed member until their time limit, and an upcall cannot be changed.
                let may =
                    |tracker: &Tracker| tracker.is_tolerant && tracker.phase == Phase::Gathering;
                if self.get(id).is_some_and(may) {
                    self.begin_again(cx, id, left);
                }
            }
        }
        let key = (Collective::GroupDestruct, members, Some(left.name.clone()));
        for id in self.of_key(&key) {
            self.do_without(cx, id, std::slice::from_ref(&left.proc));
            match self.get(id).map(|tracker| tracker.phase) {
                // The departed member may have been the last missing one.
                Some(Phase::Gathering) => self.go_on(cx, id),
                Some(Phase::Failed(_)) => self.tidy(id),
                Some(Phase::Hosting) | None => {}
            }
        }
    }

    /// Begins the destruct of a group at its first call, so that departed and lost members are not awaited.
    pub(super) fn begin_without(&mut self, cx: &mut Cx, call: &GroupCall) {
        if call.not_awaited.is_empty() && !call.has_lost {
            return;
        }
        let found = Self::caller_and_participants(cx, &call.ticket, &call.procs);
        let Ok((client, participants)) = found else {
            return;
        };
        // The participants are not known yet, so no tracker can begin for them.
        if Self::is_early(cx, &participants) {
            return;
        }
        let (kind, name) = call.collective.clone();
        let key = (kind, participants, name);
        if self.find(&key, client).is_some() {
            return;
        }
        let mut without = Procs::default();
        without.extend(&call.not_awaited);
        let has_lost = Self::any_lost(cx, &key.1, |proc| !without.has(proc));
        // The error is reported when the call itself is handled.
        if let Ok(id) = self.tracker_of(cx, client, key) {
            if let Some(tracker) = self.get_mut(id) {
                tracker.has_lost_participant = call.has_lost || has_lost;
            }
            self.do_without(cx, id, &call.not_awaited);
        }
    }

    /// Drops participants of a destruct. A departing caller gets its reply at once.
    fn do_without(&mut self, cx: &mut Cx, id: TrackerId, procs: &[Proc<'static>]) {
        for proc in procs {
            let client = cx.registry.find(&proc.nspace, proc.rank);
            if let (Some(client), Some(tracker)) = (client, self.get_mut(id))
                && let Some(ticket) = tracker.do_without(client)
            {
                cx.reply_status(ticket, Status::ERR_NOT_FOUND);
            }
        }
    }

    /// Handles the call of a process that calls for itself. If it was lost after an earlier call, it replaces itself as
    /// a member.
    pub(super) fn calls_again(&mut self, cx: &Cx, id: TrackerId, client: ClientId) {
        let tracker = self.get(id).filter(|tracker| tracker.calls_for_itself());
        let proc = cx.registry.client(client).map(|client| &client.proc);
        let (Some(tracker), Some(proc)) = (tracker, proc) else {
            return;
        };
        let earlier = self.of_key(&tracker.key);
        for id in earlier.into_iter().filter(|earlier| *earlier < id) {
            if let Some(tracker) = self.get_mut(id) {
                tracker.construct.lost.retain(|_, lost| lost != proc);
            }
        }
    }

    /// Calls the host for the destruct of a group without local members.
    pub(crate) fn group_deserted(&mut self, cx: &mut Cx, group: DesertedGroup) {
        let size = |nspace: &Nspace<'_>| Ok(cx.job_size(nspace));
        let Ok(members) = Participants::of(&group.members, &group.job, size, |_, _| true) else {
            return;
        };
        let key: Key = (Collective::GroupDestruct, members, Some(group.name));
        let is_open = |tracker: &Tracker| !matches!(tracker.phase, Phase::Failed(_));
        let is_begun = self.first(&key, is_open).is_some();
        // No other node waits for a local group, and a destruct that has begun calls the host anyway.
        if is_begun || Self::is_early(cx, &key.1) || Self::is_local(cx, &key.1) {
            return;
        }
        let tracker = Tracker::new(key, group.job, cx.now);
        let failed = group.fails.then_some(Status::ERR_LOST_CONNECTION);
        let Ok(call) = tracker.call(Vec::new(), Vec::new(), failed) else {
            return;
        };
        let has_room = self.check_room(&tracker.job).is_ok();
        match has_room.then(|| self.add_own_call(tracker)).flatten() {
            Some(id) => self.queue_upcall(cx, id, Some(call)),
            None => {
                tracing::debug!("other nodes wait for the destruct of a group until their timeout")
            }
        }
    }

    /// Removes the destructs that the server called itself, once no participant belongs to a registered job.
    pub(crate) fn own_calls_of_job_gone(&mut self, cx: &Cx) {
        if self.has_own_calls() {
            let is_of_nobody = |tracker: &Tracker| {
                tracker.is_own_call && tracker.key.1.local_jobs(&cx.registry).is_empty()
            };
            for id in self.which(is_of_nobody) {
                self.remove(id);
            }
        }
    }

    fn begin_again(&mut self, cx: &mut Cx, id: TrackerId, left: &MemberLeft) {
        // This tracker does not call the host any more, so later upcalls must not wait for it.
        self.queue_upcall(cx, id, None);
        let Some(mut tracker) = self.remove(id) else {
            return;
        };
        Self::cancel_deadline(cx, id, &tracker);
        let until = tracker.until;
        for (client, ticket) in tracker.take_arrived() {
            let infos = tracker.infos_of(client);
            match Self::caller_and_participants(cx, &ticket, &left.now) {
                Ok((client, participants)) => {
                    let key: Key = (tracker.key.0, participants, tracker.key.2.clone());
                    self.add_participant(cx, ticket, client, key, infos, until);
                }
                // This participant has left.
                Err(_) => cx.reply_status(ticket, Status::ERR_NOT_FOUND),
            }
        }
    }
}

impl Tracker {
    /// Drops a participant. Returns its ticket, if it has called.
    fn do_without(&mut self, client: ClientId) -> Option<Ticket> {
        self.missing.remove(&client);
        match std::mem::replace(self.slots.get_mut(&client)?, Slot::Done) {
            Slot::Arrived(ticket) => Some(ticket),
            Slot::Expected | Slot::Done => None,
        }
    }

    /// Returns the tickets of the callers, with their clients.
    fn take_arrived(&mut self) -> Vec<(ClientId, Ticket)> {
        let slots = std::mem::take(&mut self.slots).into_iter();
        let arrived = slots.filter_map(|(client, slot)| match slot {
            Slot::Arrived(ticket) => Some((client, ticket)),
            Slot::Expected | Slot::Done => None,
        });
        arrived.collect()
    }

    /// Returns the infos of a participant. Except for groups, the infos of the first caller apply to all.
    fn infos_of(&self, client: ClientId) -> Vec<Info<'static>> {
        let caller_infos = self.caller_infos.iter().find(|(other, _)| *other == client);
        caller_infos.map_or_else(|| self.infos.clone(), |(_, infos)| infos.clone())
    }
}
