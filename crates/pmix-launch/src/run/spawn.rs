// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spawn requests of processes and tools (`PMIx_Spawn`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pmix_server::Completion;
use pmix_server::upcall::Spawn;
use pmix_topology::Level;
use pmix_types::{Info, Nspace, Proc, Rank, Status, keys};

use super::debug::without_daemons;
use super::job::{Named, Origin};
use super::node;
use super::request::{Refusal, Request};
use super::session::Session;
use super::spawn_queue::{AskedSpawn, NamedSpawn, PendingSpawn, Readied, StartingJob};
use crate::output::Route;
use crate::preparation::{JobPlace, Preparation, Prepared};
use crate::process::{self, limits};
use crate::{Error, FilePattern, Layout, MapBy, Output, OutputFiles, OutputForm, Plan, Policy};

impl Session<'_> {
    /// Queues a spawn request. A launcher that waits for its release starts its own job first.
    pub(super) fn spawn_later(&mut self, call: Spawn, done: Completion<Nspace<'static>>) {
        let asked = Instant::now();
        let start_by = self.tool_wait.as_ref().and_then(|_| {
            // Other errors of the request are reported when the job is to be started.
            let request = Request::of(&call, self.plan.layout.host()).ok()?;
            asked.checked_add(request.spawn_timeout?)
        });
        let spawn = PendingSpawn {
            asker: call.proc.clone(),
            asked,
            start_by,
            done,
            daemons: None,
            started: None,
            starting: None,
            debug_target: None,
        };
        self.spawns.ask(AskedSpawn { call, spawn });
    }

    /// Refuses the spawns whose time limit passed, and those of jobs that are being terminated. Returns the time for
    /// the next call.
    pub(super) fn refuse_late(&mut self, now: Instant) -> Option<Instant> {
        let jobs = &self.jobs;
        let is_ending = |spawn: &PendingSpawn| {
            let parent = jobs.named(&spawn.asker.nspace);
            parent.is_some_and(|parent| parent.stop.is_ending())
        };
        let is_late = |spawn: &PendingSpawn| spawn.start_by.is_some_and(|start_by| start_by <= now);
        // A job whose processes are being started gets the signals of its termination like any other job.
        let cancelled = self.spawns.take_unstarted(is_ending);
        let late = self.spawns.take(is_late);
        for spawn in cancelled {
            self.refuse(spawn, being_ended());
        }
        if self.is_interrupted() {
            for spawn in self.spawns.take_unstarted(|_| true) {
                self.refuse(spawn, interrupted());
            }
        }
        for spawn in late {
            self.refuse(spawn, Refusal::of(&Error::late()));
        }
        self.spawns.deadline()
    }

    /// Drops the spawns of a tool that disconnected: no peer waits for their replies.
    pub(super) fn drop_waiting_of(&mut self, asker: &Proc<'_>) {
        for mut spawn in self.spawns.take(|spawn| spawn.asker == *asker) {
            self.give_up_jobs(&mut spawn);
        }
    }

    /// Refuses all queued spawns because all jobs are being terminated.
    pub(super) fn refuse_waiting(&mut self) {
        for mut spawn in self.spawns.take(|_| true) {
            let status = Status::ERR_JOB_CANCELED;
            self.tell_refused(status, &spawn.asker, "all jobs are being terminated");
            self.give_up_jobs(&mut spawn);
            spawn.done.fail(status);
        }
    }

    /// Starts the next job that is ready, and lets a thread prepare the next requested one. Each call handles one, so
    /// that other work gets its turn.
    pub(super) fn start_waiting(&mut self) {
        if let Some((spawn, readied)) = self.spawns.next_ready() {
            self.start_ready(spawn, readied);
        }
        if let Some(AskedSpawn { call, mut spawn }) = self.spawns.next_asked() {
            let call = without_daemons(call);
            spawn.daemons = call.1;
            self.prepare_spawn(call.0, spawn);
        }
    }

    /// Reads a request, and lets a helper thread prepare its job.
    fn prepare_spawn(&mut self, call: Spawn, mut spawn: PendingSpawn) {
        let request = match self.read_spawn(&call, &mut spawn) {
            Ok(request) => Box::new(request),
            Err(refusal) => return self.refuse(spawn, refusal),
        };
        let environment = Arc::clone(&self.plan.environment);
        let policy = policy_of(&request, self.plan.policy);
        let cpus = request.cpus.clone().or_else(|| self.plan.cpus.clone());
        let allowed = process::allowed();
        let num_here = request.num_procs().unwrap_or(u32::MAX) as usize;
        let task = self.spawn_helpers.run(move |cancel| {
            let preparation = Preparation {
                environment: &environment,
                apps: &request.apps,
                form: &request.form,
                policy,
                cpus: cpus.as_ref(),
                allowed,
                num_here,
            };
            let prepared = preparation.prepare(cancel);
            Readied::Prepared(request, prepared)
        });
        match task {
            Ok(task) => self.spawns.prepare(spawn, task),
            Err(error) => {
                let refusal = Refusal::new(error.status(), error.to_string());
                self.refuse(spawn, refusal);
            }
        }
    }

    /// Takes the next step for a prepared job: place it, start it, or report its failure.
    fn start_ready(&mut self, spawn: PendingSpawn, readied: Option<Readied>) {
        let refusal = match readied {
            Some(Readied::Prepared(request, Ok(prepared))) => {
                return self.place_spawn(request, prepared, spawn);
            }
            Some(Readied::Placed(named, Ok(place))) => {
                return self.start_one(*named, place, spawn);
            }
            Some(Readied::Prepared(_, Err(error)) | Readied::Placed(_, Err(error))) => {
                Refusal::of(&error)
            }
            None => Refusal::new(
                Status::ERR_JOB_FAILED_TO_LAUNCH,
                "the thread that prepared the job panicked",
            ),
        };
        self.refuse(spawn, refusal);
    }

    /// Prepares the debugger daemons of a started job, or completes the spawn.
    pub(super) fn started_one(&mut self, nspace: Nspace<'static>, mut spawn: PendingSpawn) {
        spawn.starting = None;
        match spawn.daemons.take() {
            Some(mut daemons) => {
                let target = Proc::new(nspace.clone(), Rank::WILDCARD);
                daemons.infos.push(Info::new(keys::DEBUG_TARGET, target));
                spawn.started = Some(nspace);
                self.prepare_spawn(daemons, spawn);
            }
            // With debugger daemons, the name in the reply is that of the application's job.
            None => spawn.done.succeed(spawn.started.unwrap_or(nspace)),
        }
    }

    /// Refuses a spawn: raises the event, logs the reason, and fails the request.
    pub(super) fn refuse(&mut self, mut spawn: PendingSpawn, refusal: Refusal) {
        let Refusal { status, why } = refusal;
        self.give_up_jobs(&mut spawn);
        self.tell_refused(status, &spawn.asker, &why);
        let line = format!(
            "PMIx_Spawn from {} was rejected: {why}",
            self.called(&spawn.asker)
        );
        self.missing.warn_of(line, Instant::now());
        spawn.done.fail(status);
    }

    /// Reads a spawn request, and refuses it if that is possible before its preparation.
    fn read_spawn(&self, call: &Spawn, spawn: &mut PendingSpawn) -> Result<Request, Refusal> {
        // Each application has at least one process and takes effort to prepare, so their number is checked first.
        self.check_room(u32::try_from(call.apps.len()).unwrap_or(u32::MAX))?;
        let mut request = Request::of(call, self.plan.layout.host())?;
        spawn.debug_target = self.place_daemons(&mut request)?;
        spawn.start_by = request
            .spawn_timeout
            .and_then(|limit| spawn.asked.checked_add(limit));
        request.count_beside(self.num_beside(&request.beside)?)?;
        let num_procs = request.num_procs()?;
        self.check_spawn(&request, num_procs, spawn)?;
        if request.needs_forwarding && !self.plan.forward_io {
            return Err(Refusal::unforwarded());
        }
        let is_rank = |rank: Rank| rank == Rank::WILDCARD || rank.as_raw() < num_procs;
        if let Some(rank) = request.reader.filter(|rank| !is_rank(*rank)) {
            let why = format!(
                "standard input is assigned to rank {rank}, but the last rank of the job is {}",
                num_procs.saturating_sub(1)
            );
            return Err(Refusal::new(Status::ERR_BAD_PARAM, why));
        }
        Ok(request)
    }

    /// Refuses a spawn because of conditions that may change after it was read: its parent is being terminated, its
    /// time limit passed, or there is no room.
    fn check_spawn(
        &self,
        request: &Request,
        num_procs: u32,
        spawn: &PendingSpawn,
    ) -> Result<(), Refusal> {
        let parent = self.jobs.named(&spawn.asker.nspace);
        if parent.is_some_and(|parent| parent.stop.is_ending()) {
            return Err(being_ended());
        }
        if self.is_interrupted() {
            return Err(interrupted());
        }
        if request.is_late(spawn.asked, Instant::now()) {
            return Err(Refusal::of(&Error::late()));
        }
        self.check_room(num_procs)?;
        let running = u32::try_from(self.jobs.num_running()).unwrap_or(u32::MAX);
        check_processors(request, num_procs, running)
    }

    /// Returns `true` if a terminating signal was forwarded to the jobs.
    pub(super) fn is_interrupted(&self) -> bool {
        self.jobs.iter().any(|job| job.stop.is_interrupted())
    }

    /// Names a prepared job, and lets a helper thread create its directory and open its files.
    fn place_spawn(&mut self, request: Box<Request>, prepared: Prepared, spawn: PendingSpawn) {
        let named = match self.name_spawn(request, prepared, &spawn) {
            Ok(Some(named)) => Box::new(named),
            Ok(None) => {
                // A job that is only prepared uses a number of its own.
                let nspace = Nspace::new(self.next_nspace());
                self.num_prepared += 1;
                return self.started_one(nspace, spawn);
            }
            Err(refusal) => return self.refuse(spawn, refusal),
        };
        let session = self.dir.path().to_owned();
        let num_here = named.plan.layout.here().len();
        let route = Route::new(&named.plan, num_here, self.streams);
        let discarded = self.discarded.0.clone();
        // If there are not enough descriptors for all files at once, those of each process are opened when it starts.
        let opens_files = limits::check(num_here, route.most_descriptors()).is_ok();
        let task = self.spawn_helpers.run(move |cancel| {
            let number = Some(named.number);
            let plan = &named.plan;
            let place = JobPlace::make(plan, &session, number, opens_files, &discarded, cancel);
            Readied::Placed(named, place)
        });
        match task {
            Ok(task) => self.spawns.prepare(spawn, task),
            Err(error) => {
                let refusal = Refusal::new(error.status(), error.to_string());
                self.refuse(spawn, refusal);
            }
        }
    }

    /// Returns a job with its name. A job that is only to be prepared is displayed instead, and `None` is returned.
    fn name_spawn(
        &mut self,
        mut request: Box<Request>,
        prepared: Prepared,
        spawn: &PendingSpawn,
    ) -> Result<Option<NamedSpawn>, Refusal> {
        let num_procs = request.num_procs()?;
        self.check_spawn(&request, num_procs, spawn)?;
        let plan = self.plan_of(&mut request, self.next_nspace(), num_procs)?;
        if request.is_only_prepared {
            self.show(request.display, &plan, &prepared.bound);
            return Ok(None);
        }
        let number = self.num_named;
        // The number is not reused, even if the job fails to start.
        self.num_named += 1;
        Ok(Some(NamedSpawn {
            request,
            num_procs,
            prepared,
            plan: Arc::new(plan),
            number,
        }))
    }

    /// Registers a job, and begins the start of its processes.
    fn start_one(&mut self, named: NamedSpawn, place: JobPlace, mut spawn: PendingSpawn) {
        // The conditions may have changed while the directory was created.
        if let Err(refusal) = self.check_spawn(&named.request, named.num_procs, &spawn) {
            return self.refuse(spawn, refusal);
        }
        let NamedSpawn {
            request,
            prepared,
            plan,
            number,
            ..
        } = named;
        let parent = self.jobs.named(&spawn.asker.nspace);
        let parent = parent.and_then(|parent| parent.origin.as_ref());
        let is_reported_apart = parent.is_some_and(|parent| parent.reports_children_apart);
        let origin = Origin {
            is_reported_apart,
            // The setting applies to all descendants.
            reports_children_apart: is_reported_apart || request.reports_children_apart,
            display: request.display,
            shows_progress: request.shows_progress,
            form: request.form,
            max_restarts: request.max_restarts.unwrap_or(0),
            reader: request.reader,
            parent: spawn.asker.clone(),
            number,
            offset: self.num_procs,
            spares_exit_codes: request.ends_by_exit_code == Some(false),
            is_separate: request.is_separate == Some(true),
            ends_with_parent: request.is_separate == Some(false),
            debug_target: spawn.debug_target.clone(),
            for_launcher: request.for_launcher,
        };
        match self.start_job(plan, Some(origin), prepared, place) {
            Ok(starting) => {
                spawn.starting = Some(starting.nspace.clone());
                self.spawns.start(StartingJob {
                    spawn: Some(spawn),
                    ..starting
                });
            }
            Err(error) => self.refuse(spawn, Refusal::of(&error)),
        }
    }

    /// Terminates the jobs that were started for a spawn that is given up.
    fn give_up_jobs(&mut self, spawn: &mut PendingSpawn) {
        for nspace in [spawn.starting.take(), spawn.started.take()]
            .into_iter()
            .flatten()
        {
            self.give_up(&nspace);
        }
    }

    /// Terminates a job that could not be started completely.
    fn give_up(&mut self, nspace: &Nspace<'_>) {
        if let Some(index) = self.jobs.place(nspace).filter(|index| *index > 0) {
            if let Some(job) = self.jobs.get(index) {
                self.tell_failed_start(job);
            }
            self.dismiss(index);
        }
    }

    /// Returns the number of distinct processes of this session in the list; the wildcard denotes all of a job.
    fn num_beside(&self, procs: &[Proc<'_>]) -> Result<usize, Refusal> {
        let mut num = 0;
        for (nspace, ranks) in Named::of(procs).iter() {
            let table = self.jobs.named(&nspace).map(|job| &job.table);
            let all = table.map_or(0, |table| table.iter().count());
            let is_missing = |rank: &&Rank| match **rank {
                Rank::WILDCARD => all == 0,
                rank => table.is_none_or(|table| table.with_rank(rank).is_none()),
            };
            if let Some(rank) = ranks.iter().find(is_missing) {
                let why = format!(
                    "rank {rank} of {nspace} is not running, so no processes can be started next to it"
                );
                return Err(Refusal::new(Status::ERR_NOT_FOUND, why));
            }
            num += match ranks.contains(&Rank::WILDCARD) {
                true => all,
                false => ranks.len(),
            };
        }
        Ok(num)
    }

    /// Checks that `--max-spawned` allows this number of additional processes.
    fn check_room(&self, num_procs: u32) -> Result<(), Refusal> {
        let most = self.plan.max_spawned;
        let running = self.jobs.num_spawned();
        let room = usize::try_from(most)
            .unwrap_or(usize::MAX)
            .saturating_sub(running);
        match usize::try_from(num_procs) {
            Ok(num_procs) if num_procs <= room => Ok(()),
            _ => {
                let why = format!(
                    "{num_procs} more processes exceed --max-spawned {most}: {running} spawned processes \
                    already exist"
                );
                Err(Refusal::new(Status::ERR_OUT_OF_RESOURCE, why))
            }
        }
    }

    /// Returns the name of the next job: the name of the first job with another number.
    fn next_nspace(&self) -> String {
        let first = &self.plan.nspace;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (base, number) = match first.rsplit_once('@') {
            Some((base, number)) if is_number(number) => (base, number.parse().unwrap_or(0)),
            _ => (first.as_str(), 1u64),
        };
        let number = number.saturating_add(self.num_named);
        let suffix = format!("@{}", number.saturating_add(self.num_prepared));
        let mut most = base.len().min(Nspace::MAX_LEN - suffix.len());
        while !base.is_char_boundary(most) {
            most -= 1;
        }
        format!("{}{suffix}", &base[..most])
    }

    /// Returns the plan of a spawned job. Settings without a directive are those of the first job.
    fn plan_of(
        &self,
        request: &mut Request,
        nspace: String,
        num_procs: u32,
    ) -> Result<Plan, Refusal> {
        let refused = |error: Error| Refusal::of(&error);
        let layout = Layout::on_one_node(self.plan.layout.host(), num_procs).map_err(refused)?;
        let timeout = [self.time_left(), request.timeout]
            .into_iter()
            .flatten()
            .min();
        let output = output_of(request, &self.plan.output, &nspace).map_err(refused)?;
        Ok(Plan {
            nspace,
            stops: request.debug.stops(&request.apps),
            apps: std::mem::take(&mut request.apps),
            layout,
            output,
            timeout,
            policy: policy_of(request, self.plan.policy),
            cpus: request.cpus.clone().or_else(|| self.plan.cpus.clone()),
            keep_going: (request.keep_going)
                .or_else(|| {
                    request
                        .ends_by_exit_code
                        .filter(|ends| *ends)
                        .map(|_| false)
                })
                .unwrap_or(self.plan.keep_going),
            announce: false,
            stdin_rank: None,
            process_sets: Vec::new(),
            ..(*self.plan).clone()
        })
    }

    /// Returns the rest of the launcher's time limit.
    fn time_left(&self) -> Option<std::time::Duration> {
        let limit = self.plan.timeout?;
        Some(limit.saturating_sub(self.began.elapsed()))
    }
}

