// SPDX-License-Identifier: MIT OR Apache-2.0
//! The restart of failed processes, as often as `PMIX_MAX_RESTARTS` allows for a spawned job, or the plan for the
//! first one.
//!
//! A process that was terminated by job control is not restarted, nor is a process of a job that is being terminated.
//! The rest of its process group is killed first. The new incarnation has the same rank, index, directories and
//! files, to which it appends. It gets the number of its restarts as `PMIX_REINCARNATION` and has no input. Each
//! restart raises `PMIX_ERR_PROC_RESTART`.
//!
//! At most one process is restarted in a turn, so that others are served between two restarts even if many processes
//! fail. A process that repeatedly fails right after its start waits longer each time.
//!
//! A thread opens the output files of a process before its restart, after the paths registered by its predecessor
//! were removed, and a thread starts it. A process whose files or program take longer than 30 s is given up.

mod waiting;

use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use pmix_host::helpers::Task;
use pmix_server::{Credentials, Registration};
use pmix_types::{Info, Proc, Status, Value, keys};

use super::session::Session;
use crate::job_info::Bound;
use crate::output::{CreatedPaths, Files, RankFiles, Route};
use crate::process::{self, Link, Process, Ready, Restart, Spawner, StartResult};
use crate::process_dirs::ProcessDirs;
use crate::{Error, Plan};

pub(super) use waiting::WaitingRestarts;

