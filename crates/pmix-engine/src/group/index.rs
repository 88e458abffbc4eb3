// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index of groups and invitations by process and job.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use foldhash::fast::RandomState;
use pmix_types::{Nspace, Proc, Rank};

/// The length of a list from which its names have no entries of their own: inserting and removing many names would keep
/// other peers waiting.
const LONG: usize = 1024;

/// The numbers of groups or invitations by the processes that they list.
#[derive(Debug, Default)]
pub(super) struct ByProc {
    jobs: HashMap<Nspace<'static>, OfJob>,
}

/// The numbers that list processes of one job. A name is listed under a number once, in `by_rank` or in `long`.
#[derive(Debug, Default)]
struct OfJob {
    /// All numbers, with how many names of each are in `by_rank`.
    all: BTreeMap<u64, usize>,
    by_rank: HashMap<Rank, Ids, RandomState>,
    /// The ranks of long lists in ascending order.
    long: BTreeMap<u64, Vec<Rank>>,
}

impl OfJob {
    fn insert(&mut self, id: u64, ranks: impl ExactSizeIterator<Item = Rank>) {
        let num_own = self.all.entry(id).or_default();
        let long = self.long.get(&id);
        self.by_rank.reserve(ranks.len());
        for rank in ranks {
            if long.is_some_and(|long| long.binary_search(&rank).is_ok()) {
                continue;
            }
            let is_new = match self.by_rank.entry(rank) {
                Entry::Occupied(mut ids) => ids.get_mut().insert(id),
                Entry::Vacant(free) => {
                    free.insert(Ids::One(id));
                    true
                }
            };
            *num_own += usize::from(is_new);
        }
    }

    fn insert_long(&mut self, id: u64, mut ranks: Vec<Rank>) {
        if *self.all.entry(id).or_default() > 0 {
            let by_rank = &self.by_rank;
            let is_listed = |rank: &Rank| by_rank.get(rank).is_some_and(|ids| ids.has(id));
            ranks.retain(|rank| !is_listed(rank));
        }
        let long = self.long.entry(id).or_default();
        match long.is_empty() {
            true => *long = ranks,
            false => long.append(&mut ranks),
        }
        // Long lists are usually sorted, for which this takes one pass.
        long.sort_unstable();
        long.dedup();
    }

    fn remove(&mut self, id: u64, ranks: impl Iterator<Item = Rank>) {
        let Some(num_own) = self.all.get_mut(&id).filter(|num_own| **num_own > 0) else {
            return;
        };
        for rank in ranks {
            if let Entry::Occupied(mut ids) = self.by_rank.entry(rank)
                && let Some(is_last) = ids.get_mut().remove(id)
            {
                *num_own -= 1;
                if is_last {
                    ids.remove();
                }
            }
        }
    }

    /// Returns the number of long lists that have a rank.
    fn num_long(&self, rank: Rank) -> usize {
        let lists = self.long.values();
        { lists }
            .filter(|list| list.binary_search(&rank).is_ok())
            .count()
    }

    fn names(&self, id: u64, rank: Rank) -> bool {
        self.long
            .get(&id)
            .is_some_and(|long| long.binary_search(&rank).is_ok())
    }
}

/// The numbers that list one name. Most names are listed once, and a list may have many names, so one number takes no
/// allocation.
#[derive(Debug)]
enum Ids {
    One(u64),
    /// In ascending order. The groups of a lost process are removed from the first to the last.
    Many(VecDeque<u64>),
}

impl Ids {
    /// Adds a number. Returns `true` if it is new.
    fn insert(&mut self, id: u64) -> bool {
        match self {
            Self::One(own) if *own == id => return false,
            Self::One(own) => *self = Self::Many([(*own).min(id), (*own).max(id)].into()),
            // Numbers ascend, so a new one is nearly always the last.
            Self::Many(ids) => match ids.binary_search(&id) {
                Ok(_) => return false,
                Err(place) => ids.insert(place, id),
            },
        }
        true
    }

    /// Removes a number. Returns `None` if it is not there, and otherwise `true` if none is left.
    fn remove(&mut self, id: u64) -> Option<bool> {
        match self {
            Self::One(own) => (*own == id).then_some(true),
            Self::Many(ids) => {
                let place = ids.binary_search(&id).ok()?;
                ids.remove(place);
                Some(ids.is_empty())
            }
        }
    }

