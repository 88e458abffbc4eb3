// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launchers that a tool started: the running ones, and those that have connected to the tool.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmix_tool::{Attachment, Tool};
use pmix_types::Proc;
use rustix::process::{Pid, Signal, kill_process};

/// The time that `PMIx_tool_finalize` waits for launchers to exit after SIGTERM, and again after SIGKILL. `pmix run`
/// waits half as long for the processes of its job.
const GRACE: Duration = Duration::from_secs(10);

/// The total time that `PMIx_tool_finalize` waits for replies of the launchers that are servers of the tool.
const LEAVING: Duration = Duration::from_secs(3);

/// The launchers of a tool.
#[derive(Default)]
pub(crate) struct Launchers {
    last: u64,
    started: Vec<Started>,
    /// The launchers that have connected to the tool but are not its servers.
    connected: Vec<Attachment>,
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
    _is_there: OwnedFd,
}

/// The process of a launcher. Its pid is dropped before the process is reaped, so that no signal reaches another
/// process with the same pid.
#[derive(Clone)]
pub(crate) struct Process(Arc<Number>);

struct Number {
    pid: Mutex<Option<Pid>>,
    /// Notified when the pid is dropped.
    is_gone: Condvar,
}

impl Process {
    pub(crate) fn new(pid: Pid) -> Self {
        Self(Arc::new(Number {
            pid: Mutex::new(Some(pid)),
            is_gone: Condvar::new(),
        }))
    }

    /// Drops the pid, then reaps the process with `wait`.
    pub(crate) fn reap<T>(&self, wait: impl FnOnce() -> T) -> T {
        let mut pid = self.lock();
        *pid = None;
        self.0.is_gone.notify_all();
        wait()
    }

    /// Sends a signal to the process if it has not been reaped.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = *self.lock()
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::debug!("cannot forward a signal to a launcher: {error}");
        }
    }

    /// Waits at most `limit` for the process to exit. Returns `true` if it has.
    fn wait(&self, limit: Duration) -> bool {
        let is_there = |pid: &mut Option<Pid>| pid.is_some();
        let waited = self
            .0
            .is_gone
            .wait_timeout_while(self.lock(), limit, is_there);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launchers {
    /// Returns the number of the next launcher.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Adds a running launcher. `is_there` is the end of the pipe by which the launcher detects that the tool exits.
    pub(crate) fn started(&mut self, proc: Proc<'static>, process: Process, is_there: OwnedFd) {
        // Joins the threads of launchers that have exited before.
        for one in &mut self.started {
            if let Some(done) = one.watcher.take_if(|watcher| watcher.is_finished()) {
                join(done);
            }
        }
        let running = Some(Running {
            process,
            _is_there: is_there,
        });
        self.started.push(Started {
            proc,
            running,
            watcher: None,
        });
    }

    /// Stores the thread that waits for a launcher to exit.
    pub(crate) fn watched(&mut self, launcher: &Proc<'_>, watcher: JoinHandle<()>) {
        let mut started = self.started.iter_mut();
        if let Some(one) = started.find(|one| one.proc == *launcher) {
            one.watcher = Some(watcher);
        }
    }

    /// Removes a launcher that could not be started completely.
    pub(crate) fn forget(&mut self, launcher: &Proc<'_>) {
        self.started.retain(|one| one.proc != *launcher);
    }

    /// Marks a launcher as exited. Returns `true` if the tool started it.
    pub(crate) fn ended(&mut self, launcher: &Proc<'_>) -> bool {
        let mut started = self.started.iter_mut();
        let ended = started.find(|one| one.proc == *launcher);
        ended.map(|one| one.running = None).is_some()
    }

    /// Adds a launcher that has connected to the tool.
    pub(crate) fn connected(&mut self, made: Attachment) {
        self.connected.push(made);
    }

    /// Removes and returns a launcher that has connected, to make it a server of the tool.
    pub(crate) fn take(&mut self, launcher: &Proc<'_>) -> Option<Attachment> {
        let mut connected = self.connected.iter();
        let place = connected.position(|one| one.server() == launcher)?;
        Some(self.connected.swap_remove(place))
    }

    pub(crate) fn has_connected(&self, launcher: &Proc<'_>) -> bool {
        self.connected.iter().any(|one| one.server() == launcher)
    }

    /// Returns `true` if the tool started a launcher and it has exited, so that it will not connect any more.
    pub(crate) fn has_ended(&self, launcher: &Proc<'_>) -> bool {
        let mut started = self.started.iter();
        started.any(|one| one.proc == *launcher && one.running.is_none())
    }

    /// Disconnects from the launchers that are servers of the tool, and terminates those that still run, since they
    /// serve no one else. No thread waits for a launcher after this returns, unless a process could not be killed.
    pub(crate) fn end(mut self, tool: &mut Tool) {
        let end = Instant::now() + LEAVING;
        for one in &self.started {
            let Ok(server) = tool.remove(&one.proc) else {
                continue;
            };
            // A launcher that does not reply is terminated below.
            if let Err(error) = server.leave_within(until(end)) {
                tracing::warn!("cannot disconnect from a launcher: {error}");
            }
        }
        // The tool has no requests at these launchers, so the connections are closed without a handshake.
        self.connected.drain(..).for_each(Attachment::close);
        let running = self.started.iter().filter_map(|one| one.running.as_ref());
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
        let watchers = self.started.into_iter().filter_map(|one| one.watcher);
        watchers.filter(|_| all_ended).for_each(join);
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