/// Returns the refusal of a spawn whose parent is being terminated.
fn being_ended() -> Refusal {
    Refusal::new(Status::ERR_JOB_CANCELED, "it is being terminated")
}

/// Returns the refusal of a spawn after a terminating signal. Processes that start now would miss the signal that all
/// others received.
fn interrupted() -> Refusal {
    let why = "the launcher is terminating its jobs after a signal";
    Refusal::new(Status::ERR_JOB_CANCELED, why)
}

/// Refuses a spawn that must not exceed the number of processors, if it would do so together with the running
/// processes.
pub(super) fn check_processors(
    request: &Request,
    num_procs: u32,
    running: u32,
) -> Result<(), Refusal> {
    if !request.is_within_processors {
        return Ok(());
    }
    let most = node::num_processors();
    if running.saturating_add(num_procs) <= most {
        return Ok(());
    }
    let why = format!(
        "{num_procs} more processes exceed the {most} processors: {running} processes are already running"
    );
    Err(Refusal::new(Status::ERR_JOB_FAILED_TO_MAP, why))
}

/// Returns the destination of the output of a job: that of the request, else that of the first job. Files are in a
/// directory with the name of the job, or contain it in their names, so that no two jobs write to the same files.
/// File names from a pattern follow the pattern.
pub(super) fn output_of(request: &Request, first: &Output, nspace: &str) -> Result<Output, Error> {
    if request.output_dir.is_some() && request.output_file.is_some() {
        let message = "output to a directory and output to a named file cannot be combined";
        return Err(Error::request(message));
    }
    let is_copied = !request.is_in_files_alone.unwrap_or(false);
    let files = match (&request.output_dir, &request.output_file, &first.files) {
        (Some(dir), ..) => Some(OutputFiles {
            dir: dir.join(nspace),
            name: FilePattern::default(),
            is_copied,
        }),
        (None, Some(file), _) if request.is_pattern => {
            let (dir, pattern) = match file.strip_prefix("/") {
                Ok(below) => (PathBuf::from("/"), below),
                Err(_) => (PathBuf::new(), file.as_path()),
            };
            let name = FilePattern::parse(pattern.as_os_str())?;
            Some(OutputFiles {
                dir,
                name,
                is_copied,
            })
        }
        (None, Some(file), _) => {
            let name = file.file_name().ok_or_else(|| {
                let file = file.display();
                Error::request(format!("{file} is not a valid name for output files"))
            })?;
            Some(OutputFiles {
                dir: file.parent().map(Path::to_owned).unwrap_or_default(),
                name: FilePattern::of_one_file(name),
                is_copied,
            })
        }
        (None, None, Some(files)) => Some(OutputFiles {
            dir: files.dir.join(nspace),
            name: files.name.clone(),
            is_copied: (request.is_in_files_alone).map_or(files.is_copied, |is_alone| !is_alone),
        }),
        (None, None, None) => None,
    };
    let form = match (request.tags_output, first.form) {
        _ if request.has_detailed_tags => OutputForm::Detailed,
        (Some(true), _) => OutputForm::Tagged,
        (Some(false), OutputForm::Tagged) => OutputForm::Unmixed,
        (_, form) => form,
    };
    Ok(Output {
        form,
        is_merged: request.is_merged.unwrap_or(first.is_merged),
        files,
    })
}

