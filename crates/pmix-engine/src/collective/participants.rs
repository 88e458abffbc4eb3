// SPDX-License-Identifier: MIT OR Apache-2.0
//! The participants of a collective, independent of how a request lists them.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::slice;
use std::sync::{Arc, LazyLock};

use pmix_types::{Nspace, Proc, Rank};

use crate::Error;
use crate::registry::{LocalJob, Registry};

/// A job with participants, its participants, and its registration.
pub(super) type LocalParticipants<'a> = (&'a Nspace<'static>, &'a Ranks, &'a LocalJob);

/// The participants of a collective: processes of jobs, ordered by nspace. The same processes compare equal, listed in
/// any order or selected by a wildcard. Copies share them.
#[derive(Clone, Debug)]
pub(crate) struct Participants {
    jobs: Arc<[(Nspace<'static>, Ranks)]>,
    /// The hash of all participants, which may be many and are looked up often.
    hash: u64,
}

/// The keys of the hash, which are secret so that a peer cannot cause collisions.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl PartialEq for Participants {
    fn eq(&self, other: &Self) -> bool {
        // The hash settles most comparisons without a walk through long lists.
        self.hash == other.hash && self.jobs == other.jobs
    }
}

impl Eq for Participants {}

impl Hash for Participants {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Processes of one job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ranks {
    /// All processes of the job.
    All,
    /// One process, without the allocation of a list.
    One(Rank),
    /// Several processes in ascending order, but not all.
    Some(Vec<Rank>),
}

impl Participants {
    fn new(jobs: Arc<[(Nspace<'static>, Ranks)]>) -> Self {
        let hash = HASHER.hash_one(&jobs);
        Self { jobs, hash }
    }

    /// Returns the participants in a list; an empty list selects the whole job of the caller. `size` returns the number
    /// of processes of a job, if it is known, or the reason why the caller must not name it.
    ///
    /// # Errors
    ///
    /// Returns the error of `size`; `PMIX_ERR_NOT_FOUND` for a rank beyond its job for which `is_here` returns `false`;
    /// `PMIX_ERR_BAD_PARAM` for a rank that is not a process, and for a job without a name.
    pub(crate) fn of(
        procs: &[Proc<'_>],
        own: &Nspace<'static>,
        size: impl Fn(&Nspace<'_>) -> Result<Option<u32>, Error>,
        is_here: impl Fn(&Nspace<'_>, Rank) -> bool,
    ) -> Result<Self, Error> {
        if procs.is_empty() {
            return Ok(Self::new([(own.clone(), Ranks::All)].into()));
        }
        let named = by_name(procs);
        let jobs = named.chunk_by(|a, b| a.number == b.number && a.nspace == b.nspace);
        let jobs = jobs.filter_map(|same| Some((same.first()?.nspace, same)));
        let members = jobs.map(|(nspace, same)| {
            let procs = || same.iter().flat_map(|run| run.procs);
            let size = size(nspace)?;
            let ranks = Ranks::of(procs().map(|proc| proc.rank), size)?;
            if let Some((last, size)) = ranks.last().zip(size)
                && last.as_raw() >= size
                && !is_here(nspace, last)
            {
                let message =
                    format!("rank {last} of {nspace} does not exist: the job has {size} processes");
                return Err(Error::not_found(message));
            }
            match nspace.is_empty() {
                true => Err(Error::bad("a participant without a job")),
                false => Ok((nspace.to_shared(), ranks)),
            }
        });
        members.collect::<Result<_, _>>().map(Self::new)
    }

    /// Returns the jobs with their participants.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (&Nspace<'static>, &Ranks)> + Clone {
        self.jobs.iter().map(|(nspace, ranks)| (nspace, ranks))
    }

    /// Returns the jobs that are registered here, in the order of [`jobs`](Self::jobs). A request may name many jobs,
    /// or the host may have registered many, so the smaller set is traversed.
    pub(super) fn local_jobs<'a>(&'a self, registry: &'a Registry) -> Vec<LocalParticipants<'a>> {
        let registered = registry.jobs();
        if registered.len() >= self.jobs.len() {
            let known = |(nspace, ranks)| Some((nspace, ranks, registry.job(nspace)?));
            return self.jobs().filter_map(known).collect();
        }
        let named = registered.filter_map(|(nspace, job)| {
            let (nspace, ranks) = self.jobs.get(self.place(nspace)?)?;
            Some((nspace, ranks, job))
        });
        let mut named: Vec<_> = named.collect();
        // The registry has no order, but results must not depend on which set was traversed.
        named.sort_unstable_by_key(|(nspace, ..)| *nspace);
        named
    }

    fn place(&self, nspace: &Nspace<'_>) -> Option<usize> {
        let nspace = nspace.as_bytes();
        let found = self
            .jobs
            .binary_search_by(|(known, _)| known.as_bytes().cmp(nspace));
        found.ok()
    }

    /// Returns the estimated memory of the participants in bytes.
    pub(super) fn weight(&self) -> usize {
        let of_job = |(nspace, ranks): (&Nspace<'_>, &Ranks)| {
            let listed = ranks.listed().map_or(0, size_of_val);
            size_of::<(Nspace<'_>, Ranks)>() + nspace.as_bytes().len() + listed
        };
        self.jobs().map(of_job).sum()
    }

    /// Returns `true` if processes of a job are participants.
    pub(super) fn has_job(&self, nspace: &Nspace<'_>) -> bool {
        self.place(nspace).is_some()
    }

    /// Returns `true` if a process is a participant.
    pub(crate) fn has(&self, proc: &Proc<'_>) -> bool {
        let place = self.place(&proc.nspace);
        let job = place.and_then(|place| self.jobs.get(place));
        job.is_some_and(|(_, ranks)| ranks.has(proc.rank))
    }

    /// Returns the participants as a list.
    pub(crate) fn to_procs(&self) -> Vec<Proc<'static>> {
        let jobs = self.jobs();
        jobs.flat_map(|(nspace, ranks)| {
            let ranks = ranks.listed().unwrap_or(&[Rank::WILDCARD]);
            ranks.iter().map(|rank| Proc::new(nspace.clone(), *rank))
        })
        .collect()
    }
}

/// Groups the processes of a list by job, in the order of the job names. A job may occur several times.
fn by_name<'a, 'p>(procs: &'a [Proc<'p>]) -> Vec<JobRun<'a, 'p>> {
    let runs = || {
        let runs = procs.chunk_by(|a, b| a.nspace == b.nspace);
        runs.filter_map(|run| Some((&run.first()?.nspace, run)))
    };
    // The names in a list often have a common prefix, so the following bytes are compared first, as a number.
    let first = procs.first().map(|proc| proc.nspace.as_bytes());
    let first = first.unwrap_or_default();
    let common = runs().fold(first.len(), |common, (name, _)| {
        let alike = name.as_bytes().iter().zip(first).take(common);
        alike.take_while(|(a, b)| a == b).count()
    });
    let number = |name: &Nspace<'_>| {
        let mut bytes = [0; 8];
        let rest = name.as_bytes().get(common..).unwrap_or_default();
        bytes
            .iter_mut()
            .zip(rest)
            .for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(bytes)
    };
    let named = runs().map(|(nspace, procs)| JobRun {
        number: number(nspace),
        nspace,
        procs,
    });
    let mut named: Vec<_> = named.collect();
    named.sort_unstable_by(|a, b| {
        let numbers = a.number.cmp(&b.number);
        numbers.then_with(|| a.nspace.cmp(b.nspace))
    });
    named
}

/// A run of processes of one job in a list.
struct JobRun<'a, 'p> {
    /// The first bytes after the common prefix of the names, so that most comparisons are of numbers.
    number: u64,
    nspace: &'a Nspace<'p>,
    procs: &'a [Proc<'p>],
}

impl Ranks {
    /// Returns the processes that ranks of a job select. `size` is the number of its processes.
    fn of(mut ranks: impl Iterator<Item = Rank> + Clone, size: Option<u32>) -> Result<Self, Error> {
        // A wildcard covers all other ranks of the list.
        let has_wildcard = ranks.clone().any(|rank| rank == Rank::WILDCARD);
        if has_wildcard {
            return Ok(Self::All);
        }
        let invalid = ranks.clone().find(|rank| !rank.is_valid());
        if let Some(rank) = invalid {
            return Err(Error::bad(format!(
                "{rank:?} cannot participate in a collective"
            )));
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
        // Ranks start at 0, so `size` different ranks without one beyond the job are all of them.
        let next = listed.last().and_then(|last| last.as_raw().checked_add(1));
        let len = listed.listed().map_or(0, <[Rank]>::len);
        let is_dense = next.is_some_and(|next| u32::try_from(len) == Ok(next));
        match is_dense && size == next {
            true => Ok(Self::All),
            false => Ok(listed),
        }
    }

    /// Returns the listed ranks, or `None` for all processes.
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

    /// Returns the highest listed rank.
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
        let size = |nspace: &Nspace<'_>| Ok((*nspace != "far").then_some(3));
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
        // The size of this job is not known.
        assert_ne!(
            members(&[("far", 0), ("far", 1), ("far", 2)]),
            members(&[("far", wildcard)])
        );
    }

