// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which jobs are connected (`PMIx_Connect`): they are as one for failures.

use std::collections::BTreeSet;

use pmix_types::{Nspace, Proc};

/// How many sets of jobs are remembered; of more, failures stay where they are.
const MAX_SETS: usize = 10_000;

/// The sets of jobs that are connected.
#[derive(Debug, Default)]
pub(super) struct Connected {
    sets: BTreeSet<Vec<Nspace<'static>>>,
}

impl Connected {
    /// Notes that processes of several jobs are connected.
    pub(super) fn connect(&mut self, procs: &[Proc<'static>]) {
        let jobs = jobs(procs);
        if jobs.len() > 1 && self.sets.len() < MAX_SETS {
            self.sets.insert(jobs);
        }
    }

    /// Notes that these are connected no longer.
    pub(super) fn disconnect(&mut self, procs: &[Proc<'static>]) {
        self.sets.remove(&jobs(procs));
    }

    /// Forgets a job that is over.
    pub(super) fn forget(&mut self, nspace: &Nspace<'_>) {
        self.sets.retain(|jobs| !jobs.contains(nspace));
    }

    /// Whether two jobs are connected with each other.
    pub(super) fn are(&self, one: &Nspace<'_>, other: &Nspace<'_>) -> bool {
        let mut sets = self.sets.iter();
        sets.any(|jobs| jobs.contains(one) && jobs.contains(other))
    }
}

/// The jobs of a list of processes, each once and in the order of their names.
fn jobs(procs: &[Proc<'static>]) -> Vec<Nspace<'static>> {
    let jobs: BTreeSet<_> = procs.iter().map(|proc| proc.nspace.clone()).collect();
    jobs.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    fn procs(jobs: &[&'static str]) -> Vec<Proc<'static>> {
        let procs = jobs.iter().map(|job| Proc::new(*job, Rank::WILDCARD));
        procs.collect()
    }

    #[test]
    fn jobs_are_connected_until_they_disconnect_or_are_over() {
        let mut connected = Connected::default();
        connected.connect(&procs(&["a"]));
        connected.connect(&procs(&["b", "a", "b"]));
        connected.connect(&procs(&["c", "b"]));
        let (a, b, c) = ("a".into(), "b".into(), "c".into());
        assert!(connected.are(&a, &b) && connected.are(&b, &c) && !connected.are(&a, &c));
        connected.disconnect(&procs(&["a", "b"]));
        assert!(!connected.are(&a, &b));
        connected.forget(&c);
        assert!(connected.sets.is_empty());
    }
}
