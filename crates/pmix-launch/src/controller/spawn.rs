// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spawn requests of processes and tools (`PMIx_Spawn`).

use std::sync::Arc;
use std::time::Instant;

use pmix_server::Completion;
use pmix_server::upcall::Spawn;
use pmix_types::{Info, Nspace, Proc, Rank, Status, keys};

use super::debug_request::without_daemons;
use super::events::{notify_failed_start, notify_refused};
use super::job::Origin;
use super::request::{Refusal, Request};
use super::spawn_hosts::{check_processors, num_nodes_beside};
use super::spawn_plan::policy_of;
use super::spawn_queue::{AskedSpawn, NamedSpawn, PendingSpawn, Readied};
use super::start::show;
use super::{Controller, Cx};
use crate::agent::{JobSettings, NewJob};
use crate::named::Named;
use crate::preparation::{JobPlace, Preparation, Prepared};
use crate::process;
use crate::{Error, service};

impl Controller {
    /// Queues a spawn request. A launcher that waits for its release starts its own job first.
    pub(crate) fn queue_spawn(
        &mut self,
        cx: &Cx<'_>,
        call: Spawn,
        done: Completion<Nspace<'static>>,
    ) {
        let asked = Instant::now();
        let start_by = self.tool_wait.as_ref().and_then(|_| {
            // Other errors of the request are reported when the job is to be started.
            let request = Request::of(&call, cx.plan.layout.host()).ok()?;
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
            layout: None,
        };
        self.spawning.queue().ask(AskedSpawn { call, spawn });
    }

    /// Refuses the spawns whose time limit passed, and those of jobs that are being terminated. Returns the time for
    /// the next call.
    pub(crate) fn refuse_late(&mut self, cx: &mut Cx<'_>, now: Instant) -> Option<Instant> {
        let jobs = &self.jobs;
        let is_ending = |spawn: &PendingSpawn| {
            let parent = jobs.named(&spawn.asker.nspace);
            parent.is_some_and(|parent| parent.stop.is_ending())
        };
        let is_late = |spawn: &PendingSpawn| spawn.start_by.is_some_and(|start_by| start_by <= now);
        // A job whose processes are being started gets the signals of its termination like any other job.
        let queue = self.spawning.queue();
        let cancelled = queue.take_unstarted(is_ending);
        let late = queue.take(is_late);
        for spawn in cancelled {
            self.refuse(cx, spawn, being_ended());
        }
        if self.jobs.are_interrupted() {
            for spawn in self.spawning.queue().take_unstarted(|_| true) {
                self.refuse(cx, spawn, interrupted());
            }
        }
        for spawn in late {
            self.refuse(cx, spawn, Refusal::of(&Error::late()));
        }
        self.spawning.deadline()
    }

    /// Drops the spawns of a tool that disconnected: no peer waits for their replies.
    pub(crate) fn drop_waiting_of(&mut self, cx: &mut Cx<'_>, asker: &Proc<'_>) {
        for mut spawn in self.spawning.queue().take(|spawn| spawn.asker == *asker) {
            self.give_up_jobs(cx, &mut spawn);
        }
    }

    /// Refuses all queued spawns because all jobs are being terminated.
    pub(crate) fn refuse_waiting(&mut self, cx: &mut Cx<'_>) {
        for mut spawn in self.spawning.queue().take(|_| true) {
            let status = Status::ERR_JOB_CANCELED;
            let server = service::name(&cx.plan);
            let why = "all jobs are being terminated";
            notify_refused(&cx.agent, &server, status, &spawn.asker, why);
            self.give_up_jobs(cx, &mut spawn);
            spawn.done.fail(status);
        }
    }

    /// Starts the next job that is ready, and lets a thread prepare the next requested one. Each call handles one, so
    /// that other work gets its turn.
    pub(crate) fn start_waiting(&mut self, cx: &mut Cx<'_>) {
        if let Some((spawn, readied)) = self.spawning.queue().next_ready() {
            self.start_ready(cx, spawn, readied);
        }
        if let Some(AskedSpawn { call, mut spawn }) = self.spawning.next_asked() {
            let call = without_daemons(call);
            spawn.daemons = call.1;
            self.prepare_spawn(cx, call.0, spawn);
        }
    }

    /// Reads a request, and lets a helper thread prepare its job.
    fn prepare_spawn(&mut self, cx: &mut Cx<'_>, call: Spawn, mut spawn: PendingSpawn) {
        spawn.layout = None;
        let mut request = match self.read_spawn(cx, &call, &mut spawn) {
            Ok(request) => Box::new(request),
            Err(refusal) => return self.refuse(cx, spawn, refusal),
        };
        if !request.has_hostfiles() {
            return self.prepare_on_nodes(cx, request, spawn);
        }
        let read = self.spawning.prepare(spawn, move |_| {
            let read = request.read_hostfiles();
            Readied::HostsRead(request, read)
        });
        if let Err(refused) = read {
            let (spawn, error) = *refused;
            let refusal = Refusal::new(error.status(), error.to_string());
            self.refuse(cx, spawn, refusal);
        }
    }

    /// Lays out a job over its nodes, and lets a helper thread prepare its part on this node.
    fn prepare_on_nodes(
        &mut self,
        cx: &mut Cx<'_>,
        request: Box<Request>,
        mut spawn: PendingSpawn,
    ) {
        let layout = self.lay_out(cx, &request);
        let layout = layout.and_then(|layout| {
            check_processors(cx, &request, &layout)?;
            Ok(layout)
        });
        let num_here = match layout {
            Ok(layout) => spawn.layout.insert(layout).here().len(),
            Err(refusal) => return self.refuse(cx, spawn, refusal),
        };
        let environment = Arc::clone(&cx.plan.environment);
        let policy = policy_of(&request, cx.plan.policy);
        let cpus = request.cpus.clone().or_else(|| cx.plan.cpus.clone());
        let allowed = process::allowed();
        let prepared = self.spawning.prepare(spawn, move |cancel| {
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
        if let Err(refused) = prepared {
            let (spawn, error) = *refused;
            let refusal = Refusal::new(error.status(), error.to_string());
            self.refuse(cx, spawn, refusal);
        }
    }

    /// Takes the next step for a prepared job: place it, start it, or report its failure.
    fn start_ready(&mut self, cx: &mut Cx<'_>, spawn: PendingSpawn, readied: Option<Readied>) {
        let refusal = match readied {
            Some(Readied::Prepared(request, Ok(prepared))) => {
                return self.place_spawn(cx, request, prepared, spawn);
            }
            Some(Readied::HostsRead(request, Ok(()))) => {
                return self.prepare_on_nodes(cx, request, spawn);
            }
            Some(Readied::HostsRead(_, Err(refusal))) => refusal,
            Some(Readied::Placed(named, Ok(place))) => {
                return self.start_spawned(cx, *named, place, spawn);
            }
            Some(Readied::Prepared(_, Err(error)) | Readied::Placed(_, Err(error))) => {
                Refusal::of(&error)
            }
            None => Refusal::new(
                Status::ERR_JOB_FAILED_TO_LAUNCH,
                "the thread that prepared the job panicked",
            ),
        };
        self.refuse(cx, spawn, refusal);
    }

    /// Prepares the debugger daemons of a started job, or completes the spawn.
    pub(crate) fn finish_spawn(
        &mut self,
        cx: &mut Cx<'_>,
        nspace: Nspace<'static>,
        mut spawn: PendingSpawn,
    ) {
        spawn.starting = None;
        match spawn.daemons.take() {
            Some(mut daemons) => {
                let target = Proc::new(nspace.clone(), Rank::WILDCARD);
                daemons.infos.push(Info::new(keys::DEBUG_TARGET, target));
                spawn.started = Some(nspace);
                self.prepare_spawn(cx, daemons, spawn);
            }
            // With debugger daemons, the name in the reply is that of the application's job.
            None => spawn.done.succeed(spawn.started.unwrap_or(nspace)),
        }
    }

    /// Refuses a spawn: raises the event, logs the reason, and fails the request.
    pub(crate) fn refuse(&mut self, cx: &mut Cx<'_>, mut spawn: PendingSpawn, refusal: Refusal) {
        let Refusal { status, why } = refusal;
        self.give_up_jobs(cx, &mut spawn);
        let server = service::name(&cx.plan);
        notify_refused(&cx.agent, &server, status, &spawn.asker, &why);
        let who = cx.identify(&spawn.asker);
        cx.warn(format!("PMIx_Spawn from {who} was rejected: {why}"));
        spawn.done.fail(status);
    }

    /// Reads a spawn request, and refuses it if that is possible before its preparation.
    fn read_spawn(
        &self,
        cx: &Cx<'_>,
        call: &Spawn,
        spawn: &mut PendingSpawn,
    ) -> Result<Request, Refusal> {
        // Each application has at least one process and takes effort to prepare, so their number is checked first.
        self.check_room(cx, u32::try_from(call.apps.len()).unwrap_or(u32::MAX))?;
        let mut request = Request::of(call, cx.plan.layout.host())?;
        spawn.debug_target = self.place_daemons(cx, &mut request)?;
        spawn.start_by = request
            .spawn_timeout
            .and_then(|limit| spawn.asked.checked_add(limit));
        let num_nodes = num_nodes_beside(cx, &request.beside);
        request.count_beside(num_beside(cx, &request.beside)?, num_nodes)?;
        let num_procs = request.num_procs()?;
        self.check_spawn(cx, &request, num_procs, spawn)?;
        if request.needs_forwarding && !cx.plan.forward_io {
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
        cx: &Cx<'_>,
        request: &Request,
        num_procs: u32,
        spawn: &PendingSpawn,
    ) -> Result<(), Refusal> {
        let parent = self.jobs.named(&spawn.asker.nspace);
        if parent.is_some_and(|parent| parent.stop.is_ending()) {
            return Err(being_ended());
        }
        if self.jobs.are_interrupted() {
            return Err(interrupted());
        }
        if request.is_late(spawn.asked, Instant::now()) {
            return Err(Refusal::of(&Error::late()));
        }
        self.check_room(cx, num_procs)?;
        self.check_depth(cx, &spawn.asker)?;
        match &spawn.layout {
            Some(layout) => check_processors(cx, request, layout),
            None => Ok(()),
        }
    }

    /// Names a prepared job, and lets a helper thread create its directory and open its files.
    fn place_spawn(
        &mut self,
        cx: &mut Cx<'_>,
        request: Box<Request>,
        prepared: Prepared,
        spawn: PendingSpawn,
    ) {
        let named = match self.name_spawn(cx, request, prepared, &spawn) {
            Ok(Some(named)) => Box::new(named),
            Ok(None) => {
                // A job that is only prepared uses a number of its own.
                let nspace = Nspace::new(self.spawning.next_nspace(&cx.plan.nspace));
                self.spawning.count_prepared();
                return self.finish_spawn(cx, nspace, spawn);
            }
            Err(refusal) => return self.refuse(cx, spawn, refusal),
        };
        let make = cx
            .agent
            .placing(Arc::clone(&named.plan), Some(named.number));
        let prepared = (self.spawning).prepare(spawn, move |cancel| {
            let place = make(cancel);
            Readied::Placed(named, place)
        });
        if let Err(refused) = prepared {
            let (spawn, error) = *refused;
            let refusal = Refusal::new(error.status(), error.to_string());
            self.refuse(cx, spawn, refusal);
        }
    }

    /// Returns a job with its name. A job that is only to be prepared is displayed instead, and `None` is returned.
    fn name_spawn(
        &mut self,
        cx: &mut Cx<'_>,
        mut request: Box<Request>,
        prepared: Prepared,
        spawn: &PendingSpawn,
    ) -> Result<Option<NamedSpawn>, Refusal> {
        let num_procs = request.num_procs()?;
        self.check_spawn(cx, &request, num_procs, spawn)?;
        let nspace = self.spawning.next_nspace(&cx.plan.nspace);
        let layout = spawn.layout.clone();
        let layout = layout.ok_or_else(|| Refusal::bad("a job without a layout"))?;
        let plan = self.plan_of(cx, &mut request, nspace, layout)?;
        if request.is_only_prepared {
            let lines = request.display.lines(&plan, &prepared.bound);
            show(cx, &lines);
            return Ok(None);
        }
        let number = self.spawning.take_number();
        Ok(Some(NamedSpawn {
            request,
            num_procs,
            prepared,
            plan: Arc::new(plan),
            number,
        }))
    }

    /// Registers a job, and begins the start of its processes.
    fn start_spawned(
        &mut self,
        cx: &mut Cx<'_>,
        named: NamedSpawn,
        place: JobPlace,
        mut spawn: PendingSpawn,
    ) {
        // The conditions may have changed while the directory was created.
        if let Err(refusal) = self.check_spawn(cx, &named.request, named.num_procs, &spawn) {
            return self.refuse(cx, spawn, refusal);
        }
        let nspace = Nspace::new(named.plan.nspace.clone()).to_shared();
        // The request is split between the controller and the agent, which takes the rest of it.
        let origin = self.origin_of(&named.request, &spawn);
        let display = named.request.display;
        let job = self.new_job(named, place, &spawn);
        match self.start_job(cx, job, Some(origin), display) {
            Ok(()) => {
                spawn.starting = Some(nspace);
                self.spawning.queue().start(spawn);
            }
            Err(error) => self.refuse(cx, spawn, Refusal::of(&error)),
        }
    }

    /// Returns the settings of a spawned job that concern the controller.
    fn origin_of(&self, request: &Request, spawn: &PendingSpawn) -> Origin {
        let parent = self.jobs.named(&spawn.asker.nspace);
        let parent = parent.and_then(|parent| parent.origin.as_ref());
        let is_reported_apart = parent.is_some_and(|parent| parent.reports_children_apart);
        Origin {
            is_reported_apart,
            depth: self.depth_below(&spawn.asker),
            // The setting applies to all descendants.
            reports_children_apart: is_reported_apart || request.reports_children_apart,
            max_restarts: request.max_restarts.unwrap_or(0),
            parent: spawn.asker.clone(),
            spares_exit_codes: request.ends_by_exit_code == Some(false),
            is_separate: request.is_separate == Some(true),
            ends_with_parent: request.is_separate == Some(false),
        }
    }

    /// Returns a spawned job with the settings that concern the agent.
    fn new_job(&self, named: NamedSpawn, place: JobPlace, spawn: &PendingSpawn) -> NewJob {
        let NamedSpawn {
            request,
            prepared,
            plan,
            number,
            ..
        } = named;
        NewJob {
            plan,
            settings: JobSettings {
                number: Some(number),
                parent: Some(spawn.asker.clone()),
                offset: self.spawning.num_procs(),
                debug_target: spawn.debug_target.clone(),
                for_launcher: request.for_launcher,
                preput: request.preput,
                shows_progress: request.shows_progress,
                form: request.form,
                reader: request.reader,
            },
            prepared,
            place,
        }
    }

    /// Terminates the jobs that were started for a spawn that is given up.
    fn give_up_jobs(&mut self, cx: &mut Cx<'_>, spawn: &mut PendingSpawn) {
        // Debugger daemons first: they are attached to the processes of the other job.
        for nspace in [spawn.starting.take(), spawn.started.take()]
            .into_iter()
            .flatten()
        {
            self.give_up(cx, &nspace);
        }
    }

    /// Terminates a job that could not be started completely.
    fn give_up(&mut self, cx: &mut Cx<'_>, nspace: &Nspace<'_>) {
        if let Some(index) = self.jobs.place(nspace).filter(|index| *index > 0) {
            if let Some(job) = self.jobs.get(index) {
                notify_failed_start(&cx.agent, job);
            }
            self.dismiss(cx, index);
        }
    }

    /// Returns the number of spawns between the first job and a job that a process spawns.
    fn depth_below(&self, asker: &Proc<'_>) -> u32 {
        let parent = self.jobs.named(&asker.nspace);
        let parent = parent.and_then(|parent| parent.origin.as_ref());
        parent.map_or(0, |origin| origin.depth).saturating_add(1)
    }

    /// Checks that `--max-spawn-depth` allows a spawn of a process.
    fn check_depth(&self, cx: &Cx<'_>, asker: &Proc<'_>) -> Result<(), Refusal> {
        let (depth, most) = (self.depth_below(asker), cx.plan.max_spawn_depth);
        match depth <= most {
            true => Ok(()),
            false => {
                let why = format!(
                    "its job would be at depth {depth} of nested spawns, beyond --max-spawn-depth {most}"
                );
                Err(Refusal::new(Status::ERR_OUT_OF_RESOURCE, why))
            }
        }
    }

    /// Checks that `--max-spawned` allows this number of additional processes.
    fn check_room(&self, cx: &Cx<'_>, num_procs: u32) -> Result<(), Refusal> {
        let most = cx.plan.max_spawned;
        let running = cx.agent.jobs().num_spawned();
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

/// Returns the number of distinct processes of this session in the list; the wildcard denotes all of a job.
fn num_beside(cx: &Cx<'_>, procs: &[Proc<'_>]) -> Result<usize, Refusal> {
    let mut num = 0;
    for (nspace, ranks) in Named::of(procs).iter() {
        let job = cx.agent.job(&nspace);
        let all = job.map_or(0, |job| job.processes().count());
        let is_missing = |rank: &&Rank| match **rank {
            Rank::WILDCARD => all == 0,
            rank => job.is_none_or(|job| job.process(rank).is_none()),
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
