// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start of jobs.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use mio::{Poll, Token, Waker};
use pmix_host::cleanup::ProtectedPaths;
use pmix_host::forward::{Delivery, LineForm, OutputForwarder, OutputStream};
use pmix_host::groups::GroupAssembler;
use pmix_host::helpers::{Cancel, Helpers};
use pmix_host::publish::PublishService;
use pmix_server::{CredentialService, Registration, WireObserver};
use pmix_types::{Info, Nspace, Proc, Text};
use rustix::process::{getegid, geteuid};

use super::Standard;
use super::begun_removals::BegunRemovals;
use super::connected::Connected;
use super::display::Display;
use super::groups::Groups;
use super::job::{Job, Jobs, Origin};
use super::log::Logs;
use super::measure::Monitors;
use super::missing::Missing;
use super::removals::Removals;
use super::request::Refusal;
use super::restart::WaitingRestarts;
use super::session::{FORWARD, HELPERS, INPUT, PUSHED, SIGNALS, Session};
use super::sets::DefinedSets;
use super::spawn_queue::{MOST_PREPARING, SpawnQueue, StartingJob};
use super::stop::Stop;
use super::stopped::Debugging;
use super::tool_wait::ToolWait;
use crate::host::{LocalHost, host_channel};
use crate::input::{self, Input, PushedInput};
use crate::job_info::{self, Bound};
use crate::output::{OwnStreams, Route};
use crate::preparation::{JobPlace, Preparation, Prepared};
use crate::process::{
    self, CommandForm, JobStart, Orphans, Ready, Spawner, Starters, Table, Unadopted, Watcher,
    limits,
};
use crate::process_dirs::ProcessDirs;
use crate::session_dir::SessionDir;
use crate::signals::Signals;
use crate::{Error, Plan, service};

/// The time after which a partial line is written to a terminal.
const PATIENCE_OF_USER: Duration = Duration::from_millis(100);
/// The largest number of output files that are written at a time.
const MOST_WRITING: usize = 64;
/// The largest number of processes whose files are opened at a time.
const MOST_OPENING: usize = 16;
/// The number of processes between two reports on the progress of a start.
const PROGRESS: usize = 100;

impl<'a> Session<'a> {
    /// Creates the session, waits for its release if a tool started it, and begins the start of the first job.
    pub(super) fn start(
        plan: &Plan,
        standard: Standard<'a>,
        observer: Option<Box<dyn WireObserver>>,
        wait: Option<ToolWait>,
    ) -> Result<Self, Error> {
        // Check first: nothing was created yet that would have to be removed. No process and no tool is served before
        // the server exists, so nothing else waits if a disk blocks this preparation.
        let streams = OwnStreams::examine(standard.output, standard.errors);
        let least = Route::least_descriptors(plan, streams);
        limits::check(plan.layout.here().len(), least)?;
        let form = CommandForm::default();
        let preparation = Preparation::of(plan, &form, process::allowed());
        let prepared = preparation.prepare(&Cancel::never())?;
        let plan = Arc::new(plan.clone());
        let mut session = Self::prepare(Arc::clone(&plan), standard, streams, observer)?;
        let place = match wait {
            // Tools are served until the job has its directory, so a thread creates it.
            Some(wait) => session.wait_for_release(wait)?,
            // The server does not run yet, so nothing waits for a slow disk.
            None => session.first_place()(&Cancel::never())?,
        };
        session.num_named += 1;
        let starting = session.start_job(plan, None, prepared, place)?;
        session.spawns.start(starting);
        Ok(session)
    }