/// Returns the placement policy of a job: that of the request, else that of the first job.
pub(super) fn policy_of(request: &Request, first: Policy) -> Policy {
    let map_by = request.map_by.unwrap_or(first.map_by);
    // As on the command line, mapping by a part of the node also binds to it.
    let named = match (request.map_by, request.cores_each) {
        (_, Some(_)) => Some(Some(Level::Core)),
        (Some(MapBy::Level(level)), None) if level != Level::Node => Some(Some(level)),
        (Some(_), None) => Some(None),
        // An explicit CPU list implies binding to it.
        (None, None) => request.cpus.as_ref().map(|_| Some(Level::Node)),
    };
    Policy {
        map_by,
        bind_to: request.bind_to.or(named).unwrap_or(first.bind_to),
        parts_each: request.cores_each.unwrap_or(first.parts_each),
        procs_each: match (request.procs_each, request.map_by) {
            (Some(each), _) => each,
            (None, Some(_)) => 1,
            (None, None) => first.procs_each,
        },
        // PPR specifies an exact number of processes for each part.
        strict: request.procs_each.is_some() && request.bind_to != Some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_goes_to_one_kind_of_files_and_alone_where_that_is_asked_for() {
        let files = OutputFiles {
            dir: "out".into(),
            name: FilePattern::default(),
            is_copied: true,
        };
        let first = Output {
            files: Some(files),
            ..Output::default()
        };
        let is_copied = |is_in_files_alone| {
            let mut request = Request::default();
            request.is_in_files_alone = is_in_files_alone;
            let files = output_of(&request, &first, "job@2").unwrap().files.unwrap();
            assert_eq!(files.dir, Path::new("out/job@2"));
            files.is_copied
        };
        let asked = [None, Some(true), Some(false)];
        assert_eq!(asked.map(is_copied), [true, false, true]);
        let mut both = Request::default();
        both.output_dir = Some("dir".into());
        both.output_file = Some("file".into());
        let error = output_of(&both, &first, "job@2").unwrap_err();
        assert!(error.to_string().contains("cannot be combined"), "{error}");
    }
}
