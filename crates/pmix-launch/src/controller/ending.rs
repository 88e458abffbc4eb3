// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of jobs: the execution of what [`Stop`](super::stop::Stop) orders, and the effects of a failed or ended job
//! on other jobs.
//!
//! A failed job terminates the jobs that its processes spawned, unless they were spawned with `PMIX_SPAWN_CHILD_SEP`,
//! and the jobs to which it is connected (see [`connected`](super::connected)). A job that ends successfully terminates
//! no other job: spawned jobs continue.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pmix_types::Rank;
use rustix::process::Signal;

use super::job::Job;
use super::stop::Order;
use super::{Controller, Cx};
use crate::Cause;

/// The time for processes to exit by themselves before SIGTERM, if they have finalized, or if a process that had finalized
/// failed. Such processes are about to exit, and SIGTERM would end them before they have written their buffered output.
const LEAVE: Duration = Duration::from_millis(500);

impl Controller {
    /// Records a failure of a job, and terminates the job if the failure requires it.
    pub(crate) fn fail(&mut self, cx: &mut Cx<'_>, index: usize, cause: Cause, now: Instant) {
        let order = (self.jobs.get_mut(index)).and_then(|job| job.stop.fail(cause, now));
        if let Some(order) = order {
            self.execute(cx, index, order);
        }
    }

    /// Executes an order on the processes of a job.
    pub(crate) fn execute(&mut self, cx: &mut Cx<'_>, index: usize, order: Order) {
        let Some(job) = self.jobs.get(index) else {
            return;
        };
        let nspace = job.nspace.clone();
        match order {
            Order::Diagnose => self.report_late(cx, index, Instant::now()),
            Order::Report(unheeded) => job.warn_unheeded(&cx.agent, &unheeded),
            Order::Ask => {
                tracing::info!("terminating the processes of {nspace} (SIGTERM)");
                let leaving = cx.agent.terminate_unless_finalized(&nspace);
                if let Some(job) = self.jobs.get_mut(index)
                    && !leaving.is_empty()
                {
                    job.leaving = Some((Instant::now() + LEAVE, leaving));
                }
            }
            Order::AskSoon => {
                if let Some(job) = self.jobs.get_mut(index) {
                    let all = BTreeSet::from([Rank::WILDCARD]);
                    job.leaving = Some((Instant::now() + LEAVE, all));
                }
            }
            Order::Kill => {
                tracing::info!("killing the processes of {nspace} (SIGKILL)");
                self.kill(cx, index);
            }
            Order::KillUnheeded(unheeded) => {
                job.warn_unheeded(&cx.agent, &unheeded);
                self.kill(cx, index);
            }
            // A process has not ended yet although it was killed, for example in an uninterruptible system call.
            Order::Abandon | Order::Lose if cx.agent.num_running(&nspace) > 0 => {}
            Order::Abandon => {
                cx.agent.close_output(&nspace);
                cx.agent.abandon(&nspace);
            }
            Order::Lose => {
                if cx.agent.abandon(&nspace) {
                    self.lose_output(cx, index);
                }
            }
        }
    }

    /// Terminates the processes of a job that might have exited by themselves and did not in time.
    pub(crate) fn terminate_late(&mut self, cx: &mut Cx<'_>, index: usize, now: Instant) {
        if let Some(job) = self.jobs.get_mut(index)
            && let Some((_, ranks)) = job.leaving.take_if(|(until, _)| *until <= now)
        {
            let nspace = job.nspace.clone();
            cx.agent.signal_ranks(&nspace, &ranks, Signal::TERM);
            cx.agent.signal_ranks(&nspace, &ranks, Signal::CONT);
        }
    }

    fn kill(&self, cx: &mut Cx<'_>, index: usize) {
        if let Some(job) = self.jobs.get(index) {
            cx.agent.kill_job(&job.nspace);
            // Nothing waits for processes that would be killed at once.
            cx.agent.cancel_start(&job.nspace);
        }
    }

