// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session: the job of the command line, the jobs that its processes spawn, and their shared state.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use pmix_host::cleanup::ProtectedPaths;
use pmix_host::forward::{HeldStream, OutputForwarder};
use pmix_host::groups::GroupAssembler;
use pmix_host::helpers::Helpers;
use pmix_host::publish::PublishService;
use pmix_server::{Completion, CredentialService, Server};
use pmix_types::{Info, Nspace, Proc};
use rustix::process::Signal;

use super::Standard;
use super::begun_removals::BegunRemovals;
use super::connected::Connected;
use super::groups::Groups;
use super::job::{Job, Jobs};
use super::log::Logs;
use super::measure::Monitors;
use super::missing::Missing;
use super::removals::Removals;
use super::restart::WaitingRestarts;
use super::sets::DefinedSets;
use super::spawn_queue::SpawnQueue;
use super::stop::Order;
use super::tool_wait::Waiting as WaitingForTool;
use crate::host::{HostMessage, HostReceiver};
use crate::input::Input;
use crate::outcome::JobOutcome;
use crate::output::OwnStreams;
use crate::preparation::Discarded;
use crate::process::{Orphans, Process, Starters, Watcher};
use crate::session_dir::SessionDir;
use crate::signals::Signals;
use crate::{Cause, Ending, Error, Outcome, Plan, RankOutcome};

/// The token of signals.
pub(super) const SIGNALS: usize = 0;
/// The first of the two tokens of standard input.
pub(super) const INPUT: usize = 1;
/// The token of the pipes for pushed input.
pub(super) const PUSHED: usize = 3;
/// The token of the release for which an intermediate launcher waits.
pub(super) const RELEASE: usize = 4;
/// The token of helper threads. Their results are kept with the tasks.
pub(super) const HELPERS: usize = 5;
/// The first token of output; all larger ones belong to output as well.
pub(super) const FORWARD: usize = 6;

/// The time without progress after which files are given up, once a signal has terminated all processes. Progress of
/// any thread that writes files restarts it.
const FILE_PATIENCE: Duration = Duration::from_millis(200);

/// The number of readiness events of one poll.
pub(super) const EVENTS: usize = 256;

/// The server, the running jobs, and their shared state. The number of the session (`PMIX_SESSION_ID`) is the
/// launcher's process id.
///
/// The order of the fields is the order of their drop. All processes have ended before the directory of the session
/// is removed, and the watcher ends after everything that it would remove has been removed.
pub(super) struct Session<'a> {
    /// The plan of the first job, with the settings for the whole session.
    pub(super) plan: Arc<Plan>,
    pub(super) standard: Standard<'a>,
    /// The standard output and standard error of the launcher.
    pub(super) streams: OwnStreams<'a>,
    pub(super) jobs: Jobs,
    pub(super) orphans: Orphans,
    pub(super) server: Server,
    pub(super) dir: SessionDir,
    pub(super) watcher: Watcher,
    pub(super) forward: OutputForwarder<'a>,
    pub(super) logs: Logs,
    pub(super) missing: Missing,
    pub(super) groups: Groups,
    pub(super) input: Input<'a>,
    /// The state of the wait for the release of an intermediate launcher.
    pub(super) tool_wait: Option<WaitingForTool>,
    /// The spawns whose jobs were not started yet.
    pub(super) spawns: SpawnQueue<'a>,
    /// The threads that prepare spawned jobs.
    pub(super) spawn_helpers: Helpers,
    /// The threads that open the output files of restarted processes.
    pub(super) open_helpers: Helpers,
    /// The threads that start processes.
    pub(super) starters: Arc<Starters>,
    /// The places of jobs that are not started, on their way to their removal.
    pub(super) discarded: (Sender<Discarded>, Receiver<Discarded>),
    /// `true` if children may have exited that were not looked for yet.
    pub(super) is_collect_due: bool,
    /// The processes whose end was recorded but not handled, by the indexes of their job and of themselves in it.
    pub(super) ended: Vec<(usize, usize)>,
    /// The processes that wait for their restart.
    pub(super) restarts: WaitingRestarts,
    /// The connections between jobs.
    pub(super) connected: Connected,
    /// The number of jobs that were started.
    pub(super) num_jobs: u64,
    /// The number of jobs that got a name, including those that failed to start.
    pub(super) num_named: u64,
    pub(super) num_procs: u32,
    /// The number of jobs that were only prepared; each of them used a name.
    pub(super) num_prepared: u64,
    /// The last context id that was assigned to a group. Each id is assigned once, beginning with 1.
    pub(super) last_context: u64,
    /// The group constructs whose members do not all know each other.
    pub(super) group_assembler: GroupAssembler<Completion<Vec<Info<'static>>>>,
    /// The start of the session.
    pub(super) began: Instant,
    /// The first failure.
    pub(super) cause: Option<Cause>,
    /// The outcomes of spawned jobs that have ended.
    pub(super) spawned: Vec<JobOutcome>,
    /// The number of output bytes that readers had taken at the last check during termination.
    pub(super) written: u64,
    pub(super) messages: HostReceiver,
    /// The messages of processes whose start was not reported yet, in their order.
    pub(super) early: Vec<HostMessage>,
    pub(super) published: PublishService,
    pub(super) monitors: Monitors,
    pub(super) credentials: CredentialService,
    pub(super) sets: DefinedSets,
    pub(super) protected: Arc<ProtectedPaths>,
    /// The removals of files and directories by threads.
    pub(super) removals: Removals,
    /// The removals of registered paths that are in progress.
    pub(super) begun_removals: BegunRemovals,
    pub(super) signals: Signals,
    /// The poll for all descriptors except the sockets of the server. The server waits for both.
    pub(super) poll: Poll,
}

