// SPDX-License-Identifier: MIT OR Apache-2.0
//! The members of a group in the order of their group ranks, and the presence of processes on this node.

use std::collections::HashMap;

use pmix_types::{Proc, Rank};

use crate::Error;
use crate::collective::{count, each};
use crate::cx::Cx;
use crate::procs::Procs;
use crate::registry::{ClientState, LocalJob};

/// The members of a group. A whole job is stored as one entry, so that a group of a large job takes little memory.
#[derive(Debug)]
pub(super) struct Members {
    list: Vec<Proc<'static>>,
    set: Procs,
    /// The departed members.
    left: Procs,
    /// The lost members.
    lost: Procs,
    /// The members that received the failure of a destruct.
    released: Procs,
    /// `true` if whole jobs are among the members.
    has_jobs: bool,
}

impl Members {
    pub(super) fn new(list: Vec<Proc<'static>>) -> Self {
        let mut set = Procs::default();
        set.extend(&list);
        Self {
            has_jobs: list.iter().any(|proc| proc.rank == Rank::WILDCARD),
            list,
            set,
            left: Procs::default(),
            lost: Procs::default(),
            released: Procs::default(),
        }
    }

    /// Checks that a list has members and names no process twice.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM`.
    pub(super) fn check(list: &[Proc<'_>]) -> Result<(), Error> {
        let mut named: HashMap<_, Vec<_>> = HashMap::new();
        for run in list.chunk_by(|a, b| a.nspace == b.nspace) {
            let Some(first) = run.first() else { continue };
            let ranks = named.entry(&first.nspace).or_default();
            ranks.extend(run.iter().map(|proc| proc.rank));
        }
        for (nspace, mut ranks) in named {
            ranks.sort_unstable();
            // A whole job includes every rank.
            let twice = match ranks.contains(&Rank::WILDCARD) && ranks.len() > 1 {
                true => ranks.first(),
                false => { ranks.windows(2) }
                    .find_map(|pair| pair.first().filter(|rank| pair.last() == Some(*rank))),
            };
            if let Some(rank) = twice {
                return Err(Error::bad(format!(
                    "rank {rank} of {nspace} is listed twice as a member"
                )));
            }
        }
        match list.is_empty() {
            true => Err(Error::bad("a group without members")),
            false => Ok(()),
        }
    }

    /// Returns the listed members.
    pub(super) fn list(&self) -> &[Proc<'static>] {
        &self.list
    }

    /// Returns `true` if a process is a member that has neither left nor been lost nor received the failure of a
    /// destruct.
    pub(super) fn has(&self, proc: &Proc<'_>) -> bool {
        let not_any_longer = [&self.left, &self.lost, &self.released];
        self.set.has(proc) && !not_any_longer.iter().any(|procs| procs.has(proc))
    }

    /// Returns `true` if a process left the group, or received the failure of its destruct.
    pub(super) fn is_done_with(&self, proc: &Proc<'_>) -> bool {
        self.left.has(proc) || self.released.has(proc)
    }

    /// Removes a departed or lost member. Returns `true` if it was a member.
    pub(super) fn remove(&mut self, proc: &Proc<'_>, has_left: bool) -> bool {
        let was_member = self.has(proc);
        let removed = match has_left {
            true => &mut self.left,
            false => &mut self.lost,
        };
        if was_member {
            removed.extend(std::slice::from_ref(proc));
        }
        was_member
    }

    /// Removes a member that received the failure of the destruct.
    pub(super) fn release(&mut self, proc: &Proc<'_>) {
        self.released.extend(std::slice::from_ref(proc));
    }

    /// Returns the process with a rank in the group, even if it is lost: losses do not change ranks.
    pub(super) fn of_rank(&self, cx: &Cx, rank: Rank) -> Option<Proc<'static>> {
        let mut place = usize::try_from(rank.as_raw()).ok()?;
        if !self.has_jobs {
            return self.list.get(place).cloned();
        }
        for proc in &self.list {
            let (count, size) = match (proc.rank, cx.job_size(&proc.nspace)) {
                (Rank::WILDCARD, Some(size)) => (usize::try_from(size).ok()?, Some(size)),
                // Without a known job size, only its processes on this node count.
                (Rank::WILDCARD, None) => {
                    let count = count(cx, std::slice::from_ref(proc));
                    (usize::try_from(count).ok()?, None)
                }
                _ => (1, None),
            };
            if place < count {
                return match (proc.rank, size) {
                    (Rank::WILDCARD, Some(_)) => {
                        let rank = Rank::new(u32::try_from(place).ok()?);
                        Some(Proc::new(proc.nspace.clone(), rank))
                    }
                    _ => {
                        let each = each(cx, std::slice::from_ref(proc)).ok()?;
                        each.get(place).cloned()
                    }
                };
            }
            place -= count;
        }
        None
    }

    /// Returns `true` if whole jobs are among the members.
    pub(super) const fn has_jobs(&self) -> bool {
        self.has_jobs
    }

    /// Returns `true` if any of these processes was listed as a member.
    pub(super) fn meet(&self, procs: &Procs) -> bool {
        self.set.meets(procs)
    }

