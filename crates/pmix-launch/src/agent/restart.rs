// SPDX-License-Identifier: MIT OR Apache-2.0
//! The execution of restarts. The controller decides which process is restarted, and how often.
//!
//! The rest of the process group is killed first. The new incarnation has the same rank, index, directories and files,
//! to which it appends. It gets the number of its restarts as `PMIX_REINCARNATION` and has no input.
//!
//! At most one process is restarted in a turn, so that others are served between two restarts even if many processes
//! fail. A process that repeatedly fails right after its start waits longer each time.
//!
//! A thread opens the output files of a process before its restart, after the paths registered by its predecessor
//! were removed, and a thread starts it. A process whose files or program take longer than 30 s is given up.

use std::sync::Arc;
use std::time::Instant;

use pmix_host::helpers::Task;
use pmix_server::{Credentials, Registration};
use pmix_types::{Info, Nspace, Proc, Value, keys};

use super::waiting_restarts;
use super::{Agent, FromAgent};
use crate::input::ProcessInput;
use crate::job_info::Bound;
use crate::output::{CreatedPaths, Files, RankFiles};
use crate::process::{self, Process, Ready, Restart, Spawner, StartResult};
use crate::process_dirs::ProcessDirs;
use crate::{Error, Plan, null};

/// The next step of a restart.
enum NextStep {
    /// A thread starts the process.
    Start(Task<StartResult>),
    /// The process waits for the removal of paths that its predecessor registered.
    AwaitRemoval,
    /// A thread opens its files.
    OpenFiles(Task<Result<RankFiles, Error>>),
}

