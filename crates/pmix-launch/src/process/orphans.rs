// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descendants of processes that left the process group of the job: daemons, shells with job control.
//!
//! An orphan becomes a child of the nearest ancestor that is a subreaper (`PR_SET_CHILD_SUBREAPER`). A launcher that
//! is one finds all orphans of its jobs among its children.

use std::fs;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgid, getpid, kill_process, set_child_subreaper, waitid,
};

/// The orphans of the jobs of a launcher. Dropping it kills those that are left.
///
/// Drop it after the tables of processes: every child of the launcher then counts as an orphan, except the
/// [spared](Self::spare) one. The predicates of its methods tell the processes of jobs from orphans.
pub(crate) struct Orphans {
    adopts: bool,
    /// `true` after the session stopped waiting for orphans.
    abandoned: bool,
    /// The child that is not part of a job.
    spared: Option<Pid>,
}

impl Orphans {
    /// Starts adopting orphans if `adopts` is `true`. All children of the launcher must belong to jobs.
    pub(crate) fn adopt(adopts: bool) -> Self {
        if adopts && let Err(e) = set_child_subreaper(Some(getpid())) {
            tracing::debug!("cannot adopt processes that leave their process group: {e}");
            return Self::new(false);
        }
        Self::new(adopts)
    }

    fn new(adopts: bool) -> Self {
        Self {
            adopts,
            abandoned: false,
            spared: None,
        }
    }

    /// Excludes a child that is not part of a job.
    pub(crate) fn spare(&mut self, child: Option<Pid>) {
        self.spared = child;
    }

    /// Returns `true` if the job waits for orphans: they may have work to finish, for example `tee`.
    pub(crate) fn are_awaited(&self, is_process: impl Fn(Pid) -> bool) -> bool {
        !self.abandoned && !self.others(is_process).is_empty()
    }

    /// Returns `true` if an orphan is in a process group that one of these processes leads.
    pub(crate) fn are_in(
        &self,
        is_process: impl Fn(Pid) -> bool,
        is_leader: impl Fn(Pid) -> bool,
    ) -> bool {
        let others = self.others(is_process);
        let mut groups = others.into_iter().map(|pid| getpgid(Some(pid)));
        groups.any(|group| group.is_ok_and(&is_leader))
    }

    /// Stops waiting for orphans.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Reaps the orphans that exited.
    pub(crate) fn reap(&self, is_process: impl Fn(Pid) -> bool) {
        for pid in self.others(is_process) {
            let _ = waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
            );
        }
    }

    /// Kills all orphans.
    pub(crate) fn kill(&self, is_process: impl Fn(Pid) -> bool) {
        for pid in self.others(is_process) {
            kill(pid);
        }
    }

    fn others(&self, is_process: impl Fn(Pid) -> bool) -> Vec<Pid> {
        if !self.adopts {
            return Vec::new();
        }
        let mut children = children();
        children.retain(|&pid| self.spared != Some(pid) && !is_process(pid));
        children
    }
}

impl Orphans {
    /// Kills the remaining orphans and stops adopting. Every other child, except the spared one, must have been
    /// reaped before.
    pub(crate) fn end(&mut self) {
        if !std::mem::take(&mut self.adopts) {
            return;
        }
        // Killing one generation makes its children orphans, so the list is read again. The number of rounds is
        // bounded because a process can fork faster than its children are killed.
        for _ in 0..100 {
            let mut children = children();
            children.retain(|&pid| self.spared != Some(pid));
            if children.is_empty() {
                break;
            }
            for pid in children {
                kill(pid);
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            }
        }
        if let Err(e) = set_child_subreaper(None) {
            tracing::debug!("cannot stop adopting processes: {e}");
        }
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        self.end();
    }
}

/// Kills a child. A child that was not reaped keeps its process id, so the signal cannot reach another process.
fn kill(pid: Pid) {
    if let Err(e) = kill_process(pid, Signal::KILL) {
        tracing::debug!("cannot kill process {pid}: {e}");
    }
}

/// Returns the children of all threads of this process.
fn children() -> Vec<Pid> {
    // `/proc` lists them without disk access, and the number of threads and children is bounded.
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let mut children = Vec::new();
    for list in lists {
        let numbers = list.split_ascii_whitespace();
        children.extend(numbers.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    children
}
