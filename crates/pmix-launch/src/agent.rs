// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agent of one node: the processes of all jobs on the node, from their start to their end, and everything that
//! only this node has.
//!
//! | subsystem | state |
//! | --- | --- |
//! | `LocalJobs` | the parts of jobs on this node, with their tables of processes |
//! | `Children` | ends that were recorded, orphans, the threads that start processes |
//! | `StartingJobs` | the jobs whose processes are being started |
//! | `WaitingRestarts` | the processes that wait for their restart |
//! | `Streams` | output, log texts, input |
//! | `Cleanup` | the directory of the session, registered paths, the watcher |
//! | `Monitors` | monitors and measurements |
//! | `Figures` | the sampling of the memory of processes |
//! | `OomKills` | the kills by the kernel |
//! | `Examinations` | reports that wait for the examination of their processes |
//! | `Mailbox` | the upcalls of the server of this node |
//! | `OtherNodes` | the agents of other nodes, if this is the agent of the controller |
//!
//! The controller calls the methods of the agent, and the agent reports by [`FromAgent`] and by upcalls. What passes
//! between them is data: names, numbers, settings, states of processes. The agent never calls the controller, and it
//! decides nothing about a job: neither its end nor a restart. So the same agent serves a controller on another
//! node: `pmix node` carries the calls and reports over a link, with numbers in place of completions.

mod begun_removals;
mod children;
mod cleanup;
mod ends;
mod examine;
mod figures;
mod inquire;
mod local_job;
mod log;
mod measure;
mod node_events;
mod node_input;
mod nodes;
mod oom;
mod places;
mod pmi;
mod removals;
mod restart;
mod serve;
mod start;
mod starting;
mod streams;
mod waiting_restarts;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use mio::{Events, Poll, Token, Waker};
use pmix_host::cleanup::ProtectedPaths;
use pmix_host::forward::OutputChunk;
use pmix_host::helpers::Helpers;
use pmix_server::{Server, WireObserver};
use pmix_types::{Nspace, Proc};

use self::children::Children;
use self::cleanup::Cleanup;
use self::examine::Examinations;
use self::figures::Figures;
use self::local_job::LocalJobs;
use self::measure::Monitors;
use self::nodes::OtherNodes;
use self::oom::OomKills;
use self::pmi::PmiService;
use self::starting::StartingJobs;
use self::streams::Streams;
use self::waiting_restarts::WaitingRestarts;
use crate::host::{LocalHost, Mailbox, RemoteHost, host_channel};
use crate::nodes::ALL_TOKENS;
use crate::output::{OwnStreams, Standard};
use crate::plan::Part;
use crate::process::{Process, Watcher};
use crate::process_dirs::ProcessDirs;
use crate::session_dir::SessionDir;
use crate::{Error, Plan, service};

pub(crate) use self::examine::{Recipient, Report, Subject};
pub(crate) use self::local_job::{EndedJob, JobSettings, LocalJob};
pub(crate) use self::measure::{Answers, Measured, MeasuredQuery, Question};
pub(crate) use self::places::number_of;
pub(crate) use self::starting::NewJob;

/// The token of signals.
pub(crate) const SIGNALS: Token = Token(0);
/// The first of the two tokens of standard input.
const INPUT: usize = 1;
/// The token of the pipes for pushed input.
const PUSHED: usize = 3;
/// The token of the release for which an intermediate launcher waits.
pub(crate) const RELEASE: Token = Token(4);
/// The token of helper threads. Their results are kept with the tasks.
const HELPERS: usize = 5;
/// The first token of the links to other nodes.
const NODES: usize = 6;
/// The first token of output; all larger ones belong to output as well.
const FORWARD: usize = NODES + ALL_TOKENS;

/// The largest number of output files that are written at a time.
const MOST_WRITING: usize = 64;
/// The largest number of processes whose files are opened at a time.
const MOST_OPENING: usize = 16;

/// The number of readiness events of one poll.
pub(crate) const EVENTS: usize = 256;