impl Agent<'_> {
    /// Schedules the restart of a process that has ended.
    pub(crate) fn restart(&mut self, proc: &Proc<'static>, now: Instant) {
        let Some(job) = self.jobs.named_mut(&proc.nspace) else {
            return;
        };
        let Some(place) = job.table.place(proc.rank) else {
            return;
        };
        let Some(process) = job.table.get(place) else {
            return;
        };
        let ran = now.saturating_duration_since(process.started);
        let num_at_once = waiting_restarts::num_at_once(process.num_at_once, ran);
        job.table.await_restart(place, num_at_once);
        // A process that fails at once would otherwise keep the launcher busy with starts.
        let due = now + waiting_restarts::delay(num_at_once);
        self.restarts.add(proc.clone(), due);
    }

    /// Returns `true` if processes wait for their restart.
    pub(crate) fn has_restarts(&self) -> bool {
        !self.restarts.is_empty()
    }

    /// Restarts one process that is due, and gives up the restarts in the named jobs and of processes that were
    /// terminated meanwhile.
    pub(crate) fn advance_restarts(
        &mut self,
        terminated: &[Nspace<'static>],
        now: Instant,
    ) -> Vec<FromAgent> {
        let mut reports = Vec::new();
        let jobs = &self.jobs;
        let is_awaited = |process: &Process| process.restart == Restart::Awaited;
        let given_up = self.restarts.take(|proc| {
            terminated.contains(&proc.nspace) || !jobs.process(proc).is_some_and(is_awaited)
        });
        for proc in given_up {
            self.give_up_restart(proc, &mut reports);
        }
        for (proc, why) in self.restarts.take_overdue(now) {
            let Proc { nspace, rank } = &proc;
            tracing::warn!("rank {rank} of {nspace} is not started again: {why}");
            self.give_up_restart(proc, &mut reports);
        }
        if let Some((proc, started)) = self.restarts.next_started() {
            match started.and_then(|started| self.adopt_next(&proc, started)) {
                Ok(ended) => reports.push(FromAgent::ProcessRestarted(proc, Box::new(ended))),
                Err(error) => self.fail_restart(proc, &error, &mut reports),
            }
        }
        let opened = self.restarts.next_opened(now);
        let opened = opened.map(|(proc, files)| (proc, files.map(Some)));
        let next = opened.or_else(|| self.restarts.next(now).map(|proc| (proc, Ok(None))));
        if let Some((proc, files)) = next {
            match files.and_then(|files| self.prepare_next(&proc, files)) {
                Ok(NextStep::Start(task)) => self.restarts.start(proc, task, now),
                Ok(NextStep::OpenFiles(task)) => self.restarts.open(proc, task, now),
                Ok(NextStep::AwaitRemoval) => self.restarts.hold(proc, now),
                Err(error) => self.fail_restart(proc, &error, &mut reports),
            }
        }
        reports
    }

    fn fail_restart(&mut self, proc: Proc<'static>, error: &Error, reports: &mut Vec<FromAgent>) {
        tracing::warn!("cannot restart a process: {error}");
        self.give_up_restart(proc, reports);
    }

    fn give_up_restart(&mut self, proc: Proc<'static>, reports: &mut Vec<FromAgent>) {
        let job = self.jobs.named_mut(&proc.nspace);
        if let Some(job) = job
            && let Some(place) = job.table.place(proc.rank)
        {
            job.table.give_up_restart(place);
            reports.push(FromAgent::RestartGivenUp(proc));
        }
    }

    /// Registers the next incarnation of a process and lets a thread start it, unless it has to wait for its files.
    fn prepare_next(
        &mut self,
        proc: &Proc<'static>,
        files: Option<RankFiles>,
    ) -> Result<NextStep, Error> {
        let job = self.jobs.named_mut(&proc.nspace);
        let job = job.ok_or_else(Error::cancelled)?;
        let place = job.table.place(proc.rank).ok_or_else(Error::cancelled)?;
        // Its descendants may hold the files and ports that the next incarnation needs.
        job.table.kill_group(place);
        let process = job.table.get(place).cloned();
        let process = process.ok_or_else(Error::cancelled)?;
        if self.cleanup.concerns(proc) {
            return Ok(NextStep::AwaitRemoval);
        }
        let mut plan = (*job.plan).clone();
        // Debuggers were notified of the first incarnation only, so nothing would continue this one.
        plan.stops.on_exec.clear();
        let (form, programs) = (job.settings.form.clone(), Arc::clone(&job.programs));
        let number = job.settings.number;
        self.register_next(proc, process.num_restarts.saturating_add(1), number)?;
        // Deregistration makes the server hand out the cleanups that the predecessor registered. The new incarnation
        // may create the same paths, so their removal must not run after its start.
        self.drive_to_the_end();
        if self.cleanup.concerns(proc) {
            return Ok(NextStep::AwaitRemoval);
        }
        // The predecessor may have registered the output files for removal, so they are opened only now.
        if files.is_none() && plan.output.files.is_some() {
            return self.open_files(plan, proc);
        }
        let bound = Bound {
            cpus: process.cpus.into_iter().collect(),
            oversubscribed: is_oversubscribed(&plan),
            ..Bound::default()
        };
        let mut streams = self.streams.route(&plan, 1).streams(None)?;
        if let Some(files) = files {
            streams.add(files)?;
        }
        let vars = self.variables(proc)?;
        let input = null::input()
            .map_err(|e| Error::system("cannot give a process empty standard input", e))?;
        let spawner = Spawner::new(Arc::new(plan), programs, &bound, form);
        let ready = Ready {
            rank: proc.rank,
            cpus: bound.cpus.first().cloned(),
            vars,
            input: ProcessInput::File(input),
            streams,
            opens_files: false,
        };
        let starters = self.children.starters();
        let task = starters.start(&Arc::new(spawner), ready)?;
        Ok(NextStep::Start(task))
    }

    fn open_files(&self, plan: Plan, proc: &Proc<'static>) -> Result<NextStep, Error> {
        let rank = proc.rank;
        let task = self.open_helpers.run(move |_| {
            let files = Files::of_plan(&plan);
            let files = files.ok_or_else(|| Error::request("its output has no files"))?;
            let mut created = CreatedPaths::default();
            files.make_dir(&mut created)?;
            files.open(rank, false, &mut created)
        });
        let task = task.map_err(|e| Error::no_room(e.to_string()))?;
        Ok(NextStep::OpenFiles(task))
    }

    /// Registers the next incarnation of a process with the server, with the number of its restarts.
    fn register_next(
        &self,
        proc: &Proc<'static>,
        num_restarts: u32,
        number: Option<u64>,
    ) -> Result<(), Error> {
        let refused = |e| Error::server("cannot register the restarted process", e);
        // The server refuses a second registration of a client.
        self.deregister_client(proc);
        // Registered before the client, which reads its number of restarts as job info.
        let infos = [Info::new(
            keys::PROC_INFO_ARRAY,
            vec![
                Info::new(keys::RANK, Value::Rank(proc.rank)),
                Info::new(keys::REINCARNATION, num_restarts),
            ],
        )];
        let num_here =
            { self.jobs.named(&proc.nspace) }.map_or(0, |job| job.plan.layout.here().len());
        let num_here = u32::try_from(num_here).unwrap_or(u32::MAX);
        let update = Registration::new(&infos);
        (self.server.register_nspace(&proc.nspace, num_here, update)).map_err(refused)?;
        let user = Credentials::new(
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        let object = ProcessDirs::object(number, proc.rank);
        (self.server.register_client(proc, user, object)).map_err(refused)
    }

    /// Adopts the next incarnation of a process, which a thread has started. Returns the previous incarnation.
    fn adopt_next(
        &mut self,
        proc: &Proc<'static>,
        started: process::Unadopted,
    ) -> Result<Process, Error> {
        let job = self.jobs.named(&proc.nspace);
        let table = job.map(|job| &job.table).ok_or_else(Error::cancelled)?;
        let place = table.place(proc.rank).ok_or_else(Error::cancelled)?;
        let ended = table.get(place).cloned().ok_or_else(Error::cancelled)?;
        let Proc { nspace, rank } = proc;
        // Before the table reaps it: the watcher must not kill a process that gets the same id.
        self.cleanup.deregister_process(ended.pid);
        let number = ended.num_restarts.saturating_add(1);
        tracing::info!("restarting rank {rank} of {nspace} (restart {number})");
        self.adopt(nspace, Some(place), started)?;
        // Its end may have been signaled before it was in the table.
        self.children.request_collect();
        Ok(ended)
    }
}

/// Returns `true` if the job has more local processes than available processors.
fn is_oversubscribed(plan: &Plan) -> bool {
    let most = process::allowed().map_or(usize::MAX, |cpus| cpus.len() as usize);
    plan.layout.here().len() > most
}
