// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that a request names.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::{Nspace, Proc, Rank, Text};

/// The processes that a request names, by job. A long list is read once, however many processes are compared with it.
pub(crate) struct Named<'p>(BTreeMap<&'p [u8], BTreeSet<Rank>>);

impl<'p> Named<'p> {
    pub(crate) fn of(procs: impl IntoIterator<Item = &'p Proc<'p>>) -> Self {
        let mut named = Self(BTreeMap::new());
        for proc in procs {
            let ranks = named.0.entry(proc.nspace.as_bytes()).or_default();
            ranks.insert(proc.rank);
        }
        named
    }

    /// Returns the ranks that are named for a job, if any; the wildcard denotes all.
    pub(crate) fn ranks(&self, nspace: &Nspace<'_>) -> Option<&BTreeSet<Rank>> {
        self.0.get(nspace.as_bytes())
    }

    /// Returns `true` if a process is named by its rank or by the wildcard.
    pub(crate) fn has(&self, nspace: &Nspace<'_>, rank: Rank) -> bool {
        let ranks = self.ranks(nspace);
        ranks.is_some_and(|ranks| ranks.contains(&rank) || ranks.contains(&Rank::WILDCARD))
    }

    /// Returns the jobs with named processes, and their ranks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Nspace<'p>, &BTreeSet<Rank>)> {
        let jobs = self.0.iter();
        jobs.map(|(name, ranks)| (Nspace::new(Text::new(*name)), ranks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_named_by_rank_or_with_their_whole_job() {
        let proc = |nspace: &'static str, rank| Proc::new(nspace, rank);
        let procs = [
            proc("a", Rank::new(1)),
            proc("b", Rank::WILDCARD),
            proc("a", Rank::new(1)),
            proc("a", Rank::new(3)),
        ];
        let named = Named::of(&procs);
        let (a, b, c) = (Nspace::new("a"), Nspace::new("b"), Nspace::new("c"));
        let has = |nspace| [0, 1, 2, 3].map(|rank| named.has(nspace, Rank::new(rank)));
        assert_eq!(has(&a), [false, true, false, true]);
        assert_eq!((has(&b), has(&c)), ([true; 4], [false; 4]));
        assert_eq!(named.ranks(&a).map(BTreeSet::len), Some(2));
        assert!(named.ranks(&c).is_none() && named.iter().count() == 2);
    }
}