/// The agent of one node.
///
/// The order of the fields is the order of their drop: all processes have ended before the directory of the session is
/// removed.
pub(crate) struct Agent<'a> {
    /// The plan of the first job, with the settings for the whole session.
    plan: Arc<Plan>,
    jobs: LocalJobs,
    starting: StartingJobs<'a>,
    restarts: WaitingRestarts,
    children: Children,
    server: Server,
    /// The service for processes that use PMI-1 or PMI-2.
    pmi: PmiService,
    mailbox: Mailbox,
    cleanup: Cleanup,
    streams: Streams<'a>,
    monitors: Monitors,
    examinations: Examinations,
    figures: Figures,
    oom_kills: OomKills,
    /// The threads that open the output files of restarted processes.
    open_helpers: Helpers,
    others: OtherNodes,
    /// `true` if the controller is on another node.
    is_member: bool,
    /// The processes whose state towards the server was not reported to a controller on another node.
    linked: Vec<(Proc<'static>, bool)>,
    /// Wakes the poll.
    wake: Arc<dyn Fn() + Send + Sync>,
    /// The poll for all descriptors except the sockets of the server. The server waits for both.
    poll: Poll,
}

/// A report of the agent to the controller.
pub(crate) enum FromAgent {
    /// The start of the processes of a job is over, or has failed.
    JobStarted(Nspace<'static>, Result<(), Error>),
    /// The next incarnation of a process runs. The process is the state of the previous one.
    ProcessRestarted(Proc<'static>, Box<Process>),
    /// A process is not restarted any more.
    RestartGivenUp(Proc<'static>),
}

/// An event of the poll that the agent does not handle alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollEvent {
    /// Signals to the launcher.
    Signals,
    /// The release of an intermediate launcher.
    Release,
    /// The first report of the hang-up of the terminal that rank 0 reads.
    HangUp,
}

impl<'a> Agent<'a> {
    /// Creates the agent without processes, and the wake-up of its poll.
    ///
    /// No process and no tool is served before this returns, so its work on disks is done in place.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        poll: Poll,
        (standard, own): (Standard<'a>, OwnStreams<'a>),
        observer: Option<Box<dyn WireObserver>>,
    ) -> Result<(Self, impl Fn() + Clone + Send + Sync + 'static), Error> {
        let cannot_poll = |e| Error::system("cannot poll", e);
        let (host_channel, messages) = host_channel();
        let waker = Waker::new(poll.registry(), Token(HELPERS)).map_err(cannot_poll)?;
        let waker = Arc::new(waker);
        let wake = move || {
            if let Err(e) = waker.wake() {
                tracing::error!("a thread of the launcher cannot wake it: {e}");
            }
        };
        let output_helpers = Helpers::new("pmix-output", MOST_WRITING, wake.clone());
        let dir = SessionDir::create(&plan.tmpdir)?;
        // Started first, because only the watcher removes the directory if this process is killed.
        let mut watcher = Watcher::start(plan.watcher.as_deref(), dir.path());
        let protected = ProtectedPaths::new(kept(plan));
        // Before any process registers paths, because the watcher removes them without asking the launcher.
        watcher.keep(protected.paths());
        let others = RemoteHost::new(&host_channel);
        let others = OtherNodes::start(plan, poll.registry(), others)?;
        let host = LocalHost::new(host_channel, plan.forward_io, ProcessDirs::of(dir.path()));
        let server = service::start(plan, &dir, host, observer)?;
        tracing::info!("the server listens on {}", server.uri());
        tracing::info!("the files of the session are in {}", dir.path().display());
        let watched = server.watch(std::os::fd::AsFd::as_fd(poll.registry()));
        watched.map_err(|e| Error::server("cannot poll the server", e))?;
        let examinations = Examinations::new(wake.clone());
        // Every other child of the launcher belongs to a job or is an orphan of one.
        let stack_programs = examinations.stack_programs();
        let spared = watcher
            .pid()
            .into_iter()
            .chain(others.nodes.pids())
            .collect();
        let children = Children::new(plan.adopt, spared, stack_programs, wake.clone());
        let agent = Self {
            plan: Arc::clone(plan),
            jobs: LocalJobs::default(),
            starting: StartingJobs::default(),
            restarts: WaitingRestarts::default(),
            children,
            server,
            pmi: PmiService::start(plan.interfaces, wake.clone())?,
            mailbox: Mailbox::new(messages),
            cleanup: Cleanup::new(dir, watcher, protected, wake.clone()),
            streams: Streams::new(plan, standard, own, FORWARD, output_helpers),
            monitors: Monitors::new(wake.clone()),
            examinations,
            figures: Figures::new(plan.diagnosis.measures, wake.clone()),
            oom_kills: OomKills::of_launcher(),
            open_helpers: Helpers::new("pmix-open", MOST_OPENING, wake.clone()),
            others,
            is_member: matches!(plan.part, Part::Member { .. }),
            linked: Vec::new(),
            wake: Arc::new(wake.clone()),
            poll,
        };
        Ok((agent, wake))
    }

    /// Returns the poll for further descriptors.
    pub(crate) fn poll(&mut self) -> &mut Poll {
        &mut self.poll
    }

    /// Returns the parts of jobs on this node.
    pub(crate) fn jobs(&self) -> &LocalJobs {
        &self.jobs
    }

    /// Returns the part of a job on this node.
    pub(crate) fn job(&self, nspace: &Nspace<'_>) -> Option<&LocalJob> {
        self.jobs.named(nspace)
    }

    /// Returns the number of processes of a job that have not ended, are still to start, or will be restarted.
    pub(crate) fn num_running(&self, nspace: &Nspace<'_>) -> usize {
        self.job(nspace).map_or(0, LocalJob::num_running)
    }

    /// Returns the monitors and measurements.
    pub(crate) fn monitors(&mut self) -> &mut Monitors {
        &mut self.monitors
    }

    /// Returns the examinations of processes for reports.
    pub(crate) fn examinations(&mut self) -> &mut Examinations {
        &mut self.examinations
    }

    /// Returns the path of the directory of the session.
    pub(crate) fn session_path(&self) -> PathBuf {
        self.cleanup.path().to_owned()
    }

    /// Handles an event of the poll, or returns it for the session.
    pub(crate) fn handle_event(&mut self, token: Token, now: Instant) -> Option<PollEvent> {
        // Output has the most events, and its tokens have no upper bound, so it is asked first.
        if self.others.nodes.handle_ready(token) || self.streams.handle_ready(token) {
            return None;
        }
        match token {
            SIGNALS => return Some(PollEvent::Signals),
            RELEASE => return Some(PollEvent::Release),
            // The session collects the results of helper threads in its next round.
            Token(HELPERS) => {}
            Token(PUSHED) => self.jobs.iter_mut().for_each(|job| job.pushed.write()),
            _ => return self.turn_input(now),
        }
        None
    }

    /// Forwards the input of rank 0.
    pub(crate) fn turn_input(&mut self, now: Instant) -> Option<PollEvent> {
        // The terminal reports its hang-up once, and the session decides what it means for the jobs.
        let has_hung_up = self.streams.turn_input(self.poll.registry(), now);
        self.protect_terminal();
        has_hung_up.then_some(PollEvent::HangUp)
    }

    /// Lets the watcher restore the modes of the launcher's terminal if the launcher is killed.
    fn protect_terminal(&mut self) {
        if let Some(modes) = self.streams.take_modes() {
            self.cleanup.register_terminal(&modes);
        }
    }

    /// Restores the modes of the launcher's terminal before the launcher stops.
    pub(crate) fn suspend_keyboard(&mut self) {
        self.streams.suspend_keyboard();
    }

    /// Sets the modes of the launcher's terminal after the launcher was continued.
    pub(crate) fn resume_keyboard(&mut self) {
        self.streams.resume_keyboard();
        self.protect_terminal();
    }

    /// Polls without waiting. Returns the number of events.
    pub(crate) fn poll_now(&mut self, events: &mut Events) -> std::io::Result<usize> {
        // The server has already waited for this poll together with its own sockets.
        self.poll.poll(events, Some(std::time::Duration::ZERO))?;
        Ok(events.iter().count())
    }

    /// Does what is due without an event. Returns an event for the session.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<PollEvent> {
        self.streams.tick(now);
        self.figures.tick(&mut self.jobs, now);
        match self.streams.is_input_due(now) {
            true => self.turn_input(now),
            false => None,
        }
    }

