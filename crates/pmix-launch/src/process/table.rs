// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of processes, and the states of a process.
//!
//! | state | meaning | leads to |
//! | --- | --- | --- |
//! | `StoppedOnExec` | it waits for a debugger before its first instruction | `Running` by its release; `Ended` |
//! | `Running` | it has not initialized, or has finalized | `Connected` when it initializes; `Ended` |
//! | `Connected` | it has initialized and not finalized | `Running` when it finalizes; `Ended`, which is a failure even with exit code 0 |
//! | `Ended` | it has exited or was killed, and is not reaped | `RestartAwaited` if the controller restarts it |
//! | `RestartAwaited` | it has ended, and counts as running until its next incarnation has started | `Running` as the next incarnation; `Ended` if the restart is given up |
//!
//! Before the first state, a thread starts the process, and the table only counts it. A process is reaped when its job
//! is removed or its next incarnation takes its place.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pmix_types::Rank;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use super::Ending;
use super::session::signal_session;
use pmix_topology::Cpuset;

/// The state of a process towards the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Not initialized.
    None,
    /// Initialized and not finalized.
    Connected,
    /// Finalized.
    Finalized,
}

/// The state of a process; the module has the table of transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    StoppedOnExec,
    Running,
    Connected,
    Ended(Ending),
    RestartAwaited,
}

/// A process of this node, or the copy of the state that the agent of another node reports.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) rank: Rank,
    /// The number of its node if that is another one. The kernel of this node does not know its process id then.
    pub(crate) node: Option<usize>,
    /// The signals for a process of another node that were not passed on.
    orders: Vec<Signal>,
    /// The index of its application.
    pub(crate) app: usize,
    pub(crate) pid: Pid,
    /// The processors to which it is bound.
    pub(crate) cpus: Option<Cpuset>,
    pub(crate) link: Link,
    /// The signals that the launcher sent while it ran; signal `n` is bit `n - 1`.
    signals: u64,
    /// `true` while it is stopped because it executed its program.
    pub(crate) is_stopped_on_exec: bool,
    /// `true` if it leads the session of its terminal.
    pub(crate) leads_session: bool,
    pub(crate) started: Instant,
    /// The time of its first initialize.
    pub(crate) initialized: Option<Instant>,
    /// The processor time that the agent of another node reported.
    pub(crate) processor_time: Option<Duration>,
    /// The largest resident memory that was sampled, in bytes.
    pub(crate) largest_memory: Option<u64>,
    /// The reason for a kill by the kernel.
    pub(crate) kernel_kill: Option<String>,
    pub(crate) ended: Option<(Ending, Instant)>,
    /// `true` after it called `PMIx_Abort`.
    pub(crate) has_aborted: bool,
    /// The number of its restarts.
    pub(crate) num_restarts: u32,
    /// The number of its consecutive failures right after the start.
    pub(crate) num_at_once: u32,
    /// The state of its restart.
    pub(crate) restart: Restart,
}

/// The restart of a process that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Restart {
    #[default]
    No,
    /// Pending; the process counts as running until then.
    Awaited,
    /// Canceled, because the process was terminated meanwhile.
    GivenUp,
}

impl Process {
    pub(super) fn new(
        rank: Rank,
        app: usize,
        pid: Pid,
        cpus: Option<Cpuset>,
        started: Instant,
    ) -> Self {
        Self {
            rank,
            node: None,
            orders: Vec::new(),
            app,
            pid,
            cpus,
            link: Link::None,
            signals: 0,
            is_stopped_on_exec: false,
            leads_session: false,
            started,
            initialized: None,
            processor_time: None,
            largest_memory: None,
            kernel_kill: None,
            ended: None,
            has_aborted: false,
            num_restarts: 0,
            num_at_once: 0,
            restart: Restart::No,
        }
    }

    /// Returns a process of another node.
    pub(crate) fn remote(node: usize, rank: Rank, app: usize, pid: Pid, started: Instant) -> Self {
        Self {
            node: Some(node),
            ..Self::new(rank, app, pid, None, started)
        }
    }

