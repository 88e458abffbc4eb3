// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of jobs of a controller: the nodes of their processes, and the processes that have ended.
//!
//! ```
//! use pmix_host::collectives::Nodes as _;
//! use pmix_host::groups::Processes as _;
//! use pmix_host::jobs::JobTable;
//! use pmix_map::{Limits, ProcMap};
//! use pmix_types::{Proc, Rank};
//!
//! let mut jobs = JobTable::default();
//! let procs = ProcMap::parse_text(b"0-3;4-7", &Limits::default())?;
//! // The job runs on the nodes that the controller numbers 2 and 5.
//! jobs.add("job@1".into(), procs, vec![2, 5])?;
//! let proc = Proc::new("job@1", Rank::new(6));
//! assert_eq!(jobs.server_of(&proc), Some(5));
//! jobs.end(5, &proc)?;
//! assert!(jobs.has_ended(&proc) && !jobs.is_lost(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: this project.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pmix_map::ProcMap;
use pmix_types::{Nspace, Proc, Rank, Status};

use crate::Error;
use crate::collectives::{NodeShare, Nodes};
use crate::groups::Processes;

/// The processes of a job.
#[derive(Debug)]
struct Job {
    procs: ProcMap,
    /// The number of each node of the process map.
    nodes: Vec<usize>,
    /// The number of processes of each node that have not ended.
    running: Vec<usize>,
    ended: HashSet<Rank>,
}

/// The jobs of a controller, and the nodes that it has lost.
#[derive(Debug, Default)]
pub struct JobTable {
    jobs: BTreeMap<Nspace<'static>, Job>,
    lost: BTreeSet<usize>,
    num_running: usize,
}

impl JobTable {
    /// Adds a job with the ranks of each of its nodes, in the order of its node map, and the numbers of these nodes.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_EXISTS` for a job that is in the table, and `PMIX_ERR_BAD_PARAM` if the number of nodes differs
    /// from that of the map, or if a node is listed twice.
    pub fn add(
        &mut self,
        nspace: Nspace<'static>,
        procs: ProcMap,
        nodes: Vec<usize>,
    ) -> Result<(), Error> {
        if self.jobs.contains_key(&nspace) {
            let message = format!("job {nspace} is already in the table of jobs");
            return Err(Error::new(Status::ERR_EXISTS, message));
        }
        let (num_nodes, num_mapped) = (nodes.len(), procs.num_nodes());
        if num_nodes != num_mapped {
            return Err(Error::bad(format!(
                "{num_nodes} nodes are listed for job {nspace}, but its process map has {num_mapped}"
            )));
        }
        let distinct: BTreeSet<_> = nodes.iter().collect();
        if distinct.len() < num_nodes {
            return Err(Error::bad(format!(
                "a node is listed twice for job {nspace}"
            )));
        }
        let running: Vec<_> = procs.iter().map(|ranks| ranks.size_hint().0).collect();
        self.num_running += running.iter().sum::<usize>();
        let job = Job {
            procs,
            nodes,
            running,
            ended: HashSet::new(),
        };
        self.jobs.insert(nspace, job);
        Ok(())
    }

    /// Removes a job. The host calls it after all processes of the job have ended.
    pub fn remove(&mut self, nspace: &Nspace<'_>) {
        if let Some(job) = self.jobs.remove(nspace.as_bytes()) {
            self.num_running -= job.running.iter().sum::<usize>();
        }
    }

    /// Returns the number of processes of a job that have not ended; 0 for a job that is not in the table.
    #[must_use]
    pub fn num_running_of(&self, nspace: &Nspace<'_>) -> usize {
        let job = self.jobs.get(nspace.as_bytes());
        job.map_or(0, |job| job.running.iter().sum())
    }

    /// Records the end of a process that a node reports.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the process does not run on that node.
    pub fn end(&mut self, node: usize, proc: &Proc<'_>) -> Result<(), Error> {
        let job = self.jobs.get_mut(proc.nspace.as_bytes());
        let ended = job.and_then(|job| {
            let index = job.procs.node_of(proc.rank)?;
            let is_there = job.nodes.get(index) == Some(&node);
            let running = job.running.get_mut(index).filter(|_| is_there)?;
            job.ended.insert(proc.rank).then(|| *running -= 1)
        });
        match ended {
            Some(()) => {
                self.num_running -= 1;
                Ok(())
            }
            None => {
                let Proc { nspace, rank } = proc;
                let message = format!("rank {rank} of {nspace} does not run on node {node}");
                Err(Error::new(Status::ERR_NOT_FOUND, message))
            }
        }
    }

    /// Records that a node is lost. Returns its processes that had not ended, and that have ended by it.
    pub fn lose(&mut self, node: usize) -> Vec<Proc<'static>> {
        self.lost.insert(node);
        let mut lost = Vec::new();
        for (nspace, job) in &mut self.jobs {
            let Some(index) = job.nodes.iter().position(|number| *number == node) else {
                continue;
            };
            for rank in job.procs.ranks_of(index).into_iter().flatten() {
                if job.ended.insert(rank) {
                    lost.push(Proc::new(nspace.clone(), rank));
                }
            }
            if let Some(running) = job.running.get_mut(index) {
                *running = 0;
            }
        }
        self.num_running -= lost.len();
        lost
    }
}

