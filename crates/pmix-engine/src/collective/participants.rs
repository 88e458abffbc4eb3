// SPDX-License-Identifier: MIT OR Apache-2.0
//! The participants of a collective, in one form however a request names them.

use std::slice;
use std::sync::Arc;

use pmix_types::{IntoOwned, Nspace, Proc, Rank};

use crate::Error;
use crate::registry::{LocalJob, Registry};

/// A job of which processes take part, who of them, and what is registered of it.
pub(super) type LocalPart<'a> = (&'a Nspace<'static>, &'a Ranks, &'a LocalJob);

/// The participants of a collective: processes of jobs, ordered by nspace. The same processes compare
/// equal, whether they were listed or meant by a wildcard, and in whatever order. Copies share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Participants(Arc<[(Nspace<'static>, Ranks)]>);

/// Processes of one job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ranks {
    /// All of them.
    All,
    /// This one, which is not all of them: a list of its own would cost more than the rest.
    One(Rank),
    /// These, in ascending order, more than one and not all of them.
    Some(Vec<Rank>),
}

impl Participants {
    /// Who is meant by a list of processes; an empty one means all of the caller's job. `size` says
    /// how many processes a job has, if anyone knows.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` for a rank beyond its job that `is_here` does not know either,
    /// `PMIX_ERR_BAD_PARAM` for a rank that stands for no process, and for nobody's job.
    pub(super) fn of(
        procs: &[Proc<'_>],
        own: &Nspace<'static>,
        size: impl Fn(&Nspace<'_>) -> Option<u32>,
        is_here: impl Fn(&Nspace<'_>, Rank) -> bool,
    ) -> Result<Self, Error> {
        if procs.is_empty() {
            return Ok(Self([(own.clone(), Ranks::All)].into()));
        }
        let chunks = procs.chunk_by(|a, b| a.nspace == b.nspace);
        let named = chunks.filter_map(|same| Some((&same.first()?.nspace, same)));
        let mut named: Vec<_> = named.collect();
        named.sort_by_key(|(nspace, _)| *nspace);
        let jobs = named.chunk_by(|(a, _), (b, _)| a == b);
        let jobs = jobs.filter_map(|same| Some((same.first()?.0, same)));
        let members = jobs.map(|(nspace, same)| {
            let procs = || same.iter().flat_map(|(_, procs)| procs.iter());
            let size = size(nspace);
            let ranks = Ranks::of(procs().map(|proc| proc.rank), size)?;
            if let Some((last, size)) = ranks.last().zip(size)
                && last.as_raw() >= size
                && !is_here(nspace, last)
            {
                let message = format!("rank {last} of {nspace}, a job of {size} processes");
                return Err(Error::not_found(message));
            }
            match nspace.is_empty() {
                true => Err(Error::bad("a participant without a job")),
                false => Ok((nspace.clone().into_owned(), ranks)),
            }
        });
        members.collect::<Result<_, _>>().map(Self)
    }

    /// The jobs, and who of them takes part.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (&Nspace<'static>, &Ranks)> {
        self.0.iter().map(|(nspace, ranks)| (nspace, ranks))
    }

    /// Those of the jobs that the host registered here, in the order of [`jobs`](Self::jobs). A
    /// request may name very many, or the host have registered them: the fewer are gone through.
    pub(super) fn local_jobs<'a>(&'a self, registry: &'a Registry) -> Vec<LocalPart<'a>> {
        let registered = registry.jobs();
        if registered.len() >= self.0.len() {
            let known = |(nspace, ranks)| Some((nspace, ranks, registry.job(nspace)?));
            return self.jobs().filter_map(known).collect();
        }
        let named = registered.filter_map(|(nspace, job)| {
            let (nspace, ranks) = self.0.get(self.place(nspace)?)?;
            Some((nspace, ranks, job))
        });
        let mut named: Vec<_> = named.collect();
        named.sort_unstable_by_key(|(nspace, ..)| *nspace);
        named
    }

    fn place(&self, nspace: &Nspace<'_>) -> Option<usize> {
        let nspace = nspace.as_bytes();
        let found = self
            .0
            .binary_search_by(|(known, _)| known.as_bytes().cmp(nspace));
        found.ok()
    }

    /// How much there is to remember.
    pub(super) fn weight(&self) -> usize {
        let jobs = self.jobs();
        jobs.map(|(_, ranks)| ranks.listed().map_or(1, <[Rank]>::len))
            .sum()
    }

    /// Whether a process takes part.
    pub(crate) fn has(&self, proc: &Proc<'_>) -> bool {
        let place = self.place(&proc.nspace);
        let job = place.and_then(|place| self.0.get(place));
        job.is_some_and(|(_, ranks)| ranks.has(proc.rank))
    }

    /// The same as a list.
    pub(crate) fn to_procs(&self) -> Vec<Proc<'static>> {
        let jobs = self.jobs();
        jobs.flat_map(|(nspace, ranks)| {
            let ranks = ranks.listed().unwrap_or(&[Rank::WILDCARD]);
            ranks.iter().map(|rank| Proc::new(nspace.clone(), *rank))
        })
        .collect()
    }
}

impl Ranks {
    /// Who is meant by ranks of a job, of which `size` says how many processes it has.
    fn of(mut ranks: impl Iterator<Item = Rank> + Clone, size: Option<u32>) -> Result<Self, Error> {
        let has_wildcard = ranks.clone().any(|rank| rank == Rank::WILDCARD);
        if has_wildcard {
            return Ok(Self::All);
        }
        let invalid = ranks.clone().find(|rank| !rank.is_valid());
        if let Some(rank) = invalid {
            return Err(Error::bad(format!("{rank:?} is no process to take part")));
        }
        let first = ranks.next();
        let listed = match (first, ranks.next()) {
            (Some(first), None) => Self::One(first),
            (first, second) => {
                let ranks = first.into_iter().chain(second).chain(ranks);
                let mut ranks: Vec<_> = ranks.collect();
                ranks.sort_unstable();
                ranks.dedup();
                match *ranks {
                    [one] => Self::One(one),
                    _ => Self::Some(ranks),
                }
            }
        };
        // Ranks count from 0, so that as many as there are without one beyond are all.
        let next = listed.last().and_then(|last| last.as_raw().checked_add(1));
        let len = listed.listed().map_or(0, <[Rank]>::len);
        let is_dense = next.is_some_and(|next| u32::try_from(len) == Ok(next));
        match is_dense && size == next {
            true => Ok(Self::All),
            false => Ok(listed),
        }
    }

