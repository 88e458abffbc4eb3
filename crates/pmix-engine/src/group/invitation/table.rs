// SPDX-License-Identifier: MIT OR Apache-2.0
//! The invitations that have not ended, by group and leader, and by process.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::slice;
use std::time::Instant;

use pmix_types::{IntoOwned as _, Nspace, Proc, Text};

use super::super::index::ByProc;
use super::super::members;
use super::answers::{Election, Outcome};
use crate::ids::ElectionId;
use crate::procs::Procs;
use crate::recount::Recount;
use crate::timer::Timer;

/// The key of an invitation: the group name and the leader.
pub(in super::super) type Key = (Text<'static>, Proc<'static>);

/// Returns the key of an invitation.
pub(in super::super) fn key_of(name: &Text<'_>, leader: &Proc<'_>) -> Key {
    (name.clone().into_owned(), leader.clone().into_owned())
}

/// The invitations that have not ended.
#[derive(Debug, Default)]
pub(in super::super) struct Invitations {
    last: u64,
    all: BTreeMap<u64, Invitation>,
    /// The invitations in [`State::Open`].
    open: HashMap<Key, u64>,
    /// The invitations in [`State::Electing`], by their lost leader. A leader that was elected elsewhere may have an
    /// open invitation of the same name.
    electing: HashMap<Key, u64>,
    /// The number of open invitations that each process leads.
    num_led: HashMap<Proc<'static>, usize>,
    /// The invitations by invited process, and the open ones by leader.
    by_proc: ByProc,
}

/// The state of an invitation. Ended invitations are not stored.
#[derive(Debug)]
pub(in super::super) enum State {
    /// The leader waits for answers.
    Open,
    /// The leader is lost, and a new one is being elected.
    Electing {
        /// `true` if the leader was a process of this node, so that this server decides.
        decides: bool,
        /// The time at which the election ends without a leader.
        until: Option<Instant>,
    },
}

/// An invitation to a group.
#[derive(Debug)]
pub(in super::super) struct Invitation {
    pub(in super::super) key: Key,
    pub(in super::super) state: State,
    /// The invited processes.
    pub(in super::super) list: Vec<Proc<'static>>,
    /// The estimated memory of the list and its indexes. It is updated as the list grows, because each answer updates
    /// the count of the whole invitation.
    list_bytes: usize,
    /// The invited processes, for lookups.
    pub(in super::super) set: Procs,
    /// The lost processes reported to the leader.
    pub(in super::super) lost: Procs,
    /// The processes that have accepted.
    pub(in super::super) joined: HashSet<Proc<'static>>,
    /// The processes that have declined, possibly after they had accepted.
    pub(in super::super) declined: HashSet<Proc<'static>>,
    /// The answers to the loss of the leader, which may arrive before the loss.
    pub(in super::super) election: Election,
    /// The lost leader that the leader replaces, until the leader invites.
    pub(in super::super) in_place_of: Option<Proc<'static>>,
    /// The last counted memory, an estimate.
    pub(in super::super) bytes: usize,
}

impl Invitation {
    fn new(key: Key) -> Self {
        Self {
            key,
            state: State::Open,
            list: Vec::new(),
            list_bytes: 0,
            set: Procs::default(),
            lost: Procs::default(),
            joined: HashSet::new(),
            declined: HashSet::new(),
            election: Election::default(),
            in_place_of: None,
            bytes: 0,
        }
    }

    /// Returns the estimated memory of the invitation in bytes.
    fn weight(&self) -> usize {
        let (name, leader) = &self.key;
        let of_one = size_of::<Proc<'_>>() + leader.nspace.as_bytes().len();
        let answers = self.joined.len() + self.declined.len() + self.election.len();
        let more = answers + self.lost.len();
        size_of::<Self>() + name.len() + self.list_bytes + more * of_one
    }

    /// Updates the counted memory of the invitation. Returns the old and the new count.
    pub(in super::super) fn count(&mut self) -> (usize, usize) {
        let after = self.weight();
        (std::mem::replace(&mut self.bytes, after), after)
    }

    /// Records that a process is lost.
    pub(in super::super) fn add_lost(&mut self, proc: &Proc<'static>) {
        self.lost.extend(std::slice::from_ref(proc));
    }

    /// Returns `true` if the leader is lost and this server decides the election.
    pub(in super::super) fn decides(&self) -> bool {
        matches!(self.state, State::Electing { decides: true, .. })
    }

    /// Returns the outcome of the election so far.
    pub(in super::super) fn outcome(&self) -> Outcome {
        self.election.outcome(
            &self.joined,
            |proc| self.lost.has(proc),
            |proc| self.declined.contains(proc),
        )
    }
}

