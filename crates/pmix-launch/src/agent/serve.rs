// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server of the node: its work, its upcalls, and the calls of the controller to it.

use std::time::{Duration, Instant};

use pmix_host::monitor::LocalNode;
use pmix_server::upcall::{Log, PushStdin};
use pmix_server::{Completion, ConnectedTool, EventSource};
use pmix_types::{DataRange, Info, Nspace, Proc, Status, Text};

use super::Agent;
use super::children::Children;
use super::local_job::{LocalJob, LocalJobs};
use super::waiting_restarts::WaitingRestarts;
use crate::Error;
use crate::figures::ServerFigures;
use crate::host::HostMessage;
use crate::input::{self, PushAnswer};
use crate::named::Named;
use crate::pending::PendingOperations;
use crate::process::Link;

/// The time that the server has for requests that processes sent before they ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

impl Agent<'_> {
    /// Waits for work of the server until the given time and handles a bounded share of it. Returns `true` if the
    /// poll has events.
    ///
    /// # Errors
    /// Returns [`Error`] if the server failed.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> Result<bool, Error> {
        let cannot = |e| Error::server("the server failed", e);
        // The server waits for its sockets and for the poll of the agent at once.
        self.server.turn(until).map_err(cannot)
    }

    /// Lets the server do a bounded share of its work. Returns the time at which it goes on.
    ///
    /// # Errors
    /// Returns [`Error`] if the server failed.
    pub(crate) fn drive(&mut self, now: Instant) -> Result<Option<Instant>, Error> {
        let driven = self.server.drive(now);
        driven.map_err(|e| Error::server("the server failed", e))
    }

    /// Lets the server do all its work, for a bounded time. Its upcalls are kept for the controller.
    pub(super) fn drive_to_the_end(&mut self) {
        let until = Instant::now() + LAST_WORDS;
        loop {
            let now = Instant::now();
            let driven = self.drive(now);
            let any = self.handle_all_local();
            match driven {
                Err(e) => return tracing::error!("{e}"),
                // The server stopped at its own limit with input left to read.
                Ok(Some(again)) if again <= now && now < until => {}
                Ok(_) if any && now < until => {}
                Ok(_) => return,
            }
        }
    }

    /// Handles the messages that concern only this node, and keeps the others. Returns `true` if there were any.
    fn handle_all_local(&mut self) -> bool {
        let (mut any, mut kept) = (false, Vec::new());
        self.release_early();
        // All of them in their order: a process connects before it finalizes.
        while let Some(message) = self.mailbox.next() {
            any = true;
            kept.extend(self.handle_local(message));
        }
        kept.into_iter()
            .for_each(|message| self.mailbox.keep(message));
        any
    }

    /// Returns the next upcall for the controller.
    pub(crate) fn next_upcall(&mut self) -> Option<HostMessage> {
        self.release_early();
        while let Some(message) = self.mailbox.next() {
            // Messages that end here do not count as work for the controller.
            if let Some(message) = self.handle_local(message) {
                return Some(message);
            }
        }
        None
    }

    /// Makes the messages ready whose processes are in the table of their job by this time.
    pub(super) fn release_early(&mut self) {
        let (jobs, children, restarts) = (&self.jobs, &self.children, &self.restarts);
        (self.mailbox).release_early(|message| is_early(jobs, children, restarts, message));
    }

    /// Handles a message that concerns only this node, or returns it for the controller.
    fn handle_local(&mut self, message: HostMessage) -> Option<HostMessage> {
        if is_early(&self.jobs, &self.children, &self.restarts, &message) {
            self.mailbox.keep_early(message);
            return None;
        }
        match message {
            HostMessage::Connected(proc) => {
                tracing::info!("rank {} of {} has initialized", proc.rank, proc.nspace);
                self.set_link(&proc, Link::Connected);
                self.report_link(&proc, Link::Connected);
                self.set_initialized(&proc, Instant::now());
            }
            HostMessage::Finalized(proc) => {
                tracing::info!("rank {} of {} has finalized", proc.rank, proc.nspace);
                self.set_link(&proc, Link::Finalized);
                self.report_link(&proc, Link::Finalized);
                self.figures.finalized(&self.jobs, &proc);
            }
            HostMessage::CleanupRegistered(target, user, paths) => {
                self.cleanup.register_paths(&target, user, &paths);
            }
            HostMessage::Cleanup(target, user, paths) => {
                self.cleanup.remove_paths(target, user, paths);
            }
            message => return Some(message),
        }
        None
    }

    fn set_link(&mut self, proc: &Proc<'_>, link: Link) {
        let job = self.jobs.named_mut(&proc.nspace);
        if let Some(process) = job.and_then(|job| job.table.of_rank(proc.rank)) {
            process.link = link;
        }
    }

    fn set_initialized(&mut self, proc: &Proc<'_>, now: Instant) {
        let job = self.jobs.named_mut(&proc.nspace);
        if let Some(process) = job.and_then(|job| job.table.of_rank(proc.rank)) {
            process.initialized.get_or_insert(now);
        }
    }

    /// Records the reason for the end of a process that neither its program nor the launcher killed.
    pub(crate) fn explain_kill(&mut self, proc: &Proc<'_>) {
        let job = self.jobs.named_mut(&proc.nspace);
        let process = job.and_then(|job| job.table.of_rank(proc.rank));
        let process = process.filter(|process| process.node.is_none());
        if let Some(process) = process.filter(|process| process.is_killed_by_other()) {
            process.kernel_kill = self.oom_kills.explain();
        }
    }

    /// Notifies the clients and tools of the session of an event.
    pub(crate) fn notify(&self, status: Status, source: &Proc<'static>, infos: &[Info<'_>]) {
        // All jobs of the launcher are one session, and its tools belong to it.
        let range = DataRange::SESSION;
        self.notify_nodes(status, source, infos);
        if let Err(e) = self.server.notify(status, source, range, infos) {
            tracing::debug!("cannot notify clients of {status}: {e}");
        }
    }

    /// Notifies clients and tools of the event of a monitor.
    pub(crate) fn notify_of_monitor(
        &self,
        status: Status,
        source: EventSource<'_>,
        range: DataRange,
        infos: &[Info<'_>],
    ) {
        if let Err(e) = self.server.notify(status, source, range, infos) {
            tracing::warn!("cannot deliver an event of a monitor: {e}");
        }
    }

    /// Defines a process set.
    ///
    /// # Errors
    /// Returns the status of the server if it refuses the set.
    pub(crate) fn define_process_set(
        &self,
        name: &Text<'_>,
        members: &[Proc<'_>],
    ) -> Result<(), Status> {
        let defined = self.server.define_process_set(name, members);
        defined.map_err(|error| error.status())
    }

    /// Serves a tool over its connection.
    ///
    /// # Errors
    /// Returns the error of the server.
    pub(crate) fn add_tool(&self, tool: ConnectedTool) -> Result<(), pmix_server::Error> {
        self.server.add_tool(tool)
    }

    /// Deregisters a process: collectives do not wait for it.
    pub(crate) fn deregister_client(&self, proc: &Proc<'_>) {
        if self.deregister_at_node(proc) {
            return;
        }
        if let Err(e) = self.server.deregister_client(proc) {
            tracing::debug!("cannot deregister rank {}: {e}", proc.rank);
        }
    }

    /// Deregisters a job.
    pub(crate) fn deregister_nspace(&self, nspace: &Nspace<'_>) {
        self.pmi.deregister(nspace);
        if let Err(e) = self.server.deregister_nspace(nspace) {
            tracing::debug!("cannot deregister {nspace}: {e}");
        }
    }

    /// Shuts down the server.
    pub(crate) fn finalize(&mut self) {
        self.streams.end();
        if let Err(e) = self.server.finalize() {
            tracing::warn!("cannot shut down the server cleanly: {e}");
        }
    }

    /// Writes the texts of a log request. Returns the messages for channels that rejected their text.
    pub(crate) fn log(&mut self, call: Log, done: Completion<()>) -> Vec<String> {
        let (jobs, proc) = (&self.jobs, &call.proc);
        // A tool has no job of its own.
        let job = jobs.named(&proc.nspace).or_else(|| jobs.iter().next());
        let form = job.map(|job| job.form_of(proc.rank)).unwrap_or_default();
        self.streams.log(&self.plan, call, form, done)
    }

    /// Passes pushed input to its targets: processes of spawned jobs that requested input, otherwise the reading rank
    /// of the first job.
    pub(crate) fn push_input(&mut self, call: PushStdin, done: Completion<()>) {
        let named = Named::of(&call.targets);
        let is_pushed =
            { self.jobs.iter() }.any(|job| job.pushed.has(|rank| named.has(&job.nspace, rank)));
        if !is_pushed {
            let first = Nspace::new(self.plan.nspace.as_str());
            let is_for_first = named.ranks(&first).is_some();
            return match is_for_first || call.targets.is_empty() {
                true => {
                    if let Some((call, done)) = self.push_to_node(call, done) {
                        self.streams.push_input(&self.plan, call, done);
                    }
                }
                false => done.fail(Status::ERR_NOT_FOUND),
            };
        }
        // One reply for all readers: the push completes when the slowest has read it.
        let (ends, answer) = (input::ends(&call), PushAnswer::new(done));
        let data = call.data.into();
        for job in self.jobs.iter_mut() {
            let nspace = &job.nspace;
            (job.pushed).push(|rank| named.has(nspace, rank), &data, ends, &answer);
        }
    }

    /// Returns the operations in which processes of a job, or of any job, wait.
    pub(crate) fn pending(&self, job: Option<&Nspace<'_>>) -> PendingOperations {
        match self.server.waits(job) {
            Ok(waits) => PendingOperations::of(&waits),
            Err(e) => {
                tracing::debug!("cannot list pending operations: {e}");
                PendingOperations::default()
            }
        }
    }

    /// Counts what the server holds. `num_restarts` is the number of restarts of processes.
    pub(crate) fn figures(&self, num_restarts: u64) -> Option<ServerFigures> {
        match self.server.stats() {
            Ok(stats) => Some(ServerFigures::of(&stats, num_restarts)),
            Err(e) => {
                tracing::debug!("cannot count what the server holds: {e}");
                None
            }
        }
    }

    /// Returns the node with the running processes of all jobs.
    pub(crate) fn local_node(&self) -> LocalNode {
        LocalNode {
            processes: self.jobs.iter().flat_map(LocalJob::running).collect(),
            ..self.node_alone()
        }
    }

    /// Lets the thread sample the monitors that are due.
    pub(crate) fn tick_monitors(&mut self, now: Instant) {
        if self.monitors.deadline().is_some_and(|due| due <= now) {
            let node = self.local_node();
            self.monitors.tick(now, || node);
        }
    }

    /// Returns the node without processes.
    pub(crate) fn node_alone(&self) -> LocalNode {
        LocalNode {
            name: Text::new(self.plan.layout.host().to_vec()),
            ..LocalNode::default()
        }
    }
}

/// Returns `true` if a process sent the message before the thread that started it has reported the start. The table
/// does not have the process then, or has its predecessor.
fn is_early(
    jobs: &LocalJobs,
    children: &Children,
    restarts: &WaitingRestarts,
    message: &HostMessage,
) -> bool {
    let Some(proc) = message.source().filter(|_| children.are_starting()) else {
        return false;
    };
    let job = jobs.named(&proc.nspace);
    let is_awaited = job
        .is_some_and(|job| job.table.is_incomplete() && job.table.with_rank(proc.rank).is_none());
    is_awaited || restarts.is_starting(proc)
}
