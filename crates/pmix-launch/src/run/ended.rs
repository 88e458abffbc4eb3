// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handling of ended processes.
//!
//! An end is recorded first. Then the requests that the process sent before are handled, and only then the end takes
//! effect. A process that calls `PMIx_Abort` or `PMIx_Finalize` and exits at once did so in this order.

use std::time::Instant;

use pmix_types::Proc;

use super::session::Session;
use crate::process::{Link, Process};

impl Session<'_> {
    /// Records ended processes and handles their ends.
    pub(super) fn collect(&mut self) {
        let now = Instant::now();
        self.note_ended(now, None);
        // Several `SIGCHLD` may be merged into one, so the ended children may include orphans. While a process is in
        // no table yet, the session cannot distinguish it from them.
        if self.starters.are_busy() {
            self.is_collect_due = true;
        } else if self.ended.is_empty() || self.jobs.num_running() == 0 {
            self.orphans.reap(|pid| self.jobs.has(pid));
        }
        // The requests that they sent before they ended have arrived; handle them before the ends.
        self.serve();
        let ended = std::mem::take(&mut self.ended);
        self.collect_all(ended, now);
        self.spread_failures(now);
    }

    /// Looks again for ended children if some could not be recorded or reaped before.
    pub(super) fn collect_if_due(&mut self) {
        if self.is_collect_due && !self.starters.are_busy() {
            self.is_collect_due = false;
            self.collect();
        }
    }

    /// Records the processes that have ended, except `left`, which is recorded by a later call. The entries contain
    /// indexes of jobs. The caller must handle them before it dismisses a job, which moves the others.
    fn note_ended(&mut self, now: Instant, left: Option<&Proc<'_>>) {
        for (index, job) in self.jobs.iter_mut().enumerate() {
            // The ends of its processes take effect after the start of the job was reported, unless one aborts.
            if job.table.is_incomplete() && left.is_none() {
                continue;
            }
            let of_job = left.filter(|proc| proc.nspace == job.nspace);
            let places = job
                .table
                .ended(now, of_job.map(|proc| proc.rank))
                .into_iter();
            self.ended.extend(places.map(|place| (index, place)));
        }
    }

    /// Handles, before an abort, the ends of processes that preceded it: an MPI library aborts when it loses a peer,
    /// and the loss is the cause to report. The end of the aborting process itself is left for
    /// [`collect`](Self::collect), since it follows from the abort.
    pub(super) fn collect_before_abort(&mut self, of: &Proc<'_>, now: Instant) {
        // Once per job suffices, even if many of its processes abort.
        let job = self.jobs.named(&of.nspace);
        if job.is_none_or(|job| job.stop.is_ending()) {
            return;
        }
        self.note_ended(now, Some(of));
        let (own, others) = (std::mem::take(&mut self.ended).into_iter())
            .partition(|(index, place)| self.is_at(*index, *place, of));
        self.ended = own;
        self.collect_all(others, now);
        self.spread_failures(now);
    }

    /// Returns `true` if the process is the one at this index of the job.
    fn is_at(&self, index: usize, place: usize, proc: &Proc<'_>) -> bool {
        let job = self.jobs.get(index);
        job.is_some_and(|job| {
            let process = job.table.get(place);
            job.nspace == proc.nspace && process.is_some_and(|process| process.rank == proc.rank)
        })
    }

    /// Handles ended processes, and jobs without a remaining process.
    fn collect_all(&mut self, mut ended: Vec<(usize, usize)>, now: Instant) {
        // The stable sort keeps the order of recording within each job.
        ended.sort_by_key(|(index, _)| *index);
        for of_job in ended.chunk_by(|(one, _), (other, _)| one == other) {
            for (index, place) in of_job {
                self.collect_one(*index, *place, now);
            }
            // The only other entry can be that of the aborting process.
            let is_left = |index: usize| self.ended.iter().any(|(other, _)| *other == index);
            if let Some((index, _)) = of_job.first().filter(|(index, _)| !is_left(*index)) {
                self.job_ended_if_all(*index, now);
            }
        }
    }

    /// Handles the end of a job if all its processes have ended.
    pub(super) fn job_ended_if_all(&mut self, index: usize, now: Instant) {
        let job = self.jobs.get_mut(index);
        if let Some(job) = job.filter(|job| job.table.num_running() == 0) {
            job.stop.all_ended(now);
            if let Some(job) = self.jobs.get(index) {
                self.tell_end_of_job(job);
            }
        }
    }

    fn collect_one(&mut self, index: usize, place: usize, now: Instant) {
        let Some(job) = self.jobs.get_mut(index) else {
            return;
        };
        let Some(&Process {
            rank,
            ended: Some((ending, _)),
            ..
        }) = job.table.get(place)
        else {
            return;
        };
        tracing::info!("rank {rank} of {} ended: {ending}", job.nspace);
        let proc = job.proc(rank);
        self.published.proc_ended(&proc);
        self.monitors.proc_ended(&proc);
        let ended = self.group_assembler.proc_ended(&proc, &self.jobs);
        self.answer_constructs(ended);
        if !self.restarts_later(index, place, now) {
            self.proc_ended(index, place, now);
        }
    }

    /// Handles the end of a process that is not restarted.
    pub(super) fn proc_ended(&mut self, index: usize, place: usize, now: Instant) {
        let Some(job) = self.jobs.get(index) else {
            return;
        };
        let Some(&Process {
            rank,
            link,
            ended: Some((ending, _)),
            ..
        }) = job.table.get(place)
        else {
            return;
        };
        let proc = job.proc(rank);
        let job = self.jobs.get_mut(index);
        let order = job.and_then(|job| job.stop.ended(rank, ending, link, now));
        // Collectives must not wait for it. The server sees the end of a connected process itself.
        if link != Link::Connected
            && let Err(e) = self.server.deregister_client(&proc)
        {
            tracing::debug!("cannot deregister rank {rank}: {e}");
        }
        if let Some(job) = self.jobs.get(index)
            && let Some(process) = job.table.get(place)
        {
            self.tell_end_of_process(job, process);
        }
        self.debugged_ended(index, rank);
        if let Some(order) = order {
            self.obey(index, order);
        }
    }
}
