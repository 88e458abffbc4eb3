// SPDX-License-Identifier: MIT OR Apache-2.0
//! The election of a new leader for an invitation whose leader was lost. The server of the lost leader decides:
//!
//! ```text
//! loss of the leader ── LEADER_FAILED to all ── each process that accepted reports it back, with PMIX_GROUP_LEADER
//!     if it leads ── the first that does ── LEADER_SELECTED to all, with its name ── it invites again
//!     └── none does, or the time has passed ── LEADER_SELECTED without a leader
//! ```
//!
//! The other servers receive the outcome by that event. They end the wait of their own processes if it does not arrive
//! in twice the time.

use pmix_types::{DataArray, Info, IntoOwned as _, Nspace, Proc, Rank, Status, Value, keys};

use super::invitation::answers::Outcome;
use super::invitation::table::{Invitation, Key};
use super::known::Groups;
use super::members::{absent, concerns_us};
use super::membership::event;
use crate::collective::each;
use crate::cx::Cx;
use crate::events::Notification;
use crate::ids::ElectionId;
use crate::infos::{is_set, value};
use crate::procs::Procs;
use crate::timer::Timer;

impl Groups {
    /// Begins the election of a new leader if any process has accepted the invitation of the lost one; otherwise ends
    /// the invitation. Returns the invited processes and the events that follow, or `None` if no invitation is open.
    pub(super) fn leader_lost(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        decides: bool,
    ) -> Option<(Vec<Proc<'static>>, Vec<Notification>)> {
        let invitation = self.invitations.remove(key)?;
        self.note_over(key.clone());
        let list = invitation.list.clone();
        // No process could lead, or an earlier loss of a leader of this name is still being settled.
        if invitation.joined.is_empty() || self.invitations.electing(key).is_some() {
            self.take_bytes(&key.1.nspace, invitation.bytes);
            return Some((list, Vec::new()));
        }
        let time = cx.config.leader_time;
        // The deciding server may use all of its time before its outcome reaches the others.
        let time = time.saturating_mul(if decides { 1 } else { 2 });
        let until = cx.after(time);
        let id = self.invitations.begin_election(invitation, decides, until);
        if let Some(until) = until {
            cx.timers.set(until, Timer::Election(id));
        }
        Some((list, self.settle(cx, key)))
    }

    /// Records the answer of an invited process to the loss of the leader. A process of this node must have accepted;
    /// the answer of a process on another node may arrive before its acceptance.
    pub(super) fn leader_answer(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        source: &Proc<'static>,
        leads: bool,
    ) -> Vec<Notification> {
        // The answer may arrive before the loss, while the invitation is open.
        let Some(invitation) = self.invitations.any_mut(key) else {
            return Vec::new();
        };
        let is_out = cx.registry.was_here(source) && !invitation.joined.contains(source);
        if is_out || !invitation.set.has(source) || !invitation.election.answer(source, leads) {
            return Vec::new();
        }
        self.count_invitation(key);
        self.settle(cx, key)
    }

    /// Ends the election if this server decides and the answers suffice.
    pub(super) fn settle(&mut self, cx: &mut Cx, key: &Key) -> Vec<Notification> {
        let electing = self.invitations.electing(key);
        match electing
            .filter(|open| open.decides())
            .map(Invitation::outcome)
        {
            Some(Outcome::Elected(leader)) => self.selected(cx, key, Some(leader)),
            Some(Outcome::NoLeader) => self.selected(cx, key, None),
            Some(Outcome::Open) | None => Vec::new(),
        }
    }

    /// Ends an election with or without a leader. Returns the event that reports it, and the events that follow.
    fn selected(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        leader: Option<Proc<'static>>,
    ) -> Vec<Notification> {
        let Some(invitation) = self.invitations.electing(key) else {
            return Vec::new();
        };
        let decides = invitation.decides();
        let mut list = invitation.list.clone();
        if !decides {
            // The deciding server notifies the other nodes; this one only ends the wait of its own processes.
            list.retain(|to| to.rank == Rank::WILDCARD || cx.registry.was_here(to));
        }
        let (name, old) = &invitation.key;
        let mut events = event(cx, Status::GROUP_LEADER_SELECTED, name, list.clone(), old);
        if let Some(events) = &mut events {
            if let Some(leader) = leader.clone() {
                // A job that cannot be expanded remains one entry.
                let mut list = each(cx, &list).unwrap_or(list);
                list.retain(|proc| proc != old && !invitation.lost.has(proc));
                let list = Value::DataArray(DataArray::Proc(list));
                events.infos.push(Info::new(keys::GROUP_LEADER, leader));
                events.infos.push(Info::new(keys::GROUP_MEMBERSHIP, list));
            }
            if !decides {
                events.infos.push(Info::new(keys::EVENT_STAYS_LOCAL, true));
                events.directives.stays_local = true;
            }
        }
        let mut events: Vec<_> = events.into_iter().collect();
        events.extend(self.election_ended(cx, key, leader.as_ref()));
        events
    }

