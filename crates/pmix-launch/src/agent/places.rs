// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes of the processes of a session, for collectives and the list of pending operations.

use std::collections::BTreeMap;

use pmix_host::collectives::{NodeShare, Nodes as NodesOfJobs};
use pmix_host::groups::Processes;
use pmix_types::{Nspace, Proc, Rank};

use super::local_job::LocalJobs;
use crate::Error;
use crate::host::AtNode;
use crate::nodes::Nodes;
use crate::pending::ProcsOfNodes;

/// The processes of all jobs, and their nodes, for collectives.
pub(crate) struct Places<'a> {
    jobs: &'a LocalJobs,
    nodes: &'a Nodes,
}

/// Returns the number of a node in collectives: 0 for that of the controller.
pub(crate) fn number_of(node: AtNode) -> usize {
    node.map_or(0, |place| place + 1)
}

impl<'a> Places<'a> {
    pub(super) fn new(jobs: &'a LocalJobs, nodes: &'a Nodes) -> Self {
        Self { jobs, nodes }
    }

    /// Returns the number of the node of a process, or `None` if it is on this one or not known.
    pub(super) fn node_of(&self, proc: &Proc<'_>) -> Option<usize> {
        let layout = &self.jobs.named(&proc.nspace)?.plan.layout;
        let name = layout.nodes().nth(layout.procs().node_of(proc.rank)?)?;
        self.nodes.place(&name)
    }
}

/// Checks of the reports of other nodes. They cost as much as the node has processes.
impl Places<'_> {
    /// Checks that a node has reported all its processes of a job, whose start it reports as complete.
    pub(super) fn check_started(&self, place: usize, nspace: &[u8]) -> Result<(), Error> {
        let nspace = Nspace::new(nspace);
        // A job that was given up meanwhile has no table.
        let Some(job) = self.jobs.named(&nspace) else {
            return Ok(());
        };
        let mut missing = self.ranks_at(&nspace, place + 1);
        match missing.find(|rank| job.table.with_rank(*rank).is_none()) {
            None => Ok(()),
            Some(rank) => Err(Error::request(format!(
                "it reports the start of {nspace} without that of rank {rank}"
            ))),
        }
    }

    /// Checks that all processes of a job on a node have ended, whose end it reports.
    pub(super) fn check_over(&self, place: usize, nspace: &[u8]) -> Result<(), Error> {
        let nspace = Nspace::new(nspace);
        let Some(job) = self.jobs.named(&nspace) else {
            return Ok(());
        };
        let process = |rank: &Rank| job.table.with_rank(*rank);
        let is_running = |rank: &Rank| process(rank).is_some_and(|process| process.ended.is_none());
        match self.ranks_at(&nspace, place + 1).find(is_running) {
            None => Ok(()),
            Some(rank) => Err(Error::request(format!(
                "it reports the end of {nspace}, but rank {rank} runs there"
            ))),
        }
    }
}

impl Processes for Places<'_> {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        let size = self.jobs.named(nspace)?.plan.layout.num_procs();
        u32::try_from(size).ok()
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        let Some(job) = self.jobs.named(&proc.nspace) else {
            return true;
        };
        let process = job.table.with_rank(proc.rank);
        process.is_some_and(|process| process.ended.is_some())
    }

    fn num_running(&self) -> Option<usize> {
        Some(self.jobs.num_running())
    }

    fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
        self.jobs.named(&proc.nspace)?;
        Some(number_of(self.node_of(proc)))
    }
}

impl NodesOfJobs for Places<'_> {
    fn nodes_of_job(&self, nspace: &Nspace<'_>) -> Vec<NodeShare> {
        let Some(job) = self.jobs.named(nspace) else {
            return Vec::new();
        };
        let layout = &job.plan.layout;
        let share = |(index, name): (usize, Vec<u8>)| {
            let name: &[u8] = &name;
            let num_procs = layout.num_at(index);
            let place = self.nodes.place(name);
            let is_known = place.is_some() || name == layout.host();
            let ended = job.table.num_ended(place);
            let share = NodeShare::new(number_of(place), num_procs.saturating_sub(ended));
            (is_known && num_procs > 0).then_some(share)
        };
        layout
            .nodes()
            .iter()
            .enumerate()
            .filter_map(share)
            .collect()
    }

    fn is_lost(&self, node: usize) -> bool {
        node.checked_sub(1)
            .is_some_and(|place| self.nodes.is_lost(place))
    }
}

impl Places<'_> {
    /// Returns the number of processes of all jobs on each node that have not ended, by the name of the node.
    pub(crate) fn num_running_by_node(&self) -> BTreeMap<Vec<u8>, u64> {
        let mut running = BTreeMap::new();
        for job in self.jobs.iter() {
            for share in self.nodes_of_job(&job.nspace) {
                let name = match share.node.checked_sub(1) {
                    None => job.plan.layout.host().to_vec(),
                    Some(place) => self.nodes.name(place).as_bytes().to_vec(),
                };
                let num = u64::try_from(share.num_running).unwrap_or(u64::MAX);
                let known = running.entry(name).or_insert(0_u64);
                *known = known.saturating_add(num);
            }
        }
        running
    }

    /// Returns the number of processors of another node, once its agent has reported it.
    pub(crate) fn num_processors(&self, name: &[u8]) -> Option<u32> {
        self.nodes.num_processors(self.nodes.place(name)?)
    }

    /// Returns `true` if a node was lost.
    pub(crate) fn is_lost_by_name(&self, name: &[u8]) -> bool {
        let place = self.nodes.place(name);
        place.is_some_and(|place| self.nodes.is_lost(place))
    }
}

impl ProcsOfNodes for Places<'_> {
    fn nodes_of(&self, nspace: &Nspace<'_>) -> Vec<usize> {
        let shares = self.nodes_of_job(nspace).into_iter();
        shares.map(|share| share.node).collect()
    }

    fn ranks_at(&self, nspace: &Nspace<'_>, node: usize) -> Box<dyn Iterator<Item = Rank> + '_> {
        let layout = self.jobs.named(nspace).map(|job| &job.plan.layout);
        let index = layout.and_then(|layout| match node.checked_sub(1) {
            None => layout.nodes().position(layout.host()),
            Some(place) => layout.nodes().position(self.nodes.name(place).as_bytes()),
        });
        let ranks = layout.zip(index);
        let ranks = ranks.and_then(|(layout, index)| layout.procs().ranks_of(index));
        Box::new(ranks.into_iter().flatten())
    }

    fn node_of(&self, proc: &Proc<'_>) -> Option<usize> {
        self.server_of(proc)
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        Processes::has_ended(self, proc)
    }
}
