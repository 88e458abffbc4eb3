// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the operations that processes wait in, for users who want to know why a job makes no progress.
//!
//! Each subsystem describes its own operations. The description is bounded: it has [`MAX_WAITS`] collectives and as
//! many gets, each with [`MAX_RUNS`] runs of ranks, and all lists together are made from [`MAX_VISITED`] processes. The
//! rest is counted.
//!
//! Source: this project.

use std::time::{Duration, Instant};

use pmix_types::{Key, Nspace, Proc, Rank, Text};

use crate::Collective;

/// The largest number of described collectives, and of described gets.
pub(crate) const MAX_WAITS: usize = 64;

/// The largest number of processes from which all lists of a description are made, because lists are sorted.
const MAX_VISITED: usize = 16 << 10;

/// The largest number of gets that are examined for a description.
pub(crate) const MAX_GETS: usize = 16 << 10;

/// The largest number of runs of ranks in a list.
const MAX_RUNS: usize = 64;

/// The operations in which processes of this node wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waits {
    /// The collectives in the order in which they began, then the gets with the oldest first.
    pub listed: Vec<Wait>,
    /// The number of further operations.
    pub num_more: usize,
    /// The number of processes that were taken from lists so far.
    num_visited: usize,
}

/// An operation that has not completed, and the processes of this node that it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The identifier of the operation, which no other operation of its kind ever has. Gets of the same data
    /// have the identifier of the first of them. The identifier is 0 for a collective of an unregistered job.
    pub id: u64,
    /// The operation.
    pub operation: WaitOperation,
    /// The time since the first call.
    pub age: Duration,
    /// The participants of a collective on all nodes. A whole job is a single entry, its wildcard. Servers of several
    /// nodes describe the same collective with the same participants.
    pub participants: RankRuns,
    /// The local processes that have called.
    pub callers: RankRuns,
    /// The local processes that have not called. For a get, the process that has not committed its data. If the list is
    /// empty, the operation waits for the host or for processes of other nodes.
    pub missing: RankRuns,
}

/// The operation of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitOperation {
    /// A collective.
    Collective {
        /// The kind.
        kind: Collective,
        /// The name of the group of a construct or destruct.
        group: Option<Text<'static>>,
    },
    /// Gets of the same data.
    Get {
        /// The process whose data are requested.
        proc: Proc<'static>,
        /// The key; `None` for all data of the process.
        key: Option<Key<'static>>,
    },
}

/// Processes as runs of consecutive ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankRuns {
    /// The runs in the order of the names of jobs and of the ranks.
    pub runs: Vec<RankRun>,
    /// The number of processes, including those of runs beyond the limit.
    pub num_procs: usize,
}

/// Consecutive ranks of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankRun {
    /// The job.
    pub nspace: Nspace<'static>,
    /// The first rank.
    pub first: Rank,
    /// The last rank.
    pub last: Rank,
}

impl Waits {
    /// Adds an operation, or counts it if `num_listed` operations of its kind are described.
    pub(crate) fn add(&mut self, num_listed: usize, describe: impl FnOnce(&mut Self) -> Wait) {
        match num_listed < MAX_WAITS {
            true => {
                let wait = describe(self);
                self.listed.push(wait);
            }
            false => self.num_more += 1,
        }
    }

    /// Folds processes into runs, as far as the limits allow. All are counted.
    pub(crate) fn runs<'p>(
        &mut self,
        mut procs: impl Iterator<Item = &'p Proc<'static>>,
    ) -> RankRuns {
        let left = MAX_VISITED.saturating_sub(self.num_visited);
        let visited: Vec<_> = procs.by_ref().take(left).collect();
        self.num_visited += visited.len();
        let mut runs = RankRuns::of(visited);
        runs.num_procs += procs.count();
        runs
    }

    /// Does the same for processes that are made for the list.
    pub(crate) fn runs_of(&mut self, mut procs: impl Iterator<Item = Proc<'static>>) -> RankRuns {
        let left = MAX_VISITED.saturating_sub(self.num_visited);
        let visited: Vec<_> = procs.by_ref().take(left).collect();
        let mut runs = self.runs(visited.iter());
        runs.num_procs += procs.count();
        runs
    }
}

impl RankRuns {
    /// Folds processes in any order into runs. A wildcard is a run of its own.
    #[must_use]
    pub fn of(mut procs: Vec<&Proc<'static>>) -> Self {
        procs.sort_unstable();
        procs.dedup();
        let follows = |one: &&Proc<'_>, other: &&Proc<'_>| {
            let next = one.rank.as_raw().checked_add(1);
            one.nspace == other.nspace && one.rank.is_valid() && next == Some(other.rank.as_raw())
        };
        let runs = procs.chunk_by(follows).take(MAX_RUNS);
        let run = |run: &[&Proc<'static>]| {
            let (first, last) = (run.first()?, run.last()?);
            Some(RankRun {
                nspace: first.nspace.clone(),
                first: first.rank,
                last: last.rank,
            })
        };
        Self {
            runs: runs.filter_map(run).collect(),
            num_procs: procs.len(),
        }
    }

    /// Returns `true` if there is no process.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.num_procs == 0
    }

    /// Returns the listed processes. A wildcard is a single entry.
    pub fn procs(&self) -> impl Iterator<Item = Proc<'static>> {
        self.runs.iter().flat_map(|run| {
            let ranks = run.first.as_raw()..=run.last.as_raw();
            ranks.map(|rank| Proc::new(run.nspace.clone(), Rank::new(rank)))
        })
    }
}

/// Returns the time since the first call.
pub(crate) fn age(now: Option<Instant>, began: Option<Instant>) -> Duration {
    let since = now.zip(began);
    since.map_or(Duration::ZERO, |(now, began)| {
        now.saturating_duration_since(began)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_ranks_of_a_job_are_one_run() {
        let procs = [("b", 0), ("a", 7), ("a", 2), ("a", 1), ("a", 2), ("b", 1)];
        let procs = procs.map(|(job, rank)| Proc::new(job, Rank::new(rank)));
        let runs = RankRuns::of(procs.iter().collect());
        let found: Vec<_> = { runs.runs.iter() }
            .map(|run| {
                (
                    run.nspace.to_string(),
                    run.first.as_raw(),
                    run.last.as_raw(),
                )
            })
            .collect();
        let expected = [("a", 1, 2), ("a", 7, 7), ("b", 0, 1)];
        assert_eq!(found, expected.map(|(job, a, b)| (job.to_owned(), a, b)));
        assert_eq!((runs.num_procs, runs.procs().count()), (5, 5));
    }

    #[test]
    fn all_lists_together_are_bounded_and_their_processes_counted() {
        let procs: Vec<_> = (0..10_000)
            .map(|rank| Proc::new("job", Rank::new(rank)))
            .collect();
        let mut waits = Waits::default();
        let lists: Vec<_> = (0..3).map(|_| waits.runs(procs.iter())).collect();
        let lens = lists.iter().map(|list| list.procs().count());
        let expected = [10_000, MAX_VISITED - 10_000, 0];
        assert_eq!(lens.collect::<Vec<_>>(), expected);
        assert!(lists.iter().all(|list| list.num_procs == 10_000));
    }

    #[test]
    fn a_list_of_ranks_is_bounded() {
        let procs: Vec<_> = (0..1000)
            .map(|rank| Proc::new("job", Rank::new(2 * rank)))
            .collect();
        let runs = RankRuns::of(procs.iter().collect());
        assert_eq!((runs.runs.len(), runs.num_procs), (MAX_RUNS, 1000));
    }
}
