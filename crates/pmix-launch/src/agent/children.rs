// SPDX-License-Identifier: MIT OR Apache-2.0
//! The children of the launcher: the threads that start processes, the ends that were recorded, and orphans.

use std::sync::Arc;
use std::time::Instant;

use pmix_types::{Nspace, Proc};
use rustix::process::Pid;

use super::local_job::{LocalJob, LocalJobs};
use crate::process::{Orphans, Starters};
use crate::stacks::StackPrograms;

/// The children of the launcher.
pub(super) struct Children {
    orphans: Orphans,
    /// The threads that start processes.
    starters: Arc<Starters>,
    /// The processes whose end was recorded but not handled.
    ended: Vec<Proc<'static>>,
    /// `true` if children may have exited that were not looked for yet.
    is_collect_due: bool,
}

impl Children {
    pub(super) fn new(
        adopts: bool,
        spared: Vec<Pid>,
        stack_programs: StackPrograms,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let mut orphans = Orphans::adopt(adopts, stack_programs);
        orphans.spare(spared);
        Self {
            orphans,
            starters: Arc::new(Starters::new(wake)),
            ended: Vec::new(),
            is_collect_due: false,
        }
    }

    /// Leaves a child to another part of the launcher.
    pub(super) fn spare(&mut self, pid: Pid) {
        self.orphans.spare(vec![pid]);
    }

    /// Returns the threads that start processes.
    pub(super) fn starters(&self) -> Arc<Starters> {
        Arc::clone(&self.starters)
    }

    /// Records the end of a process of another node.
    pub(super) fn add_ended(&mut self, proc: Proc<'static>) {
        self.ended.push(proc);
        self.is_collect_due = true;
    }

    /// Returns `true` while a child may be a process that is in no table yet.
    pub(super) fn are_starting(&self) -> bool {
        self.starters.are_busy()
    }

    /// Requests that ended children are looked for in the next turn.
    pub(super) fn request_collect(&mut self) {
        self.is_collect_due = true;
    }

    /// Returns `true` if ended children are to be looked for.
    pub(super) fn is_collect_due(&self) -> bool {
        self.is_collect_due && !self.are_starting()
    }

    /// Records the processes that have ended, and reaps orphans that have exited.
    pub(super) fn collect(&mut self, jobs: &mut LocalJobs, now: Instant) {
        // Reset first: the steps below set it again if they have to be repeated.
        self.is_collect_due = false;
        self.record(jobs, now, None);
        // Several `SIGCHLD` may be merged into one, so the ended children may include orphans. While a process is in
        // no table yet, it cannot be distinguished from them.
        if self.are_starting() {
            self.is_collect_due = true;
        } else if self.ended.is_empty() || jobs.num_running() == 0 {
            self.orphans.reap(|pid| jobs.has(pid));
        }
    }

    /// Records the processes that have ended, except `left`, which is recorded by a later call.
    pub(super) fn record(&mut self, jobs: &mut LocalJobs, now: Instant, left: Option<&Proc<'_>>) {
        for job in jobs.iter_mut() {
            // The ends of its processes take effect after the start of the job was reported, unless one aborts.
            if job.table.is_incomplete() && left.is_none() {
                continue;
            }
            let left = left.filter(|proc| proc.nspace == job.nspace);
            let places = job.table.ended(now, left.map(|proc| proc.rank));
            let ranks = places.into_iter().filter_map(|place| job.table.get(place));
            self.ended
                .extend(ranks.map(|process| Proc::new(job.nspace.clone(), process.rank)));
        }
    }

    /// Returns the processes whose end was recorded and not handled.
    pub(super) fn ended(&self) -> &[Proc<'static>] {
        &self.ended
    }

    /// Returns the processes whose end was recorded, each once.
    pub(super) fn take_ended(&mut self) -> Vec<Proc<'static>> {
        std::mem::take(&mut self.ended)
    }

    /// Returns the processes whose end was recorded, except this one, whose end stays recorded.
    pub(super) fn take_ended_except(&mut self, left: &Proc<'_>) -> Vec<Proc<'static>> {
        // Its own end stays recorded, so that it is handled after the abort that explains it.
        let ended = self.take_ended().into_iter();
        let (own, others) = ended.partition(|proc| proc == left);
        self.ended = own;
        others
    }

    /// Returns `true` if an end in this job was recorded and not handled.
    pub(super) fn has_ended_of(&self, nspace: &Nspace<'_>) -> bool {
        self.ended.iter().any(|proc| proc.nspace == *nspace)
    }

    /// Kills all orphans, and processes that are in no table yet.
    pub(super) fn kill_orphans(&self, jobs: &LocalJobs) {
        self.orphans.kill(|pid| jobs.has(pid));
    }

    /// Stops waiting for orphans.
    pub(super) fn abandon_orphans(&mut self) {
        self.orphans.abandon();
    }

    /// Returns `true` if orphans are waited for.
    pub(super) fn are_orphans_awaited(&self, jobs: &LocalJobs) -> bool {
        self.orphans.are_awaited(|pid| jobs.has(pid))
    }

    /// Returns `true` if an orphan is in the process group of a process of the job.
    pub(super) fn has_orphans_of(&self, job: &LocalJob, jobs: &LocalJobs) -> bool {
        (self.orphans).are_in(|pid| jobs.has(pid), |pid| job.table.has(pid))
    }

    /// Kills and reaps the orphans. All processes must have been reaped before.
    pub(super) fn end(&mut self) {
        self.orphans.end();
    }
}