    /// Writes output, and passes it to the server for peers that pull it. Returns the output of processes that is passed
    /// on.
    pub(crate) fn turn_output(&mut self) -> Vec<OutputChunk> {
        let chunks = self.streams.turn(self.poll.registry());
        for chunk in &chunks {
            let channel = chunk.kind.channel();
            // The server keeps output for peers that pull it later, so it gets all of it.
            let delivered =
                (self.server).iof_deliver(&chunk.source, channel, chunk.bytes.clone(), &[]);
            if let Err(e) = delivered {
                tracing::warn!("cannot forward output: {e}");
            }
        }
        chunks
    }

    /// Handles completed removals. Restarts that waited for them go on.
    pub(crate) fn turn_removals(&mut self) {
        if self.cleanup.turn() {
            let cleanup = &self.cleanup;
            self.restarts
                .release(Instant::now(), |proc| !cleanup.concerns(proc));
        }
    }

    /// Returns `true` if a turn would not have to wait.
    pub(crate) fn is_busy(&mut self) -> bool {
        self.release_early();
        self.streams.is_busy()
            || self.others.nodes.are_busy()
            || self.mailbox.has_next()
            || self.is_collect_due()
            || self.starting.has_cancelled()
    }

    /// Returns the time of the next turn if no event comes before.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let deadlines = [
            self.streams.deadline(),
            self.monitors.deadline(),
            self.figures.deadline(),
            self.restarts.deadline(),
            self.cleanup.deadline(now),
            self.pmi.deadline(),
            self.others.nodes.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Returns `true` if all processes and orphans have ended and all output was written.
    pub(crate) fn is_over(&self) -> bool {
        // In this order, because orphans are read from `/proc`, which costs more than the counts.
        self.jobs.num_running() == 0
            && self.children.ended().is_empty()
            && self.others.nodes.are_over()
            && self.streams.are_over()
            && !self.children.are_orphans_awaited(&self.jobs)
    }

