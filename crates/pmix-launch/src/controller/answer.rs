// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replies to the upcalls of the server.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use pmix_server::upcall::{Abort, DirectModex, SessionControl, Spawn};
use pmix_server::{Collective, Completion};
use pmix_types::{GroupOperation, Info, Nspace, Proc, Rank, Status, Value, keys};
use rustix::process::geteuid;

use super::events::notify_of_process;
use super::support;
use super::tool_wait::WaitEnd;
use super::{Controller, Cx};
use crate::agent::number_of;
use crate::host::{Failed, HostMessage};
use crate::{Cause, Error};

/// Passes a request for data to the node of its process.
fn direct_modex(cx: &mut Cx<'_>, call: &DirectModex, done: Completion<Vec<u8>>) {
    let DirectModex { proc, infos, .. } = call;
    if let Some(place) = cx.agent.node_of(proc) {
        let done = Box::new(move |result| done.complete(result));
        return cx.agent.modex_at_node(place, proc, infos, done);
    }
    let job = cx.agent.job(&proc.nspace);
    let is_here = job.is_some_and(|job| job.plan().layout.here().binary_search(&proc.rank).is_ok());
    match is_here && cx.plan.has_agents() {
        true => {
            let done = Box::new(move |result| done.complete(result));
            cx.agent.modex_here(proc, infos, done);
        }
        // A process that is only described never commits data.
        false => {
            tracing::debug!("{proc:?} was not started, so its data is not available");
            done.fail(Status::ERR_NOT_FOUND);
        }
    }
}

/// The time for which messages are handled before signals, time limits and output get their turn.
const ANSWERING: Duration = Duration::from_millis(20);

/// The largest number of characters of an abort message: it is printed in one line and sent to tools.
const MAX_REASON: usize = 4096;

/// The time that the server has for requests that processes sent before they ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

impl Controller {
    /// Drives the server and handles its upcalls until there are no more. Clients that never stop sending requests
    /// are left for the next turn.
    pub(crate) fn serve(&mut self, cx: &mut Cx<'_>) {
        let until = Instant::now() + LAST_WORDS;
        loop {
            let now = Instant::now();
            match cx.agent.drive(now) {
                Err(e) => return tracing::error!("{e}"),
                // The server stopped at its own limit with input left to read.
                Ok(Some(again)) if again <= now && now < until => {
                    self.handle_upcalls(cx);
                    continue;
                }
                Ok(_) => {}
            }
            if !self.handle_upcalls(cx) || Instant::now() >= until {
                return;
            }
        }
    }

    /// Waits for work of the server until the given time and handles a bounded share of it. Returns `true` if the
    /// poll reported an event that is not for the server.
    ///
    /// # Errors
    /// Returns [`Error`] if the server failed.
    pub(crate) fn wait_and_serve(
        &mut self,
        cx: &mut Cx<'_>,
        until: Option<Instant>,
    ) -> Result<bool, Error> {
        let has_events = cx.agent.wait(until)?;
        if self.handle_upcalls(cx) {
            // Drive once more, so that the replies are sent now and not in the next turn.
            cx.agent.drive(Instant::now())?;
            self.handle_upcalls(cx);
        }
        Ok(has_events)
    }

    /// Handles waiting upcalls for a bounded time. Returns `true` if there were any.
    fn handle_upcalls(&mut self, cx: &mut Cx<'_>) -> bool {
        let until = Instant::now() + ANSWERING;
        let mut any = false;
        while let Some(message) = cx.agent.next_upcall() {
            any = true;
            self.handle_upcall(cx, message);
            // A client that sends requests without end must not hold up signals and time limits.
            if Instant::now() >= until {
                break;
            }
        }
        any
    }

