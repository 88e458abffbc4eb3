// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start of jobs: registration with the server of the node, and the start of their processes by threads.

use std::sync::Arc;

use pmix_host::forward::OutputStream;
use pmix_server::{Credentials, Registration};
use pmix_types::{Info, Nspace, Proc, Text};

use super::local_job::{JobSettings, LocalJob};
use super::starting::{NewJob, StartingJob};
use super::{Agent, FromAgent, INPUT, PUSHED};
use crate::input::{ProcessInput, PushedInput};
use crate::job_info::{self, Bound};
use crate::nodes::ToNode;
use crate::preparation::JobPlace;
use crate::process::{JobStart, Ready, Spawner, Table, Unadopted, limits};
use crate::process_dirs::ProcessDirs;
use crate::{Error, Plan, service};

/// The number of processes between two reports on the progress of a start.
const PROGRESS: usize = 100;

impl<'a> Agent<'a> {
    /// Registers a job. Its processes are started by [`Agent::advance_starts`].
    ///
    /// # Errors
    /// Returns [`Error`] if the job exceeds a limit, or if the server refuses it. Nothing of the job is left then.
    pub(crate) fn register_job(&mut self, job: NewJob) -> Result<(), Error> {
        let NewJob {
            plan,
            settings,
            prepared,
            place,
        } = job;
        // The server, and the thread that opened the files of the job, hold their descriptors by this time, so the
        // check counts them.
        let num_here = plan.layout.here().len();
        let route = self.streams.route(&plan, num_here);
        let for_output = match place.has_open_files() {
            true => route.num_pipes(),
            false => route.num_descriptors(),
        };
        limits::check(num_here, for_output)?;
        if route.has_terminals() {
            limits::check_terminals(num_here)?;
        }
        // The Standard requires that job and clients are registered before the processes start: these may connect at
        // once.
        self.register(&plan, &settings, &place, &prepared.bound)?;
        self.start_at_nodes(&plan, &settings)?;
        let Some((dir, files)) = place.keep() else {
            return Err(Error::request("the job has no directory"));
        };
        let (bound, programs) = (prepared.bound, Arc::new(prepared.programs));
        let mut table = Table::default();
        // From here on its processes count as running. Otherwise the job would be over before the first one starts.
        table.expect(plan.num_started());
        let nspace = Nspace::new(plan.nspace.clone()).to_shared();
        // A restart needs the form again.
        let form = settings.form.clone();
        let spawner = Spawner::new(Arc::clone(&plan), Arc::clone(&programs), &bound, form);
        self.starting.add(StartingJob {
            nspace: nspace.clone(),
            start: JobStart::new(spawner, num_here),
            route,
            files: files.map(Vec::into_iter),
            bound,
            started_here: None,
        });
        self.jobs.push(LocalJob {
            plan,
            nspace,
            settings,
            table,
            programs,
            dir,
            pushed: PushedInput::default(),
            is_abandoned: false,
        });
        Ok(())
    }