    #[test]
    fn jobs_are_in_the_order_of_their_names() {
        let numbers = (0..2000).map(|number| number * 7919 % 100_003);
        let mut names: Vec<_> = numbers.map(|number| format!("job{number}")).collect();
        let alike = ["job", "job12345678", "job123456789", "job1234567"];
        names.extend(alike.map(String::from));
        let differing = [&names[..], &["a".to_owned(), "z".to_owned()]].concat();
        for names in [names, differing] {
            let procs = names
                .iter()
                .map(|name| Proc::new(name.as_str(), Rank::new(0)));
            let mut procs: Vec<_> = procs.collect();
            let of = Participants::of(&procs, &"own".into(), |_| Ok(None), |_, _| false);
            procs.sort();
            procs.dedup();
            assert_eq!(of.unwrap().to_procs(), procs);
        }
    }

    #[test]
    fn invalid_ranks_are_refused() {
        for rank in [Rank::UNDEF, Rank::LOCAL_NODE, Rank::INVALID] {
            let procs = [Proc::new("own", rank)];
            let refused = Participants::of(&procs, &"own".into(), |_| Ok(Some(1)), |_, _| false);
            assert_eq!(
                refused.unwrap_err().status(),
                pmix_types::Status::ERR_BAD_PARAM
            );
        }
        let nobody = [Proc::new("", Rank::new(0))];
        let refused = Participants::of(&nobody, &"own".into(), |_| Ok(None), |_, _| false);
        assert!(refused.is_err());
    }

    #[test]
    fn a_rank_beyond_the_job_size_is_not_found_unless_registered() {
        let procs = [1, 7].map(|rank| Proc::new("own", Rank::new(rank)));
        let of = |size, is_here| {
            let participants =
                Participants::of(&procs, &"own".into(), |_| Ok(size), |_, _| is_here);
            participants.map(|_| ()).map_err(|error| error.status())
        };
        let beyond = Err(pmix_types::Status::ERR_NOT_FOUND);
        assert_eq!(of(Some(7), false), beyond);
        assert_eq!(of(Some(7), true), Ok(()));
        assert_eq!(of(Some(8), false), Ok(()));
        assert_eq!(of(None, false), Ok(()));
    }

    #[test]
    fn members_are_listed_by_job_and_rank() {
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
