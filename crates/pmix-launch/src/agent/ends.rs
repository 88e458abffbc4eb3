// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals to processes, and the end of processes and jobs on the node.

use std::collections::BTreeSet;
use std::time::Instant;

use pmix_types::{Nspace, Proc, Rank};
use rustix::process::Signal;

use super::Agent;
use super::local_job::EndedJob;
use crate::nodes::ToNode;
use crate::process::Process;

impl Agent<'_> {
    /// Records processes that have ended, and reaps orphans.
    pub(crate) fn collect(&mut self, now: Instant) {
        let num_before = self.children.ended().len();
        self.children.collect(&mut self.jobs, now);
        let ended = self.children.ended().get(num_before..);
        (self.streams).end_keyboard(self.poll.registry(), ended.unwrap_or_default());
        self.pmi.end_all(ended, now);
    }

    /// Returns `true` if ended children are to be looked for without a signal, or if their ends are to be handled.
    pub(crate) fn is_collect_due(&self) -> bool {
        self.children.is_collect_due() || self.pmi.has_served_last_words(Instant::now())
    }

    /// Returns `true` while requests that processes sent by PMI before they ended are served, for a bounded time. The
    /// recorded ends wait for that.
    pub(crate) fn awaits_last_words(&self, now: Instant) -> bool {
        self.pmi.awaits_last_words(now)
    }

    /// Returns the processes whose end was recorded, each once.
    pub(crate) fn take_ended(&mut self) -> Vec<Proc<'static>> {
        self.pmi.forget_last_words();
        self.children.take_ended()
    }

    /// Records processes that have ended, and returns those whose end was recorded, except this one. Its own end is
    /// recorded by a later call.
    pub(crate) fn take_ended_before(
        &mut self,
        proc: &Proc<'_>,
        now: Instant,
    ) -> Vec<Proc<'static>> {
        let num_before = self.children.ended().len();
        self.children.record(&mut self.jobs, now, Some(proc));
        let ended = self.children.ended().get(num_before..);
        (self.streams).end_keyboard(self.poll.registry(), ended.unwrap_or_default());
        self.pmi.end_all(ended, now);
        self.children.take_ended_except(proc)
    }

    /// Returns `true` if an end in this job was recorded and not handled.
    pub(crate) fn has_ended_of(&self, nspace: &Nspace<'_>) -> bool {
        self.children.has_ended_of(nspace)
    }

    /// Sends a signal to the processes of all jobs.
    pub(crate) fn signal_all(&mut self, signal: Signal) {
        self.monitors.signaled();
        self.jobs.signal(signal);
    }

    /// Sends a signal to all processes of a job.
    pub(crate) fn signal_job(&mut self, nspace: &Nspace<'_>, signal: Signal) {
        self.monitors.signaled();
        if let Some(job) = self.jobs.named_mut(nspace) {
            job.table.signal(signal);
        }
    }

    /// Terminates the processes of a job with SIGTERM, except those that have finalized. Returns the ranks of these.
    pub(crate) fn terminate_unless_finalized(&mut self, nspace: &Nspace<'_>) -> BTreeSet<Rank> {
        self.monitors.signaled();
        let job = self.jobs.named_mut(nspace);
        // A stopped process does not handle SIGTERM.
        let signals = [Signal::TERM, Signal::CONT];
        job.map_or_else(BTreeSet::new, |job| {
            job.table.signal_unless_finalized(signals)
        })
    }

    /// Sends a signal to processes of a job that have not ended. Returns their number.
    pub(crate) fn signal_ranks(
        &mut self,
        nspace: &Nspace<'_>,
        ranks: &BTreeSet<Rank>,
        signal: Signal,
    ) -> usize {
        self.monitors.signaled();
        let job = self.jobs.named_mut(nspace);
        job.map_or(0, |job| job.table.signal_some(ranks, signal))
    }

    /// Kills all processes of a job. If no other job runs, orphans are killed as well: while several jobs run, it is not
    /// known to which of them an orphan belongs.
    pub(crate) fn kill_job(&mut self, nspace: &Nspace<'_>) {
        self.signal_job(nspace, Signal::KILL);
        // A process that is in no table yet counts as an orphan here, so it is killed as well.
        if self.jobs.is_last(nspace) {
            self.children.kill_orphans(&self.jobs);
        }
    }

    /// Stops waiting for what the job left behind. Returns `true` if no other job runs.
    pub(crate) fn abandon(&mut self, nspace: &Nspace<'_>) -> bool {
        let is_last = self.jobs.is_last(nspace);
        if is_last {
            self.children.abandon_orphans();
        }
        if let Some(job) = self.jobs.named_mut(nspace) {
            job.is_abandoned = true;
        }
        let message = ToNode::Abandon {
            nspace: nspace.as_bytes().to_vec(),
        };
        self.others.nodes.send_of_job(nspace, &message);
        is_last
    }

    /// Continues the processes of a job that were stopped on exec and match.
    pub(crate) fn continue_stopped(
        &mut self,
        nspace: &Nspace<'_>,
        is_meant: impl Fn(Rank) -> bool,
    ) {
        if let Some(job) = self.jobs.named_mut(nspace) {
            job.table.continue_stopped(is_meant);
        }
    }

    /// Continues the processes of all jobs that were stopped on exec.
    pub(crate) fn continue_all_stopped(&mut self) {
        let jobs = self.jobs.iter_mut();
        jobs.for_each(|job| job.table.continue_stopped(|_| true));
    }

    /// Releases processes from their stop on exec. Their next stop is not released by the same event.
    pub(crate) fn release_stopped(&mut self, stopped: &[Proc<'static>]) {
        if !stopped.is_empty()
            && let Err(e) = self.server.debugger_released(stopped)
        {
            tracing::debug!("the release is kept until the next stop: {e}");
        }
    }

    /// Records that a process called `PMIx_Abort`. Returns `true` for its first call, and for other callers.
    pub(crate) fn record_abort(&mut self, proc: &Proc<'_>) -> bool {
        let job = self.jobs.named_mut(&proc.nspace);
        let process = job.and_then(|job| job.table.of_rank(proc.rank));
        // A tool has no process here, and its calls are few.
        process.is_none_or(|process| !std::mem::replace(&mut process.has_aborted, true))
    }

    /// Returns `true` if nothing of a job is left: no process, no open stream and no orphan that is waited for.
    pub(crate) fn is_job_over(&self, nspace: &Nspace<'_>) -> bool {
        let Some(job) = self.jobs.named(nspace) else {
            return true;
        };
        job.num_running() == 0
            && !self.has_ended_of(nspace)
            && !self.others.nodes.have_job(nspace)
            && !self.streams.has_open(nspace)
            && (job.is_abandoned || !self.children.has_orphans_of(job, &self.jobs))
    }

    /// Kills the rest of a job and deregisters it. Its directory stays until [`Agent::remove_job_dir`].
    pub(crate) fn end_job(&mut self, nspace: &Nspace<'_>) -> Option<EndedJob> {
        // A start that continues would add processes to a job that does not exist any more.
        self.starting.remove(nspace);
        let job = self.jobs.remove(nspace)?;
        let unsound = job.unsound();
        // The outcome needs their last state, and the table is dropped to kill and reap them.
        let processes: Vec<Process> = job.table.iter().cloned().collect();
        // Reaping frees the process ids, so the watcher must not kill them after this.
        drop(job.table);
        for process in processes.iter().filter(|process| process.node.is_none()) {
            self.cleanup.deregister_process(process.pid);
        }
        self.deregister_nspace(nspace);
        self.others.nodes.end_job(nspace);
        Some(EndedJob {
            processes,
            unsound,
            dir: job.dir,
        })
    }

    /// Removes the directory of a job that has ended.
    pub(crate) fn remove_job_dir(&mut self, job: &EndedJob) {
        self.cleanup.remove_job(&job.dir);
    }

    /// Kills and reaps all processes and their orphans, at the end of the session.
    pub(crate) fn end_processes(&mut self) {
        self.examinations.end();
        for job in self.jobs.iter_mut() {
            // The jobs stay: their output and paths are still handled when the server is shut down.
            drop(std::mem::take(&mut job.table));
        }
        self.children.end();
    }
}
