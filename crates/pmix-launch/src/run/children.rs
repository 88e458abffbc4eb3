// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effects of a failed or ended job on other jobs.
//!
//! A failed job terminates the jobs that its processes spawned, unless they were spawned with `PMIX_SPAWN_CHILD_SEP`,
//! and the jobs to which it is connected. A job that ends successfully terminates no other job: spawned jobs
//! continue.

use std::time::{Duration, Instant};

use super::job::Job;
use super::session::Session;
use crate::Cause;
use crate::outcome::JobOutcome;

/// The largest number of spawned jobs in the outcome; further ones are only counted.
const MAX_KEPT: usize = 1000;

impl Session<'_> {
    /// Terminates the jobs that do not continue after another job failed or ended.
    pub(super) fn spread_failures(&mut self, now: Instant) {
        // A job that is terminated here may terminate others in turn.
        while let Some(index) = self.next_failure() {
            let Some(job) = self.jobs.get_mut(index) else {
                return;
            };
            job.has_failed = true;
            let nspace = job.nspace.clone();
            let cause = job.stop.cause().cloned();
            let is_spawned = job.origin.is_some();
            let origin = job.origin.as_ref();
            let is_apart = origin.is_some_and(|origin| origin.is_reported_apart);
            // `WithJob` is a consequence; the job that failed first reports the cause.
            if let Some(cause) = cause
                && self.cause.is_none()
                && !is_apart
                && !matches!(cause, Cause::WithJob { .. })
            {
                let name = nspace.to_string();
                self.cause = Some(match is_spawned {
                    true => Cause::Spawned {
                        nspace: name,
                        cause: Box::new(cause),
                    },
                    false => cause,
                });
            }
            if self.goes_on(index) {
                // Its other processes continue, so other jobs do not lose it yet. The failure spreads when the job is
                // terminated.
                continue;
            }
            if let Some(job) = self.jobs.get_mut(index) {
                job.has_spread = true;
            }
            for other in 0..self.jobs.len() {
                let Some(job) = self.jobs.get(other) else {
                    return;
                };
                let is_child = job.is_child_of(&nspace);
                let is_separate = job.origin.as_ref().is_some_and(|origin| origin.is_separate);
                let ends = is_child && !is_separate || self.connected.are(&nspace, &job.nspace);
                if ends && other != index && job.stop.cause().is_none() {
                    let nspace = nspace.to_string();
                    self.fail(other, Cause::WithJob { nspace }, now);
                }
            }
        }
        self.end_with_parents(now);
    }

    /// Returns a job whose failure was not yet handled: it failed now, or it continued after its first failure and is
    /// being terminated now.
    fn next_failure(&self) -> Option<usize> {
        let is_ended_now =
            |job: &Job| !job.has_spread && job.stop.is_ending() && job.table.num_running() > 0;
        let mut jobs = self.jobs.iter();
        jobs.position(|job| job.stop.cause().is_some() && (!job.has_failed || is_ended_now(job)))
    }

    /// Returns `true` if the other processes of a job continue although one failed.
    fn goes_on(&self, index: usize) -> bool {
        let job = self.jobs.get(index);
        job.is_some_and(|job| !job.stop.is_ending())
    }

    /// Terminates the jobs that end with their parent job, however that ended.
    fn end_with_parents(&mut self, now: Instant) {
        for index in 0..self.jobs.len() {
            let Some(job) = self.jobs.get(index) else {
                return;
            };
            let parent = (job.origin.as_ref())
                .filter(|origin| origin.ends_with_parent && job.stop.cause().is_none())
                .map(|origin| origin.parent.nspace.clone());
            let Some(nspace) = parent else {
                continue;
            };
            let parent = self.jobs.named(&nspace);
            if parent.is_none_or(|parent| parent.table.num_running() == 0) {
                let nspace = nspace.to_string();
                self.fail(index, Cause::WithJob { nspace }, now);
            }
        }
    }

    /// Removes spawned jobs that have ended.
    pub(super) fn dismiss_ended(&mut self) {
        let mut index = 1;
        while let Some(job) = self.jobs.get(index) {
            let is_left = job.table.num_running() == 0
                && !self.forward.has_open(&job.nspace)
                && (job.is_abandoned
                    || !(self.orphans).are_in(|pid| self.jobs.has(pid), |pid| job.table.has(pid)));
            match is_left {
                true => self.dismiss(index),
                false => index += 1,
            }
        }
    }

    /// Kills the rest of a spawned job, deregisters it and records its outcome.
    pub(super) fn dismiss(&mut self, index: usize) {
        let mut job = self.jobs.remove(index);
        let unsound = job.unsound();
        if self.spawned.len() < MAX_KEPT {
            // A process that was never started counts as failed.
            let endings = job.table.iter().map(|process| process.ended);
            let codes =
                endings.map(|ended| ended.map_or(u8::MAX, |(ending, _)| ending.exit_code()));
            let began = job.table.iter().map(|process| process.started).min();
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
                num_failed: unsound.len(),
                num_restarts: (job.table.iter())
                    .map(|process| u64::from(process.num_restarts))
                    .sum(),
                elapsed: began.map_or(Duration::ZERO, |began| began.elapsed()),
            });
        }
        let pids: Vec<_> = job.table.iter().map(|process| process.pid).collect();
        // Reaping frees the process ids, so the watcher must not kill them after this.
        drop(std::mem::take(&mut job.table));
        pids.into_iter().for_each(|pid| self.watcher.forget(pid));
        self.connected.forget(&job.nspace);
        self.published.job_ended(&job.nspace);
        if let Err(e) = self.server.deregister_nspace(&job.nspace) {
            tracing::debug!("cannot deregister {}: {e}", job.nspace);
        }
        self.serve();
        // `serve` has handled the group requests that the processes sent before they ended.
        self.groups.lost(&unsound);
        self.removals.job_dir(&job.dir);
    }
}
