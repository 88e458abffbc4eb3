// SPDX-License-Identifier: MIT OR Apache-2.0
//! A new leader of an invitation whose leader is lost. The server of the one that is lost decides, so that
//! no two are chosen:
//!
//! ```text
//! loss of the leader ── LEADER_FAILED to all ── each that accepted reports it back, with PMIX_GROUP_LEADER if it
//!     leads ── the first that does so ── LEADER_SELECTED to all, with it ── it invites anew
//!     └── nobody does, or the time is over ── LEADER_SELECTED without a leader
//! ```
//!
//! A server of another node ends the wait of its own processes if it hears nothing in twice the time.

use pmix_types::{DataArray, Info, Nspace, Proc, Rank, Status, Value, keys};

use super::invitation::concerns_us;
use super::invited::Key;
use super::known::Groups;
use super::membership::event;
use super::selections::{Selection, absent};
use crate::collective::each;
use crate::cx::Cx;
use crate::events::Notification;
use crate::ids::SelectionId;
use crate::timer::Timer;

impl Groups {
    /// The leader of an invitation is lost: those who accepted may choose another. Returns whom it
    /// concerns, and what follows at once.
    pub(super) fn leader_lost(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        decides: bool,
    ) -> Option<(Vec<Proc<'static>>, Vec<Notification>)> {
        let invitation = self.invitations.remove(key)?;
        self.note_over(key.clone());
        let list = invitation.list.clone();
        if invitation.joined.is_empty() || self.selections.by_key.contains_key(key) {
            self.take_bytes(&key.1.nspace, invitation.bytes);
            return Some((list, Vec::new()));
        }
        let time = cx.config.leader_time;
        let time = if decides {
            time
        } else {
            time.saturating_mul(2)
        };
        let until = cx.after(time);
        let id = self.selections.add(Selection {
            invitation,
            decides,
            until,
        });
        if let Some(until) = until {
            cx.timers.set(until, Timer::Leader(id));
        }
        Some((list, self.settle(cx, key)))
    }

    /// One that was invited says whether it leads in the place of the one that is lost. Of this node it has
    /// accepted by then, or is not in.
    pub(super) fn leader_answer(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        source: &Proc<'static>,
        leads: bool,
    ) -> Vec<Notification> {
        let selection = self.selections.get_mut(key);
        // The answer may come before the loss.
        let known = match selection {
            Some(selection) => &mut selection.invitation,
            None => match self.invitations.get_mut(key) {
                Some(invitation) => invitation,
                None => return Vec::new(),
            },
        };
        let is_out = cx.registry.was_here(source) && !known.joined.contains(source);
        if is_out || !known.set.has(source) || !known.answered.insert(source.clone()) {
            return Vec::new();
        }
        if leads {
            known.leads.push(source.clone());
        }
        self.count_invitation(key);
        self.settle(cx, key)
    }

    /// Decides, if this server does and there is enough to go by.
    pub(super) fn settle(&mut self, cx: &mut Cx, key: &Key) -> Vec<Notification> {
        let Some(selection) = self.selections.get_mut(key).filter(|open| open.decides) else {
            return Vec::new();
        };
        match selection.outcome() {
            (Some(leader), _) => self.selected(cx, key, Some(leader)),
            (None, true) => self.selected(cx, key, None),
            (None, false) => Vec::new(),
        }
    }

    /// Tells all whom it concerns who leads now.
    fn selected(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        leader: Option<Proc<'static>>,
    ) -> Vec<Notification> {
        let Some(selection) = self.selections.get_mut(key) else {
            return Vec::new();
        };
        let (known, decides) = (&selection.invitation, selection.decides);
        let mut list = known.list.clone();
        if !decides {
            list.retain(|to| to.rank == Rank::WILDCARD || cx.registry.was_here(to));
        }
        let (name, old) = &known.key;
        let mut told = event(cx, Status::GROUP_LEADER_SELECTED, name, list.clone(), old);
        if let Some(told) = &mut told {
            if let Some(leader) = leader.clone() {
                let mut list = each(cx, &list);
                list.retain(|proc| proc != old && !known.gone.has(proc));
                let list = Value::DataArray(DataArray::Proc(list));
                told.infos.push(Info::new(keys::GROUP_LEADER, leader));
                told.infos.push(Info::new(keys::GROUP_MEMBERSHIP, list));
            }
            if !decides {
                told.infos.push(Info::new(keys::EVENT_STAYS_LOCAL, true));
                told.directives.stays_local = true;
            }
        }
        let mut told: Vec<_> = told.into_iter().collect();
        told.extend(self.selection_ended(cx, key, leader.as_ref()));
        told
    }

