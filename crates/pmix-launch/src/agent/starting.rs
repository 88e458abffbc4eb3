// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs whose processes are being started on this node.

use std::collections::VecDeque;
use std::sync::Arc;

use pmix_types::Nspace;

use super::local_job::JobSettings;
use crate::job_info::Bound;
use crate::output::{RankFiles, Route};
use crate::preparation::{JobPlace, Prepared};
use crate::process::JobStart;
use crate::{Error, Plan};

/// A job that the controller wants to be started.
pub(crate) struct NewJob {
    pub(crate) plan: Arc<Plan>,
    pub(crate) settings: JobSettings,
    /// The programs and bindings of its processes.
    pub(crate) prepared: Prepared,
    /// Its directory and its output files.
    pub(crate) place: JobPlace,
}

/// A job whose processes are being started.
pub(super) struct StartingJob<'a> {
    pub(super) nspace: Nspace<'static>,
    pub(super) start: JobStart,
    pub(super) route: Route<'a>,
    /// The open output files of the processes that were not prepared yet. If `None`, the thread that starts a process
    /// opens its files.
    pub(super) files: Option<std::vec::IntoIter<RankFiles>>,
    pub(super) bound: Bound,
    /// The result of the start on this node, once it is over.
    pub(super) started_here: Option<Result<(), Error>>,
}

/// The jobs whose processes are being started.
#[derive(Default)]
pub(super) struct StartingJobs<'a> {
    jobs: VecDeque<StartingJob<'a>>,
    /// The jobs whose start was canceled and not reported yet.
    cancelled: Vec<Nspace<'static>>,
}

impl<'a> StartingJobs<'a> {
    /// Adds a job, or puts it back.
    pub(super) fn add(&mut self, job: StartingJob<'a>) {
        self.jobs.push_back(job);
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Removes and returns the job whose turn it is to advance.
    pub(super) fn next(&mut self) -> Option<StartingJob<'a>> {
        self.jobs.pop_front()
    }

    /// Returns `true` if the processes of a job are being started.
    pub(super) fn has(&self, nspace: &Nspace<'_>) -> bool {
        self.jobs.iter().any(|job| job.nspace == *nspace)
    }

    /// Drops the start of a job. Processes that are in no table yet are killed.
    pub(super) fn remove(&mut self, nspace: &Nspace<'_>) -> Option<StartingJob<'a>> {
        let place = self.jobs.iter().position(|job| job.nspace == *nspace)?;
        self.jobs.remove(place)
    }

    /// Drops the start of a job, which is reported as canceled.
    pub(super) fn cancel(&mut self, nspace: &Nspace<'_>) {
        let removed = self.remove(nspace);
        self.cancelled.extend(removed.map(|job| job.nspace));
    }

    /// Returns `true` if a canceled start was not reported yet.
    pub(super) fn has_cancelled(&self) -> bool {
        !self.cancelled.is_empty()
    }

    /// Returns the jobs whose start was canceled.
    pub(super) fn take_cancelled(&mut self) -> Vec<Nspace<'static>> {
        std::mem::take(&mut self.cancelled)
    }
}
