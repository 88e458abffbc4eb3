// SPDX-License-Identifier: MIT OR Apache-2.0
//! What left the process group that it was started in: daemons, shells with job control.
//!
//! A process whose parent is gone becomes a child of the nearest ancestor that asks for that
//! (`PR_SET_CHILD_SUBREAPER`), so a launcher that asks finds among its children whatever its job
//! left behind.

use std::fs;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgid, getpid, kill_process, set_child_subreaper, waitid,
};

/// Adopts what the processes of a job leave behind, if it is asked to; what is left of it when
/// this is dropped is killed.
///
/// To be dropped after the tables of processes: every child of the launcher is then adopted, but for the one that is
/// [spared](Self::spare). Its methods are given a predicate that tells the processes of jobs from what they left.
pub(crate) struct Orphans {
    adopts: bool,
    /// Nobody waits for them any longer.
    abandoned: bool,
    /// A child that is no part of the job.
    spared: Option<Pid>,
}

impl Orphans {
    /// Adopts from now on. For a launcher all of whose children belong to the job.
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

    /// Leaves a child alone that is no part of the job.
    pub(crate) fn spare(&mut self, child: Option<Pid>) {
        self.spared = child;
    }

    /// Whether the job waits for some of them: they may have something to finish, `tee` for
    /// example.
    pub(crate) fn are_awaited(&self, is_process: impl Fn(Pid) -> bool) -> bool {
        !self.abandoned && !self.others(is_process).is_empty()
    }

    /// Whether some of them are in process groups that these processes lead.
    pub(crate) fn are_in(
        &self,
        is_process: impl Fn(Pid) -> bool,
        is_leader: impl Fn(Pid) -> bool,
    ) -> bool {
        let others = self.others(is_process);
        let mut groups = others.into_iter().map(|pid| getpgid(Some(pid)));
        groups.any(|group| group.is_ok_and(&is_leader))
    }

    /// Waits for them no longer.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Reaps those that ended.
    pub(crate) fn reap(&self, is_process: impl Fn(Pid) -> bool) {
        for pid in self.others(is_process) {
            let _ = waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
            );
        }
    }

    /// Kills them all.
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
    /// Kills what is left and stops adopting. Every other child of this process but the one that is spared must have been
    /// reaped.
    pub(crate) fn end(&mut self) {
        if !std::mem::take(&mut self.adopts) {
            return;
        }
        // Each generation leaves the next one; who starts processes faster than they are killed
        // wins in the end.
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

/// A child that was not reaped keeps its number, so this reaches nobody else.
fn kill(pid: Pid) {
    if let Err(e) = kill_process(pid, Signal::KILL) {
        tracing::debug!("cannot kill process {pid}: {e}");
    }
}

/// The children of this process, of whichever of its threads.
fn children() -> Vec<Pid> {
    // The kernel lists them from memory: the threads of this process are bounded, and so are its children.
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
