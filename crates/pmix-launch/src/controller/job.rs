// SPDX-License-Identifier: MIT OR Apache-2.0
//! A job as the controller sees it: its plan, its request and its termination. The agents have its processes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use pmix_types::{Nspace, Proc, Rank};

use super::debugging::Debugging;
use super::stop::Stop;
use crate::Plan;

/// The request that spawned a job, with the settings that concern the controller.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) parent: Proc<'static>,
    /// The number of spawns between the first job and this one.
    pub(crate) depth: u32,
    /// `true` if other processes continue after a nonzero exit code.
    pub(crate) spares_exit_codes: bool,
    /// `true` if it continues after the job of its parent failed.
    pub(crate) is_separate: bool,
    /// `true` if it is terminated even if the job of its parent ends successfully.
    pub(crate) ends_with_parent: bool,
    /// `true` if its outcome does not affect that of the launcher.
    pub(crate) is_reported_apart: bool,
    /// `true` if the outcomes of jobs that it spawns do not affect that of the launcher.
    pub(crate) reports_children_apart: bool,
    /// The largest number of restarts of each failed process.
    pub(crate) max_restarts: u32,
}

/// A running job.
pub(crate) struct Job {
    pub(crate) plan: Arc<Plan>,
    pub(crate) nspace: Nspace<'static>,
    /// The spawn request; `None` for the first job.
    pub(crate) origin: Option<Origin>,
    pub(crate) stop: Stop,
    /// The processes that may exit by themselves although the job is terminated, and the time of their SIGTERM.
    pub(crate) leaving: Option<(Instant, BTreeSet<Rank>)>,
    pub(crate) debugging: Debugging,
    /// `true` if its failure was recorded.
    pub(crate) has_failed: bool,
    /// `true` if its failure was spread to other jobs. That does not happen while its other processes continue.
    pub(crate) has_spread: bool,
}

impl Job {
    /// Returns the name of one of its processes.
    pub(crate) fn proc(&self, rank: Rank) -> Proc<'static> {
        Proc::new(self.nspace.clone(), rank)
    }

    /// Returns `true` if a process of that job spawned it.
    pub(crate) fn is_child_of(&self, nspace: &Nspace<'_>) -> bool {
        let origin = self.origin.as_ref();
        origin.is_some_and(|origin| origin.parent.nspace == *nspace)
    }

    /// Returns the largest number of restarts of each failed process.
    pub(crate) fn max_restarts(&self) -> u32 {
        let origin = self.origin.as_ref();
        origin.map_or(self.plan.max_restarts, |origin| origin.max_restarts)
    }
}

/// The jobs of a session: the first one and the spawned ones.
#[derive(Default)]
pub(crate) struct Jobs {
    jobs: Vec<Job>,
}

impl Jobs {
    pub(crate) fn push(&mut self, job: Job) {
        self.jobs.push(job);
    }

    pub(crate) fn remove(&mut self, index: usize) -> Job {
        self.jobs.remove(index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.jobs.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Job> {
        self.jobs.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Job> {
        self.jobs.get_mut(index)
    }

    /// Returns the index of a job.
    pub(crate) fn place(&self, nspace: &Nspace<'_>) -> Option<usize> {
        self.jobs.iter().position(|job| job.nspace == *nspace)
    }

    /// Returns a job by its name.
    pub(crate) fn named(&self, nspace: &Nspace<'_>) -> Option<&Job> {
        self.jobs.iter().find(|job| job.nspace == *nspace)
    }

    /// Returns a job by its name, for modification.
    pub(crate) fn named_mut(&mut self, nspace: &Nspace<'_>) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.nspace == *nspace)
    }

    /// Returns `true` if a terminating signal was forwarded to the jobs.
    pub(crate) fn are_interrupted(&self) -> bool {
        self.iter().any(|job| job.stop.is_interrupted())
    }
}