    /// Returns the work that creates the directory of the first job and that of its output, for any thread. The files
    /// of each process are opened when it starts, because all of them together may exceed the limit of descriptors.
    pub(super) fn first_place(
        &self,
    ) -> impl FnOnce(&Cancel) -> Result<JobPlace, Error> + Send + 'static {
        let (plan, session) = (Arc::clone(&self.plan), self.dir.path().to_owned());
        let discarded = self.discarded.0.clone();
        move |cancel| JobPlace::make(&plan, &session, None, false, &discarded, cancel)
    }

    /// Registers a job. Its processes are started by [`Session::advance_starts`].
    pub(super) fn start_job(
        &mut self,
        plan: Arc<Plan>,
        origin: Option<Origin>,
        prepared: Prepared,
        place: JobPlace,
    ) -> Result<StartingJob<'a>, Error> {
        let Prepared { bound, programs } = prepared;
        let programs = Arc::new(programs);
        let form = origin.as_ref().map(|origin| origin.form.clone());
        // The server, and the thread that opened the files of the job, hold their descriptors by this time, so the
        // check counts them.
        let num_here = plan.layout.here().len();
        let route = Route::new(&plan, num_here, self.streams);
        let for_output = match place.has_open_files() {
            true => route.num_pipes(),
            false => route.num_descriptors(),
        };
        limits::check(num_here, for_output)?;
        // The Standard requires that job and clients are registered before the processes start: these may connect at
        // once.
        self.register(&plan, origin.as_ref(), &place, &bound)?;
        let Some((dir, files)) = place.keep() else {
            return Err(Error::request("the job has no directory"));
        };
        let spares_exit_codes = { origin.as_ref() }.is_some_and(|origin| origin.spares_exit_codes);
        // The time limit of the first job starts with the launcher, which may have waited for its release. Spawned
        // jobs get the rest of that limit.
        let limited_from = match &origin {
            Some(_) => Instant::now(),
            None => self.began,
        };
        let mut table = Table::default();
        table.expect(num_here);
        let nspace = Nspace::new(plan.nspace.clone()).to_shared();
        let job = Job {
            nspace: nspace.clone(),
            dir,
            stop: Stop::new(&plan, limited_from).sparing_exit_codes_if(spares_exit_codes),
            debugging: Debugging::new(&plan.stops),
            table,
            programs: Arc::clone(&programs),
            pushed: PushedInput::default(),
            has_failed: false,
            has_spread: false,
            is_abandoned: false,
            origin,
            plan: Arc::clone(&plan),
        };
        self.num_jobs += 1;
        let num_procs = u32::try_from(plan.layout.num_procs()).unwrap_or(u32::MAX);
        self.num_procs = self.num_procs.saturating_add(num_procs);
        let asked = job.origin.as_ref().map(|origin| origin.display);
        let display = asked.unwrap_or_else(|| Display {
            map: plan.announce,
            ..Display::default()
        });
        self.show(display, &plan, &bound);
        self.jobs.push(job);
        let spawner = Spawner::new(plan, programs, &bound, form.unwrap_or_default());
        Ok(StartingJob {
            nspace,
            start: JobStart::new(spawner, num_here),
            route,
            files: files.map(Vec::into_iter),
            bound,
            spawn: None,
        })
    }

    /// Creates the session without processes.
    ///
    /// No process and no tool is served before this returns, so its work on disks is done in place.
    fn prepare(
        plan: Arc<Plan>,
        standard: Standard<'a>,
        streams: OwnStreams<'a>,
        observer: Option<Box<dyn WireObserver>>,
    ) -> Result<Self, Error> {
        let cannot_poll = |e| Error::system("cannot poll", e);
        let poll = Poll::new().map_err(cannot_poll)?;
        let registry = poll.registry();
        let signals = Signals::take(registry, Token(SIGNALS))?;
        let (host_channel, messages) = host_channel();
        let waker = Arc::new(Waker::new(registry, Token(HELPERS)).map_err(cannot_poll)?);
        let wake = move || {
            if let Err(e) = waker.wake() {
                tracing::error!("a thread of the launcher cannot wake it: {e}");
            }
        };
        let spawn_helpers = Helpers::new("pmix-spawn", MOST_PREPARING, wake.clone());
        let open_helpers = Helpers::new("pmix-open", MOST_OPENING, wake.clone());
        let starters = Arc::new(Starters::new(wake.clone()));
        let output_helpers = Helpers::new("pmix-output", MOST_WRITING, wake.clone());
        let dir = SessionDir::create(&plan.tmpdir)?;
        let host = LocalHost::new(host_channel, plan.forward_io, ProcessDirs::of(dir.path()));
        let server = service::start(&plan, &dir, host, observer)?;
        tracing::info!("the server listens on {}", server.uri());
        tracing::info!("the files of the session are in {}", dir.path().display());
        let watched = server.watch(registry.as_fd());
        watched.map_err(|e| Error::server("cannot poll the server", e))?;
        let user = (geteuid().as_raw(), getegid().as_raw());
        let credentials = CredentialService::new(&plan.params, user)
            .map_err(|e| Error::server("cannot create credentials", e))?;
        let mut watcher = Watcher::start(plan.watcher.as_deref(), dir.path());
        let protected = ProtectedPaths::new(kept(&plan));
        watcher.keep(protected.paths());
        let mut orphans = Orphans::adopt(plan.adopt);
        // Every other child of the launcher belongs to a job or is an orphan of one.
        orphans.spare(watcher.pid());
        let forward = OutputForwarder::new(FORWARD, standard.output, standard.errors)
            .on_host(&String::from_utf8_lossy(plan.layout.host()))
            .keep_chunks_if(plan.forward_io)
            .write_files_by(output_helpers);
        Ok(Self {
            plan,
            standard,
            streams,
            signals,
            began: Instant::now(),
            jobs: Jobs::default(),
            orphans,
            server,
            dir,
            watcher,
            forward,
            logs: Logs::default(),
            missing: Missing::default(),
            groups: Groups::default(),
            written: 0,
            input: Input::Own,
            tool_wait: None,
            spawns: SpawnQueue::default(),
            spawn_helpers,
            open_helpers,
            starters,
            discarded: channel(),
            is_collect_due: false,
            ended: Vec::new(),
            restarts: WaitingRestarts::default(),
            connected: Connected::default(),
            num_jobs: 0,
            num_named: 0,
            num_procs: 0,
            num_prepared: 0,
            last_context: 0,
            group_assembler: GroupAssembler::default(),
            cause: None,
            spawned: Vec::new(),
            messages,
            early: Vec::new(),
            published: PublishService::default(),
            monitors: Monitors::new(wake.clone()),
            credentials,
            sets: DefinedSets::default(),
            protected: Arc::new(protected),
            removals: Removals::new(wake),
            begun_removals: BegunRemovals::default(),
            poll,
        })
    }

    /// Registers the job and its local processes with the server, or nothing at all.
    fn register(
        &self,
        plan: &Plan,
        origin: Option<&Origin>,
        place: &JobPlace,
        bound: &Bound,
    ) -> Result<(), Error> {
        let nspace = Nspace::new(plan.nspace.clone()).to_shared();
        let Some(dir) = place.dir() else {
            return Err(Error::request("the job has no directory"));
        };
        let server = service::name(&self.plan.nspace);
        let places = job_info::Places {
            session: &self.dir,
            job: dir,
            server: &server,
            parent: origin.map(|origin| &origin.parent),
            debug_target: origin.and_then(|origin| origin.debug_target.as_ref()),
            for_launcher: origin.and_then(|origin| origin.for_launcher.as_deref()),
            offset: origin.map_or(0, |origin| origin.offset),
        };
        let infos = job_info::of_job(plan, bound, &places);
        let number = origin.map(|origin| origin.number);
        let registered = self.register_with(plan, &nspace, number, &infos);
        registered.map_err(|error| {
            if let Err(e) = self.server.deregister_nspace(&nspace) {
                tracing::debug!("cannot deregister {nspace}: {e}");
            }
            Error::server("cannot register the job", error)
        })
    }

    fn register_with(
        &self,
        plan: &Plan,
        nspace: &Nspace<'static>,
        number: Option<u64>,
        infos: &[Info<'static>],
    ) -> Result<(), pmix_server::Error> {
        let (layout, here) = (&plan.layout, plan.layout.here());
        let maps = (layout.nodes().clone(), layout.procs().clone());
        let registration = Registration::new(infos).with_maps(maps.0, maps.1);
        let num_here = u32::try_from(here.len()).unwrap_or(u32::MAX);
        (self.server).register_nspace(nspace, num_here, registration)?;
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        let proc = |rank| Proc::new(nspace.clone(), rank);
        for &rank in here {
            let object = ProcessDirs::object(number, rank);
            let user = pmix_server::Credentials::new(uid, gid);
            (self.server).register_client(&proc(rank), user, object)?;
        }
        for set in &plan.process_sets {
            let name = Text::from(set.name.as_str());
            let members: Vec<_> = set.ranks().map(proc).collect();
            self.server.define_process_set(&name, &members)?;
        }
        Ok(())
    }

    /// Displays the requested information on a job. It is skipped while earlier output was not read: spawns that only
    /// prepare a job can repeat without limit.
    pub(super) fn show(&mut self, display: Display, plan: &Plan, bound: &Bound) {
        if !self.forward.has_room(OutputStream::Errors) {
            return tracing::debug!("cannot print information about jobs");
        }
        let lines = display.lines(plan, bound);
        if !lines.is_empty() {
            self.forward.write_error(lines.as_bytes());
        }
    }

    /// Advances the jobs whose processes are being started: adopts the processes that threads have started, and lets
    /// the threads start more.
    ///
    /// # Errors
    /// Returns [`Error`] if the first job could not be started.
    pub(super) fn advance_starts(&mut self) -> Result<(), Error> {
        for _ in 0..self.spawns.num_starting() {
            let Some(mut starting) = self.spawns.next_starting() else {
                break;
            };
            let result = self.advance_start(&mut starting);
            self.answer_early();
            match result {
                None => self.spawns.start(starting),
                Some(result) => self.finish_start(starting, result)?,
            }
        }
        Ok(())
    }

    /// Advances the start of one job. Returns the result once the start is over.
    fn advance_start(&mut self, starting: &mut StartingJob<'a>) -> Option<Result<(), Error>> {
        let Some(job) = self.jobs.named(&starting.nspace) else {
            return Some(Err(Error::cancelled()));
        };
        // Nothing waits for processes that would be killed at once, since a program may be on a file system that hangs.
        if job.stop.is_killed() {
            return Some(Err(Error::cancelled()));
        }
        let StartingJob {
            nspace,
            start,
            route,
            files,
            bound,
            ..
        } = starting;
        let plan = Arc::clone(&job.plan);
        let (here, reader) = (
            plan.layout.here(),
            { job.origin.as_ref() }.and_then(|o| o.reader),
        );
        let shows_progress = { job.origin.as_ref() }.is_some_and(|origin| origin.shows_progress);
        let starters = Arc::clone(&self.starters);
        start.turn(
            &starters,
            self,
            |session, index| {
                let rank = here.get(index).copied();
                let rank =
                    rank.ok_or_else(|| Error::request("the process map does not have this rank"))?;
                let input = match reader {
                    Some(reader) if reader.matches(rank) => Stdio::piped(),
                    _ => input::of(&plan, rank, session.standard.input)?,
                };
                let mut streams = route.streams()?;
                // Processes are prepared in the order of their indexes, as the files.
                if let Some(files) = files.as_mut().and_then(Iterator::next) {
                    streams.add(files)?;
                }
                let vars = session.server.setup_fork(&Proc::new(nspace.clone(), rank));
                let vars = vars.map_err(|e| Error::server("the server has no address", e))?;
                Ok(Ready {
                    rank,
                    cpus: bound.cpus.get(index).cloned(),
                    vars,
                    input,
                    streams,
                    opens_files: files.is_none(),
                })
            },
            |session, index, started| {
                let place = session.jobs.place(nspace);
                let place = place.ok_or_else(Error::cancelled)?;
                session.adopt(place, None, started)?;
                let num_started = index + 1;
                if shows_progress && (num_started % PROGRESS == 0 || num_started == here.len()) {
                    let num_here = here.len();
                    let line = format!("{nspace}: {num_started} of {num_here} processes started\n");
                    session.forward.write_error(line.as_bytes());
                }
                Ok(())
            },
        )
    }

    /// Completes the start of a job, or terminates the part that was started.
    fn finish_start(
        &mut self,
        starting: StartingJob<'a>,
        result: Result<(), Error>,
    ) -> Result<(), Error> {
        let StartingJob { nspace, spawn, .. } = starting;
        let index = self.jobs.place(&nspace);
        let job = index.and_then(|index| self.jobs.get_mut(index));
        let is_killed = job.is_some_and(|job| {
            job.table.complete();
            job.stop.is_killed()
        });
        match (result, index) {
            (Ok(()), Some(index)) => {
                if let Some(job) = self.jobs.get(index) {
                    self.tell_start(job);
                }
                self.stopped_on_exec(index);
                self.tell_mpir(index);
                if let Some(spawn) = spawn {
                    self.started_one(nspace, spawn);
                }
            }
            (Ok(()), None) => {}
            (Err(error), _) => match spawn {
                Some(spawn) => self.refuse(spawn, Refusal::of(&error)),
                // The first job was killed while it started. Its outcome has the cause.
                None if is_killed => {}
                None => return Err(error),
            },
        }
        // Ends of processes are handled after the start of their job, in the order of a job that starts at once.
        self.is_collect_due = true;
        Ok(())
    }

    /// Adds a started process to its job, either as a new one or as the next incarnation of another.
    pub(super) fn adopt(
        &mut self,
        index: usize,
        place: Option<usize>,
        started: Unadopted,
    ) -> Result<(), Error> {
        let Some(mut started) = started.adopt() else {
            return Err(Error::cancelled());
        };
        let rank = started.process.rank;
        // First, so that the watcher knows the process if the launcher is killed from here on.
        self.watcher.tell(started.process.pid);
        let Some(job) = self.jobs.get_mut(index) else {
            return Err(Error::request("the job was terminated before it started"));
        };
        let process = started.process;
        let app = job.plan.apps.get(process.app);
        if let Some(program) = app.map(|app| app.program.display()) {
            let (nspace, pid) = (&job.nspace, process.pid);
            tracing::info!("rank {rank} of {nspace} runs {program} as process {pid}");
        }
        let form = job.form(process.pid);
        match place {
            Some(place) => job.table.replace(place, process),
            None => job.table.push(process),
        }
        let source = job.proc(rank);
        let asked = job.plan.output.files.as_ref();
        let is_shown = asked.is_none_or(|asked| asked.is_copied);
        let shown = is_shown.then_some(form);
        let registry = self.poll.registry();
        let pipes = [
            (OutputStream::Output, started.output),
            (OutputStream::Errors, started.errors),
        ];
        for ((kind, pipe), file) in pipes.into_iter().zip(started.files) {
            if let Some(pipe) = pipe {
                let is_terminal = self.streams.is_terminal(kind);
                let shown = shown.map(|form| prompt_on(is_terminal, form));
                let delivery = Delivery { shown, file };
                let added = (self.forward).add(registry, source.clone(), delivery, kind, pipe);
                added.map_err(|e| Error::system(format!("cannot read from rank {rank}"), e))?;
            }
        }
        let pushed = job.origin.as_ref().map(|_| &mut job.pushed);
        if let Some(pushed) = pushed
            && let Some(pipe) = started.input.take()
        {
            let added = pushed.add(registry, PUSHED, rank, pipe);
            added.map_err(|e| Error::system("cannot fill standard input", e))?;
        }
        if let Some(rank0) = started.input {
            let made = Input::new(&self.plan, registry, INPUT, self.standard.input, rank0);
            self.input = made.map_err(|e| Error::system("cannot fill standard input", e))?;
        }
        Ok(())
    }
}

/// Returns the form of lines for a stream of the launcher. On a terminal a prompt has to appear without much delay.
fn prompt_on(is_terminal: bool, form: LineForm) -> LineForm {
    match form {
        LineForm::WholeWithin(_) if is_terminal => LineForm::WholeWithin(PATIENCE_OF_USER),
        form => form,
    }
}

/// Returns the directories that no request may remove: the working directories of the job and the launcher, the
/// directory of sessions, and the user's home.
fn kept(plan: &Plan) -> impl Iterator<Item = PathBuf> {
    let home = plan.environment.iter().find(|(name, _)| name == "HOME");
    let home = home.map(|(_, home)| PathBuf::from(home));
    let wdirs = plan.apps.iter().filter_map(|app| app.wdir.clone());
    [plan.tmpdir.clone(), PathBuf::from(".")]
        .into_iter()
        .chain(home)
        .chain(wdirs)
}
