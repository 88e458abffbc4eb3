// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launchers that a tool without a server starts as its children, and that connect to the tool's own server.
//!
//! The server of the tool registers such a launcher as a job of one process. After the launcher has received its job
//! info, its connection passes to the tool. The tool sends requests over it once it has selected the launcher as its
//! server ([`Launchers::take`], [`Tool::add`], [`Tool::set_server`]).
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Indirect launch"; OpenPMIx, `pfexec`, for the pipe by which
//! a launcher detects that its tool has exited.

mod command_line;
mod process;
mod start;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmix_client::{ClientEvent, ThreadStart};
use pmix_types::{Info, Proc};
use rustix::process::Signal;

use crate::{Attachment, Tool};
use process::Process;

/// The time that [`Launchers::end`] waits for launchers to exit after SIGTERM, and again after SIGKILL. `pmix run` waits
/// half as long for the processes of its job.
const GRACE: Duration = Duration::from_secs(10);

/// The total time that [`Launchers::end`] waits for replies of the launchers that are servers of the tool.
const LEAVING: Duration = Duration::from_secs(3);

/// The size of the stack of the thread that waits for a launcher.
const STACK_BYTES: usize = 128 << 10;

/// A change of the launchers. It is reported by any thread, which must not be blocked.
#[derive(Debug)]
#[non_exhaustive]
pub enum LauncherEvent {
    /// A launcher has connected, so that the tool can select it as its server.
    Connected(Proc<'static>),
    /// A launcher has exited. The infos are those of the event `PMIX_EVENT_JOB_END`.
    Ended(Proc<'static>, Vec<Info<'static>>),
}

/// A handler of the messages that a launcher sends without a request.
pub type LauncherListener = Box<dyn FnMut(ClientEvent) + Send>;

/// The launchers that a tool started. Clones are handles of the same launchers.
#[derive(Clone)]
pub struct Launchers(Arc<Inner>);

struct Inner {
    list: Mutex<List>,
    thread_start: Option<ThreadStart>,
    notify: Box<dyn Fn(LauncherEvent) + Send + Sync>,
    listener: Box<dyn Fn(&Proc<'static>) -> LauncherListener + Send + Sync>,
}

#[derive(Default)]
struct List {
    last: u64,
    started: Vec<Started>,
    /// The launchers that have connected to the tool but are not its servers.
    connected: Vec<Attachment>,
    /// `true` if the tool ends: no launcher is added any more.
    has_ended: bool,
}

/// A launcher that the tool started.
struct Started {
    proc: Proc<'static>,
    /// The running process; `None` after it has exited.
    running: Option<Running>,
    /// The thread that waits for the process to exit.
    watcher: Option<JoinHandle<()>>,
}

struct Running {
    process: Process,
    /// The read end of the keepalive pipe, which the kernel closes when the tool exits.
    _keepalive: OwnedFd,
}

impl Launchers {
    /// Creates the launchers of a tool without any. `notify` receives their changes. `listener` returns a handler for
    /// the messages of a launcher. Each thread calls `thread_start` first.
    #[must_use]
    pub fn new(
        notify: impl Fn(LauncherEvent) + Send + Sync + 'static,
        listener: impl Fn(&Proc<'static>) -> LauncherListener + Send + Sync + 'static,
        thread_start: Option<ThreadStart>,
    ) -> Self {
        Self(Arc::new(Inner {
            list: Mutex::default(),
            thread_start,
            notify: Box::new(notify),
            listener: Box::new(listener),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the next launcher.
    fn next_number(&self) -> u64 {
        let mut list = self.lock();
        list.last += 1;
        list.last
    }

    /// Adds a running launcher. `keepalive` is the end of the pipe by which the launcher detects that the tool exits.
    fn add_started(&self, proc: Proc<'static>, process: Process, keepalive: OwnedFd) {
        let mut list = self.lock();
        if list.has_ended {
            return;
        }
        // Joins the threads of launchers that have exited before.
        for launcher in &mut list.started {
            if let Some(done) = { &mut launcher.watcher }.take_if(|watcher| watcher.is_finished()) {
                join(done);
            }
        }
        let running = Some(Running {
            process,
            _keepalive: keepalive,
        });
        list.started.push(Started {
            proc,
            running,
            watcher: None,
        });
    }

    /// Stores the thread that waits for a launcher to exit.
    fn set_watcher(&self, launcher: &Proc<'_>, watcher: JoinHandle<()>) {
        let mut list = self.lock();
        let mut started = list.started.iter_mut();
        if let Some(started) = started.find(|started| started.proc == *launcher) {
            started.watcher = Some(watcher);
        }
    }

    /// Removes a launcher that could not be started completely.
    fn forget(&self, launcher: &Proc<'_>) {
        self.lock().started.retain(|one| one.proc != *launcher);
    }

    /// Marks a launcher as exited. Returns `true` if it was known, and its connection if the tool has not taken it.
    fn set_ended(&self, launcher: &Proc<'_>) -> (bool, Option<Attachment>) {
        let mut list = self.lock();
        let mut started = list.started.iter_mut();
        let ended = started.find(|started| started.proc == *launcher);
        let is_known = ended.map(|ended| ended.running = None).is_some();
        (is_known, list.take(launcher))
    }

    /// Adds a launcher that has connected to the tool. Hands it back if it has exited or the tool ends.
    fn add_connected(&self, made: Attachment) -> Option<Attachment> {
        let mut list = self.lock();
        if list.has_ended || list.is_ended(made.server()) {
            return Some(made);
        }
        list.connected.push(made);
        None
    }

    /// Removes and returns a launcher that has connected, to make it a server of the tool.
    #[must_use]
    pub fn take(&self, launcher: &Proc<'_>) -> Option<Attachment> {
        self.lock().take(launcher)
    }

    /// Returns `true` if a launcher has connected and the tool has not taken it.
    #[must_use]
    pub fn has_connected(&self, launcher: &Proc<'_>) -> bool {
        let list = self.lock();
        list.connected.iter().any(|one| one.server() == launcher)
    }

    /// Returns `true` if the tool started a launcher and it has exited, so that it will not connect any more.
    #[must_use]
    pub fn has_ended(&self, launcher: &Proc<'_>) -> bool {
        self.lock().is_ended(launcher)
    }

    /// Disconnects from the launchers that are servers of the tool, and terminates those that still run, since they
    /// serve no one else. No thread waits for a launcher after this returns, unless a process could not be killed.
    pub fn end(self, tool: &mut Tool) {
        let (started, connected) = {
            let mut list = self.lock();
            list.has_ended = true;
            let started = std::mem::take(&mut list.started);
            (started, std::mem::take(&mut list.connected))
        };
        let end = Instant::now() + LEAVING;
        for launcher in &started {
            let Ok(server) = tool.remove(&launcher.proc) else {
                continue;
            };
            // A launcher that does not reply is terminated below.
            if let Err(error) = server.finalize_within(until(end)) {
                tracing::warn!("cannot disconnect from a launcher: {error}");
            }
        }
        // The tool has no requests at these launchers, so the connections are closed without a handshake.
        connected.into_iter().for_each(Attachment::close);
        let running = started.iter().filter_map(|one| one.running.as_ref());
        let running: Vec<_> = running.map(|running| running.process.clone()).collect();
        for signal in [Signal::TERM, Signal::KILL] {
            running.iter().for_each(|one| one.signal(signal));
            // A stopped process handles SIGTERM only after SIGCONT.
            running.iter().for_each(|one| one.signal(Signal::CONT));
            let end = Instant::now() + GRACE;
            if running.iter().all(|one| one.wait(until(end))) {
                break;
            }
        }
        // If the kernel has not ended a process, its thread is not joined: it may wait forever.
        let all_ended = running.iter().all(|one| one.wait(Duration::ZERO));
        let watchers = started.into_iter().filter_map(|one| one.watcher);
        watchers.filter(|_| all_ended).for_each(join);
    }
}

impl List {
    fn take(&mut self, launcher: &Proc<'_>) -> Option<Attachment> {
        let mut connected = self.connected.iter();
        let place = connected.position(|one| one.server() == launcher)?;
        Some(self.connected.swap_remove(place))
    }

    fn is_ended(&self, launcher: &Proc<'_>) -> bool {
        let mut started = self.started.iter();
        started.any(|one| one.proc == *launcher && one.running.is_none())
    }
}

fn until(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

fn join(watcher: JoinHandle<()>) {
    if watcher.join().is_err() {
        tracing::error!("the thread of a launcher panicked");
    }
}