    /// Returns the state of the process.
    pub(crate) fn state(&self) -> ProcessState {
        match (self.ended, self.restart, self.link) {
            (_, Restart::Awaited, _) => ProcessState::RestartAwaited,
            (Some((ending, _)), ..) => ProcessState::Ended(ending),
            (None, ..) if self.is_stopped_on_exec => ProcessState::StoppedOnExec,
            (None, _, Link::Connected) => ProcessState::Connected,
            (None, _, Link::None | Link::Finalized) => ProcessState::Running,
        }
    }

    /// Returns `true` if a signal terminated it that the launcher had sent, either by itself or for a user or a
    /// controlling process. A crash ends a process by another signal.
    pub(crate) fn was_killed_by_command(&self) -> bool {
        match self.ended {
            Some((Ending::Signalled { signal, .. }, _)) => self.signals & bit(signal) != 0,
            _ => false,
        }
    }

    /// Returns `true` if SIGKILL terminated it, which the launcher had not sent.
    pub(crate) fn is_killed_by_other(&self) -> bool {
        let kill = Signal::KILL.as_raw();
        let ending = self.ended.map(|(ending, _)| ending);
        let is_killed = matches!(ending, Some(Ending::Signalled { signal, .. }) if signal == kill);
        is_killed && !self.was_killed_by_command()
    }

    /// Returns `true` if the other processes need not care about its end: it exited with 0, and not between
    /// initialize and finalize.
    pub(crate) fn is_sound(&self) -> bool {
        let is_well = (self.ended).is_some_and(|(ending, _)| ending.exit_code() == 0);
        is_well && self.link != Link::Connected
    }

    /// Sends a signal to the process group of the process.
    fn signal(&mut self, signal: Signal) {
        if self.ended.is_none() {
            self.signals |= bit(signal.as_raw());
        }
        if self.restart == Restart::Awaited && ends(signal) {
            self.restart = Restart::GivenUp;
        }
        if self.node.is_some() {
            return self.orders.push(signal);
        }
        let signal = match signal {
            // The kernel ignores SIGTSTP in a process group without a parent in its session, which could continue it.
            Signal::TSTP if self.leads_session => Signal::STOP,
            signal => signal,
        };
        let sent = match kill_process_group(self.pid, signal) {
            // The process has not begun its session yet, so its group does not exist. It is not reaped, so the signal
            // reaches no other process.
            Err(rustix::io::Errno::SRCH) if self.leads_session => kill_process(self.pid, signal),
            sent => sent,
        };
        // `SRCH`: the group has no process except its leader, which has exited.
        if let Err(e) = sent
            && e != rustix::io::Errno::SRCH
        {
            tracing::debug!("cannot signal rank {}: {e}", self.rank);
        }
        // A shell with job control ignores SIGTERM, and its programs have process groups of their own.
        if !self.leads_session || self.ended.is_some() || !ends(signal) {
            return;
        }
        if ![Signal::INT, Signal::QUIT].contains(&signal) {
            signal_session(self.pid, signal);
        } else {
            // As from the keyboard: programs in the background go on.
            let group = foreground_group(self.pid).filter(|group| *group != self.pid);
            if let Some(Err(e)) = group.map(|group| kill_process_group(group, signal)) {
                tracing::debug!("cannot signal the program of rank {}: {e}", self.rank);
            }
        }
    }
}

/// Returns the foreground process group of the terminal of a session, from the process that leads the session.
fn foreground_group(leader: Pid) -> Option<Pid> {
    let stat = format!("/proc/{}/stat", leader.as_raw_nonzero());
    let stat = std::fs::read_to_string(stat).ok()?;
    // The name of the program, in parentheses, may contain blanks. After it: state, parent, group, session, terminal.
    let (_, fields) = stat.rsplit_once(") ")?;
    // Without a terminal, the group is -1.
    let group = fields.split(' ').nth(5)?.parse::<i32>().ok()?;
    (group > 1).then(|| Pid::from_raw(group)).flatten()
}

/// Returns `true` if a signal is meant to terminate a process.
fn ends(signal: Signal) -> bool {
    [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::ABORT,
        Signal::KILL,
        Signal::TERM,
    ]
    .contains(&signal)
}