impl Processes for JobTable {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        let job = self.jobs.get(nspace.as_bytes())?;
        u32::try_from(job.procs.num_ranks()).ok()
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        let job = self.jobs.get(proc.nspace.as_bytes());
        job.is_none_or(|job| job.ended.contains(&proc.rank))
    }

    fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
        let job = self.jobs.get(proc.nspace.as_bytes())?;
        job.nodes.get(job.procs.node_of(proc.rank)?).copied()
    }

    fn num_running(&self) -> Option<usize> {
        Some(self.num_running)
    }
}

impl Nodes for JobTable {
    fn nodes_of_job(&self, nspace: &Nspace<'_>) -> Vec<NodeShare> {
        let Some(job) = self.jobs.get(nspace.as_bytes()) else {
            return Vec::new();
        };
        let shares = job.nodes.iter().zip(&job.running).zip(job.procs.iter());
        // A node of the map without processes takes part in nothing.
        let shares = shares.filter(|(_, ranks)| ranks.size_hint().0 > 0);
        let share = |((node, running), _): ((&usize, &usize), _)| NodeShare::new(*node, *running);
        shares.map(share).collect()
    }

    fn is_lost(&self, node: usize) -> bool {
        self.lost.contains(&node)
    }
}

#[cfg(test)]
mod tests {
    use pmix_map::Limits;

    use super::*;

    fn table() -> JobTable {
        let mut jobs = JobTable::default();
        for (name, ranks, nodes) in [("a", "0,1;;2,3", vec![4, 5, 6]), ("b", "0;1", vec![6, 4])] {
            let procs = ProcMap::parse_text(ranks.as_bytes(), &Limits::default()).expect("a map");
            jobs.add(name.into(), procs, nodes).expect("a job");
        }
        jobs
    }

    fn proc(nspace: &'static str, rank: u32) -> Proc<'static> {
        Proc::new(nspace, Rank::new(rank))
    }

    #[test]
    fn processes_are_found_on_the_nodes_of_their_job() {
        let jobs = table();
        let places = [proc("a", 1), proc("a", 2), proc("b", 0), proc("b", 1)];
        let places = places.map(|proc| jobs.server_of(&proc));
        assert_eq!(places, [Some(4), Some(6), Some(6), Some(4)]);
        for unknown in [proc("a", 4), proc("c", 0)] {
            assert_eq!(jobs.server_of(&unknown), None);
        }
        let shares = [NodeShare::new(4, 2), NodeShare::new(6, 2)];
        assert_eq!(jobs.nodes_of_job(&"a".into()), shares);
        assert_eq!(jobs.job_size(&"a".into()), Some(4));
        assert_eq!(
            (jobs.job_size(&"c".into()), jobs.num_running()),
            (None, Some(6))
        );
    }

    #[test]
    fn a_process_ends_once_on_its_own_node() {
        let mut jobs = table();
        let status = |ended: Result<(), Error>| ended.err().map(|error| error.status());
        let not_found = Some(Status::ERR_NOT_FOUND);
        assert_eq!(status(jobs.end(4, &proc("a", 2))), not_found);
        assert_eq!(status(jobs.end(6, &proc("a", 2))), None);
        assert_eq!(status(jobs.end(6, &proc("a", 2))), not_found);
        assert_eq!(status(jobs.end(6, &proc("a", 9))), not_found);
        assert_eq!(status(jobs.end(6, &proc("c", 0))), not_found);
        assert!(jobs.has_ended(&proc("a", 2)) && !jobs.has_ended(&proc("a", 3)));
        assert_eq!(jobs.num_running_of(&"a".into()), 3);

        assert_eq!(jobs.lose(6), [proc("a", 3), proc("b", 0)]);
        assert!(jobs.is_lost(6) && !jobs.is_lost(4));
        assert!(jobs.lose(6).is_empty());
        assert_eq!(jobs.num_running(), Some(3));
        jobs.remove(&"a".into());
        assert_eq!(
            (jobs.num_running(), jobs.job_size(&"a".into())),
            (Some(1), None)
        );
    }

    #[test]
    fn contradictory_jobs_are_refused() {
        let mut jobs = table();
        let map = || ProcMap::parse_text(b"0;1", &Limits::default()).expect("a map");
        let mut status = |name: &'static str, nodes| {
            let added = jobs.add(name.into(), map(), nodes);
            added.expect_err("refused").status()
        };
        assert_eq!(status("a", vec![0, 1]), Status::ERR_EXISTS);
        assert_eq!(status("c", vec![0]), Status::ERR_BAD_PARAM);
        assert_eq!(status("c", vec![1, 1]), Status::ERR_BAD_PARAM);
    }
}