impl Invitations {
    pub(in super::super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the open invitation with a key.
    pub(in super::super) fn get(&self, key: &Key) -> Option<&Invitation> {
        self.all.get(self.open.get(key)?)
    }

    pub(in super::super) fn get_mut(&mut self, key: &Key) -> Option<&mut Invitation> {
        self.all.get_mut(self.open.get(key)?)
    }

    /// Returns the invitation with a key whose leader is lost.
    pub(in super::super) fn electing(&self, key: &Key) -> Option<&Invitation> {
        self.all.get(self.electing.get(key)?)
    }

    pub(in super::super) fn electing_mut(&mut self, key: &Key) -> Option<&mut Invitation> {
        self.all.get_mut(self.electing.get(key)?)
    }

    /// Returns the invitation with a key whose leader is lost, or else the open one.
    pub(in super::super) fn any_mut(&mut self, key: &Key) -> Option<&mut Invitation> {
        let id = self.electing.get(key).or_else(|| self.open.get(key))?;
        self.all.get_mut(id)
    }

    /// Returns the number of open invitations that a process leads.
    pub(in super::super) fn num_led(&self, leader: &Proc<'static>) -> usize {
        self.num_led.get(leader).copied().unwrap_or_default()
    }

    /// Invites more processes to an open invitation, or opens a new one. `set` has the same processes as the list.
    pub(in super::super) fn invite(&mut self, key: &Key, fresh: &[Proc<'static>], set: Procs) {
        let id = match self.open.get(key) {
            Some(id) => *id,
            None => {
                self.last += 1;
                self.open.insert(key.clone(), self.last);
                // The leader is indexed like the invited processes, because its loss concerns the invitation, too.
                self.by_proc.insert(self.last, slice::from_ref(&key.1));
                *self.num_led.entry(key.1.clone()).or_default() += 1;
                self.all.insert(self.last, Invitation::new(key.clone()));
                self.last
            }
        };
        self.by_proc.insert(id, fresh);
        if let Some(invitation) = self.all.get_mut(&id) {
            invitation.list.extend(fresh.iter().cloned());
            match invitation.set.is_empty() {
                true => invitation.set = set,
                false => invitation.set.join(&set),
            }
            invitation.list_bytes += members::weight(fresh);
        }
    }

    /// Removes an open invitation.
    pub(in super::super) fn remove(&mut self, key: &Key) -> Option<Invitation> {
        let id = self.open.remove(key)?;
        let invitation = self.all.remove(&id)?;
        self.by_proc.remove(id, &invitation.list);
        self.by_proc.remove(id, slice::from_ref(&key.1));
        if let Some(count) = self.num_led.get_mut(&key.1) {
            *count -= 1;
            if *count == 0 {
                self.num_led.remove(&key.1);
            }
        }
        Some(invitation)
    }

    /// Adds an invitation whose leader is lost. It gets a new number, so that elections end in the order in which they
    /// began.
    pub(in super::super) fn begin_election(
        &mut self,
        mut invitation: Invitation,
        decides: bool,
        until: Option<Instant>,
    ) -> ElectionId {
        self.last += 1;
        invitation.state = State::Electing { decides, until };
        self.electing.insert(invitation.key.clone(), self.last);
        self.by_proc.insert(self.last, &invitation.list);
        self.all.insert(self.last, invitation);
        ElectionId(self.last)
    }

    /// Removes an invitation whose leader is lost. Returns it with its timer, if that is still active.
    pub(in super::super) fn end_election(
        &mut self,
        key: &Key,
    ) -> Option<(Invitation, Option<(Instant, Timer)>)> {
        let id = self.electing.remove(key)?;
        let invitation = self.all.remove(&id)?;
        self.by_proc.remove(id, &invitation.list);
        let until = match invitation.state {
            State::Electing { until, .. } => until,
            State::Open => None,
        };
        let timer = until.map(|until| (until, Timer::Election(ElectionId(id))));
        Some((invitation, timer))
    }

    /// Returns the key of an invitation whose election has expired, and removes its deadline.
    pub(in super::super) fn expire_election(&mut self, id: ElectionId) -> Option<Key> {
        let invitation = self.all.get_mut(&id.0)?;
        let State::Electing { until, .. } = &mut invitation.state else {
            return None;
        };
        // The timer has expired. The end of the election must not cancel it.
        *until = None;
        Some(invitation.key.clone())
    }

    /// Returns the open invitations that a process leads or is invited by.
    pub(in super::super) fn open_of(&self, proc: &Proc<'static>) -> Vec<Key> {
        self.keys(self.by_proc.of(proc), true)
    }

    /// Returns the invitations in an election that a process is invited by.
    pub(in super::super) fn electing_of(&self, proc: &Proc<'static>) -> Vec<Key> {
        self.keys(self.by_proc.of(proc), false)
    }

    /// Returns the open invitations that concern a process of a job, or those in an election.
    pub(in super::super) fn of_job(&self, nspace: &Nspace<'_>, is_open: bool) -> Vec<Key> {
        self.keys(self.by_proc.of_job(nspace).into_iter().collect(), is_open)
    }

    fn keys(&self, ids: BTreeSet<u64>, is_open: bool) -> Vec<Key> {
        let found = ids.into_iter().filter_map(|id| self.all.get(&id));
        let found = found.filter(|found| matches!(found.state, State::Open) == is_open);
        found.map(|invitation| invitation.key.clone()).collect()
    }

    /// Returns the estimated memory of each invitation in bytes, by the job of its leader.
    pub(in super::super) fn weights(&self) -> impl Iterator<Item = (&Nspace<'static>, usize)> {
        let all = self.all.values();
        all.map(|invitation| (&invitation.key.1.nspace, invitation.weight()))
    }

    /// Compares the indexes and timers with the invitations.
    pub(in super::super) fn recount(&self, recount: &mut Recount) {
        let mut expected = ByProc::default();
        let mut num_open = 0;
        for (id, invitation) in &self.all {
            expected.insert(*id, &invitation.list);
            match invitation.state {
                State::Open => {
                    num_open += 1;
                    expected.insert(*id, slice::from_ref(&invitation.key.1));
                }
                State::Electing { until, .. } => {
                    recount.deadline(until, Timer::Election(ElectionId(*id)));
                }
            }
        }
        let num_led: usize = self.num_led.values().sum();
        recount.compare(
            "open invitations, counted for each name",
            self.open.len(),
            num_open,
        );
        recount.compare(
            "open invitations, counted for each leader",
            num_led,
            num_open,
        );
        let num_electing = self.all.len() - num_open;
        recount.compare(
            "elections, counted for each name",
            self.electing.len(),
            num_electing,
        );
        let num_named = self.by_proc.len();
        recount.compare(
            "invitations, counted for each process",
            num_named,
            expected.len(),
        );
    }
}