    /// Ends an election. If there is a leader and the invitation concerns a process of this node, it is open under that
    /// leader, which must invite again. Returns the events that follow.
    pub(super) fn election_ended(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        leader: Option<&Proc<'static>>,
    ) -> Vec<Notification> {
        let Some((old, timer)) = self.invitations.end_election(key) else {
            return Vec::new();
        };
        self.take_bytes(&key.1.nspace, old.bytes);
        if let Some((until, timer)) = timer {
            cx.timers.cancel(until, timer);
        }
        let Some(leader) = leader else {
            return Vec::new();
        };
        let new = (key.0.clone(), leader.clone());
        let mut list = old.list;
        list.retain(|proc| proc != leader && !old.lost.has(proc));
        // An invitation of lost processes only would remain forever: no deregistered job would remove it.
        if self.invitations.get(&new).is_none() && concerns_us(cx, leader, &list) {
            let mut set = Procs::default();
            set.extend(&list);
            self.invitations.invite(&new, &list, set);
            if let Some(invitation) = self.invitations.get_mut(&new) {
                invitation.joined = old.joined;
                let is_in = |proc: &Proc<'static>| proc != leader && !old.lost.has(proc);
                invitation.joined.retain(is_in);
                invitation.in_place_of = Some(key.1.clone());
            }
            self.count_invitation(&new);
        }
        // The elected process may have been lost, have finalized or have declined in the meantime. A finalizing process
        // still ends the other invitations that it leads itself.
        match old.declined.contains(leader) || !absent(cx, leader).is_empty() {
            true => self.leader_gives_up(cx, &new, &key.1),
            false => Vec::new(),
        }
    }

    /// Handles an elected leader that is lost or declines before it has invited. Its server reports that.
    pub(super) fn leader_gives_up(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        old: &Proc<'static>,
    ) -> Vec<Notification> {
        let (name, leader) = key;
        let due = self.invitations.get(key).map(|open| &open.in_place_of);
        let is_due = due.is_some_and(|of| of.as_ref() == Some(old));
        if !is_due || !cx.registry.was_here(leader) {
            return Vec::new();
        }
        let Some((list, follow)) = self.leader_lost(cx, key, true) else {
            return Vec::new();
        };
        let failed = event(cx, Status::GROUP_LEADER_FAILED, name, list, leader);
        failed.into_iter().chain(follow).collect()
    }

    /// Ends an election by the `PMIX_GROUP_CONSTRUCT_ABORT` of an invited process, if this server decides.
    pub(super) fn election_aborted(&mut self, cx: &mut Cx, key: &Key) -> Vec<Notification> {
        let electing = self.invitations.electing(key);
        let Some(invitation) = electing.filter(|open| open.decides()) else {
            return Vec::new();
        };
        let list = invitation.list.clone();
        let events = event(cx, Status::GROUP_CONSTRUCT_ABORT, &key.0, list, &key.1);
        self.election_ended(cx, key, None);
        events.into_iter().collect()
    }

    /// Handles the loss of a process that was invited to a group without a leader.
    pub(super) fn candidate_lost(
        &mut self,
        cx: &mut Cx,
        proc: &Proc<'static>,
    ) -> Vec<Notification> {
        let mut events = Vec::new();
        for key in self.invitations.electing_of(proc) {
            if let Some(invitation) = self.invitations.electing_mut(&key) {
                invitation.add_lost(proc);
            }
            self.count_invitation(&key);
            events.extend(self.settle(cx, &key));
            // The deciding server may be on another node, which does not observe this process.
            let electing = self.invitations.electing(&key);
            if electing.is_some_and(|open| !open.decides()) && cx.registry.was_here(proc) {
                let to = vec![key.1.clone()];
                events.extend(event(cx, Status::GROUP_INVITE_FAILED, &key.0, to, proc));
            }
        }
        events
    }

    /// Handles the report of another server that an invited process is lost. Returns the events that follow, or `None`
    /// without such an election or if the loss was known.
    pub(super) fn learn_lost_candidate(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        proc: &Proc<'static>,
    ) -> Option<Vec<Notification>> {
        let invitation = self.invitations.electing_mut(key)?;
        if invitation.lost.has(proc) {
            return None;
        }
        invitation.add_lost(proc);
        self.count_invitation(key);
        Some(self.settle(cx, key))
    }

    /// Ends an election without a leader after its time limit.
    pub(crate) fn election_expired(&mut self, cx: &mut Cx, id: ElectionId) -> Vec<Notification> {
        let expired = self.invitations.expire_election(id);
        expired.map_or_else(Vec::new, |key| self.selected(cx, &key, None))
    }

    /// Ends the elections that concern no process of this node after a job was deregistered.
    pub(super) fn forget_elections(&mut self, cx: &mut Cx, nspace: &Nspace<'_>) {
        for key in self.invitations.of_job(nspace, false) {
            let list = self.invitations.electing(&key).map(|open| &open.list);
            let is_here = |proc: &Proc<'_>| cx.registry.job(&proc.nspace).is_some();
            if !list.is_some_and(|list| list.iter().any(is_here)) {
                self.election_ended(cx, &key, None);
            }
        }
    }

    /// Updates the counted memory of an invitation, with or without a leader.
    pub(super) fn count_invitation(&mut self, key: &Key) {
        if let Some(invitation) = self.invitations.any_mut(key) {
            let (before, after) = invitation.count();
            // The memory shrinks if a process declines after it had accepted.
            self.take_bytes(&key.1.nspace, before);
            self.add_bytes(&key.1.nspace, after);
        }
    }
}

/// Returns `true` if a process that reports a lost leader is willing to lead.
pub(super) fn leads(infos: &[Info<'_>]) -> bool {
    is_set(infos, keys::GROUP_LEADER)
}

/// Returns the leader that a server reports as elected.
pub(super) fn chosen(infos: &[Info<'_>]) -> Option<Proc<'static>> {
    match value(infos, keys::GROUP_LEADER)? {
        Value::Proc(leader) => Some(leader.clone().into_owned()),
        _ => None,
    }
}
