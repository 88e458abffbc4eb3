// SPDX-License-Identifier: MIT OR Apache-2.0
//! One collective, seen from this server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pmix_types::{Info, Nspace, Proc, Status, keys};

use super::construct::Leadership;
use super::group_call;
use super::kind::{Collective, GroupName};
use super::participants::Participants;
use crate::Error;
use crate::host::{Connect, Disconnect, Fence, Upcall};
use crate::ids::ClientId;
use crate::infos::{is_set, value};
use crate::peers::Ticket;

/// What makes calls belong together: the same thing done by the same processes, to the same group.
pub(super) type Key = (Collective, Participants, GroupName);

/// One collective, seen from this server.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) key: Key,
    /// The job of the process that began it.
    pub(super) job: Nspace<'static>,
    pub(super) phase: Phase,
    /// The local participants.
    pub(super) slots: BTreeMap<ClientId, Slot>,
    /// Those of them that were not there yet.
    pub(super) missing: BTreeSet<ClientId>,
    /// Whether one of them was gone when it began, of those who had not left the group.
    pub(super) has_lost_participant: bool,
    /// What the participants said about it.
    pub(super) infos: Vec<Info<'static>>,
    /// What each participant said, where a group is concerned: not the same from all of them.
    pub(super) said: Vec<(ClientId, Vec<Info<'static>>)>,
    /// The user of the participant that called first, where a group is constructed.
    user: Option<u32>,
    /// The local participants that had not called when the host was: one that is registered anew after that
    /// is still a member.
    pub(super) absent: Vec<Proc<'static>>,
    /// The local members of a group that were lost since it began: they may be removed, or come back as another
    /// incarnation, before it ends.
    pub(super) lost: BTreeMap<ClientId, Proc<'static>>,
    /// Whether participants that are lost, or leave the group, are done without.
    pub(super) is_tolerant: bool,
    /// Whether any of them wants what the others put.
    pub(super) collects: bool,
    /// Participants of other nodes that were lost since it began: what comes of them may be that of
    /// another incarnation.
    pub(super) stale: Vec<Proc<'static>>,
    /// The leader of a construct, and its open decisions, if it has or had a leader.
    pub(super) leadership: Option<Leadership>,
    /// When it ends without success.
    pub(super) until: Option<Instant>,
    /// How much there is to remember of it, once it has failed, or if the server called by itself.
    pub(super) weight: usize,
    /// Whether the server called by itself, for a destruct without local participants.
    pub(super) is_own_call: bool,
}

/// How far a collective has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Local participants are still to come.
    Gathering,
    /// The host was called.
    Hosting,
    /// It failed, and not all participants know.
    Failed(Status),
}

/// A local participant.
#[derive(Debug)]
pub(super) enum Slot {
    /// It is still to come.
    Expected,
    /// It is there and waits for its answer.
    Arrived(Ticket),
    /// It went away, or it was told.
    Done,
}

impl Tracker {
    pub(super) fn new(key: Key, job: Nspace<'static>) -> Self {
        Self {
            key,
            job,
            phase: Phase::Gathering,
            slots: BTreeMap::new(),
            missing: BTreeSet::new(),
            has_lost_participant: false,
            infos: Vec::new(),
            said: Vec::new(),
            user: None,
            absent: Vec::new(),
            lost: BTreeMap::new(),
            is_tolerant: false,
            collects: false,
            stale: Vec::new(),
            leadership: None,
            until: None,
            weight: 0,
            is_own_call: false,
        }
    }

    /// Adds a local participant that is to come.
    pub(super) fn expect(&mut self, client: ClientId) {
        self.slots.entry(client).or_insert_with(|| {
            self.missing.insert(client);
            Slot::Expected
        });
    }

    /// Whether a call of a process can be its part of this.
    pub(super) fn expects(&self, client: ClientId) -> bool {
        self.missing.contains(&client)
    }