    fn has(&self, id: u64) -> bool {
        match self {
            Self::One(own) => *own == id,
            Self::Many(ids) => ids.binary_search(&id).is_ok(),
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
        if procs.len() < LONG {
            // A list has few jobs and many ranks, so the table of a job is looked up once for each run of its processes.
            for (nspace, run) in runs(procs) {
                let job = self.jobs.entry(nspace.clone()).or_default();
                job.insert(id, run.iter().map(|proc| proc.rank));
            }
            return;
        }
        let mut of_job: HashMap<&Nspace<'_>, Vec<Rank>> = HashMap::new();
        for (nspace, run) in runs(procs) {
            let ranks = of_job.entry(nspace).or_default();
            ranks.extend(run.iter().map(|proc| proc.rank));
        }
        for (nspace, ranks) in of_job {
            self.jobs
                .entry(nspace.clone())
                .or_default()
                .insert_long(id, ranks);
        }
    }

    /// Removes a number, which lists no other processes than these.
    pub(super) fn remove(&mut self, id: u64, procs: &[Proc<'static>]) {
        for (nspace, run) in runs(procs) {
            if let Some(job) = self.jobs.get_mut(nspace.as_bytes()) {
                job.remove(id, run.iter().map(|proc| proc.rank));
            }
        }
        for (nspace, _) in runs(procs) {
            if let Some(job) = self.jobs.get_mut(nspace.as_bytes()) {
                job.long.remove(&id);
                if job.all.get(&id) == Some(&0) {
                    job.all.remove(&id);
                }
                if job.all.is_empty() {
                    self.jobs.remove(nspace.as_bytes());
                }
            }
        }
    }

    /// Returns the numbers that list a process, by its rank or with its whole job.
    pub(super) fn of(&self, proc: &Proc<'static>) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        if let Some(job) = self.jobs.get(proc.nspace.as_bytes()) {
            for rank in [proc.rank, Rank::WILDCARD] {
                found.extend(job.by_rank.get(&rank).into_iter().flat_map(Ids::iter));
                let long = job.long.keys().copied();
                found.extend(long.filter(|id| job.names(*id, rank)));
            }
        }
        found
    }

    /// Returns the first process of a list that at least `most` entries list by the same name.
    pub(super) fn find_full<'p>(
        &self,
        procs: &'p [Proc<'static>],
        most: usize,
    ) -> Option<&'p Proc<'static>> {
        runs(procs).find_map(|(nspace, run)| {
            let job = self.jobs.get(nspace.as_bytes())?;
            // No name has more entries than there are numbers, so most lists need no search.
            if job.all.len() < most {
                return None;
            }
            run.iter().find(|proc| {
                let short = job.by_rank.get(&proc.rank).map_or(0, Ids::len);
                // The search of long lists is needed only where it decides.
                short >= most
                    || (short + job.long.len() >= most && short + job.num_long(proc.rank) >= most)
            })
        })
    }

    /// Returns the numbers that list any process of a job.
    pub(super) fn of_job(&self, nspace: &Nspace<'_>) -> Vec<u64> {
        let job = self.jobs.get(nspace.as_bytes());
        job.into_iter()
            .flat_map(|job| job.all.keys())
            .copied()
            .collect()
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        let of_job = |job: &OfJob| {
            let short: usize = job.by_rank.values().map(Ids::len).sum();
            let long: usize = job.long.values().map(Vec::len).sum();
            job.all.len() + short + long
        };
        self.jobs.values().map(of_job).sum()
    }
}

/// Returns the runs of consecutive processes of one job, with the job.
fn runs<'p>(
    procs: &'p [Proc<'static>],
) -> impl Iterator<Item = (&'p Nspace<'static>, &'p [Proc<'static>])> {
    let runs = procs.chunk_by(|a, b| a.nspace == b.nspace);
    runs.filter_map(|run| Some((&run.first()?.nspace, run)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn procs(job: &'static str, ranks: impl Iterator<Item = u32>) -> Vec<Proc<'static>> {
        ranks.map(|rank| Proc::new(job, Rank::new(rank))).collect()
    }

    #[test]
    fn short_and_long_lists_are_found_by_each_of_their_processes() {
        let lists = [
            procs("a", 0..10),
            procs("a", (5..4_000).rev()),
            [procs("a", 3_000..4_500), procs("b", 0..2), procs("a", 0..5)].concat(),
            vec![Proc::new("b", Rank::WILDCARD)],
            [procs("b", 0..2_000), vec![Proc::new("a", Rank::WILDCARD)]].concat(),
        ];
        let mut index = ByProc::default();
        for (id, list) in (0..).zip(&lists) {
            // A list may grow, and name a process again.
            let (begin, end) = list.split_at(list.len() / 2);
            index.insert(id, begin);
            index.insert(id, end);
            index.insert(id, &list[..list.len().min(3)]);
        }
        let check = |index: &ByProc, kept: &[u64]| {
            for proc in [
                procs("a", [0, 4, 5, 9, 10, 2_999, 4_499, 4_500].into_iter()),
                procs("b", [0, 1, 2, 1_999, 2_000].into_iter()),
            ]
            .concat()
            {
                let lists = |id: &u64| {
                    let list = &lists[usize::try_from(*id).unwrap()];
                    let same = list.iter().filter(|other| other.nspace == proc.nspace);
                    { same }.any(|other| [proc.rank, Rank::WILDCARD].contains(&other.rank))
                };
                let expected: BTreeSet<_> = kept.iter().copied().filter(lists).collect();
                assert_eq!(index.of(&proc), expected, "{proc}");
            }
        };
        check(&index, &[0, 1, 2, 3, 4]);
        assert_eq!(index.of_job(&"b".into()), [2, 3, 4]);
        assert_eq!(index.len(), lists.iter().map(Vec::len).sum::<usize>() + 7);
        for (id, kept) in [
            (1, &[0, 2, 3, 4][..]),
            (3, &[0, 2, 4]),
            (0, &[2, 4]),
            (4, &[2]),
            (2, &[]),
        ] {
            index.remove(id, &lists[usize::try_from(id).unwrap()]);
            check(&index, kept);
        }
        assert_eq!((index.len(), index.jobs.len()), (0, 0));
    }

    #[test]
    fn a_name_in_many_lists_is_full() {
        let mut index = ByProc::default();
        let (short, long) = (procs("a", 3..5), procs("a", 10..2_000));
        for id in 0..4 {
            index.insert(id, &short);
            index.insert(10 + id, &long);
        }
        index.insert(20, &procs("a", 3..4));
        let all = procs("a", 0..12);
        assert_eq!(index.find_full(&all, 6), None);
        assert_eq!(index.find_full(&all, 5), Some(&all[3]));
        assert_eq!(index.find_full(&all, 4), Some(&all[3]));
        assert_eq!(index.find_full(&all[5..], 4), Some(&all[10]));
        assert_eq!(index.find_full(&procs("b", 0..5), 4), None);
    }
}
