// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process of a launcher: signals for it, and its exit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The process of a launcher. Its pid is dropped before the process is reaped, so that no signal reaches another
/// process with the same pid.
#[derive(Clone)]
pub(super) struct Process(Arc<PidHolder>);

struct PidHolder {
    pid: Mutex<Option<Pid>>,
    /// Notified when the pid is dropped.
    reaped: Condvar,
}

impl Process {
    pub(super) fn new(pid: Pid) -> Self {
        Self(Arc::new(PidHolder {
            pid: Mutex::new(Some(pid)),
            reaped: Condvar::new(),
        }))
    }

    /// Drops the pid, then reaps the process with `wait`.
    pub(super) fn reap<T>(&self, wait: impl FnOnce() -> T) -> T {
        let mut pid = self.lock();
        *pid = None;
        self.0.reaped.notify_all();
        wait()
    }

    /// Sends a signal to the process if it has not been reaped.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = *self.lock()
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::debug!("cannot forward a signal to a launcher: {error}");
        }
    }

    /// Waits at most `limit` for the process to exit. Returns `true` if it has.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let is_running = |pid: &mut Option<Pid>| pid.is_some();
        let waited = self
            .0
            .reaped
            .wait_timeout_while(self.lock(), limit, is_running);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