    fn handle_upcall(&mut self, cx: &mut Cx<'_>, message: HostMessage) {
        if let Err(error) = support::check(&message) {
            tracing::warn!("{error}");
            // The Standard lets a host refuse what it must obey and cannot, so nothing of the call is done.
            return message.fail(error.status());
        }
        match message {
            HostMessage::ToolLeft(proc) => self.handle_tool_left(cx, &proc),
            HostMessage::Abort(call, done) => {
                // The reply goes out first: the abort may terminate the caller.
                done.succeed(());
                self.abort(cx, &call);
            }
            HostMessage::Publish(call, done) => self.services.published().publish(&call, done),
            HostMessage::Lookup(call, done) => self.services.published().lookup(&call, done),
            HostMessage::Unpublish(call, done) => self.services.published().unpublish(&call, done),
            HostMessage::GetCredential(call, done) => self.services.credentials().get(&call, done),
            HostMessage::ValidateCredential(call, done) => {
                self.services.credentials().validate(&call, done);
            }
            HostMessage::Query(node, call, done) => self.handle_query(cx, node, call, done),
            HostMessage::Monitor(call, done) => {
                let (user, node) = (geteuid().as_raw(), cx.agent.local_node());
                cx.agent.monitors().monitor(call, user, node, done);
            }
            HostMessage::JobControl(call, done) if wants_context_id(&call) => {
                done.succeed(vec![self.services.next_context()]);
            }
            HostMessage::JobControl(call, done) => {
                complete_with(done, self.control(cx, &call), Vec::new);
            }
            HostMessage::SessionControl(call, done) => {
                let status = self.control_session(cx, &call);
                complete_with(done, status, || ids_of_request(&call));
            }
            HostMessage::Spawn(call, done) => match self.check_parent(cx, &call) {
                Ok(()) => self.queue_spawn(cx, call, done),
                Err(status) => done.fail(status),
            },
            HostMessage::FenceCompleted(began, ended, num_procs) => {
                self.fences.record(began, ended, num_procs);
            }
            HostMessage::FenceAcrossJobs(procs) => self.connected.fenced(&procs),
            HostMessage::PushStdin(call, done) => cx.agent.push_input(call, done),
            HostMessage::DirectModex(call, done) => direct_modex(cx, &call, done),
            HostMessage::Event(node, call) => cx.agent.relay_event(node, &call),
            HostMessage::Debugger(call) => self.handle_debugger_event(cx, &call),
            HostMessage::Log(call, done) => {
                let who = cx.identify(&call.proc);
                for fault in cx.agent.log(call, done) {
                    cx.warn(format!("PMIx_Log from {who} was rejected: {fault}"));
                }
            }
            HostMessage::Refused(proc, what) => {
                let who = cx.identify(&proc);
                cx.warn(format!(
                    "{who} asked to {what}, which pmix run does not support"
                ));
            }
            // The agent has handled these.
            HostMessage::Connected(_)
            | HostMessage::Finalized(_)
            | HostMessage::CleanupRegistered(..)
            | HostMessage::Cleanup(..) => {}
            message => self.handle_collective(cx, message),
        }
    }

