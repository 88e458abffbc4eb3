// SPDX-License-Identifier: MIT OR Apache-2.0
//! The invitations that this server runs, by group and leader, with the answers so far.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Instant;

use pmix_types::{Nspace, Proc};

use super::super::invitation::table::Key;
use crate::ids::InvitationId;
use crate::recount::Recount;
use crate::timer::Timer;

/// The invitations that this server runs.
#[derive(Debug, Default)]
pub(in super::super) struct HostedInvitations {
    pub(in super::super) last: u64,
    pub(in super::super) all: BTreeMap<u64, Run>,
    pub(in super::super) by_key: HashMap<Key, u64>,
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
    pub(in super::super) waiting: HashSet<Proc<'static>>,
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
        recount.compare("hosted invitations", self.by_key.len(), self.all.len());
    }

    /// Records the answer of a process, or its loss. Later answers replace earlier ones.
    pub(in super::super) fn answer(&mut self, key: &Key, proc: &Proc<'static>, has_accepted: bool) {
        let Some(id) = self.by_key.get(key).copied() else {
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
        self.by_key.remove(&run.key);
        Some(run)
    }
}