/// The result of an attempt to restart a process.
enum Again {
    /// A process that a thread starts.
    Starting(Proc<'static>, Task<StartResult>),
    /// A process that waits for the removal of its files, or that will be given up in the next turn.
    Held(Proc<'static>),
    /// A process whose files a thread opens.
    Opening(Proc<'static>, Task<Result<RankFiles, Error>>),
}

impl Session<'_> {
    /// Schedules the restart of an ended process if its job allows it. Returns `true` if it does.
    pub(super) fn restarts_later(&mut self, index: usize, place: usize, now: Instant) -> bool {
        if self.next_restart(index, place).is_none() {
            return false;
        }
        let Some(job) = self.jobs.get_mut(index) else {
            return false;
        };
        let Some(process) = job.table.get(place) else {
            return false;
        };
        let ran = now.saturating_duration_since(process.started);
        let num_at_once = waiting::num_at_once(process.num_at_once, ran);
        let proc = job.proc(process.rank);
        job.table.await_restart(place, num_at_once);
        self.restarts.add(proc, now + waiting::delay(num_at_once));
        true
    }

    /// Restarts one process that is due, and gives up those that were terminated meanwhile.
    pub(super) fn start_again_one(&mut self, now: Instant) {
        if self.restarts.is_empty() {
            return;
        }
        let jobs = &self.jobs;
        let given_up = self.restarts.take(|proc| {
            let job = jobs.named(&proc.nspace);
            job.is_none_or(|job| {
                let process = job.table.with_rank(proc.rank);
                let is_awaited = |process: &Process| process.restart == Restart::Awaited;
                job.stop.is_ending()
                    || job.stop.is_interrupted()
                    || !process.is_some_and(is_awaited)
            })
        });
        for proc in given_up {
            self.end_for_good(&proc, now);
        }
        for (proc, why) in self.restarts.take_overdue(now) {
            let Proc { nspace, rank } = &proc;
            tracing::warn!("rank {rank} of {nspace} is not started again: {why}");
            self.end_for_good(&proc, now);
        }
        if let Some((proc, started)) = self.restarts.next_started()
            && let Some((index, place)) = self.place_of(&proc)
            && !self.adopt_again(index, place, started)
        {
            self.end_for_good(&proc, now);
        }
        let opened = self.restarts.next_opened(now);
        let opened = opened.map(|(proc, files)| (proc, files.map(Some)));
        let next = opened.or_else(|| self.restarts.next(now).map(|proc| (proc, Ok(None))));
        if let Some((proc, files)) = next
            && let Some((index, place)) = self.place_of(&proc)
            && !self.restarts(index, place, files)
        {
            self.end_for_good(&proc, now);
        }
    }

    fn place_of(&self, proc: &Proc<'_>) -> Option<(usize, usize)> {
        let index = self.jobs.place(&proc.nspace)?;
        let place = self.jobs.get(index)?.table.place(proc.rank)?;
        Some((index, place))
    }

    /// Handles the end of a process whose restart is given up.
    fn end_for_good(&mut self, proc: &Proc<'_>, now: Instant) {
        let Some((index, place)) = self.place_of(proc) else {
            return;
        };
        if let Some(job) = self.jobs.get_mut(index) {
            job.table.give_up_restart(place);
        }
        self.proc_ended(index, place, now);
        self.job_ended_if_all(index, now);
    }

    /// Restarts a process that is due, or keeps it while its files are removed or opened. Returns `false` if it is
    /// not restarted.
    fn restarts(
        &mut self,
        index: usize,
        place: usize,
        files: Result<Option<RankFiles>, Error>,
    ) -> bool {
        let Some(number) = self.next_restart(index, place) else {
            return false;
        };
        let again = files.and_then(|files| self.start_again(index, place, number, files));
        match again {
            Ok(Again::Held(proc)) => {
                match self.begun_removals.concern(&proc) {
                    true => self.restarts.hold(proc, Instant::now()),
                    false => self.restarts.add(proc, Instant::now()),
                }
                true
            }
            Ok(Again::Opening(proc, task)) => {
                self.restarts.open(proc, task, Instant::now());
                true
            }
            Ok(Again::Starting(proc, task)) => {
                self.restarts.start(proc, task, Instant::now());
                true
            }
            Err(error) => {
                tracing::warn!("cannot restart a process: {error}");
                false
            }
        }
    }

    /// Returns the number of the next restart of a process, if it may be restarted.
    fn next_restart(&self, index: usize, place: usize) -> Option<u32> {
        let job = self.jobs.get(index)?;
        let most = match &job.origin {
            Some(origin) => origin.max_restarts,
            None => job.plan.max_restarts,
        };
        let process = job.table.get(place)?;
        let (ending, _) = process.ended?;
        let is_bad = !ending.is_success() || process.link == Link::Connected;
        let goes_on = !job.stop.is_ending() && !job.stop.is_interrupted();
        let may = is_bad && goes_on && !process.was_killed_by_command();
        (may && process.num_restarts < most).then(|| process.num_restarts + 1)
    }

    fn start_again(
        &mut self,
        index: usize,
        place: usize,
        number: u32,
        files: Option<RankFiles>,
    ) -> Result<Again, Error> {
        let Some(job) = self.jobs.get_mut(index) else {
            return Err(Error::cancelled());
        };
        job.table.kill_group(place);
        let (mut plan, nspace) = ((*job.plan).clone(), job.nspace.clone());
        // Debuggers were notified of the first incarnation only, so nothing would continue this one.
        plan.stops.on_exec.clear();
        let form = job.origin.as_ref().map(|origin| origin.form.clone());
        let programs = Arc::clone(&job.programs);
        let job_number = job.origin.as_ref().map(|origin| origin.number);
        let Some(Process { rank, cpus, .. }) = job.table.get(place).cloned() else {
            return Err(Error::cancelled());
        };
        let proc = job.proc(rank);
        if self.begun_removals.concern(&proc) {
            return Ok(Again::Held(proc));
        }
        let refused = |e| Error::server("cannot register the restarted process", e);
        if let Err(e) = self.server.deregister_client(&proc) {
            tracing::debug!("cannot deregister rank {rank}: {e}");
        }
        // Registered before the client, which reads its number of restarts as job info.
        let infos = [Info::new(
            keys::PROC_INFO_ARRAY,
            vec![
                Info::new(keys::RANK, Value::Rank(rank)),
                Info::new(keys::REINCARNATION, number),
            ],
        )];
        let num_here = u32::try_from(plan.layout.here().len()).unwrap_or(u32::MAX);
        let update = Registration::new(&infos);
        (self.server.register_nspace(&nspace, num_here, update)).map_err(refused)?;
        let user = Credentials::new(
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        let object = ProcessDirs::object(job_number, rank);
        (self.server.register_client(&proc, user, object)).map_err(refused)?;
        // Deregistration makes the server hand out the cleanups that the predecessor registered. The new incarnation
        // may create the same paths, so their removal must not run after its start.
        self.serve();
        // A reply in `serve` may also have terminated the job.
        if self.begun_removals.concern(&proc) || self.next_restart(index, place).is_none() {
            return Ok(Again::Held(proc));
        }
        // The predecessor may have registered the output files for removal, so they are opened only now.
        if files.is_none() && plan.output.files.is_some() {
            let task = self.open_helpers.run(move |_| {
                let files = Files::of_plan(&plan);
                let files = files.ok_or_else(|| Error::request("its output has no files"))?;
                let mut created = CreatedPaths::default();
                files.make_dir(&mut created)?;
                files.open(rank, false, &mut created)
            });
            let task = task.map_err(|e| Error::no_room(e.to_string()))?;
            return Ok(Again::Opening(proc, task));
        }
        let bound = Bound {
            cpus: cpus.into_iter().collect(),
            oversubscribed: is_oversubscribed(&plan),
            ..Bound::default()
        };
        let mut streams = Route::new(&plan, 1, self.streams).streams()?;
        if let Some(files) = files {
            streams.add(files)?;
        }
        let vars = self.server.setup_fork(&proc);
        let vars = vars.map_err(|e| Error::server("the server has no address", e))?;
        let spawner = Spawner::new(Arc::new(plan), programs, &bound, form.unwrap_or_default());
        let ready = Ready {
            rank,
            cpus: bound.cpus.first().cloned(),
            vars,
            input: Stdio::null(),
            streams,
            opens_files: false,
        };
        let task = self.starters.start(&Arc::new(spawner), ready)?;
        Ok(Again::Starting(proc, task))
    }

    /// Adopts the next incarnation of a process, which a thread has started. Returns `false` if the process is not
    /// restarted.
    fn adopt_again(&mut self, index: usize, place: usize, started: StartResult) -> bool {
        let (Some(number), Some(job)) = (self.next_restart(index, place), self.jobs.get(index))
        else {
            return false;
        };
        let Some(ended) = job.table.get(place).cloned() else {
            return false;
        };
        let nspace = job.nspace.clone();
        let (rank, pid) = (ended.rank, ended.pid);
        let adopted = started.and_then(|started| {
            self.watcher.forget(pid);
            tracing::info!("restarting rank {rank} of {nspace} (restart {number})");
            self.adopt(index, Some(place), started)
        });
        if let Err(error) = adopted {
            tracing::warn!("cannot restart a process: {error}");
            return false;
        }
        // The end of a process that is not restarted raises its event in `proc_ended`.
        if let Some(job) = self.jobs.get(index) {
            self.tell_end_of_process(job, &ended);
            let proc = job.proc(rank);
            self.tell_of_process(Status::ERR_PROC_RESTART, &proc, None, None);
        }
        self.answer_early();
        // Its end may have been signaled before it was in the table.
        self.is_collect_due = true;
        true
    }
}

/// Returns `true` if the job has more local processes than available processors.
fn is_oversubscribed(plan: &Plan) -> bool {
    let most = process::allowed().map_or(usize::MAX, |cpus| cpus.len() as usize);
    plan.layout.here().len() > most
}
