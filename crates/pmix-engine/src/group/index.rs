// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index of groups and invitations by process and job.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;
use pmix_types::{Nspace, Proc, Rank};

/// The numbers of groups or invitations by the processes that they list.
#[derive(Debug, Default)]
pub(super) struct ByProc {
    jobs: HashMap<Nspace<'static>, OfJob>,
}

/// The numbers that list processes of one job.
#[derive(Debug, Default)]
struct OfJob {
    all: BTreeSet<u64>,
    by_rank: HashMap<Rank, Ids, RandomState>,
}

/// The numbers that list one name. Most names are listed once, and a list may have many names, so one number takes no
/// allocation.
#[derive(Debug)]
enum Ids {
    One(u64),
    /// In ascending order.
    Many(Vec<u64>),
}

impl Ids {
    fn insert(&mut self, id: u64) {
        match self {
            Self::One(own) if *own == id => {}
            Self::One(own) => *self = Self::Many(vec![(*own).min(id), (*own).max(id)]),
            // Numbers ascend, so a new one is nearly always the last.
            Self::Many(ids) => {
                if let Err(place) = ids.binary_search(&id) {
                    ids.insert(place, id);
                }
            }
        }
    }

    /// Removes a number. Returns `true` if none is left.
    fn remove(&mut self, id: u64) -> bool {
        match self {
            Self::One(own) => *own == id,
            Self::Many(ids) => {
                let found = ids.binary_search(&id);
                found.is_ok_and(|place| {
                    ids.remove(place);
                    ids.is_empty()
                })
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(ids) => ids.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        let (one, many) = match self {
            Self::One(id) => (Some(*id), None),
            Self::Many(ids) => (None, Some(ids)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }
}

impl ByProc {
    /// Adds processes, including whole jobs, under a number.
    pub(super) fn insert(&mut self, id: u64, procs: &[Proc<'static>]) {
        // A list has few jobs and many ranks, so the table of a job is looked up once for each run of its processes.
        for run in procs.chunk_by(|a, b| a.nspace == b.nspace) {
            let Some(first) = run.first() else { continue };
            let job = self.jobs.entry(first.nspace.clone()).or_default();
            job.all.insert(id);
            job.by_rank.reserve(run.len());
            for proc in run {
                match job.by_rank.entry(proc.rank) {
                    Entry::Occupied(mut ids) => ids.get_mut().insert(id),
                    Entry::Vacant(free) => _ = free.insert(Ids::One(id)),
                }
            }
        }
    }

    /// Removes processes from a number.
    pub(super) fn remove(&mut self, id: u64, procs: &[Proc<'static>]) {
        for run in procs.chunk_by(|a, b| a.nspace == b.nspace) {
            let Some(first) = run.first() else { continue };
            let Some(job) = self.jobs.get_mut(first.nspace.as_bytes()) else {
                continue;
            };
            job.all.remove(&id);
            for proc in run {
                if let Entry::Occupied(mut ids) = job.by_rank.entry(proc.rank)
                    && ids.get_mut().remove(id)
                {
                    ids.remove();
                }
            }
            if job.all.is_empty() {
                self.jobs.remove(first.nspace.as_bytes());
            }
        }
    }

    /// Returns the numbers that list a process, by its rank or with its whole job.
    pub(super) fn of(&self, proc: &Proc<'static>) -> BTreeSet<u64> {
        let job = self.jobs.get(proc.nspace.as_bytes());
        let ids = job.into_iter().flat_map(|job| {
            let named = [proc.rank, Rank::WILDCARD].map(|rank| job.by_rank.get(&rank));
            named.into_iter().flatten().flat_map(Ids::iter)
        });
        ids.collect()
    }

    /// Returns the first process of a list that at least `most` entries list by the same name.
    pub(super) fn find_full<'p>(
        &self,
        procs: &'p [Proc<'static>],
        most: usize,
    ) -> Option<&'p Proc<'static>> {
        let mut runs = procs.chunk_by(|a, b| a.nspace == b.nspace);
        runs.find_map(|run| {
            let job = self.jobs.get(run.first()?.nspace.as_bytes())?;
            let count = |proc: &&Proc<'_>| job.by_rank.get(&proc.rank).map_or(0, Ids::len);
            run.iter().find(|proc| count(proc) >= most)
        })
    }

    /// Returns the numbers that list any process of a job.
    pub(super) fn of_job(&self, nspace: &Nspace<'_>) -> Vec<u64> {
        let job = self.jobs.get(nspace.as_bytes());
        job.into_iter().flat_map(|job| &job.all).copied().collect()
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        let of_job =
            |job: &OfJob| job.all.len() + job.by_rank.values().map(Ids::len).sum::<usize>();
        self.jobs.values().map(of_job).sum()
    }
}