    /// Returns the work that creates the directory of a job and that of its output, for any thread. Its files are
    /// opened if the limit of descriptors allows that; otherwise those of each process are opened when it starts.
    pub(crate) fn placing(
        &self,
        plan: Arc<Plan>,
        number: Option<u64>,
    ) -> impl FnOnce(&pmix_host::helpers::Cancel) -> Result<JobPlace, Error> + Send + 'static {
        let session = self.session_path();
        let discarded = self.cleanup.discarded();
        let num_here = plan.layout.here().len();
        let route = self.streams.route(&plan, num_here);
        // The first job is large, so its files are opened one by one.
        let opens_files =
            number.is_some() && limits::check(num_here, route.most_descriptors()).is_ok();
        move |cancel| JobPlace::make(&plan, &session, number, opens_files, &discarded, cancel)
    }

    /// Registers the job and its local processes with the server, or nothing at all.
    fn register(
        &self,
        plan: &Plan,
        settings: &JobSettings,
        place: &JobPlace,
        bound: &Bound,
    ) -> Result<(), Error> {
        let nspace = Nspace::new(plan.nspace.clone()).to_shared();
        let Some(dir) = place.dir() else {
            return Err(Error::request("the job has no directory"));
        };
        let server = service::name(&self.plan);
        let places = job_info::Places {
            session: self.cleanup.dir(),
            job: dir,
            server: &server,
            parent: settings.parent.as_ref(),
            debug_target: settings.debug_target.as_ref(),
            for_launcher: settings.for_launcher.as_deref(),
            preput: &settings.preput,
            offset: settings.offset,
        };
        let infos = job_info::of_job(plan, bound, &places);
        let registered = self.register_with(plan, &nspace, settings.number, &infos);
        let registered =
            registered.map_err(|error| Error::server("cannot register the job", error));
        let is_spawned = settings.parent.is_some();
        let offered = registered.and_then(|()| self.pmi.register(&self.server, plan, is_spawned));
        offered.inspect_err(|_| {
            // A client or a set may have been refused after the job was accepted.
            self.deregister_nspace(&nspace);
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
            (self.server).register_client(&proc(rank), Credentials::new(uid, gid), object)?;
        }
        for set in &plan.process_sets {
            let name = Text::from(set.name.as_str());
            let members: Vec<_> = set.ranks().map(proc).collect();
            self.server.define_process_set(&name, &members)?;
        }
        Ok(())
    }

    /// Advances the jobs whose processes are being started: adopts the processes that threads have started, and lets
    /// the threads start more.
    pub(crate) fn advance_starts(&mut self) -> Vec<FromAgent> {
        let cancelled = self.starting.take_cancelled().into_iter();
        let mut reports: Vec<_> = cancelled
            .map(|nspace| FromAgent::JobStarted(nspace, Err(Error::cancelled())))
            .collect();
        for _ in 0..self.starting.len() {
            let Some(mut starting) = self.starting.next() else {
                break;
            };
            if starting.started_here.is_none() {
                starting.started_here = self.advance_start(&mut starting);
            }
            let there = self.others.nodes.start_of(&starting.nspace);
            let result = match (starting.started_here.take(), there) {
                (Some(Ok(())), Some(there)) => there,
                (Some(Err(error)), _) | (None, Some(Err(error))) => Err(error),
                (here, _) => {
                    starting.started_here = here;
                    self.starting.add(starting);
                    continue;
                }
            };
            if let Some(job) = self.jobs.named_mut(&starting.nspace) {
                job.table.complete();
            }
            // Ends of its processes take effect only now, in the order of a job that starts at once.
            self.children.request_collect();
            reports.push(FromAgent::JobStarted(starting.nspace, result));
        }
        reports
    }

    /// Gives up the start of a job whose processes were killed. Nothing waits for processes that would be killed at
    /// once, since a program may be on a file system that hangs.
    pub(crate) fn cancel_start(&mut self, nspace: &Nspace<'_>) {
        // The controller still gets a report, because a spawn request may wait for it.
        let message = ToNode::Cancel {
            nspace: nspace.as_bytes().to_vec(),
        };
        self.others.nodes.send_of_job(nspace, &message);
        self.starting.cancel(nspace);
        if let Some(job) = self.jobs.named_mut(nspace) {
            job.table.complete();
        }
        self.children.request_collect();
    }

    /// Advances the start of one job. Returns the result once the start is over.
    fn advance_start(&mut self, starting: &mut StartingJob<'a>) -> Option<Result<(), Error>> {
        let StartingJob {
            nspace,
            start,
            route,
            files,
            bound,
            ..
        } = starting;
        let Some(job) = self.jobs.named(nspace) else {
            return Some(Err(Error::cancelled()));
        };
        let plan = Arc::clone(&job.plan);
        let (reader, shows_progress) = (job.settings.reader, job.settings.shows_progress);
        let here = plan.layout.here();
        // A copy of the handle: the closures below borrow the agent.
        let starters = self.children.starters();
        start.turn(
            &starters,
            self,
            |agent, index| {
                let rank = here.get(index).copied();
                let rank =
                    rank.ok_or_else(|| Error::request("the process map does not have this rank"))?;
                let input = match reader {
                    Some(reader) if reader.matches(rank) => ProcessInput::Pipe,
                    _ => agent.streams.input_of(&plan, rank)?,
                };
                let is_first = reader.is_none();
                let keyboard =
                    { is_first.then(|| agent.streams.keyboard_of(&plan, rank)) }.flatten();
                let mut streams = route.streams(keyboard.as_ref())?;
                // Processes are prepared in the order of their indexes, as the files.
                if let Some(files) = files.as_mut().and_then(Iterator::next) {
                    streams.add(files)?;
                }
                let vars = agent.variables(&Proc::new(nspace.clone(), rank))?;
                Ok(Ready {
                    rank,
                    cpus: bound.cpus.get(index).cloned(),
                    vars,
                    input,
                    streams,
                    opens_files: files.is_none(),
                })
            },
            |agent, index, started| {
                agent.adopt(nspace, None, started)?;
                let (num_started, num_here) = (index + 1, here.len());
                if shows_progress && (num_started % PROGRESS == 0 || num_started == num_here) {
                    let line = format!("{nspace}: {num_started} of {num_here} processes started\n");
                    agent.write_error(&line);
                }
                Ok(())
            },
        )
    }

    /// Adds a started process to its job, either as a new one or as the next incarnation of the one at a place of the
    /// table.
    pub(super) fn adopt(
        &mut self,
        nspace: &Nspace<'_>,
        place: Option<usize>,
        started: Unadopted,
    ) -> Result<(), Error> {
        let Some(job) = self.jobs.named_mut(nspace) else {
            // Dropping the process kills it.
            return Err(Error::cancelled());
        };
        let Some(mut started) = started.adopt() else {
            return Err(Error::cancelled());
        };
        let process = started.process;
        let (rank, pid) = (process.rank, process.pid);
        // First, so that the watcher knows the process if the launcher is killed from here on.
        self.cleanup.register_process(pid);
        let proc = job.proc(rank);
        let started_as = self
            .server
            .client_started(&proc, pid.as_raw_nonzero().get());
        if let Err(e) = started_as {
            tracing::debug!("processes do not learn the process id of rank {rank}: {e}");
        }
        let app = job.plan.apps.get(process.app);
        if let Some(program) = app.map(|app| app.program.display()) {
            tracing::info!("rank {rank} of {nspace} runs {program} as process {pid}");
        }
        match place {
            // The previous incarnation is reaped here, which frees its process id.
            Some(place) => job.table.replace(place, process),
            None => job.table.push(process),
        }
        let source = job.proc(rank);
        let asked = job.plan.output.files.as_ref();
        let is_shown = !self.is_member && asked.is_none_or(|asked| asked.is_copied);
        let shown = is_shown.then(|| job.form(pid));
        let registry = self.poll.registry();
        if let Some(keyboard) = started.keyboard {
            let process = (source.clone(), pid);
            (self.streams).attach_keyboard(registry, INPUT, process, keyboard)?;
        }
        let pipes = [
            (OutputStream::Output, started.output),
            (OutputStream::Errors, started.errors),
        ];
        for ((kind, pipe), file) in pipes.into_iter().zip(started.files) {
            if let Some(pipe) = pipe {
                let source = source.clone();
                (self.streams).add_output(registry, source, (kind, pipe), shown, file)?;
            }
        }
        self.streams.begin_conversion(&source);
        // Only spawned jobs read pushed input by rank. The first job has one reader, which may also read a terminal.
        if job.settings.number.is_some()
            && let Some(pipe) = started.input.take()
        {
            let added = job.pushed.add(registry, PUSHED, rank, pipe);
            added.map_err(|e| Error::system("cannot fill standard input", e))?;
        }
        if let Some(rank0) = started.input {
            (self.streams).fill_input(&self.plan, registry, INPUT, rank0)?;
        }
        self.protect_terminal();
        Ok(())
    }
}
