// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of processes, and the decision on their restart.
//!
//! An end is recorded first. Then the requests that the process sent before are handled, and only then the end takes
//! effect. A process that calls `PMIx_Abort` or `PMIx_Finalize` and exits at once did so in this order.
//!
//! A failed process is restarted as often as `PMIX_MAX_RESTARTS` allows for a spawned job, or the plan for the first
//! one. A process that was terminated by job control is not restarted, nor is a process of a job that is being
//! terminated. Each restart raises `PMIX_ERR_PROC_RESTART`.

use std::time::Instant;

use pmix_types::{Nspace, Proc, Status};

use super::events::{notify_job_ended, notify_of_process, notify_process_ended};
use super::{Controller, Cx};
use crate::agent::FromAgent;
use crate::process::{Link, Process};

impl Controller {
    /// Records ended processes and handles their ends.
    pub(crate) fn collect(&mut self, cx: &mut Cx<'_>) {
        let now = Instant::now();
        cx.agent.collect(now);
        // The requests that they sent before they ended have arrived; handle them before the ends.
        self.serve(cx);
        // Requests by PMI go through another thread. It wakes the launcher when it has sent the last one.
        if cx.agent.awaits_last_words(now) {
            return;
        }
        // Taken after the requests, because an abort among them handles the ends before it by itself.
        let ended = cx.agent.take_ended();
        self.handle_ends(cx, ended, now);
        self.spread_failures(cx, now);
    }

    /// Handles, before an abort, the ends of processes that preceded it: an MPI library aborts when it loses a peer,
    /// and the loss is the cause to report. The end of the aborting process itself is left for
    /// [`collect`](Self::collect), since it follows from the abort.
    pub(crate) fn collect_before_abort(&mut self, cx: &mut Cx<'_>, proc: &Proc<'_>, now: Instant) {
        // Once per job suffices, even if many of its processes abort.
        let job = self.jobs.named(&proc.nspace);
        if job.is_none_or(|job| job.stop.is_ending()) {
            return;
        }
        let ended = cx.agent.take_ended_before(proc, now);
        self.handle_ends(cx, ended, now);
        self.spread_failures(cx, now);
    }

    /// Handles ended processes, and jobs without a remaining process.
    fn handle_ends(&mut self, cx: &mut Cx<'_>, mut ended: Vec<Proc<'static>>, now: Instant) {
        // The stable sort keeps the order of recording within each job.
        ended.sort_by_cached_key(|proc| self.jobs.place(&proc.nspace));
        for of_job in ended.chunk_by(|one, other| one.nspace == other.nspace) {
            for proc in of_job {
                self.handle_end(cx, proc, now);
            }
            // The only other entry can be that of the aborting process.
            let first = of_job.first().map(|proc| &proc.nspace);
            if let Some(nspace) = first.filter(|nspace| !cx.agent.has_ended_of(nspace)) {
                self.end_job_if_all_ended(cx, nspace, now);
            }
        }
    }

    /// Handles the end of a job if all its processes have ended.
    fn end_job_if_all_ended(&mut self, cx: &Cx<'_>, nspace: &Nspace<'_>, now: Instant) {
        let is_over = cx.agent.num_running(nspace) == 0;
        if let Some(job) = self.jobs.named_mut(nspace).filter(|_| is_over) {
            job.stop.all_ended(now);
            notify_job_ended(&cx.agent, job);
        }
    }

    fn handle_end(&mut self, cx: &mut Cx<'_>, proc: &Proc<'static>, now: Instant) {
        cx.agent.explain_kill(proc);
        let process = cx.agent.jobs().process(proc).cloned();
        let Some((process, (ending, _))) = process.and_then(|it| Some((it.clone(), it.ended?)))
        else {
            return;
        };
        tracing::info!("rank {} of {} ended: {ending}", proc.rank, proc.nspace);
        self.services.proc_ended(proc, &cx.agent.places());
        self.gather_without(cx, proc);
        // Its monitors end even if it is restarted: they were for this incarnation.
        cx.agent.monitors().proc_ended(proc);
        match self.may_restart(proc, &process) {
            // The process counts as running until its next incarnation has started.
            true => cx.agent.restart(proc, now),
            false => self.end_process(cx, proc, &process, now),
        }
    }

    /// Handles the end of a process that is not restarted.
    fn end_process(
        &mut self,
        cx: &mut Cx<'_>,
        proc: &Proc<'static>,
        process: &Process,
        now: Instant,
    ) {
        let Some((ending, _)) = process.ended else {
            return;
        };
        let index = self.jobs.place(&proc.nspace);
        let job = index.and_then(|index| self.jobs.get_mut(index));
        let order = job.and_then(|job| job.stop.ended(proc.rank, ending, process.link, now));
        // Collectives must not wait for it. The server sees the end of a connected process itself.
        if process.link != Link::Connected {
            cx.agent.deregister_client(proc);
        }
        // After the termination was decided and before it is executed: the event precedes those of the processes that
        // it ends.
        notify_process_ended(&cx.agent, proc, process);
        self.debugged_process_ended(cx, proc);
        if let (Some(order), Some(index)) = (order, index) {
            self.execute(cx, index, order);
        }
    }

    /// Returns `true` if a process that has ended may be restarted.
    fn may_restart(&self, proc: &Proc<'_>, process: &Process) -> bool {
        let Some(job) = self.jobs.named(&proc.nspace) else {
            return false;
        };
        let ending = process.ended.map(|(ending, _)| ending);
        let is_bad =
            ending.is_some_and(|ending| !ending.is_success()) || process.link == Link::Connected;
        let continues = !job.stop.is_ending() && !job.stop.is_interrupted();
        let may = is_bad && continues && !process.was_killed_by_command();
        may && process.num_restarts < job.max_restarts()
    }

    /// Lets the agent advance restarts, and handles its reports. The restarts in jobs that are being terminated are
    /// given up.
    pub(crate) fn finish_restarts(&mut self, cx: &mut Cx<'_>, now: Instant) {
        if !cx.agent.has_restarts() {
            return;
        }
        let is_ended = |job: &&super::job::Job| job.stop.is_ending() || job.stop.is_interrupted();
        let terminated = self.jobs.iter().filter(is_ended);
        let terminated: Vec<_> = terminated.map(|job| job.nspace.clone()).collect();
        for report in cx.agent.advance_restarts(&terminated, now) {
            match report {
                FromAgent::ProcessRestarted(proc, ended) => {
                    // The end of a process that is not restarted raises its event in `end_process`.
                    notify_process_ended(&cx.agent, &proc, &ended);
                    let restarted = Status::ERR_PROC_RESTART;
                    notify_of_process(&cx.agent, restarted, &proc, None, None);
                }
                FromAgent::RestartGivenUp(proc) => {
                    if let Some(process) = cx.agent.jobs().process(&proc).cloned() {
                        self.end_process(cx, &proc, &process, now);
                        self.end_job_if_all_ended(cx, &proc.nspace, now);
                    }
                }
                FromAgent::JobStarted(..) => {}
            }
        }
    }
}