    /// Gives up output files without progress if no process runs. Returns the time of the next check.
    pub(crate) fn give_up_files(&mut self, now: Instant) -> Option<Instant> {
        match self.jobs.num_running() {
            0 => self.streams.give_up_files(now),
            _ => None,
        }
    }

    /// Drops the rest of the output. If readers have read some since the last call, returns `false` and drops nothing,
    /// unless `is_impatient`.
    pub(crate) fn lose_output(&mut self, is_impatient: bool) -> bool {
        let has_more = self.streams.have_progressed();
        // A slow reader gets more time as long as it reads. After an interrupt the user does not want to wait for it.
        if has_more && !is_impatient {
            return false;
        }
        self.streams.lose();
        true
    }

    /// Stops reading the output of a job.
    pub(crate) fn close_output(&mut self, nspace: &Nspace<'_>) {
        self.streams.close(nspace);
    }

    /// Returns `true` if the standard output of the processes of a plan is a pseudo terminal, to which programs write
    /// each line at once.
    pub(crate) fn has_live_output(&self, plan: &Plan) -> bool {
        self.streams.are_live(plan)
    }

    /// Gives the pseudo terminals of processes the size of the launcher's terminal.
    pub(crate) fn resize_terminals(&self) {
        self.streams.resize();
    }

    /// Writes a text of the launcher itself to its standard error.
    pub(crate) fn write_error(&mut self, text: &str) {
        self.streams.write_error(text);
    }

    /// Returns `true` if standard error accepts more text.
    pub(crate) fn has_room_for_errors(&self) -> bool {
        self.streams.has_room_for_errors()
    }

    /// Waits for the removal of all files, after the end of all processes.
    pub(crate) fn finish(&mut self) {
        self.finish_nodes();
        self.cleanup.finish();
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
