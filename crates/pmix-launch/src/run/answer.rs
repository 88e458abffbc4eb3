// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replies to the upcalls of the server.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use pmix_server::upcall::{Abort, PushStdin, SessionControl, Spawn};
use pmix_server::{Collective, Completion};
use pmix_types::{Info, Nspace, Proc, Rank, Status, Value, keys};

use super::job::Named;
use super::log::Outlets;
use super::session::Session;
use super::support;
use super::tool_wait::WaitEnd;
use crate::host::HostMessage;
use crate::input::{self, Answer};
use crate::process::Link;
use crate::{Cause, Error};

/// The time for which messages are handled before signals, time limits and output get their turn.
const ANSWERING: Duration = Duration::from_millis(20);

/// The largest number of characters of an abort message: it is printed in one line and sent to tools.
const MAX_REASON: usize = 4096;

/// The time that the server has for requests that processes sent before they ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

impl Session<'_> {
    /// Drives the server and handles its upcalls until there are no more. Clients that never stop sending requests
    /// are left for the next turn.
    pub(super) fn serve(&mut self) {
        let until = Instant::now() + LAST_WORDS;
        loop {
            let now = Instant::now();
            match self.server.drive(now) {
                Err(e) => return tracing::error!("the server failed: {e}"),
                // The server stopped at its own limit with input left to read.
                Ok(Some(again)) if again <= now && now < until => {
                    self.read_messages();
                    continue;
                }
                Ok(_) => {}
            }
            if !self.read_messages() || Instant::now() >= until {
                return;
            }
        }
    }

    /// Waits for work of the server until the given time and handles a bounded share of it. Returns `true` if the
    /// poll reported an event that is not for the server.
    ///
    /// # Errors
    /// Returns [`Error`] if the server failed.
    pub(super) fn wait_and_serve(&mut self, until: Option<Instant>) -> Result<bool, Error> {
        let cannot = |e| Error::server("the server failed", e);
        let news = self.server.turn(until).map_err(cannot)?;
        if self.read_messages() {
            // Drive once more, so that the replies are sent now and not in the next turn.
            self.server.drive(Instant::now()).map_err(cannot)?;
            self.read_messages();
        }
        Ok(news)
    }

    /// Handles waiting messages for a bounded time. Returns `true` if there were any.
    fn read_messages(&mut self) -> bool {
        let until = Instant::now() + ANSWERING;
        let mut any = false;
        self.answer_early();
        while let Some(message) = self.messages.next() {
            any = true;
            match self.is_early(&message) {
                true => self.early.push(message),
                false => self.answer(message),
            }
            if Instant::now() >= until {
                break;
            }
        }
        any
    }

    /// Handles the messages whose processes were added to the table of their job meanwhile.
    pub(super) fn answer_early(&mut self) {
        if self.early.is_empty() {
            return;
        }
        for message in std::mem::take(&mut self.early) {
            match self.is_early(&message) {
                true => self.early.push(message),
                false => self.answer(message),
            }
        }
    }

    /// Returns `true` if a process sent the message before the thread that started it has reported the start. The
    /// table does not have the process then, or has its predecessor.
    fn is_early(&self, message: &HostMessage) -> bool {
        let Some(proc) = message.source().filter(|_| self.starters.are_busy()) else {
            return false;
        };
        let job = self.jobs.named(&proc.nspace);
        let is_awaited = job.is_some_and(|job| {
            job.table.is_incomplete() && job.table.with_rank(proc.rank).is_none()
        });
        is_awaited || self.restarts.is_starting(proc)
    }

    fn answer(&mut self, message: HostMessage) {
        if let Err(error) = support::check(&message) {
            tracing::warn!("{error}");
            return message.fail(error.status());
        }
        match message {
            HostMessage::Connected(proc) => {
                tracing::info!("rank {} of {} has initialized", proc.rank, proc.nspace);
                self.linked(&proc, Link::Connected);
            }
            HostMessage::Finalized(proc) => {
                tracing::info!("rank {} of {} has finalized", proc.rank, proc.nspace);
                self.linked(&proc, Link::Finalized);
            }
            HostMessage::ToolLeft(proc) => self.tool_left(&proc),
            HostMessage::Abort(call, done) => {
                // The reply goes out first: the abort may terminate the caller.
                done.succeed(());
                self.abort(&call);
            }
            HostMessage::Publish(call, done) => self.published.publish(&call, done),
            HostMessage::Lookup(call, done) => self.published.lookup(&call, done),
            HostMessage::Unpublish(call, done) => self.published.unpublish(&call, done),
            HostMessage::Query(call, done) => {
                self.answer_query(call, done);
            }
            HostMessage::GetCredential(call, done) => self.credentials.get(&call, done),
            HostMessage::ValidateCredential(call, done) => {
                self.credentials.validate(&call, done);
            }
            HostMessage::Monitor(call, done) => self.monitor(call, done),
            HostMessage::JobControl(call, done) => match self.control(&call) {
                Status::SUCCESS => done.succeed(Vec::new()),
                status => done.fail(status),
            },
            HostMessage::SessionControl(call, done) => match self.control_session(&call) {
                Status::SUCCESS => done.succeed(names_of_request(&call)),
                status => done.fail(status),
            },
            HostMessage::Missing(failed) => {
                self.warn_of_missing(failed.operation, failed.status, &failed.missing);
                // A request that names jobs which do not exist is rejected, so no group was under construction.
                if self.stranger(&failed.procs).is_none() {
                    self.groups.failed(failed);
                }
            }
            HostMessage::Fence(call, done) => match self.exist(Collective::Fence, &call.procs) {
                true => done.succeed(call.data),
                false => done.fail(Status::ERR_NOT_FOUND),
            },
            HostMessage::Connect(call, done) => {
                match self.exist(Collective::Connect, &call.procs) {
                    true => {
                        if call.failed.is_none() {
                            self.connected.connect(&call.procs);
                        }
                        done.succeed(());
                    }
                    false => done.fail(Status::ERR_NOT_FOUND),
                }
            }
            HostMessage::Disconnect(call, done) => {
                match self.exist(Collective::Disconnect, &call.procs) {
                    true => {
                        self.connected.disconnect(&call.procs);
                        done.succeed(());
                    }
                    false => done.fail(Status::ERR_NOT_FOUND),
                }
            }
            HostMessage::Spawn(call, done) => match self.check_parent(&call) {
                Ok(()) => self.spawn_later(call, done),
                Err(status) => done.fail(status),
            },
            HostMessage::Group(call, done) => self.group(&call, done),
            HostMessage::GroupChanged(name, change) => self.groups.changed(name, change),
            HostMessage::CleanupRegistered(target, uid, cleanup) => {
                self.begun_removals.register(&target, uid, &cleanup);
                self.watcher.remove_later(&target, uid, &cleanup);
                // The files may exist already, and the launcher may be killed before its turn ends.
                self.watcher.flush();
            }
            HostMessage::Cleanup(target, uid, cleanup) => {
                self.begun_removals.begin(&target, uid);
                self.removals.clean(cleanup, target, uid, &self.protected);
            }
            HostMessage::IofPull(call, done) => match self.has_any(&call.procs) {
                true => done.succeed(()),
                false => done.fail(Status::ERR_NOT_FOUND),
            },
            HostMessage::PushStdin(call, done) => self.push_input(call, done),
            HostMessage::Debugger(call) => self.debugger_event(&call),
            HostMessage::Log(call, done) => {
                let job = self
                    .jobs
                    .named(&call.proc.nspace)
                    .or_else(|| self.jobs.get(0));
                let form = job
                    .map(|job| job.form_of(call.proc.rank))
                    .unwrap_or_default();
                let who = self.called(&call.proc);
                let outlets = Outlets {
                    forward: &mut self.forward,
                    syslog: &self.plan.syslog,
                };
                for fault in self.logs.log(call, form, done, outlets) {
                    let line = format!("PMIx_Log from {who} was rejected: {fault}");
                    self.missing.warn_of(line, Instant::now());
                }
            }
            HostMessage::Refused(proc, what) => {
                let who = self.called(&proc);
                let line = format!("{who} asked to {what}, which pmix run does not support");
                self.missing.warn_of(line, Instant::now());
            }
        }
    }

    /// Checks the parent that a spawn names (`PMIX_PARENT_ID`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if it is not a process, and `PMIX_ERR_NOT_FOUND` if the session has no such
    /// process.
    fn check_parent(&mut self, call: &Spawn) -> Result<(), Status> {
        let Some(info) = call.infos.iter().find(|info| info.key.is(keys::PARENT_ID)) else {
            return Ok(());
        };
        let who = self.called(&call.proc);
        let (refused, why) = match &info.value {
            Value::Proc(parent) if *parent == call.proc || self.jobs.process(parent).is_some() => {
                return Ok(());
            }
            Value::Proc(parent) => {
                let named = format!(
                    "PMIX_PARENT_ID names rank {} of {}, which is not a process of this session",
                    parent.rank, parent.nspace
                );
                (Status::ERR_NOT_FOUND, named)
            }
            _ => {
                let kind = "the value of PMIX_PARENT_ID is not of the type PMIX_PROC";
                (Status::ERR_BAD_PARAM, kind.to_owned())
            }
        };
        let line = format!("PMIx_Spawn from {who} was rejected: {why}");
        self.missing.warn_of(line, Instant::now());
        Err(refused)
    }

    /// Passes pushed input to its targets: processes of spawned jobs that requested input, otherwise the reading rank
    /// of the first job.
    fn push_input(&mut self, call: PushStdin, done: Completion<()>) {
        let named = Named::of(&call.targets);
        let jobs = self.jobs.iter();
        let is_pushed = { jobs }.any(|job| job.pushed.has(|rank| named.has(&job.nspace, rank)));
        if !is_pushed {
            let first = Nspace::new(self.plan.nspace.as_str());
            let is_for_first = named.ranks(&first).is_some();
            return match is_for_first || call.targets.is_empty() {
                true => self.input.push(&self.plan, call, done),
                false => done.fail(Status::ERR_NOT_FOUND),
            };
        }
        let (ends, answer) = (input::ends(&call), Answer::new(done));
        let data = call.data.into();
        for job in self.jobs.iter_mut() {
            let nspace = &job.nspace;
            (job.pushed).push(|rank| named.has(nspace, rank), &data, ends, &answer);
        }
    }

    /// Warns of participants that the others wait for, unless the session is being terminated.
    fn warn_of_missing(&mut self, operation: Collective, status: Status, missing: &[Proc<'_>]) {
        if self.cause.is_none() {
            let host = String::from_utf8_lossy(self.plan.layout.host());
            self.missing
                .warn(&host, operation, status, missing, Instant::now());
        }
    }

    fn linked(&mut self, proc: &Proc<'_>, link: Link) {
        if let Some(process) = self.jobs.process(proc) {
            process.link = link;
        }
    }

    /// Drops the data, monitors and waiting requests of a tool, which is a job of its own.
    fn tool_left(&mut self, proc: &Proc<'_>) {
        if let Some(wait) = &mut self.tool_wait {
            wait.tool_left(proc);
        }
        if self.jobs.named(&proc.nspace).is_none() {
            self.published.proc_ended(proc);
            self.published.job_ended(&proc.nspace);
            self.monitors.job_ended(&proc.nspace);
            self.drop_waiting_of(proc);
        }
    }

    /// Returns `true` if the jobs of all participants exist.
    pub(super) fn exist(&self, operation: Collective, procs: &[Proc<'_>]) -> bool {
        let stranger = self.stranger(procs);
        if let Some(proc) = stranger {
            let (nspace, rank) = (&proc.nspace, proc.rank);
            tracing::warn!(%operation, %nspace, %rank, "a participant that does not exist");
        }
        stranger.is_none()
    }

    /// Returns the first process whose job does not exist. Each job is looked up once: a list may name its processes
    /// in any order, and there may be many jobs.
    fn stranger<'p, 'n>(&self, procs: &'p [Proc<'n>]) -> Option<&'p Proc<'n>> {
        let mut known = HashSet::new();
        let runs = procs.chunk_by(|a, b| a.nspace == b.nspace);
        let mut firsts = runs.filter_map(<[_]>::first);
        firsts.find(|proc| {
            known.insert(proc.nspace.as_bytes()) && self.jobs.named(&proc.nspace).is_none()
        })
    }

    /// Returns `true` if one of the listed processes exists. A process without an nspace denotes all jobs.
    fn has_any(&self, procs: &[Proc<'_>]) -> bool {
        // Each job is looked up and counted once, even if the list repeats it.
        let mut sizes = HashMap::new();
        procs.iter().any(|proc| {
            let size = *sizes.entry(proc.nspace.as_bytes()).or_insert_with(|| {
                let job = self.jobs.named(&proc.nspace)?;
                let counts = job.plan.apps.iter().map(|app| u64::from(app.num_procs));
                Some(counts.sum::<u64>())
            });
            let has_rank =
                |size| proc.rank == Rank::WILDCARD || u64::from(proc.rank.as_raw()) < size;
            proc.nspace.is_invalid() || size.is_some_and(has_rank)
        })
    }

    /// Returns the name of a process for messages: its rank alone if it belongs to the first job.
    pub(super) fn called(&self, proc: &Proc<'_>) -> String {
        let Proc { nspace, rank } = proc;
        match nspace.as_bytes() == self.plan.nspace.as_bytes() {
            true => format!("rank {rank}"),
            false => format!("rank {rank} of {nspace}"),
        }
    }

    /// Handles `PMIx_Abort`. The jobs of all targets and that of the caller fail: they cannot continue without the
    /// targets.
    fn abort(&mut self, call: &Abort) {
        let mut targets = call.targets.iter();
        let is_own = call.targets.is_empty()
            || targets.any(|proc| proc.nspace.as_bytes() == self.plan.nspace.as_bytes());
        if let Some(wait) = self.tool_wait.as_mut().filter(|_| is_own) {
            // The job was not started yet, so only the wait ends.
            return wait.set(WaitEnd::Aborted);
        }
        let now = Instant::now();
        self.collect_before_abort(&call.proc, now);
        let message = call.message.as_ref();
        let said = message.map_or_else(String::new, |text| text.to_str_lossy().into_owned());
        let cause = Cause::Aborted {
            rank: call.proc.rank,
            status: call.status.as_raw(),
            message: said.chars().take(MAX_REASON).collect(),
        };
        // Repeated calls of a process are reported to others only once.
        let job = self
            .jobs
            .iter_mut()
            .find(|job| job.nspace == call.proc.nspace);
        let process = job.and_then(|job| job.table.of_rank(call.proc.rank));
        let is_first =
            process.is_none_or(|process| !std::mem::replace(&mut process.has_aborted, true));
        if is_first {
            let code = i32::from(cause.exit_code());
            let aborted = Status::ERR_PROC_REQUESTED_ABORT;
            self.tell_of_process(aborted, &call.proc, Some(code), Some(cause.to_string()));
        }
        for index in 0..self.jobs.len() {
            let is_meant = |nspace: &Nspace<'_>| {
                call.proc.nspace == *nspace
                    || call.targets.iter().any(|proc| proc.nspace == *nspace)
            };
            if self
                .jobs
                .get(index)
                .is_some_and(|job| is_meant(&job.nspace))
            {
                self.fail(index, cause.clone(), now);
            }
        }
        self.spread_failures(now);
    }
}

/// Returns the ids that a session control request carries (`PMIX_SESSION_CTRL_ID`), for the reply.
fn names_of_request(call: &SessionControl) -> Vec<Info<'static>> {
    let is_name = |info: &&Info<'_>| info.key.is(keys::SESSION_CTRL_ID);
    let names = call.directives.iter().filter(is_name);
    names
        .map(|info| Info::new(keys::SESSION_CTRL_ID, info.value.clone()))
        .collect()
}
