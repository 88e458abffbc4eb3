// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descendants of processes that left the process group of the job: daemons, shells with job control.
//!
//! An orphan becomes a child of the nearest ancestor that is a subreaper (`PR_SET_CHILD_SUBREAPER`). A launcher that
//! is one finds all orphans of its jobs among its children.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgid, getpid, kill_process, set_child_subreaper, waitid,
};

use super::watcher::is_watcher;
use crate::stacks::StackPrograms;

/// The time that the watchers of killed launchers have to remove files.
const REMOVAL: Duration = Duration::from_secs(2);

/// The time between two checks of such a watcher.
const PAUSE: Duration = Duration::from_millis(5);

/// The orphans of the jobs of a launcher. Dropping it kills those that are left.
///
/// Drop it after the tables of processes: every child of the launcher then counts as an orphan, except the
/// [spared](Self::spare) ones and programs that print stacks. The predicates of its methods tell the processes of jobs
/// from orphans.
pub(crate) struct Orphans {
    adopts: bool,
    /// `true` after the session stopped waiting for orphans.
    abandoned: bool,
    /// The children that are not part of a job.
    spared: Vec<Pid>,
    /// The programs that print stacks, which are not part of a job either.
    stack_programs: StackPrograms,
}

impl Orphans {
    /// Starts adopting orphans if `adopts` is `true`. All children of the launcher must belong to jobs, except the
    /// programs that print stacks.
    pub(crate) fn adopt(adopts: bool, stack_programs: StackPrograms) -> Self {
        if adopts && let Err(e) = set_child_subreaper(Some(getpid())) {
            tracing::debug!("cannot adopt processes that leave their process group: {e}");
            return Self::new(false, stack_programs);
        }
        Self::new(adopts, stack_programs)
    }

    fn new(adopts: bool, stack_programs: StackPrograms) -> Self {
        Self {
            adopts,
            abandoned: false,
            spared: Vec::new(),
            stack_programs,
        }
    }

    /// Excludes children that are not part of a job.
    pub(crate) fn spare(&mut self, children: Vec<Pid>) {
        self.spared.extend(children);
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

    /// Kills all orphans except watchers.
    ///
    /// A launcher that is a process of a job, or an agent that this launcher started, leaves its watcher if it is killed.
    /// Without the watcher, the files of that launcher would be left. The watcher ends by itself.
    pub(crate) fn kill(&self, is_process: impl Fn(Pid) -> bool) {
        for pid in self.others(is_process) {
            if !is_watcher(pid) {
                kill(pid);
            }
        }
    }

    fn others(&self, is_process: impl Fn(Pid) -> bool) -> Vec<Pid> {
        if !self.adopts {
            return Vec::new();
        }
        let mut children = self.children();
        children.retain(|&pid| !is_process(pid));
        children
    }

    /// Returns the children of all threads of this process that may be part of a job.
    fn children(&self) -> Vec<Pid> {
        // `/proc` lists them without disk access, and the number of threads and children is bounded.
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
        let mut children = Vec::new();
        for thread in threads.flatten() {
            let number = thread.file_name().to_str().and_then(to_pid);
            let is_spared = || number.is_some_and(|number| self.stack_programs.has_thread(number));
            if is_spared() {
                continue;
            }
            let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            // Asked again, because the thread may have started a program in the meantime.
            if !is_spared() {
                children.extend(list.split_ascii_whitespace().filter_map(to_pid));
            }
        }
        children.retain(|&pid| !self.spared.contains(&pid) && !self.stack_programs.has(pid));
        children
    }
}

impl Orphans {
    /// Kills the remaining orphans and stops adopting. Every other child, except the spared ones, must have
    /// been reaped before.
    pub(crate) fn end(&mut self) {
        if !std::mem::take(&mut self.adopts) {
            return;
        }
        // Killing one generation makes its children orphans, so the list is read again. The number of rounds is
        // bounded because a process can fork faster than its children are killed.
        let until = Instant::now() + REMOVAL;
        let mut num_rounds = 0;
        while num_rounds < 100 {
            let children = self.children();
            if children.is_empty() {
                break;
            }
            let is_late = Instant::now() >= until;
            let (watchers, others): (Vec<_>, Vec<_>) =
                (children.into_iter()).partition(|pid| !is_late && is_watcher(*pid));
            if others.is_empty() {
                std::thread::sleep(PAUSE);
            } else {
                num_rounds += 1;
            }
            for pid in others {
                kill(pid);
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            }
            for pid in watchers {
                let _ = waitid(
                    WaitId::Pid(pid),
                    WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
                );
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

fn to_pid(number: &str) -> Option<Pid> {
    Pid::from_raw(number.parse().ok()?)
}
