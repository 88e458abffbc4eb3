// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index of groups and invitations by process and job.

use std::collections::{BTreeSet, HashMap};

use pmix_types::{Nspace, Proc, Rank};

/// The numbers of groups or invitations by the processes that they list.
#[derive(Debug, Default)]
pub(super) struct ByProc {
    named: HashMap<Proc<'static>, BTreeSet<u64>>,
    of_jobs: HashMap<Nspace<'static>, BTreeSet<u64>>,
}

impl ByProc {
    /// Adds processes, including whole jobs, under a number.
    pub(super) fn insert<'p>(
        &mut self,
        id: u64,
        procs: impl IntoIterator<Item = &'p Proc<'static>>,
    ) {
        for proc in procs {
            self.named.entry(proc.clone()).or_default().insert(id);
            // The name is copied only for a new job.
            if let Some(ids) = self.of_jobs.get_mut(proc.nspace.as_bytes()) {
                ids.insert(id);
                continue;
            }
            self.of_jobs
                .insert(proc.nspace.clone(), BTreeSet::from([id]));
        }
    }

    /// Removes processes from a number.
    pub(super) fn remove<'p>(
        &mut self,
        id: u64,
        procs: impl IntoIterator<Item = &'p Proc<'static>>,
    ) {
        for proc in procs {
            if let Some(ids) = self.named.get_mut(proc)
                && ids.remove(&id)
                && ids.is_empty()
            {
                self.named.remove(proc);
            }
            if let Some(ids) = self.of_jobs.get_mut(proc.nspace.as_bytes())
                && ids.remove(&id)
                && ids.is_empty()
            {
                self.of_jobs.remove(proc.nspace.as_bytes());
            }
        }
    }

    /// Returns the numbers that list a process, by its rank or with its whole job.
    pub(super) fn of(&self, proc: &Proc<'static>) -> BTreeSet<u64> {
        let whole_job = Proc::new(proc.nspace.clone(), Rank::WILDCARD);
        let named = [proc, &whole_job].map(|proc| self.named.get(proc));
        named.into_iter().flatten().flatten().copied().collect()
    }

    /// Returns the number of entries that list a process by this name.
    pub(super) fn count(&self, proc: &Proc<'static>) -> usize {
        self.named.get(proc).map_or(0, BTreeSet::len)
    }

    /// Returns the numbers that list any process of a job.
    pub(super) fn of_job(&self, nspace: &Nspace<'_>) -> Vec<u64> {
        let ids = self.of_jobs.get(nspace.as_bytes());
        ids.into_iter().flatten().copied().collect()
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        let named = self.named.values().map(BTreeSet::len).sum::<usize>();
        named + self.of_jobs.values().map(BTreeSet::len).sum::<usize>()
    }
}
