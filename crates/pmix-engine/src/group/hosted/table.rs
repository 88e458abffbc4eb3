// SPDX-License-Identifier: MIT OR Apache-2.0
//! The invitations that this server runs, by group and leader, with the answers so far.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Instant;

use pmix_types::{IntoOwned as _, Nspace, Proc, Rank, Text};

use super::super::invitation::table::Key;
use crate::ids::InvitationId;
use crate::procs::Procs;
use crate::recount::Recount;
use crate::timer::Timer;

/// The invitations that this server runs.
#[derive(Debug, Default)]
pub(in super::super) struct HostedInvitations {
    pub(in super::super) last: u64,
    pub(in super::super) all: BTreeMap<u64, Run>,
    /// The invitations by leader and group name. The loss of a process concerns few of many leaders.
    by_leader: BTreeMap<Proc<'static>, HashMap<Text<'static>, u64>>,
    /// The invitations whose answers are complete.
    pub(in super::super) answered: VecDeque<u64>,
}

/// An invitation that this server runs.
#[derive(Debug)]
pub(in super::super) struct Run {
    pub(in super::super) key: Key,
    /// The invited processes as the leader listed them.
    pub(in super::super) procs: Vec<Proc<'static>>,
    /// The invited processes, one by one.
    pub(in super::super) members: Vec<Proc<'static>>,
    /// The invited processes without an answer.
    pub(in super::super) waiting: Procs,
    pub(in super::super) accepted: HashSet<Proc<'static>>,
    pub(in super::super) is_optional: bool,
    pub(in super::super) assigns_context_id: bool,
    pub(in super::super) until: Option<Instant>,
    /// The counted memory, an estimate.
    pub(in super::super) bytes: usize,
}

impl HostedInvitations {
    /// Returns the counted memory of each invitation by the job of its leader.
    pub(in super::super) fn weights(&self) -> impl Iterator<Item = (&Nspace<'static>, usize)> {
        self.all.values().map(|run| (&run.key.1.nspace, run.bytes))
    }

    /// Compares the index and the timers with the invitations.
    pub(in super::super) fn recount(&self, recount: &mut Recount) {
        for (id, run) in &self.all {
            recount.deadline(run.until, Timer::Invitation(InvitationId(*id)));
        }
        let named = self.by_leader.values().map(HashMap::len).sum();
        recount.compare("hosted invitations", named, self.all.len());
    }

    /// Adds an invitation.
    pub(in super::super) fn insert(&mut self, id: u64, run: Run) {
        let (name, leader) = run.key.clone();
        self.by_leader.entry(leader).or_default().insert(name, id);
        self.all.insert(id, run);
    }

    /// Returns the number of the invitation of a leader to a group.
    pub(in super::super) fn id(&self, (name, leader): &Key) -> Option<u64> {
        self.by_leader.get(leader)?.get(name).copied()
    }

    /// Returns the invitations of a leader.
    pub(in super::super) fn led_by(&self, leader: &Proc<'static>) -> Vec<Key> {
        let led = self.by_leader.get(leader).into_iter().flatten();
        led.map(|(name, _)| (name.clone(), leader.clone()))
            .collect()
    }

    /// Returns the invitations of the leaders of a job.
    pub(in super::super) fn led_by_job(&self, nspace: &Nspace<'_>) -> Vec<Key> {
        let first = Proc::new(nspace.clone().into_owned(), Rank::new(0));
        let of_job = self.by_leader.range(first..);
        let of_job = of_job.take_while(|(leader, _)| leader.nspace == *nspace);
        let keys =
            of_job.flat_map(|(leader, led)| led.keys().map(|name| (name.clone(), leader.clone())));
        keys.collect()
    }

    /// Records the answer of a process, or its loss. Later answers replace earlier ones.
    pub(in super::super) fn answer(&mut self, key: &Key, proc: &Proc<'static>, has_accepted: bool) {
        let Some(id) = self.id(key) else {
            return;
        };
        let Some(run) = self.all.get_mut(&id) else {
            return;
        };
        let is_new = run.waiting.remove(proc);
        match has_accepted {
            true if is_new => _ = run.accepted.insert(proc.clone()),
            true => {}
            false => _ = run.accepted.remove(proc),
        }
        if is_new && run.waiting.is_empty() {
            self.answered.push_back(id);
        }
    }

    pub(in super::super) fn remove(&mut self, id: u64) -> Option<Run> {
        let run = self.all.remove(&id)?;
        let (name, leader) = &run.key;
        if let Some(led) = self.by_leader.get_mut(leader) {
            led.remove(name);
            if led.is_empty() {
                self.by_leader.remove(leader);
            }
        }
        Some(run)
    }
}