    /// It is known who leads, if anybody does: the invitation is open under that leader, until it invites
    /// itself or is lost, wherever it concerns anybody.
    pub(super) fn selection_ended(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        leader: Option<&Proc<'static>>,
    ) -> Vec<Notification> {
        let Some((id, selection)) = self.selections.remove(key) else {
            return Vec::new();
        };
        let old = selection.invitation;
        self.take_bytes(&key.1.nspace, old.bytes);
        if let Some(until) = selection.until {
            cx.timers.cancel(until, Timer::Leader(id));
        }
        let Some(leader) = leader else {
            return Vec::new();
        };
        let new = (key.0.clone(), leader.clone());
        let mut list = old.list;
        list.retain(|proc| proc != leader && !old.gone.has(proc));
        // Where all who were invited are lost, no job would take it along when it goes.
        if self.invitations.get(&new).is_none() && concerns_us(cx, leader, &list) {
            self.invitations.invite(&new, &list);
            if let Some(known) = self.invitations.get_mut(&new) {
                known.joined = old.joined;
                let is_in = |proc: &Proc<'static>| proc != leader && !old.gone.has(proc);
                known.joined.retain(is_in);
                known.in_place_of = Some(key.1.clone());
            }
            self.count_invitation(&new);
        }
        // Who was chosen may be gone by now, or on its way, or have given up what it had accepted.
        // What else it leads while it finalizes, it may still end itself.
        match old.declined.contains(leader) || !absent(cx, leader).is_empty() {
            true => self.leader_gives_up(cx, &new, &key.1),
            false => Vec::new(),
        }
    }

    /// One that was chosen to lead is not in any longer, and has not invited. Its server says so.
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

    /// The construction is given up while there is no leader.
    pub(super) fn selection_aborted(&mut self, cx: &mut Cx, key: &Key) -> Vec<Notification> {
        let Some(selection) = self.selections.get_mut(key).filter(|open| open.decides) else {
            return Vec::new();
        };
        let list = selection.invitation.list.clone();
        let told = event(cx, Status::GROUP_CONSTRUCT_ABORT, &key.0, list, &key.1);
        self.selection_ended(cx, key, None);
        told.into_iter().collect()
    }

    /// A process is lost that may have wanted to lead, or was waited for.
    pub(super) fn lose_candidate(
        &mut self,
        cx: &mut Cx,
        proc: &Proc<'static>,
    ) -> Vec<Notification> {
        let concerned = self.selections.keys(self.selections.by_proc.of(proc));
        let mut told = Vec::new();
        for key in concerned {
            if let Some(selection) = self.selections.get_mut(&key) {
                selection.invitation.gone.extend(std::slice::from_ref(proc));
            }
            self.count_invitation(&key);
            told.extend(self.settle(cx, &key));
            // The server that decides may not hear of it otherwise.
            let is_open = { self.selections.get_mut(&key) }.is_some_and(|open| !open.decides);
            if is_open && cx.registry.was_here(proc) {
                let to = vec![key.1.clone()];
                told.extend(event(cx, Status::GROUP_INVITE_FAILED, &key.0, to, proc));
            }
        }
        told
    }

    /// Another server says that one is lost that may have wanted to lead. Returns what follows, if it was
    /// not known.
    pub(super) fn candidate_lost(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        proc: &Proc<'static>,
    ) -> Option<Vec<Notification>> {
        let known = &mut self.selections.get_mut(key)?.invitation;
        if known.gone.has(proc) {
            return None;
        }
        known.gone.extend(std::slice::from_ref(proc));
        self.count_invitation(key);
        Some(self.settle(cx, key))
    }

    /// The time to choose a leader is over.
    pub(crate) fn leader_expired(&mut self, cx: &mut Cx, id: SelectionId) -> Vec<Notification> {
        let Some(selection) = self.selections.open.get_mut(&id) else {
            return Vec::new();
        };
        selection.until = None;
        let key = selection.invitation.key.clone();
        self.selected(cx, &key, None)
    }

    /// A job is gone: selections that concern nobody here end.
    pub(super) fn forget_selections(&mut self, cx: &mut Cx, nspace: &Nspace<'_>) {
        for key in self.selections.keys(self.selections.by_proc.of_job(nspace)) {
            let selection = self.selections.get_mut(&key);
            let list = selection.map(|open| &open.invitation.list);
            let is_here = |proc: &Proc<'_>| cx.registry.job(&proc.nspace).is_some();
            if !list.is_some_and(|list| list.iter().any(is_here)) {
                self.selection_ended(cx, &key, None);
            }
        }
    }

    /// Counts what an invitation takes by now, with a leader or without.
    pub(super) fn count_invitation(&mut self, key: &Key) {
        let selection = self.selections.get_mut(key);
        let open = selection.map(|selection| &mut selection.invitation);
        if let Some(invitation) = open.or_else(|| self.invitations.get_mut(key)) {
            let all = invitation.weight();
            let before = std::mem::replace(&mut invitation.bytes, all);
            // Who declines after all is counted no longer.
            self.take_bytes(&key.1.nspace, before);
            self.add_bytes(&key.1.nspace, all);
        }
    }
}