    /// The ranks that are listed; none if all processes are meant.
    pub(crate) fn listed(&self) -> Option<&[Rank]> {
        match self {
            Self::All => None,
            Self::One(rank) => Some(slice::from_ref(rank)),
            Self::Some(ranks) => Some(ranks),
        }
    }

    pub(crate) fn has(&self, rank: Rank) -> bool {
        let listed = self.listed();
        listed.is_none_or(|ranks| ranks.binary_search(&rank).is_ok())
    }

    /// The highest that is listed.
    fn last(&self) -> Option<Rank> {
        self.listed().and_then(|ranks| ranks.last().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(procs: &[(&'static str, u32)]) -> Participants {
        let procs: Vec<_> = procs
            .iter()
            .map(|(nspace, rank)| Proc::new(*nspace, Rank::new(*rank)))
            .collect();
        let size = |nspace: &Nspace<'_>| (*nspace != "far").then_some(3);
        Participants::of(&procs, &"own".into(), size, |_, _| false).unwrap()
    }

    #[test]
    fn the_same_processes_are_the_same_members() {
        let wildcard = Rank::WILDCARD.as_raw();
        let all = members(&[("own", wildcard)]);
        assert_eq!(members(&[]), all);
        assert_eq!(members(&[("own", 2), ("own", 0), ("own", 1)]), all);
        assert_eq!(members(&[("own", 2), ("own", wildcard)]), all);
        let some = members(&[("own", 2), ("own", 0)]);
        assert_eq!(members(&[("own", 0), ("own", 2), ("own", 0)]), some);
        assert_ne!(some, all);
        let both = members(&[("own", wildcard), ("far", 0)]);
        assert_eq!(members(&[("far", 0), ("own", wildcard)]), both);
        // Nobody knows how many there are.
        assert_ne!(
            members(&[("far", 0), ("far", 1), ("far", 2)]),
            members(&[("far", wildcard)])
        );
    }

    #[test]
    fn ranks_that_name_nobody_are_refused() {
        for rank in [Rank::UNDEF, Rank::LOCAL_NODE, Rank::INVALID] {
            let procs = [Proc::new("own", rank)];
            let refused = Participants::of(&procs, &"own".into(), |_| Some(1), |_, _| false);
            assert_eq!(
                refused.unwrap_err().status(),
                pmix_types::Status::ERR_BAD_PARAM
            );
        }
        let nobody = [Proc::new("", Rank::new(0))];
        let refused = Participants::of(&nobody, &"own".into(), |_| None, |_, _| false);
        assert!(refused.is_err());
    }

    #[test]
    fn a_rank_beyond_its_job_is_not_found_unless_it_is_registered() {
        let procs = [1, 7].map(|rank| Proc::new("own", Rank::new(rank)));
        let of = |size, is_here| {
            let participants = Participants::of(&procs, &"own".into(), |_| size, |_, _| is_here);
            participants.map(|_| ()).map_err(|error| error.status())
        };
        let beyond = Err(pmix_types::Status::ERR_NOT_FOUND);
        assert_eq!(of(Some(7), false), beyond);
        assert_eq!(of(Some(7), true), Ok(()));
        assert_eq!(of(Some(8), false), Ok(()));
        assert_eq!(of(None, false), Ok(()));
    }

    #[test]
    fn members_are_listed_as_they_are_meant() {
        let listed = members(&[("own", 1), ("own", 0), ("far", Rank::WILDCARD.as_raw())]);
        let procs = [
            Proc::new("far", Rank::WILDCARD),
            Proc::new("own", Rank::new(0)),
            Proc::new("own", Rank::new(1)),
        ];
        assert_eq!(listed.to_procs(), procs);
        assert!(listed.has(&Proc::new("far", Rank::new(77))));
        assert!(!listed.has(&Proc::new("own", Rank::new(2))));
    }
}
