// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start of jobs.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Poll, Token, Waker};
use pmix_host::cleanup::ProtectedPaths;
use pmix_host::forward::{Delivery, LineForm, OutputFile, OutputForwarder, OutputStream};
use pmix_host::groups::GroupAssembler;
use pmix_host::helpers::{Cancel, Helpers};
use pmix_host::publish::PublishService;
use pmix_server::{CredentialService, Registration, WireObserver};
use pmix_types::{Nspace, Proc, Text};
use rustix::process::{getegid, geteuid};

use super::Standard;
use super::begun_removals::BegunRemovals;
use super::connected::Connected;
use super::display::Display;
use super::groups::Groups;
use super::job::{Job, Jobs, Origin, PlanRef};
use super::log::Logs;
use super::measure::Monitors;
use super::missing::Missing;
use super::removals::Removals;
use super::restart::WaitingRestarts;
use super::session::{FORWARD, HELPERS, INPUT, PUSHED, SIGNALS, Session};
use super::sets::DefinedSets;
use super::spawn_queue::{MOST_PREPARING, SpawnQueue};
use super::stop::Stop;
use super::stopped::Debugging;
use super::tool_wait::ToolWait;
use crate::host::{LocalHost, host_channel};
use crate::input::{self, Input, PushedInput};
use crate::job_info::{self, Bound};
use crate::output::{RankFiles, Route, Streams};
use crate::preparation::{JobPlace, Preparation, Prepared};
use crate::process::{self, CommandForm, Orphans, Ready, Spawner, Started, Table, Watcher, limits};
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
    /// Starts all processes of the first job on this node.
    pub(super) fn start(
        plan: &'a Plan,
        standard: Standard<'a>,
        observer: Option<Box<dyn WireObserver>>,
        wait: Option<ToolWait>,
    ) -> Result<Self, Error> {
        // Check first: nothing was created yet that would have to be removed.
        let least = Route::least_descriptors(plan, standard.output, standard.errors);
        limits::check(plan.layout.here().len(), least)?;
        let form = CommandForm::default();
        let preparation = Preparation::of(plan, &form, process::allowed());
        let prepared = preparation.prepare(&Cancel::never())?;
        let mut session = Self::prepare(plan, standard, observer)?;
        if let Some(wait) = wait {
            session.wait_for_release(wait)?;
        }
        // No process runs yet that could be blocked by a slow disk. The files of each process are opened when it
        // starts, because all of them together may exceed the limit of descriptors.
        let place = JobPlace::make(plan, session.dir.path(), None, false, &Cancel::never())?;
        session.num_named += 1;
        session.start_job(PlanRef::Given(plan), None, prepared, place)?;
        Ok(session)
    }

    /// Starts a job. If that fails after some processes were started, these remain until the job is dismissed.
    pub(super) fn start_job(
        &mut self,
        plan: PlanRef<'a>,
        origin: Option<Origin>,
        prepared: Prepared,
        place: JobPlace,
    ) -> Result<(), Error> {
        let Prepared { bound, programs } = prepared;
        let JobPlace { dir, files } = place;
        let (bound, programs) = (&bound, Arc::new(programs));
        let form = origin.as_ref().map(|origin| origin.form.clone());
        let form = form.unwrap_or_default();
        let given = plan.clone();
        let index = self.jobs.len();
        // The server, and the thread that opened the files of the job, hold their descriptors by this time, so the
        // check counts them.
        let num_here = plan.layout.here().len();
        let route = Route::new(&given, num_here, self.standard.output, self.standard.errors);
        let for_output = match files {
            Some(_) => route.num_pipes(),
            None => route.num_descriptors(),
        };
        let spawner = limits::check(num_here, for_output)
            .and_then(|()| Spawner::new(&given, &programs, bound, &form));
        let spawner = match spawner {
            Ok(spawner) => spawner,
            Err(error) => {
                // The job is not in the list of jobs yet, so its directory has to be removed here.
                self.removals.job_dir(&dir);
                return Err(error);
            }
        };
        let spares_exit_codes = origin
            .as_ref()
            .is_some_and(|origin| origin.spares_exit_codes);
        // The time limit of the first job starts with the launcher, which may have waited for its release. Spawned
        // jobs get the rest of that limit.
        let limited_from = match &origin {
            Some(_) => Instant::now(),
            None => self.began,
        };
        let job = Job {
            nspace: Nspace::new(plan.nspace.clone()).to_shared(),
            dir,
            stop: Stop::new(&plan, limited_from).sparing_exit_codes_if(spares_exit_codes),
            debugging: Debugging::new(&plan.stops),
            table: Table::default(),
            programs: Arc::clone(&programs),
            pushed: PushedInput::default(),
            has_failed: false,
            has_spread: false,
            is_abandoned: false,
            origin,
            plan: plan.clone(),
        };
        self.num_jobs += 1;
        // The Standard requires that job and clients are registered before the processes start: these may connect at
        // once.
        if let Err(error) = self.register(&job, bound) {
            if let Err(e) = self.server.deregister_nspace(&job.nspace) {
                tracing::debug!("cannot deregister {}: {e}", job.nspace);
            }
            // The job is not in the list of jobs yet, so its directory has to be removed here.
            self.removals.job_dir(&job.dir);
            return Err(error);
        }
        let num_procs = u32::try_from(plan.layout.num_procs()).unwrap_or(u32::MAX);
        self.num_procs = self.num_procs.saturating_add(num_procs);
        let asked = job.origin.as_ref().map(|origin| origin.display);
        let display = asked.unwrap_or_else(|| Display {
            map: plan.announce,
            ..Display::default()
        });
        self.show(display, &plan, bound);
        self.jobs.push(job);
        self.run(index, &plan, &spawner, (&route, files), bound)?;
        if let Some(job) = self.jobs.get(index) {
            self.tell_start(job);
        }
        self.stopped_on_exec(index);
        self.tell_mpir(index);
        Ok(())
    }

    /// Creates the session without processes.
    fn prepare(
        plan: &'a Plan,
        standard: Standard<'a>,
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
        let output_helpers = Helpers::new("pmix-output", MOST_WRITING, wake.clone());
        let dir = SessionDir::create(&plan.tmpdir)?;
        let host = LocalHost::new(host_channel, plan.forward_io, ProcessDirs::of(dir.path()));
        let server = service::start(plan, &dir, host, observer)?;
        tracing::info!("the server listens on {}", server.uri());
        tracing::info!("the files of the session are in {}", dir.path().display());
        let watched = server.watch(registry.as_fd());
        watched.map_err(|e| Error::server("cannot poll the server", e))?;
        let user = (geteuid().as_raw(), getegid().as_raw());
        let credentials = CredentialService::new(&plan.params, user)
            .map_err(|e| Error::server("cannot create credentials", e))?;
        let mut watcher = Watcher::start(plan.watcher.as_deref(), dir.path());
        let protected = ProtectedPaths::new(kept(plan));
        watcher.keep(protected.paths());
        let mut orphans = Orphans::adopt(plan.adopt);
        // Every other child of the launcher belongs to a job or is an orphan of one.
        orphans.spare(watcher.pid());
        Ok(Self {
            plan,
            standard,
            signals,
            began: Instant::now(),
            jobs: Jobs::default(),
            orphans,
            server,
            dir,
            watcher,
            forward: OutputForwarder::new(FORWARD, standard.output, standard.errors)
                .on_host(&String::from_utf8_lossy(plan.layout.host()))
                .keep_chunks_if(plan.forward_io)
                .write_files_by(output_helpers),
            logs: Logs::default(),
            missing: Missing::default(),
            groups: Groups::default(),
            written: 0,
            input: Input::Own,
            tool_wait: None,
            spawns: SpawnQueue::default(),
            spawn_helpers,
            open_helpers,
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

    /// Registers the job and its local processes with the server.
    fn register(&self, job: &Job<'_>, bound: &Bound) -> Result<(), Error> {
        let (plan, nspace) = (&*job.plan, &job.nspace);
        let here = plan.layout.here();
        let number = job.origin.as_ref().map(|origin| origin.number);
        let server = service::name(&self.plan.nspace);
        let places = job_info::Places {
            session: &self.dir,
            job: &job.dir,
            server: &server,
            parent: job.origin.as_ref().map(|origin| &origin.parent),
            debug_target: { job.origin.as_ref() }.and_then(|origin| origin.debug_target.as_ref()),
            for_launcher: { job.origin.as_ref() }.and_then(|origin| origin.for_launcher.as_deref()),
            offset: job.origin.as_ref().map_or(0, |origin| origin.offset),
        };
        let infos = job_info::of_job(plan, bound, &places);
        let layout = &plan.layout;
        let maps = (layout.nodes().clone(), layout.procs().clone());
        let registration = Registration::new(&infos).with_maps(maps.0, maps.1);
        let num_here = u32::try_from(here.len()).unwrap_or(u32::MAX);
        let refused = |e| Error::server("cannot register the job", e);
        (self.server.register_nspace(nspace, num_here, registration)).map_err(refused)?;
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        for &rank in here {
            let proc = job.proc(rank);
            let object = ProcessDirs::object(number, rank);
            (self
                .server
                .register_client(&proc, pmix_server::Credentials::new(uid, gid), object))
            .map_err(refused)?;
        }
        for set in &plan.process_sets {
            let name = Text::from(set.name.as_str());
            let members = set.ranks().map(|rank| job.proc(rank));
            let members: Vec<_> = members.collect();
            (self.server.define_process_set(&name, &members)).map_err(refused)?;
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

    /// Starts the processes of a job.
    fn run(
        &mut self,
        index: usize,
        plan: &Plan,
        spawner: &Spawner<'_>,
        (route, files): (&Route<'_>, Option<Vec<RankFiles>>),
        bound: &Bound,
    ) -> Result<(), Error> {
        let mut files = files.map(Vec::into_iter);
        let nspace = Nspace::new(plan.nspace.clone()).to_shared();
        let job = self.jobs.get(index);
        let origin = job.and_then(|job| job.origin.as_ref());
        let start_by = origin.and_then(|origin| origin.start_by);
        let shows_progress = origin.is_some_and(|origin| origin.shows_progress);
        let num_here = plan.layout.here().len();
        let reader = origin.and_then(|origin| origin.reader);
        // The streams and files of processes that were prepared and not taken yet, by index.
        let mut rests = BTreeMap::new();
        let mut context = (self, &mut rests);
        spawner.start_all(
            &mut context,
            num_here,
            |(session, rests), place| {
                if start_by.is_some_and(|start_by| Instant::now() >= start_by) {
                    return Err(Error::late());
                }
                let rank = plan.layout.here().get(place).copied();
                let rank =
                    rank.ok_or_else(|| Error::request("the process map does not have this rank"))?;
                let Streams {
                    stdio: [output, errors],
                    merged,
                    files,
                } = route.streams(match &mut files {
                    // `prepare` is called in the order of the indexes.
                    Some(files) => files.next(),
                    None => route.open(rank, true)?,
                })?;
                let standard = process::Standard {
                    input: match reader {
                        Some(reader) if reader.matches(rank) => Stdio::piped(),
                        _ => input::of(plan, rank, session.standard.input)?,
                    },
                    output,
                    errors,
                };
                let vars = session.server.setup_fork(&Proc::new(nspace.clone(), rank));
                let vars = vars.map_err(|e| Error::server("the server has no address", e))?;
                rests.insert(place, (merged, files));
                Ok(Ready {
                    rank,
                    cpus: bound.cpus.get(place),
                    vars,
                    standard,
                })
            },
            |(session, rests), place, mut started| {
                let (merged, files) = rests.remove(&place).unwrap_or_default();
                started.output = merged.or(started.output);
                session.adopt(index, None, started, files)?;
                let num_started = place + 1;
                if shows_progress && (num_started % PROGRESS == 0 || num_started == num_here) {
                    let line = format!("{nspace}: {num_started} of {num_here} processes started\n");
                    session.forward.write_error(line.as_bytes());
                }
                // Requests of running processes are served before all have started.
                session.serve();
                Ok(())
            },
        )
    }

    /// Adds a started process to its job, either as a new one or as the next incarnation of another.
    pub(super) fn adopt(
        &mut self,
        index: usize,
        place: Option<usize>,
        mut started: Started,
        files: [Option<OutputFile>; 2],
    ) -> Result<(), Error> {
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
        let Standard { output, errors, .. } = self.standard;
        let streams = [
            (OutputStream::Output, started.output, output),
            (OutputStream::Errors, started.errors, errors),
        ];
        for ((kind, pipe, leads_to), file) in streams.into_iter().zip(files) {
            if let Some(pipe) = pipe {
                let shown = shown.map(|form| prompt_on(leads_to, form));
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
            let made = Input::new(self.plan, registry, INPUT, self.standard.input, rank0);
            self.input = made.map_err(|e| Error::system("cannot fill standard input", e))?;
        }
        Ok(())
    }
}

/// Returns the form of lines for a stream of the launcher. On a terminal a prompt has to appear without much delay.
fn prompt_on(stream: BorrowedFd<'_>, form: LineForm) -> LineForm {
    match form {
        LineForm::WholeWithin(_) if rustix::termios::isatty(stream) => {
            LineForm::WholeWithin(PATIENCE_OF_USER)
        }
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
