// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launchers that a tool has started itself: which run, and which have connected with it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmix_tool::{Attachment, Tool};
use pmix_types::Proc;
use rustix::process::{Pid, Signal, kill_process};

/// How long `PMIx_tool_finalize` waits for launchers to end after SIGTERM, and again after SIGKILL. `pmix run` waits half as
/// long for the processes of its job.
const GRACE: Duration = Duration::from_secs(10);

/// How long `PMIx_tool_finalize` waits for the answers of the launchers that are servers of the tool, all together.
const LEAVING: Duration = Duration::from_secs(3);

/// The launchers of a tool.
#[derive(Default)]
pub(crate) struct Launchers {
    last: u64,
    started: Vec<Started>,
    /// Those that have connected and are no servers of the tool.
    connected: Vec<Attachment>,
}

/// A launcher that was started.
struct Started {
    proc: Proc<'static>,
    /// None when it has ended.
    running: Option<Running>,
    /// The thread that waits for its end.
    watcher: Option<JoinHandle<()>>,
}

struct Running {
    process: Process,
    /// The read end of the keepalive pipe, which the system closes when the tool ends.
    _is_there: OwnedFd,
}

/// The process of a launcher. Its pid is kept only until the process is reaped, so that no signal goes to another process.
#[derive(Clone)]
pub(crate) struct Process(Arc<Number>);

struct Number {
    pid: Mutex<Option<Pid>>,
    /// Notified when the pid is forgotten.
    is_gone: Condvar,
}

impl Process {
    pub(crate) fn new(pid: Pid) -> Self {
        Self(Arc::new(Number {
            pid: Mutex::new(Some(pid)),
            is_gone: Condvar::new(),
        }))
    }

    /// Forgets the pid, then reaps the process.
    pub(crate) fn reap<T>(&self, wait: impl FnOnce() -> T) -> T {
        let mut pid = self.lock();
        *pid = None;
        self.0.is_gone.notify_all();
        wait()
    }

    /// Sends it a signal, if it is there.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = *self.lock()
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::debug!("cannot forward a signal to a launcher: {error}");
        }
    }

    /// Waits until it has ended, so long at the most. Returns whether it has.
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

    /// A launcher runs: its process, and the end of a pipe by which it knows that the tool is there.
    pub(crate) fn started(&mut self, proc: Proc<'static>, process: Process, is_there: OwnedFd) {
        // Threads of those that have ended before are not kept.
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

    /// A thread waits for the end of a launcher.
    pub(crate) fn watched(&mut self, launcher: &Proc<'_>, watcher: JoinHandle<()>) {
        let mut started = self.started.iter_mut();
        if let Some(one) = started.find(|one| one.proc == *launcher) {
            one.watcher = Some(watcher);
        }
    }

    /// A launcher that was started is none of these.
    pub(crate) fn forget(&mut self, launcher: &Proc<'_>) {
        self.started.retain(|one| one.proc != *launcher);
    }

    /// A launcher has ended. Returns whether it is one of these.
    pub(crate) fn ended(&mut self, launcher: &Proc<'_>) -> bool {
        let mut started = self.started.iter_mut();
        let ended = started.find(|one| one.proc == *launcher);
        ended.map(|one| one.running = None).is_some()
    }

    /// A launcher has connected.
    pub(crate) fn connected(&mut self, made: Attachment) {
        self.connected.push(made);
    }

    /// Takes a launcher that has connected, to make it a server of the tool.
    pub(crate) fn take(&mut self, launcher: &Proc<'_>) -> Option<Attachment> {
        let mut connected = self.connected.iter();
        let place = connected.position(|one| one.server() == launcher)?;
        Some(self.connected.swap_remove(place))
    }

    pub(crate) fn has_connected(&self, launcher: &Proc<'_>) -> bool {
        self.connected.iter().any(|one| one.server() == launcher)
    }

    /// Whether a launcher was started and has ended, so that it will not connect any more.
    pub(crate) fn has_ended(&self, launcher: &Proc<'_>) -> bool {
        let mut started = self.started.iter();
        started.any(|one| one.proc == *launcher && one.running.is_none())
    }

    /// Leaves those that are servers of the tool, and ends those that still run: nobody is there any more whom they
    /// serve. No thread waits for one when this returns.
    pub(crate) fn end(mut self, tool: &mut Tool) {
        let end = Instant::now() + LEAVING;
        for one in &self.started {
            let Ok(server) = tool.remove(&one.proc) else {
                continue;
            };
            // One that does not answer is ended all the same.
            if let Err(error) = server.leave_within(until(end)) {
                tracing::warn!("cannot disconnect from a launcher: {error}");
            }
        }
        // One that the tool asks for nothing is not asked whether it lets the tool go.
        self.connected.drain(..).for_each(Attachment::close);
        let running = self.started.iter().filter_map(|one| one.running.as_ref());
        let running: Vec<_> = running.map(|running| running.process.clone()).collect();
        for signal in [Signal::TERM, Signal::KILL] {
            running.iter().for_each(|one| one.signal(signal));
            // One that is stopped hears no signal but the last.
            running.iter().for_each(|one| one.signal(Signal::CONT));
            let end = Instant::now() + GRACE;
            if running.iter().all(|one| one.wait(until(end))) {
                break;
            }
        }
        // What the system does not end is not waited for.
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