impl Session<'_> {
    /// Runs the session until all jobs have ended.
    pub(super) fn watch(&mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            self.write_output();
            self.dismiss_ended();
            if self.is_over() {
                return Ok(());
            }
            let late = self.refuse_late(Instant::now());
            self.start_waiting();
            self.advance_starts()?;
            self.start_again_one(Instant::now());
            self.note_removals();
            let stuck = self.give_up_files(Instant::now());
            self.turn(&mut events, [late, stuck].into_iter().flatten().min())?;
        }
    }

    /// Handles completed removals, and writes waiting lines to the watcher.
    pub(super) fn note_removals(&mut self) {
        self.remove_discarded();
        let ended = self.removals.turn();
        let has_ended = !ended.is_empty();
        for registered in ended {
            if let Some(later) = self.begun_removals.end(&registered) {
                let (target, user) = registered;
                self.watcher.removed(&target, user);
                // The `removed` line also deregistered these, so they are sent again.
                let later = later.iter();
                later.for_each(|cleanup| self.watcher.remove_later(&target, user, cleanup));
            }
        }
        if has_ended {
            let begun = &self.begun_removals;
            let is_free = |proc: &Proc<'static>| !begun.concern(proc);
            self.restarts.release(Instant::now(), is_free);
        }
        self.watcher.flush();
    }

    /// Removes what was created for jobs that are not started.
    fn remove_discarded(&mut self) {
        while let Ok(discarded) = self.discarded.1.try_recv() {
            self.removals.discard(discarded);
        }
    }

    /// Gives up output files without progress after a signal has terminated all processes. Returns the time for the
    /// next check.
    fn give_up_files(&mut self, now: Instant) -> Option<Instant> {
        let waits = self.jobs.num_running() == 0 && self.forward.has_unwritten_files();
        if !waits || !self.is_interrupted() {
            return None;
        }
        self.forward.give_up_files(FILE_PATIENCE, now);
        now.checked_add(FILE_PATIENCE / 4)
    }

    /// Writes and forwards the output and the log texts of processes.
    pub(super) fn write_output(&mut self) {
        self.logs.write(&mut self.forward);
        self.forward.turn(self.poll.registry());
        self.tell_output();
    }

    /// Waits for events until the given time at most, and handles them.
    pub(super) fn turn(
        &mut self,
        events: &mut Events,
        until: Option<Instant>,
    ) -> Result<(), Error> {
        let until = [until, self.patience()].into_iter().flatten().min();
        let mut news = self.wait_and_serve(until)?;
        // The server reports only once that the poll has events, whatever their number, so the poll is drained.
        while news {
            match self.poll.poll(events, Some(Duration::ZERO)) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|e| Error::system("cannot poll", e))?,
            }
            let mut taken = 0;
            for event in &*events {
                taken += 1;
                self.notice(event.token());
            }
            news = taken == EVENTS;
        }
        self.collect_if_due();
        let now = Instant::now();
        self.published.tick(now);
        self.tick_monitors(now);
        self.logs.tick(now);
        self.forward.tick(now);
        let ended = self.group_assembler.handle_timeout(now);
        self.answer_constructs(ended);
        self.missing.tick(now);
        if self.input.deadline().is_some_and(|until| until <= now) {
            self.turn_input(now);
        }
        for index in 0..self.jobs.len() {
            let order = self.jobs.get_mut(index).and_then(|job| job.stop.tick(now));
            if let Some(order) = order {
                self.obey(index, order);
            }
        }
        self.spread_failures(now);
        Ok(())
    }

    fn notice(&mut self, token: Token) {
        if self.forward.handle_ready(token) {
            return;
        }
        match token.0 {
            SIGNALS => {
                for signal in self.signals.pending() {
                    self.signal(signal);
                }
            }
            // `watch` collects the results of helper threads in its next round.
            HELPERS => {}
            PUSHED => self.jobs.iter_mut().for_each(|job| job.pushed.write()),
            RELEASE => {
                if let Some(wait) = &mut self.tool_wait {
                    wait.hear();
                }
            }
            _ => self.turn_input(Instant::now()),
        }
    }

    /// Forwards the input of rank 0.
    pub(super) fn turn_input(&mut self, now: Instant) {
        self.input.turn(self.poll.registry(), now);
        if self.input.take_hang_up() {
            self.hung_up();
        }
    }

    /// Passes the output of processes to the server, for peers that pull it.
    fn tell_output(&mut self) {
        for chunk in self.forward.take_chunks() {
            let channel = chunk.kind.channel();
            let told = (self.server).iof_deliver(&chunk.source, channel, chunk.bytes, &[]);
            if let Err(e) = told {
                tracing::warn!("cannot forward output: {e}");
            }
        }
    }

    /// Records a failure of a job, and terminates the job if the failure requires it.
    pub(super) fn fail(&mut self, index: usize, cause: Cause, now: Instant) {
        let order = (self.jobs.get_mut(index)).and_then(|job| job.stop.fail(cause, now));
        if let Some(order) = order {
            self.obey(index, order);
        }
    }

    pub(super) fn obey(&mut self, index: usize, order: Order) {
        let Some(job) = self.jobs.get_mut(index) else {
            return;
        };
        let nspace = &job.nspace;
        match order {
            Order::Ask => tracing::info!("terminating the processes of {nspace} (SIGTERM)"),
            Order::Kill => tracing::info!("killing the processes of {nspace} (SIGKILL)"),
            Order::Say(unheeded) | Order::KillUnheeded(unheeded) => job.say_unheeded(&unheeded),
            Order::Abandon | Order::Lose => tracing::debug!("{nspace}: {order:?}"),
        }
        match order {
            Order::Ask => {
                job.table.signal(Signal::TERM);
                // A stopped process does not handle SIGTERM.
                job.table.signal(Signal::CONT);
            }
            Order::Say(_) => {}
            Order::Kill | Order::KillUnheeded(_) => {
                job.table.signal(Signal::KILL);
                // While several jobs run, it is not known to which of them an orphan belongs.
                if self.is_last(index) {
                    self.orphans.kill(|pid| self.jobs.has(pid));
                }
            }
            // A process has not ended yet although it was killed, for example in an uninterruptible system call.
            Order::Abandon | Order::Lose if job.table.num_running() > 0 => {}
            Order::Abandon => {
                warn_of_held(&self.forward.drain_and_close(&job.nspace));
                self.abandon(index);
            }
            Order::Lose => {
                self.abandon(index);
                if self.is_last(index) {
                    self.lose(index);
                }
            }
        }
    }

    /// Stops waiting for what the job left behind.
    fn abandon(&mut self, index: usize) {
        if self.is_last(index) {
            self.orphans.abandon();
        }
        if let Some(job) = self.jobs.get_mut(index) {
            job.is_abandoned = true;
        }
    }

    /// Returns `true` if no process of another job runs.
    fn is_last(&self, index: usize) -> bool {
        let mut others = (self.jobs.iter().enumerate()).filter(|(other, _)| *other != index);
        others.all(|(_, job)| job.table.num_running() == 0)
    }

    /// Drops output that its readers did not take. If they took some since the last check, they get more time once.
    fn lose(&mut self, index: usize) {
        let written = self.forward.num_written();
        let has_more = written > std::mem::replace(&mut self.written, written);
        if let Some(job) = self.jobs.get_mut(index)
            && !job.stop.is_impatient()
            && has_more
        {
            return job.stop.wait_for_readers(Instant::now());
        }
        let lost = self.forward.discard() + self.logs.lose();
        if lost > 0 {
            tracing::warn!("the last {lost} bytes of output were lost because they were not read");
        }
    }

    /// Returns `true` if all processes and orphans have ended and all output was written.
    fn is_over(&self) -> bool {
        self.jobs.num_running() == 0
            && self.spawns.is_empty()
            && self.forward.num_open() == 0
            && self.forward.is_drained()
            && self.logs.is_empty()
            && !self.orphans.are_awaited(|pid| self.jobs.has(pid))
    }

    /// Returns the time until which to wait for events.
    fn patience(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let is_busy = self.forward.is_busy() || self.logs.is_busy(&self.forward);
        // Spawn requests wait while the launcher itself waits for its release.
        let is_asked = self.tool_wait.is_none() && self.spawns.can_go_on();
        let is_collect_due = self.is_collect_due && !self.starters.are_busy();
        if is_busy || self.messages.is_waiting() || is_asked || is_collect_due {
            return Some(now);
        }
        let stops = self.jobs.iter().map(|job| job.stop.deadline());
        let others = [
            self.published.deadline(),
            self.monitors.deadline(),
            self.logs.deadline(),
            self.forward.deadline(),
            self.missing.deadline(),
            self.group_assembler.poll_timeout(),
            self.restarts.deadline(),
            self.removals.deadline(now),
            self.input.deadline(),
            self.watcher.deadline(now),
        ];
        stops.chain(others).flatten().min()
    }

    /// Cleans up and returns the outcome.
    pub(super) fn end(mut self, began: Instant) -> Outcome {
        let first = self.jobs.iter().next();
        let processes = || first.iter().flat_map(|job| job.table.iter());
        let mut outcome = Outcome {
            nspace: self.plan.nspace.clone(),
            host: self.plan.layout.host().to_vec(),
            ranks: processes()
                .map(|process| of_process(process, began))
                .collect(),
            cause: self.cause.clone(),
            spawned: Vec::new(),
            num_spawned: self.num_jobs.saturating_sub(1),
            groups: Vec::new(),
            num_groups: 0,
            elapsed: Duration::ZERO,
            processor_time: Duration::ZERO,
        };
        let unsound = first.map(Job::unsound).unwrap_or_default();
        // Files are removed only after all processes have ended, since these could create them again.
        while self.jobs.len() > 1 {
            self.dismiss(self.jobs.len() - 1);
        }
        for job in self.jobs.iter_mut() {
            drop(std::mem::take(&mut job.table));
        }
        self.orphans.end();
        self.close();
        outcome.spawned = std::mem::take(&mut self.spawned);
        let mut groups = std::mem::take(&mut self.groups);
        groups.lost(&unsound);
        outcome.num_groups = groups.num_formed();
        outcome.groups = groups.outcomes();
        self.finish_removals();
        drop(self);
        outcome.elapsed = began.elapsed();
        outcome.processor_time = processor_time();
        outcome
    }

    /// Waits for removals while they make progress, and leaves the rest to the watcher.
    fn finish_removals(&mut self) {
        const NAMED: usize = 4;
        self.remove_discarded();
        let finished = self.removals.finish(&mut self.dir);
        for (target, user) in finished.ended {
            self.watcher.removed(&target, user);
        }
        let remaining = finished.remaining;
        if remaining.is_empty() {
            return;
        }
        let named = remaining[..remaining.len().min(NAMED)].join(", ");
        let more = match remaining.len().saturating_sub(NAMED) {
            0 => String::new(),
            num_more => format!(" and {num_more} more"),
        };
        match self.watcher.leave_rest() {
            Some(pid) => tracing::warn!(
                "the file system is slow: process {pid} removes {named}{more} after the launcher has exited"
            ),
            None => tracing::warn!(
                "the file system is slow, and the launcher exits before {named}{more} are removed: remove \
                them manually"
            ),
        }
    }

    /// Shuts down the server, after it has handled the cleanups for the end of the job.
    fn close(&mut self) {
        let nspace = Nspace::new(self.plan.nspace.as_str());
        let ended = self.server.deregister_nspace(&nspace);
        self.serve();
        self.missing.write();
        self.logs.end();
        if let Err(e) = ended.and_then(|()| self.server.finalize()) {
            tracing::warn!("cannot shut down the server cleanly: {e}");
        }
    }
}

/// Warns of streams that descendants of the job hold open and for which the launcher does not wait.
fn warn_of_held(held: &[HeldStream]) {
    const NAMED: usize = 4;
    if held.is_empty() {
        return;
    }
    let mut named: Vec<_> = held
        .iter()
        .take(NAMED)
        .map(|held| {
            let (rank, stream) = (held.source.rank, held.kind.name());
            format!("{stream} of rank {rank} ({} bytes)", held.num_bytes)
        })
        .collect();
    if held.len() > NAMED {
        named.push(format!("{} more", held.len() - NAMED));
    }
    tracing::warn!(
        "remaining child processes of the job still have its output open, and the launcher does not wait for \
        them; output so far is kept, later output may be lost: {}",
        named.join(", ")
    );
}

fn processor_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

fn of_process(process: &Process, began: Instant) -> RankOutcome {
    let (ending, at) = process
        .ended
        .unwrap_or((Ending::Exited(u8::MAX), process.started));
    RankOutcome {
        rank: process.rank,
        app: process.app,
        pid: process.pid.as_raw_nonzero().get(),
        cpus: process.cpus.clone(),
        started: process.started.saturating_duration_since(began),
        elapsed: at.saturating_duration_since(process.started),
        ending,
    }
}