/// Returns the bit of a signal, or 0 for an invalid number.
fn bit(signal: i32) -> u64 {
    let place = signal
        .checked_sub(1)
        .and_then(|place| u32::try_from(place).ok());
    place.and_then(|place| 1u64.checked_shl(place)).unwrap_or(0)
}

/// The processes of this node and of those whose agents report to it, in the order of their ranks.
///
/// An ended process is reaped only when the table is dropped. Until then the kernel does not reuse its process id, so
/// a signal to its group can reach its descendants but never an unrelated process.
#[derive(Debug, Default)]
pub(crate) struct Table {
    processes: Vec<Process>,
    /// The number of processes that have not ended, including those that are awaited.
    num_running: usize,
    /// The number of processes that threads are still to start.
    num_awaited: usize,
    /// The signals that were sent to all processes while some were still to start, without repetitions.
    missed: Vec<Signal>,
    /// The number of processes of other nodes.
    num_remote: usize,
    /// `true` if processes of other nodes may have signals that were not passed on.
    has_orders: bool,
    /// The number of ended processes of each node, `None` for this one.
    num_ended: BTreeMap<Option<usize>, usize>,
}

impl Table {
    /// Announces processes that are going to start. They count as running, so that the job does not end before.
    pub(crate) fn expect(&mut self, num_procs: usize) {
        self.num_awaited += num_procs;
        self.num_running += num_procs;
    }

    /// Records that no further process starts.
    pub(crate) fn complete(&mut self) {
        self.num_running -= std::mem::take(&mut self.num_awaited);
        self.missed = Vec::new();
    }

