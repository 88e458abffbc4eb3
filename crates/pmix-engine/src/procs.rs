// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of processes.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use foldhash::fast::RandomState;
use pmix_types::{IntoOwned, Nspace, Proc, Rank};

/// A set of processes, possibly with whole jobs. A lookup takes constant time, since a peer may send a long list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Procs(HashMap<Nspace<'static>, Ranks>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Ranks {
    All,
    Some(HashSet<Rank, RandomState>),
}

impl Default for Ranks {
    fn default() -> Self {
        Self::Some(HashSet::default())
    }
}

impl Ranks {
    /// Adds a rank. Returns `true` if it was not in the set.
    fn insert(&mut self, rank: Rank) -> bool {
        match self {
            Self::All => false,
            Self::Some(_) if rank == Rank::WILDCARD => {
                *self = Self::All;
                true
            }
            Self::Some(ranks) => ranks.insert(rank),
        }
    }

    /// Makes room for more ranks, so that the table does not grow in steps.
    fn reserve(&mut self, more: usize) {
        if let Self::Some(ranks) = self {
            ranks.reserve(more);
        }
    }

    /// Adds processes of the same job.
    fn extend(&mut self, procs: &[Proc<'_>]) {
        if procs.iter().any(|proc| proc.rank == Rank::WILDCARD) {
            *self = Self::All;
        }
        if let Self::Some(ranks) = self {
            ranks.extend(procs.iter().map(|proc| proc.rank));
        }
    }
}

impl Procs {
    /// Adds the processes of a list.
    pub fn extend(&mut self, procs: &[Proc<'_>]) {
        for run in procs.chunk_by(|a, b| a.nspace == b.nspace) {
            let Some(first) = run.first() else { continue };
            // The name is copied once: a list has few jobs and many ranks.
            if !self.0.contains_key(first.nspace.as_bytes()) {
                let nspace = first.nspace.clone().into_owned();
                self.0.insert(nspace, Ranks::default());
            }
            if let Some(ranks) = self.0.get_mut(first.nspace.as_bytes()) {
                ranks.extend(run);
            }
        }
    }

    /// Adds the processes of a list that satisfy `is_wanted`. Returns those that were not in the set.
    pub(crate) fn extend_distinct(
        &mut self,
        procs: &[Proc<'_>],
        is_wanted: impl Fn(&Proc<'_>) -> bool,
    ) -> Vec<Proc<'static>> {
        let mut added = Vec::with_capacity(procs.len());
        for run in procs.chunk_by(|a, b| a.nspace == b.nspace) {
            let Some(first) = run.first() else { continue };
            let nspace = first.nspace.to_shared();
            let wanted = run
                .iter()
                .filter(|proc| is_wanted(proc))
                .map(|proc| proc.rank);
            let mut wanted = wanted.peekable();
            if wanted.peek().is_none() {
                continue;
            }
            let ranks = self.0.entry(nspace.clone()).or_default();
            ranks.reserve(run.len());
            for rank in wanted {
                if ranks.insert(rank) {
                    added.push(Proc::new(nspace.clone(), rank));
                }
            }
        }
        added
    }

    /// Removes a process that is named individually. Returns `true` if it was in the set.
    pub(crate) fn remove(&mut self, proc: &Proc<'_>) -> bool {
        let Some(Ranks::Some(ranks)) = self.0.get_mut(proc.nspace.as_bytes()) else {
            return false;
        };
        let was_there = ranks.remove(&proc.rank);
        if ranks.is_empty() {
            self.0.remove(proc.nspace.as_bytes());
        }
        was_there
    }

    /// Returns `true` if a process is in the set.
    #[must_use]
    pub fn has(&self, proc: &Proc<'_>) -> bool {
        match self.0.get(proc.nspace.as_bytes()) {
            None => false,
            Some(Ranks::All) => true,
            Some(Ranks::Some(ranks)) => ranks.contains(&proc.rank),
        }
    }

    /// Returns the members that are named individually, without whole jobs.
    pub(crate) fn procs(&self) -> impl Iterator<Item = Proc<'static>> {
        self.0.iter().flat_map(|(nspace, ranks)| {
            let ranks = match ranks {
                Ranks::All => None,
                Ranks::Some(ranks) => Some(ranks.iter()),
            };
            let ranks = ranks.into_iter().flatten();
            ranks.map(|rank| Proc::new(nspace.clone(), *rank))
        })
    }

    /// Returns `true` if the set has any process of a job.
    pub(crate) fn names_job(&self, nspace: &Nspace<'_>) -> bool {
        self.0.contains_key(nspace.as_bytes())
    }

    /// Returns the jobs of the members.
    pub(crate) fn nspaces(&self) -> impl Iterator<Item = &Nspace<'static>> {
        self.0.keys()
    }