    /// Handles upcalls that concern several processes, which must belong to jobs of the session.
    fn handle_collective(&mut self, cx: &mut Cx<'_>, message: HostMessage) {
        match message {
            HostMessage::Missing(failed) => {
                self.warn_of_missing(cx, &failed);
                // A request that names jobs which do not exist is rejected, so no group was under construction.
                if self.first_without_job(&failed.procs).is_none() {
                    self.services.groups().failed(failed);
                }
            }
            HostMessage::NodeLost(place) => self.gather_without_node(place),
            HostMessage::Fence(node, call, done) => {
                match self.exist(Collective::Fence, &call.procs) {
                    true if cx.plan.has_agents() => {
                        self.gather(cx, node, call.into(), done.untyped());
                    }
                    // Participants that are only described count as arrived, without data.
                    true => done.succeed(call.data),
                    false => done.fail(Status::ERR_NOT_FOUND),
                }
            }
            HostMessage::Connect(node, call, done)
                if cx.plan.has_agents() && self.exist(Collective::Connect, &call.procs) =>
            {
                self.gather(cx, node, call.into(), done.untyped());
            }
            HostMessage::Connect(_, call, done) => {
                // The server completes the connect only after all participants have called.
                let exist = self.exist(Collective::Connect, &call.procs);
                if exist && call.failed.is_none() {
                    self.connected.connect(&call.procs);
                }
                complete_if(done, exist);
            }
            HostMessage::Disconnect(node, call, done)
                if cx.plan.has_agents() && self.exist(Collective::Disconnect, &call.procs) =>
            {
                self.gather(cx, node, call.into(), done.untyped());
            }
            HostMessage::Disconnect(_, call, done) => {
                let exist = self.exist(Collective::Disconnect, &call.procs);
                if exist {
                    self.connected.disconnect(&call.procs);
                }
                complete_if(done, exist);
            }
            HostMessage::Group(node, call, done) => {
                let is_construct = call.operation == GroupOperation::CONSTRUCT;
                let operation = match is_construct {
                    true => Collective::GroupConstruct,
                    false => Collective::GroupDestruct,
                };
                let has_agents = cx.plan.has_agents();
                match self.exist(operation, &call.procs) {
                    true if has_agents && !is_construct => {
                        self.gather(cx, node, call.into(), done.untyped());
                    }
                    true => {
                        let number = has_agents.then(|| number_of(node));
                        self.services.group(number, &call, &cx.agent.places(), done);
                    }
                    false => done.fail(Status::ERR_NOT_FOUND),
                }
            }
            HostMessage::GroupChanged(name, change) => self.services.groups().changed(name, change),
            HostMessage::IofPull(call, done) => complete_if(done, self.has_any(&call.procs)),
            _ => {}
        }
    }

