// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of a session that are in other process groups than its leader: the jobs of an interactive shell.

use std::collections::HashSet;
use std::fs;

use rustix::process::{
    Pid, PidfdFlags, Signal, getpgid, getpid, getsid, pidfd_open, pidfd_send_signal,
};

/// The largest number of processes of a session that are signaled, because the search is part of the progress thread.
const MOST: usize = 4096;

/// Sends a signal to the processes of a session outside the process group of its leader, and continues those that are
/// stopped. The leader is a child of this process that was not reaped, so its id names no other session.
pub(super) fn signal_session(leader: Pid, signal: Signal) {
    for pid in members(leader) {
        // The descriptor names the same process as the checks after it, also if the id is reused meanwhile.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        if !is_in(pid, leader) || getpgid(Some(pid)) == Ok(leader) {
            continue;
        }
        // A process that exits meanwhile needs no signal.
        let _ = pidfd_send_signal(&process, signal);
        if signal != Signal::KILL {
            let _ = pidfd_send_signal(&process, Signal::CONT);
        }
    }
}

fn is_in(pid: Pid, leader: Pid) -> bool {
    getsid(Some(pid)) == Ok(leader)
}

/// Returns the processes of a session. They are descendants of its leader, or children of this process that lost their
/// parent.
fn members(leader: Pid) -> HashSet<Pid> {
    let mut due = children(getpid());
    let mut found = HashSet::new();
    while let Some(pid) = due.pop() {
        if found.len() < MOST && is_in(pid, leader) && found.insert(pid) {
            due.extend(children(pid));
        }
    }
    found
}

/// Returns the children of all threads of a process. `/proc` lists them without disk access.
fn children(pid: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let mut children = Vec::new();
    for thread in threads.into_iter().flatten().flatten() {
        let listed = fs::read_to_string(thread.path().join("children"));
        let listed = listed.unwrap_or_default();
        let numbers = listed
            .split_whitespace()
            .filter_map(|word| word.parse().ok());
        children.extend(numbers.filter_map(Pid::from_raw));
    }
    children
}