    /// Whether what a participant says is of another user than what those who called before it said.
    pub(super) fn is_of_other_user(&self, infos: &[Info<'_>]) -> bool {
        let is_other = |user: u32| self.user.is_some_and(|known| known != user);
        self.user_of(infos).is_some_and(is_other)
    }

    /// The user of a participant, which [`Groups::construct`](crate::group::Groups::construct) adds to what it says.
    fn user_of(&self, infos: &[Info<'_>]) -> Option<u32> {
        let is_constructed = self.key.0 == Collective::GroupConstruct;
        let user = value(infos, keys::USERID).filter(|_| is_constructed);
        user.and_then(|user| user.to_number().ok())
    }

    /// A participant is there.
    pub(super) fn arrive(&mut self, client: ClientId, ticket: Ticket, infos: Vec<Info<'static>>) {
        self.missing.remove(&client);
        self.slots.insert(client, Slot::Arrived(ticket));
        self.collects |= is_set(&infos, keys::COLLECT_DATA);
        if self.key.0.is_of_group() {
            self.is_tolerant |= group_call::is_tolerant(&infos);
            self.user = self.user.or_else(|| self.user_of(&infos));
            self.said.push((client, infos));
            return;
        }
        self.is_tolerant |= is_set(&infos, keys::GROUP_FT_COLLECTIVE);
        if self.infos.is_empty() {
            self.infos = infos;
            return;
        }
        // The host has to obey what any participant requires.
        for info in infos.into_iter().filter(Info::must_be_obeyed) {
            if !self.infos.iter().any(|known| known.key == info.key) {
                self.infos.push(info);
            }
        }
    }

    /// A participant will not come, or is not there any longer. Tells whether it took part. If it
    /// has called, it is told the same as the others: an incarnation before the one that is lost may
    /// still be connected.
    pub(super) fn lose(&mut self, client: ClientId) -> bool {
        self.missing.remove(&client);
        match self.slots.get_mut(&client) {
            None | Some(Slot::Done) => false,
            Some(Slot::Arrived(_)) => true,
            Some(expected @ Slot::Expected) => {
                *expected = Slot::Done;
                true
            }
        }
    }

    /// Notes which process a client was that is lost, where a group is made.
    pub(super) fn note_lost(&mut self, client: ClientId, proc: &Proc<'static>) {
        if self.key.0 == Collective::GroupConstruct {
            self.lost.entry(client).or_insert_with(|| proc.clone());
        }
    }

    /// Those that have called and are lost since.
    pub(super) fn lost_callers(&self) -> Vec<Proc<'static>> {
        let called: BTreeSet<_> = self.said.iter().map(|(client, _)| *client).collect();
        let lost = self.lost.iter();
        let lost = lost.filter(|(client, _)| called.contains(client));
        lost.map(|(_, proc)| proc.clone()).collect()
    }

    /// What the host is told: all local participants are there and contribute data, or it failed
    /// here.
    pub(super) fn call(
        &self,
        infos: Vec<Info<'static>>,
        data: Vec<u8>,
        failed: Option<Status>,
    ) -> Upcall {
        let procs = self.key.1.to_procs();
        match self.key.0 {
            Collective::Fence => Fence { procs, infos, data }.into(),
            Collective::Connect => Connect {
                procs,
                infos,
                failed,
            }
            .into(),
            Collective::Disconnect => Disconnect {
                procs,
                infos,
                failed,
            }
            .into(),
            kind @ (Collective::GroupConstruct | Collective::GroupDestruct) => {
                let name = self.key.2.clone().unwrap_or_default();
                group_call::upcall(kind, name, procs, &self.said, infos, failed).into()
            }
        }
    }

    /// Whether its one participant called for itself.
    pub(super) fn calls_for_itself(&self) -> bool {
        let is = |info: &Info<'_>| info.key.is(keys::PROCID);
        // No other process takes part in it then.
        let first = self.said.first();
        first.is_some_and(|(_, infos)| infos.iter().any(is))
    }

    /// Whether processes have a part in it of whom the host alone knows.
    pub(super) fn is_gathered(&self) -> bool {
        self.key.0 == Collective::GroupConstruct && group_call::is_gathered(&self.said)
    }

    /// Whether the host said who the members of a group are, where it alone can: if some of them were added,
    /// or want an order that other servers may not know of.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_SUPPORTED` if it did not.
    pub(super) fn check_gathered(&self, is_local: bool) -> Result<(), Error> {
        let is_gathered = self.is_gathered() || (!is_local && group_call::wants_order(&self.said));
        match self.key.0 == Collective::GroupConstruct
            && is_gathered
            && group_call::listed(&self.infos).is_none()
        {
            true => Err(Error::new(
                Status::ERR_NOT_SUPPORTED,
                "the host does not say who the members of a group are",
            )),
            false => Ok(()),
        }
    }

    /// Whether all local participants are there.
    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Forgets all but who is still to be told that it failed.
    pub(super) fn strip(&mut self) {
        let missing = &self.missing;
        self.slots.retain(|client, _| missing.contains(client));
        self.infos = Vec::new();
        self.said = Vec::new();
        self.absent = Vec::new();
        self.lost = BTreeMap::new();
        self.weight = self.key.1.weight() + self.missing.len() * size_of::<ClientId>();
    }

    /// The requests of participants that wait.
    pub(super) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.slots.values().filter_map(|slot| match slot {
            Slot::Arrived(ticket) => Some(ticket),
            Slot::Expected | Slot::Done => None,
        })
    }

    /// The answers that are owed.
    pub(super) fn take_tickets(&mut self) -> Vec<Ticket> {
        let slots = self.slots.values_mut();
        slots
            .filter_map(|slot| match std::mem::replace(slot, Slot::Done) {
                Slot::Arrived(ticket) => Some(ticket),
                other => {
                    *slot = other;
                    None
                }
            })
            .collect()
    }
}