    /// Returns `true` if the sets have a common process.
    pub(crate) fn meets(&self, others: &Self) -> bool {
        // Either set may be a peer's long list, so the smaller one is traversed.
        let (few, many) = match self.0.len() <= others.0.len() {
            true => (self, others),
            false => (others, self),
        };
        few.0.iter().any(
            |(nspace, ranks)| match (ranks, many.0.get(nspace.as_bytes())) {
                (_, None) => false,
                (Ranks::All, _) | (_, Some(Ranks::All)) => true,
                (Ranks::Some(ranks), Some(Ranks::Some(others))) => !ranks.is_disjoint(others),
            },
        )
    }

    /// Adds the members of another set.
    pub(crate) fn join(&mut self, others: &Self) {
        for (nspace, ranks) in &others.0 {
            match (self.0.get_mut(nspace.as_bytes()), ranks) {
                (Some(Ranks::Some(own)), Ranks::Some(more)) => own.extend(more),
                (Some(Ranks::All), _) => {}
                _ => _ = self.0.insert(nspace.clone(), ranks.clone()),
            }
        }
    }

    /// Returns a hash of the set, which does not depend on the order in which processes were added.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let of = |nspace: &Nspace<'_>, rank: Rank| {
            let mut hasher = DefaultHasher::new();
            (nspace.as_bytes(), rank.as_raw()).hash(&mut hasher);
            hasher.finish()
        };
        let of_job = |(nspace, ranks): (&Nspace<'static>, &Ranks)| match ranks {
            Ranks::All => of(nspace, Rank::WILDCARD),
            // The iteration order of a hash table is arbitrary, so the combination must be commutative.
            Ranks::Some(ranks) => {
                let ranks = ranks.iter().map(|rank| of(nspace, *rank));
                ranks.fold(0, u64::wrapping_add)
            }
        };
        self.0.iter().map(of_job).fold(0, u64::wrapping_add)
    }

    /// Returns `true` if no process is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of names in the set; a whole job counts as one.
    #[must_use]
    pub fn len(&self) -> usize {
        let ranks = |ranks: &Ranks| match ranks {
            Ranks::All => 1,
            Ranks::Some(ranks) => ranks.len(),
        };
        self.0.values().map(ranks).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn procs(list: &[(&'static str, u32)]) -> Procs {
        let proc = |(nspace, rank): &(&'static str, u32)| Proc::new(*nspace, Rank::new(*rank));
        let list: Vec<_> = list.iter().map(proc).collect();
        let mut procs = Procs::default();
        procs.extend(&list);
        procs
    }

    const ALL: u32 = Rank::WILDCARD.as_raw();

    #[test]
    fn a_wildcard_names_every_process_of_its_job() {
        for list in [[("a", ALL), ("a", 3)], [("a", 3), ("a", ALL)]] {
            let procs = procs(&list);
            assert!(procs.has(&Proc::new("a", Rank::new(9))));
            assert!(!procs.has(&Proc::new("b", Rank::new(3))));
            assert_eq!(procs.len(), 1);
        }
    }

    #[test]
    fn a_removed_process_can_be_added_again() {
        let mut set = procs(&[("a", 1), ("a", 2)]);
        let one = Proc::new("a", Rank::new(1));
        assert_eq!((set.remove(&one), set.remove(&one)), (true, false));
        let other = Proc::new("b", Rank::new(1));
        let list = [one.clone(), other.clone(), one.clone()];
        let added = set.extend_distinct(&list, |proc| proc.nspace == "a");
        assert_eq!((added, set.has(&other)), (vec![one.clone()], false));
        assert!(set.remove(&one) && set.remove(&Proc::new("a", Rank::new(2))));
        assert!(set.is_empty());
    }

    #[test]
    fn lists_overlap_in_a_process_of_both() {
        let cases = [
            (&[("a", 1)][..], &[("a", 1), ("b", 2)][..], true),
            (&[("a", 1), ("b", 1)], &[("b", 2)], false),
            (&[("a", ALL)], &[("a", 2)], true),
            (&[("a", 2)], &[("a", ALL)], true),
            (&[("a", ALL)], &[("b", ALL)], false),
            (&[], &[("a", ALL)], false),
        ];
        for (a, b, meet) in cases {
            assert_eq!(procs(a).meets(&procs(b)), meet, "{a:?} {b:?}");
            assert_eq!(procs(b).meets(&procs(a)), meet, "{b:?} {a:?}");
        }
    }

    #[test]
    fn joined_lists_have_the_processes_of_either() {
        let cases = [
            (&[("a", 1)][..], &[("a", 2), ("b", 1)][..], 3),
            (&[("a", ALL)], &[("a", 2)], 1),
            (&[("a", 2)], &[("a", ALL)], 1),
        ];
        for (a, b, len) in cases {
            let mut joined = procs(a);
            joined.join(&procs(b));
            assert_eq!(joined.len(), len, "{a:?} {b:?}");
            for (nspace, rank) in a.iter().chain(b) {
                assert!(joined.has(&Proc::new(*nspace, Rank::new(*rank))));
            }
        }
    }
}