    /// Drops output that its readers have not read. If they have read some since the last check, nothing is dropped and
    /// the check is repeated later.
    fn lose_output(&mut self, cx: &mut Cx<'_>, index: usize) {
        let job = self.jobs.get_mut(index);
        let is_impatient = job.as_ref().is_none_or(|job| job.stop.is_impatient());
        if !cx.agent.lose_output(is_impatient)
            && let Some(job) = job
        {
            job.stop.wait_for_readers(Instant::now());
        }
    }

    /// Terminates the jobs that do not continue after another job failed or ended.
    pub(crate) fn spread_failures(&mut self, cx: &mut Cx<'_>, now: Instant) {
        // A job that is terminated here may terminate others in turn.
        while let Some(index) = self.next_failure(cx) {
            let Some(job) = self.jobs.get_mut(index) else {
                return;
            };
            job.has_failed = true;
            // Once for each job, and in the order of failures: the first one is the cause of the session.
            self.outcomes.record_failure(job, cx.agent.job(&job.nspace));
            if !job.stop.is_ending() {
                // Its other processes continue, so other jobs do not lose it yet. The failure spreads when the job is
                // terminated.
                continue;
            }
            job.has_spread = true;
            let nspace = job.nspace.clone();
            for other in 0..self.jobs.len() {
                let Some(job) = self.jobs.get(other) else {
                    return;
                };
                let is_child = job.is_child_of(&nspace);
                let is_separate = job.origin.as_ref().is_some_and(|origin| origin.is_separate);
                // A connection ends both jobs even if one was spawned to be separate: the processes asked for it
                // later.
                let ends = is_child && !is_separate || self.connected.are(&nspace, &job.nspace);
                if ends && other != index && job.stop.cause().is_none() {
                    let nspace = nspace.to_string();
                    self.fail(cx, other, Cause::WithJob { nspace }, now);
                }
            }
        }
        self.end_with_parents(cx, now);
    }

    /// Returns a job whose failure was not yet handled: it failed now, or it continued after its first failure and is
    /// being terminated now.
    fn next_failure(&self, cx: &Cx<'_>) -> Option<usize> {
        // The processes of a job may all exit between its time limit and its termination.
        let is_ended_now = |job: &Job| {
            let is_lost = job.stop.is_late() || cx.agent.num_running(&job.nspace) > 0;
            !job.has_spread && job.stop.is_ending() && is_lost
        };
        let mut jobs = self.jobs.iter();
        jobs.position(|job| job.stop.cause().is_some() && (!job.has_failed || is_ended_now(job)))
    }

    /// Terminates the jobs that end with their parent job, however that ended.
    fn end_with_parents(&mut self, cx: &mut Cx<'_>, now: Instant) {
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
            // A job that has ended was removed, or has no process that runs.
            if cx.agent.num_running(&nspace) == 0 {
                let nspace = nspace.to_string();
                self.fail(cx, index, Cause::WithJob { nspace }, now);
            }
        }
    }

    /// Removes spawned jobs that have ended.
    pub(crate) fn dismiss_ended(&mut self, cx: &mut Cx<'_>) {
        let mut index = 1;
        while let Some(job) = self.jobs.get(index) {
            match cx.agent.is_job_over(&job.nspace) {
                true => self.dismiss(cx, index),
                false => index += 1,
            }
        }
    }

    /// Kills the rest of a spawned job, deregisters it and records its outcome.
    pub(crate) fn dismiss(&mut self, cx: &mut Cx<'_>, index: usize) {
        // Removed first: messages that are served below must not find a job without processes.
        let job = self.jobs.remove(index);
        let ended = cx.agent.end_job(&job.nspace);
        self.connected.forget(&job.nspace);
        self.services.job_ended(&job.nspace);
        if let Some(ended) = ended {
            self.outcomes.keep(&job, &ended);
            // Deregistration makes the server report what the processes left open.
            self.serve(cx);
            // `serve` has handled the group requests that the processes sent before they ended.
            self.services.groups().lost(&ended.unsound);
            cx.agent.remove_job_dir(&ended);
        }
    }
}
