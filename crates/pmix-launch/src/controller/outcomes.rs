// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a session: its first failure, and the jobs that have ended.

use std::time::{Duration, Instant};

use pmix_host::usage;
use pmix_types::Status;

use super::events::of_cause;
use super::job::Job;
use crate::agent::{EndedJob, LocalJob};
use crate::outcome::{Culprit, JobOutcome};
use crate::process::{Ending, Process};
use crate::{Cause, Outcome, Plan, RankOutcome};

/// The largest number of spawned jobs in the outcome; further ones are only counted.
const MAX_KEPT: usize = 1000;

/// The first failure, and the outcomes of spawned jobs that have ended.
#[derive(Default)]
pub(crate) struct Outcomes {
    cause: Option<Cause>,
    /// The process that the first failure is about.
    culprit: Option<Culprit>,
    spawned: Vec<JobOutcome>,
}

impl Outcomes {
    /// Returns `true` after the first failure.
    pub(crate) fn has_cause(&self) -> bool {
        self.cause.is_some()
    }

    /// Records the failure of a job, if it is the first one that affects the launcher.
    pub(crate) fn record_failure(&mut self, job: &Job, local: Option<&LocalJob>) {
        let origin = job.origin.as_ref();
        let is_apart = origin.is_some_and(|origin| origin.is_reported_apart);
        // `WithJob` is a consequence; the job that failed first reports the cause.
        let cause = job
            .stop
            .cause()
            .filter(|cause| !matches!(cause, Cause::WithJob { .. }));
        let Some(cause) = cause.filter(|_| self.cause.is_none() && !is_apart) else {
            return;
        };
        let process = cause.rank().zip(local);
        let process = process.and_then(|(rank, local)| local.process(rank));
        self.culprit = process.map(|process| culprit(job, process));
        self.cause = Some(match origin {
            Some(_) => Cause::Spawned {
                nspace: job.nspace.to_string(),
                cause: Box::new(cause.clone()),
            },
            None => cause.clone(),
        });
    }

    /// Keeps the outcome of a spawned job that has ended.
    pub(crate) fn keep(&mut self, job: &Job, ended: &EndedJob) {
        if self.spawned.len() >= MAX_KEPT {
            return;
        }
        // A process that was never started counts as failed.
        let endings = ended.processes.iter().map(|process| process.ended);
        let codes = endings.map(|ended| ended.map_or(u8::MAX, |(ending, _)| ending.exit_code()));
        let began = ended.processes.iter().map(|process| process.started).min();
        self.spawned.push(JobOutcome {
            nspace: job.nspace.to_string(),
            parent: job.origin.as_ref().map_or_else(String::new, |origin| {
                let parent = &origin.parent;
                format!("{},{}", parent.nspace, parent.rank)
            }),
            num_procs: job.plan.layout.num_procs(),
            exit_code: (job.stop.cause())
                .map_or_else(|| codes.max().unwrap_or(u8::MAX), Cause::exit_code),
            cause: job.stop.cause().cloned(),
            num_failed: ended.unsound.len(),
            num_restarts: (ended.processes.iter())
                .map(|process| u64::from(process.num_restarts))
                .sum(),
            elapsed: began.map_or(Duration::ZERO, |began| began.elapsed()),
        });
    }

    /// Returns the status of an ended job, if it is among those that are kept.
    pub(crate) fn status_of(&self, name: &[u8]) -> Option<Status> {
        let ended = (self.spawned.iter()).find(|job| job.nspace.as_bytes() == name)?;
        let status = ended.cause.as_ref().map(|cause| of_cause(cause).1);
        Some(status.unwrap_or(Status::SUCCESS))
    }

    /// Returns the outcomes of the spawned jobs.
    pub(crate) fn take_spawned(&mut self) -> Vec<JobOutcome> {
        std::mem::take(&mut self.spawned)
    }

    /// Returns the outcome of the session, with the processes of the first job. The caller adds the rest.
    pub(crate) fn of_first_job(
        &self,
        plan: &Plan,
        job: Option<&LocalJob>,
        began: Instant,
    ) -> Outcome {
        let processes = job.into_iter().flat_map(LocalJob::processes);
        Outcome {
            nspace: plan.nspace.clone(),
            host: plan.layout.host().to_vec(),
            ranks: processes
                .map(|process| of_process(process, began, plan))
                .collect(),
            cause: self.cause.clone(),
            culprit: self.culprit.clone(),
            spawned: Vec::new(),
            num_spawned: 0,
            groups: Vec::new(),
            num_groups: 0,
            fences: Vec::new(),
            num_fences: 0,
            elapsed: Duration::ZERO,
            processor_time: Duration::ZERO,
        }
    }
}

fn culprit(job: &Job, process: &Process) -> Culprit {
    let app = job.plan.apps.get(process.app);
    let program = app.map(|app| app.program.to_string_lossy().into_owned());
    Culprit {
        program: program.unwrap_or_default(),
        pid: process.pid.as_raw_nonzero().get(),
        host: job.plan.layout.host_of(process.rank),
        kernel_kill: process.kernel_kill.clone(),
    }
}

fn of_process(process: &Process, began: Instant, plan: &Plan) -> RankOutcome {
    let is_measured = plan.diagnosis.measures;
    let pid = process.pid.as_raw_nonzero().get();
    // The process is not reaped yet, so the kernel still has its time, and the number means no other process.
    let processor_time = is_measured.then(|| match process.node {
        None => usage::processor_time(pid).ok(),
        Some(_) => process.processor_time,
    });
    let (ending, at) = process
        .ended
        .unwrap_or((Ending::Exited(u8::MAX), process.started));
    RankOutcome {
        rank: process.rank,
        app: process.app,
        pid,
        host: plan.layout.host_of(process.rank),
        cpus: process.cpus.clone(),
        init: { process.initialized }.map(|at| at.saturating_duration_since(process.started)),
        processor_time: processor_time.flatten(),
        largest_memory: process.largest_memory,
        kernel_kill: process.kernel_kill.clone(),
        started: process.started.saturating_duration_since(began),
        elapsed: at.saturating_duration_since(process.started),
        ending,
    }
}
