// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a session on one node: its directory, the paths that processes registered for cleanup, and the watcher
//! process that removes all of them if the launcher is killed.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use pmix_host::cleanup::ProtectedPaths;
use pmix_server::Cleanup as CleanupPaths;
use pmix_types::Proc;
use rustix::process::Pid;

use super::begun_removals::BegunRemovals;
use super::removals::Removals;
use crate::input::SavedModes;
use crate::preparation::Discarded;
use crate::process::Watcher;
use crate::session_dir::{JobDir, SessionDir};

/// The files of a session and their removal.
///
/// The order of the fields is the order of their drop: the watcher ends after everything that it would remove has been
/// removed.
pub(crate) struct Cleanup {
    dir: SessionDir,
    watcher: Watcher,
    /// The removals of files and directories by threads.
    removals: Removals,
    /// The removals of registered paths that are in progress.
    begun: BegunRemovals,
    protected: Arc<ProtectedPaths>,
    /// The channel for the places of jobs that are not started and whose files are to be removed.
    discarded: (Sender<Discarded>, Receiver<Discarded>),
}

impl Cleanup {
    pub(super) fn new(
        dir: SessionDir,
        watcher: Watcher,
        protected: ProtectedPaths,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            dir,
            watcher,
            removals: Removals::new(wake),
            begun: BegunRemovals::default(),
            protected: Arc::new(protected),
            discarded: channel(),
        }
    }

    /// Returns the directory of the session.
    pub(super) fn dir(&self) -> &SessionDir {
        &self.dir
    }

    /// Returns the path of the directory of the session.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the sender for the places of jobs that are not started.
    pub(super) fn discarded(&self) -> Sender<Discarded> {
        self.discarded.0.clone()
    }

    /// Registers the modes of the launcher's terminal with the watcher.
    pub(super) fn register_terminal(&mut self, modes: &SavedModes) {
        self.watcher.restore_terminal_later(modes);
    }

    /// Registers a started process with the watcher.
    pub(super) fn register_process(&mut self, pid: Pid) {
        self.watcher.register(pid);
    }

    /// Deregisters a process that was reaped: its process id may be reused, so the watcher must not kill it.
    pub(super) fn deregister_process(&mut self, pid: Pid) {
        self.watcher.deregister(pid);
    }

    /// Registers paths for the end of a process or a job.
    pub(super) fn register_paths(
        &mut self,
        target: &Proc<'static>,
        user: u32,
        paths: &CleanupPaths,
    ) {
        // If a removal for the target runs, the watcher forgets the target at its end. This keeps later paths.
        self.begun.register(target, user, paths);
        self.watcher.remove_later(target, user, paths);
        // The files may exist already, and the launcher may be killed before its turn ends.
        self.watcher.flush();
    }

    /// Removes the paths that were registered for a process or a job that has ended.
    pub(super) fn remove_paths(&mut self, target: Proc<'static>, user: u32, paths: CleanupPaths) {
        self.begun.begin(&target, user);
        // The removal may begin at once in a thread, so it is counted before: a restart must not overtake it.
        self.removals.clean(paths, target, user, &self.protected);
    }

    /// Removes the directory of a job.
    pub(super) fn remove_job(&mut self, dir: &JobDir) {
        self.removals.job_dir(dir);
    }

    /// Returns `true` while paths that were registered for the process or its job are being removed.
    pub(super) fn concerns(&self, proc: &Proc<'static>) -> bool {
        self.begun.concerns(proc)
    }

    /// Handles completed removals, and writes waiting lines to the watcher. Returns `true` if a removal has completed.
    pub(super) fn turn(&mut self) -> bool {
        self.remove_discarded();
        let ended = self.removals.turn();
        let has_ended = !ended.is_empty();
        for registered in ended {
            if let Some(later) = self.begun.end(&registered) {
                let (target, user) = registered;
                self.watcher.removed(&target, user);
                // The `removed` line also deregistered these, so they are sent again.
                let later = later.iter();
                later.for_each(|paths| self.watcher.remove_later(&target, user, paths));
            }
        }
        self.watcher.flush();
        has_ended
    }

    /// Returns the time of the next turn if no removal completes before.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let deadlines = [self.removals.deadline(now), self.watcher.deadline(now)];
        deadlines.into_iter().flatten().min()
    }

    fn remove_discarded(&mut self) {
        while let Ok(discarded) = self.discarded.1.try_recv() {
            self.removals.discard(discarded);
        }
    }

    /// Waits for removals while they make progress, and leaves the rest to the watcher.
    pub(super) fn finish(&mut self) {
        const NAMED: usize = 4;
        self.remove_discarded();
        // All removals are queued by this time: the wait ends when the queue is empty or makes no progress.
        let finished = self.removals.finish(&mut self.dir);
        for (target, user) in finished.ended {
            self.watcher.removed(&target, user);
        }
        let remaining = finished.remaining;
        if remaining.is_empty() {
            return;
        }
        // A job may leave thousands of removals, and the message is for a terminal.
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
}