    /// Returns `true` if any of these processes is still a member; a whole job counts if any of its processes does.
    pub(super) fn any_of(&self, procs: &Procs) -> bool {
        let is_one = |proc: &Proc<'_>| match proc.rank {
            Rank::WILDCARD => procs.names_job(&proc.nspace),
            _ => procs.has(proc) && self.has(proc),
        };
        self.set.meets(procs) && self.list.iter().any(is_one)
    }

    /// Returns the departed members, and the lost ones if the others are notified of them.
    pub(super) fn not_awaited(&self, notifies: bool) -> Vec<Proc<'static>> {
        let lost = self.lost.procs().filter(|_| notifies);
        self.left.procs().chain(lost).collect()
    }

    /// Returns `true` if a lost member was a process of this node.
    pub(super) fn any_lost_here(&self, cx: &Cx) -> bool {
        let mut lost = self.lost.procs();
        lost.any(|proc| cx.registry.was_here(&proc))
    }

    /// Returns the number of entries in [`remaining`](Self::remaining).
    pub(super) fn num_remaining(&self, cx: &Cx) -> usize {
        match self.left.is_empty() {
            true => self.list.len(),
            false => {
                let num = usize::try_from(count(cx, &self.list)).unwrap_or(usize::MAX);
                num.saturating_sub(self.left.len())
            }
        }
    }

    /// Returns the members that have not left, including lost ones.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`each`].
    pub(super) fn remaining(&self, cx: &Cx) -> Result<Vec<Proc<'static>>, Error> {
        if self.left.is_empty() {
            return Ok(self.list.clone());
        }
        let mut each = each(cx, &self.list)?;
        each.retain(|proc| !self.left.has(proc));
        Ok(each)
    }

    /// Returns the members to notify. A whole job remains one entry unless a process of it has left, so that the time
    /// for a loss is proportional to the list. It also remains one entry without room for its processes; the departed
    /// ones are then notified, too.
    pub(super) fn present(&self, cx: &Cx, room: &mut u64) -> Vec<Proc<'static>> {
        let is_listed = self.has_jobs && self.left.len() + self.released.len() > 0;
        let left =
            { is_listed.then(|| count(cx, &self.list)) }.and_then(|num| room.checked_sub(num));
        let each = left.and_then(|left| Some((left, each(cx, &self.list).ok()?)));
        let mut present = match each {
            Some((left, each)) => {
                *room = left;
                each
            }
            None => self.list.clone(),
        };
        present.retain(|proc| proc.rank == Rank::WILDCARD || self.has(proc));
        present
    }

    /// Returns `true` if a member is a process of this node.
    pub(super) fn any_local(&self, cx: &Cx) -> bool {
        registered(cx, &self.list).any(|(proc, job)| match proc.rank {
            Rank::WILDCARD => {
                let mut ranks = job.clients.keys();
                ranks.any(|rank| self.has(&Proc::new(proc.nspace.clone(), *rank)))
            }
            rank => job.clients.contains_key(&rank) && self.has(proc),
        })
    }
}

/// Returns the estimated memory of a list in bytes, with its set and the index by processes.
pub(super) fn weight(list: &[Proc<'_>]) -> usize {
    let of_run = |run: &[Proc<'_>]| {
        let len = run.first().map_or(0, |proc| proc.nspace.as_bytes().len());
        run.len() * (4 * size_of::<Proc<'_>>() + len) + OF_JOB + len
    };
    { list.chunk_by(|a, b| a.nspace == b.nspace) }
        .map(of_run)
        .sum()
}

/// The estimated memory in bytes that the set of a list takes for each job in the list, without the job's namespace.
const OF_JOB: usize = 192;

/// Returns `true` if a process of this node leads an invitation or is invited.
pub(super) fn concerns_us(cx: &Cx, leader: &Proc<'_>, list: &[Proc<'_>]) -> bool {
    let is_here = |list| {
        registered(cx, list)
            .any(|(proc, job)| proc.rank == Rank::WILDCARD || job.clients.contains_key(&proc.rank))
    };
    is_here(std::slice::from_ref(leader)) || is_here(list)
}

/// Returns `true` if a process, or any process of a whole job, is or was of this node.
pub(super) fn was_here(cx: &Cx, proc: &Proc<'_>) -> bool {
    match proc.rank {
        Rank::WILDCARD => cx.registry.job(&proc.nspace).is_some(),
        _ => cx.registry.was_here(proc),
    }
}

/// Returns the processes of a list that were connected to this node and have disconnected, as [`absent`].
pub(super) fn absent_among(cx: &Cx, list: &[Proc<'static>]) -> Vec<Proc<'static>> {
    let known = registered(cx, list);
    known.flat_map(|(proc, _)| absent(cx, proc)).collect()
}

/// Returns the processes of a list whose job is registered, each with its job. The job is looked up once for each run of
/// its processes, since a list may have many.
fn registered<'c, 'l, 'p>(
    cx: &'c Cx,
    list: &'l [Proc<'p>],
) -> impl Iterator<Item = (&'l Proc<'p>, &'c LocalJob)> {
    let runs = list.chunk_by(|a, b| a.nspace == b.nspace);
    let known = runs.filter_map(|run| Some((run, cx.registry.job(&run.first()?.nspace)?)));
    known.flat_map(|(run, job)| run.iter().map(move |proc| (proc, job)))
}

/// Returns the processes of this node with a name that were connected and have disconnected.
pub(super) fn absent(cx: &Cx, proc: &Proc<'static>) -> Vec<Proc<'static>> {
    let Some(job) = cx.registry.job(&proc.nspace) else {
        return Vec::new();
    };
    let has_left = |rank: &Rank| {
        let client = job.clients.get(rank);
        match client.and_then(|id| cx.registry.client(*id)) {
            Some(client) => !matches!(client.state, ClientState::Expected | ClientState::Connected),
            // A host may deregister a process as soon as it has ended, before the construct that lists it ends.
            None => job.deregistered.contains(rank),
        }
    };
    let of = |rank: &Rank| Proc::new(proc.nspace.clone(), *rank);
    match proc.rank {
        Rank::WILDCARD => {
            let ranks = job.clients.keys().chain(&job.deregistered);
            ranks.filter(|rank| has_left(rank)).map(of).collect()
        }
        rank => has_left(&rank).then(|| of(&rank)).into_iter().collect(),
    }
}