    /// Returns `true` while processes are still to start.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.num_awaited > 0
    }

    /// Adds a process that was just started. It gets the signals that were sent to all processes before.
    pub(crate) fn push(&mut self, mut process: Process) {
        self.missed
            .iter()
            .for_each(|signal| process.signal(*signal));
        self.num_remote += usize::from(process.node.is_some());
        self.has_orders |= !process.orders.is_empty();
        // The processes of one node arrive in the order of their ranks, those of several nodes in any order.
        let place = match self.processes.last() {
            Some(last) if last.rank >= process.rank => {
                self.processes.partition_point(|p| p.rank < process.rank)
            }
            _ => self.processes.len(),
        };
        self.processes.insert(place, process);
        match self.num_awaited.checked_sub(1) {
            Some(num_awaited) => self.num_awaited = num_awaited,
            None => self.num_running += 1,
        }
    }

    /// Returns the number of processes, including those that are still to start.
    pub(crate) fn num_procs(&self) -> usize {
        self.processes.len() + self.num_awaited
    }

    /// Marks an ended process for restart. It counts as running until then. `num_at_once` is the number of its
    /// consecutive failures right after the start.
    pub(crate) fn await_restart(&mut self, place: usize, num_at_once: u32) {
        if let Some(process) = self.processes.get_mut(place)
            && process.restart == Restart::No
        {
            process.restart = Restart::Awaited;
            process.num_at_once = num_at_once;
            self.num_running += 1;
        }
    }

    /// Cancels the restart of a process.
    pub(crate) fn give_up_restart(&mut self, place: usize) {
        if let Some(process) = self.processes.get_mut(place)
            && std::mem::take(&mut process.restart) != Restart::No
        {
            self.num_running -= 1;
        }
    }

    /// Reaps a process that was to be restarted and puts its new incarnation in its place.
    pub(crate) fn replace(&mut self, place: usize, process: Process) {
        self.give_up_restart(place);
        let Some(old) = self.processes.get_mut(place) else {
            return self.push(process);
        };
        if let Some(num_ended) = self.num_ended.get_mut(&None) {
            *num_ended = num_ended.saturating_sub(1);
        }
        // Reaping frees the process id. The old entry is replaced at once, so no signal is sent to the old group.
        let _ = waitid(WaitId::Pid(old.pid), WaitIdOptions::EXITED);
        *old = Process {
            num_restarts: old.num_restarts.saturating_add(1),
            num_at_once: old.num_at_once,
            ..process
        };
        self.num_running += 1;
    }

    /// Kills the rest of the process group of an ended process without canceling its restart.
    pub(crate) fn kill_group(&mut self, place: usize) {
        self.has_orders |= self.num_remote > 0;
        if let Some(process) = self.processes.get_mut(place) {
            let restart = process.restart;
            process.signal(Signal::KILL);
            process.restart = restart;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter()
    }

    /// Returns `true` if the table has this process id.
    pub(crate) fn has(&self, pid: Pid) -> bool {
        let mut here = self
            .processes
            .iter()
            .filter(|process| process.node.is_none());
        here.any(|process| process.pid == pid)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Process> {
        self.processes.get(index)
    }

    /// Returns the process of a rank.
    pub(crate) fn with_rank(&self, rank: Rank) -> Option<&Process> {
        self.processes.get(self.place(rank)?)
    }

    /// Returns the index of a rank.
    pub(crate) fn place(&self, rank: Rank) -> Option<usize> {
        let index = self.processes.binary_search_by_key(&rank, |p| p.rank);
        index.ok()
    }

    /// Returns the process of a rank for modification.
    pub(crate) fn of_rank(&mut self, rank: Rank) -> Option<&mut Process> {
        let place = self.place(rank)?;
        self.processes.get_mut(place)
    }

    /// Returns the number of processes that have not ended or will be restarted.
    pub(crate) fn num_running(&self) -> usize {
        self.num_running
    }

    /// Records the processes that have ended since the last call and returns their indexes. The process with the rank
    /// `left` is skipped until the next call.
    pub(crate) fn ended(&mut self, now: Instant, left: Option<Rank>) -> Vec<usize> {
        let mut ended = Vec::new();
        for (index, process) in self.processes.iter_mut().enumerate() {
            let is_here = process.node.is_none();
            if !is_here || process.ended.is_some() || left == Some(process.rank) {
                continue;
            }
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(process.pid), options) {
                Ok(Some(status)) => {
                    process.ended = Some((Ending::from(&status), now));
                    ended.push(index);
                }
                Ok(None) => {}
                // Another part of this program reaped it, so its status is lost.
                Err(e) => {
                    tracing::warn!(
                        "cannot determine the exit status of rank {}: {e}",
                        process.rank
                    );
                    process.ended = Some((Ending::Exited(u8::MAX), now));
                    ended.push(index);
                }
            }
        }
        self.num_running -= ended.len();
        *self.num_ended.entry(None).or_default() += ended.len();
        ended
    }

    /// Records the end of a process of another node. Returns `false` if it was recorded before, or if the table has no
    /// such process.
    pub(crate) fn end_remote(&mut self, rank: Rank, ending: Ending, now: Instant) -> bool {
        let process = self.of_rank(rank).filter(|process| process.node.is_some());
        let Some(process) = process.filter(|process| process.ended.is_none()) else {
            return false;
        };
        process.ended = Some((ending, now));
        let node = process.node;
        self.num_running = self.num_running.saturating_sub(1);
        *self.num_ended.entry(node).or_default() += 1;
        true
    }

    /// Returns the number of processes of a node that have ended and were not restarted; `None` for this node.
    pub(crate) fn num_ended(&self, node: Option<usize>) -> usize {
        self.num_ended.get(&node).copied().unwrap_or_default()
    }

    /// Returns the ranks of the processes of a node that have not ended.
    pub(crate) fn running_at(&self, node: usize) -> Vec<Rank> {
        let running = self
            .processes
            .iter()
            .filter(|process| process.ended.is_none());
        let there = running.filter(|process| process.node == Some(node));
        there.map(|process| process.rank).collect()
    }

    /// Takes the signals for processes of other nodes: for each node and sequence of signals, the ranks.
    pub(crate) fn take_orders(&mut self) -> BTreeMap<(usize, Vec<i32>), Vec<u32>> {
        let mut orders = BTreeMap::<_, Vec<_>>::new();
        if !std::mem::take(&mut self.has_orders) {
            return orders;
        }
        for process in &mut self.processes {
            if let Some(node) = process.node.filter(|_| !process.orders.is_empty()) {
                let signals = std::mem::take(&mut process.orders).into_iter();
                let signals = signals.map(Signal::as_raw).collect();
                orders
                    .entry((node, signals))
                    .or_default()
                    .push(process.rank.as_raw());
            }
        }
        orders
    }

    /// Sends signals in this order to processes and their descendants, also to those of ended processes.
    pub(crate) fn signal_listed(&mut self, ranks: &[Rank], signals: &[Signal]) {
        for rank in ranks {
            if let Some(process) = self.of_rank(*rank) {
                signals.iter().for_each(|signal| process.signal(*signal));
            }
        }
    }

    /// Sends a signal to all processes and their descendants, also to those of ended processes. Processes that are
    /// still to start get it later.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.has_orders |= self.num_remote > 0;
        if self.is_incomplete() {
            // The last occurrence counts: the order decides between a stop and a continue.
            self.missed.retain(|missed| *missed != signal);
            self.missed.push(signal);
        }
        self.processes.iter_mut().for_each(|p| p.signal(signal));
    }

    /// Sends signals in this order like [`signal`](Self::signal), except to running processes that have finalized. Returns
    /// their ranks.
    pub(crate) fn signal_unless_finalized(&mut self, signals: [Signal; 2]) -> BTreeSet<Rank> {
        self.has_orders |= self.num_remote > 0;
        if self.is_incomplete() {
            signals.into_iter().for_each(|signal| self.signal(signal));
            return BTreeSet::new();
        }
        let mut finalized = BTreeSet::new();
        for process in &mut self.processes {
            match (process.ended, process.link) {
                (None, Link::Finalized) => {
                    finalized.insert(process.rank);
                }
                _ => signals.iter().for_each(|signal| process.signal(*signal)),
            }
        }
        finalized
    }

    /// Continues processes that were stopped on exec.
    pub(crate) fn continue_stopped(&mut self, is_meant: impl Fn(Rank) -> bool) {
        self.has_orders |= self.num_remote > 0;
        let stopped = self
            .processes
            .iter_mut()
            .filter(|process| process.is_stopped_on_exec);
        for process in stopped.filter(|process| is_meant(process.rank)) {
            process.is_stopped_on_exec = false;
            process.signal(Signal::CONT);
        }
    }

    /// Sends a signal to the selected processes that have not ended, and to their descendants. A terminating signal
    /// also cancels pending restarts. Returns the number of selected processes.
    pub(crate) fn signal_some(&mut self, ranks: &BTreeSet<Rank>, signal: Signal) -> usize {
        self.has_orders |= self.num_remote > 0;
        // Special ranks, such as the wildcard, match many processes; they are above the valid ones.
        let patterns: Vec<_> = ranks.range(Rank::MAX_VALID..).collect();
        let meant = |process: &&mut Process| {
            let mut patterns = patterns.iter();
            ranks.contains(&process.rank) || patterns.any(|rank| rank.matches(process.rank))
        };
        let is_awaited = |process: &Process| process.restart == Restart::Awaited && ends(signal);
        let processes = self.processes.iter_mut();
        let running = processes.filter(|p| p.ended.is_none() || is_awaited(p));
        let told = running.filter(meant).map(|process| process.signal(signal));
        told.count()
    }
}

impl Drop for Table {
    /// Kills the remaining processes with their descendants and reaps them.
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        for process in self
            .processes
            .iter()
            .filter(|process| process.node.is_none())
        {
            // The status is not needed: it was recorded before, or the launch failed.
            let _ = waitid(WaitId::Pid(process.pid), WaitIdOptions::EXITED);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "the table reaps them")]
    fn an_end_that_is_left_is_noted_the_next_time() {
        let now = Instant::now();
        let mut table = Table::default();
        for rank in [0, 1] {
            let child = Command::new("true").spawn().unwrap();
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            table.push(Process::new(Rank::new(rank), 0, pid, None, now));
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            assert!(waitid(WaitId::Pid(pid), options).unwrap().is_some());
        }
        assert_eq!(table.ended(now, Some(Rank::new(0))), [1]);
        assert_eq!(table.num_running(), 1);
        assert_eq!(table.ended(now, None), [0]);
        assert_eq!(table.num_running(), 0);
    }
}
