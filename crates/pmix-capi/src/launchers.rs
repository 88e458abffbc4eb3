// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launchers that a tool has started itself: which run, and which have connected with it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmix_tool::Attachment;
use pmix_types::Proc;
use rustix::process::{Pid, Signal, kill_process};

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
}

struct Running {
    process: Process,
    /// The end of a pipe that the tool holds as long as it is there.
    _is_there: OwnedFd,
}

/// The process of a launcher, until somebody waits for its end: its number is not that of another process as long.
#[derive(Clone)]
pub(crate) struct Process(Arc<Mutex<Option<Pid>>>);

impl Process {
    pub(crate) fn new(pid: Pid) -> Self {
        Self(Arc::new(Mutex::new(Some(pid))))
    }

    /// Has its end waited for, and forgets its number.
    pub(crate) fn reap<T>(&self, wait: impl FnOnce() -> T) -> T {
        let mut pid = self.lock();
        *pid = None;
        wait()
    }

    /// Asks it to end, if it is there.
    fn terminate(&self) {
        if let Some(pid) = *self.lock()
            && let Err(error) = kill_process(pid, Signal::TERM)
        {
            tracing::debug!("a launcher is not asked to end: {error}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let running = Some(Running {
            process,
            _is_there: is_there,
        });
        self.started.push(Started { proc, running });
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

    /// Ends those that still run: nobody is there any more whom they serve.
    pub(crate) fn end(self) {
        for attached in self.connected {
            // It ends anyway.
            let _ = attached.leave();
        }
        for running in self.started.into_iter().filter_map(|one| one.running) {
            running.process.terminate();
        }
    }
}