    /// Checks the parent that a spawn names (`PMIX_PARENT_ID`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if it is not a process, and `PMIX_ERR_NOT_FOUND` if the session has no such
    /// process.
    fn check_parent(&self, cx: &mut Cx<'_>, call: &Spawn) -> Result<(), Status> {
        let Some(info) = call.infos.iter().find(|info| info.key.is(keys::PARENT_ID)) else {
            return Ok(());
        };
        let who = cx.identify(&call.proc);
        let (refused, why) = match &info.value {
            Value::Proc(parent)
                if *parent == call.proc || cx.agent.jobs().process(parent).is_some() =>
            {
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
        cx.warn(format!("PMIx_Spawn from {who} was rejected: {why}"));
        Err(refused)
    }

    /// Warns of participants that the others wait for, unless the session is being terminated.
    fn warn_of_missing(&self, cx: &mut Cx<'_>, failed: &Failed) {
        if !self.outcomes.has_cause() {
            let host = String::from_utf8_lossy(cx.plan.layout.host()).into_owned();
            let (operation, status) = (failed.operation, failed.status);
            let now = Instant::now();
            (cx.warnings).warn(&host, operation, status, &failed.missing, now);
        }
    }

    /// Drops the data, monitors and waiting requests of a tool, which is a job of its own.
    fn handle_tool_left(&mut self, cx: &mut Cx<'_>, proc: &Proc<'static>) {
        if let Some(wait) = &mut self.tool_wait {
            wait.tool_left(proc);
        }
        if self.jobs.named(&proc.nspace).is_none() {
            self.services.published().proc_ended(proc);
            self.services.job_ended(&proc.nspace);
            cx.agent.monitors().job_ended(&proc.nspace);
            // The tool has disconnected, so no peer waits for the replies of its spawns.
            self.drop_waiting_of(cx, proc);
        }
    }

    /// Returns `true` if the jobs of all participants exist.
    pub(crate) fn exist(&self, operation: Collective, procs: &[Proc<'_>]) -> bool {
        let unknown = self.first_without_job(procs);
        if let Some(proc) = unknown {
            let (nspace, rank) = (&proc.nspace, proc.rank);
            tracing::warn!(%operation, %nspace, %rank, "a participant belongs to a job that does not exist");
        }
        unknown.is_none()
    }

    /// Returns the first process whose job does not exist. Each job is looked up once: a list may name its processes
    /// in any order, and there may be many jobs.
    fn first_without_job<'p, 'n>(&self, procs: &'p [Proc<'n>]) -> Option<&'p Proc<'n>> {
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

    /// Handles `PMIx_Abort`. The jobs of all targets and that of the caller fail: they cannot continue without the
    /// targets.
    fn abort(&mut self, cx: &mut Cx<'_>, call: &Abort) {
        let mut targets = call.targets.iter();
        let is_own = call.targets.is_empty()
            || targets.any(|proc| proc.nspace.as_bytes() == cx.plan.nspace.as_bytes());
        if let Some(wait) = self.tool_wait.as_mut().filter(|_| is_own) {
            // The job was not started yet, so only the wait ends.
            return wait.set(WaitEnd::Aborted);
        }
        let now = Instant::now();
        self.collect_before_abort(cx, &call.proc, now);
        let message = call.message.as_ref();
        let message = message.map_or_else(String::new, |text| text.to_str_lossy().into_owned());
        let cause = Cause::Aborted {
            rank: call.proc.rank,
            status: call.status.as_raw(),
            // The text comes from a process, and is printed and sent to every tool.
            message: message.chars().take(MAX_REASON).collect(),
        };
        // Repeated calls of a process are reported to others only once.
        if cx.agent.record_abort(&call.proc) {
            let code = i32::from(cause.exit_code());
            let aborted = Status::ERR_PROC_REQUESTED_ABORT;
            let text = Some(cause.to_string());
            notify_of_process(&cx.agent, aborted, &call.proc, Some(code), text);
        }
        // The job of the caller fails in any case: it cannot continue without the process that gave up.
        let is_meant = |nspace: &Nspace<'_>| {
            call.proc.nspace == *nspace || call.targets.iter().any(|proc| proc.nspace == *nspace)
        };
        for index in 0..self.jobs.len() {
            let job = self.jobs.get(index);
            if job.is_some_and(|job| is_meant(&job.nspace)) {
                self.fail(cx, index, cause.clone(), now);
            }
        }
        self.spread_failures(cx, now);
    }
}

/// Completes a call whose reply has no data.
fn complete_if(done: Completion<()>, is_success: bool) {
    match is_success {
        true => done.succeed(()),
        false => done.fail(Status::ERR_NOT_FOUND),
    }
}

/// Completes a call with a status, and with infos if it succeeded.
fn complete_with(
    done: Completion<Vec<Info<'static>>>,
    status: Status,
    infos: impl FnOnce() -> Vec<Info<'static>>,
) {
    match status {
        Status::SUCCESS => done.succeed(infos()),
        status => done.fail(status),
    }
}

/// Returns the ids that a session control request carries (`PMIX_SESSION_CTRL_ID`), for the reply.
fn ids_of_request(call: &SessionControl) -> Vec<Info<'static>> {
    let is_id = |info: &&Info<'_>| info.key.is(keys::SESSION_CTRL_ID);
    let ids = call.directives.iter().filter(is_id);
    ids.map(|info| Info::new(keys::SESSION_CTRL_ID, info.value.clone()))
        .collect()
}

/// Returns `true` for the request of a server for the context id of a group that is formed by invitation.
fn wants_context_id(call: &pmix_server::upcall::JobControl) -> bool {
    let is_set = |info: &Info<'_>| {
        info.key.is(keys::GROUP_ASSIGN_CONTEXT_ID) && info.value == Value::Bool(true)
    };
    call.targets.is_empty() && call.directives.iter().any(is_set)
}
