// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of processes.

use std::collections::BTreeSet;
use std::time::Instant;

use pmix_types::Rank;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::Ending;
use pmix_topology::Cpuset;

/// How far a process has come with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// It never spoke to it.
    None,
    /// It is initialised.
    Connected,
    /// It is finalised.
    Finalized,
}

/// One process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) rank: Rank,
    /// The number of its application.
    pub(crate) app: usize,
    pub(crate) pid: Pid,
    /// What it is bound to.
    pub(crate) cpus: Option<Cpuset>,
    pub(crate) link: Link,
    /// The signals that the launcher sent it while it ran: the bit of a signal is its number less 1.
    signals: u64,
    /// Whether it is stopped because it executed its program.
    pub(crate) is_stopped_on_exec: bool,
    pub(crate) started: Instant,
    pub(crate) ended: Option<(Ending, Instant)>,
    /// Whether it has asked for an abort.
    pub(crate) has_aborted: bool,
    /// How often it was started again.
    pub(crate) num_restarts: u32,
    /// How often in a row it has failed at once.
    pub(crate) num_at_once: u32,
    /// Whether it is to be started again.
    pub(crate) restart: Restart,
}

/// Whether a process that has ended is to be started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Restart {
    #[default]
    No,
    /// It is, and counts as one that runs until it is.
    Awaited,
    /// It was to be, but somebody ended it meanwhile.
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
            app,
            pid,
            cpus,
            link: Link::None,
            signals: 0,
            is_stopped_on_exec: false,
            started,
            ended: None,
            has_aborted: false,
            num_restarts: 0,
            num_at_once: 0,
            restart: Restart::No,
        }
    }

    /// Whether a signal ended it that the launcher had sent it, by itself, for a user or for a process
    /// that controls it. A process that crashes by itself ends by another signal.
    pub(crate) fn was_killed_by_command(&self) -> bool {
        match self.ended {
            Some((Ending::Signalled { signal, .. }, _)) => self.signals & bit(signal) != 0,
            _ => false,
        }
    }

    /// Whether it ended as one does that the others can do without: well, and not between init and
    /// finalize.
    pub(crate) fn is_sound(&self) -> bool {
        let is_well = (self.ended).is_some_and(|(ending, _)| ending.exit_code() == 0);
        is_well && self.link != Link::Connected
    }

    /// Sends it a signal, and what it started.
    fn signal(&mut self, signal: Signal) {
        if self.ended.is_none() {
            self.signals |= bit(signal.as_raw());
        }
        if self.restart == Restart::Awaited && ends(signal) {
            self.restart = Restart::GivenUp;
        }
        // A group that is empty but for its leader, who ended, is told in vain.
        if let Err(e) = kill_process_group(self.pid, signal)
            && e != rustix::io::Errno::SRCH
        {
            tracing::debug!("cannot signal rank {}: {e}", self.rank);
        }
    }
}

/// Whether who sends a signal wants a process to end.
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

/// The bit of a signal; none for a number that no signal has.
fn bit(signal: i32) -> u64 {
    let place = signal
        .checked_sub(1)
        .and_then(|place| u32::try_from(place).ok());
    place.and_then(|place| 1u64.checked_shl(place)).unwrap_or(0)
}

/// The processes of this node, in the order of their ranks.
///
/// A process that ended is not reaped before the table is dropped. Until then the system gives its
/// number to nobody else, so that a signal to its group reaches what it left behind and never a
/// stranger.
#[derive(Debug, Default)]
pub(crate) struct Table {
    processes: Vec<Process>,
    num_running: usize,
}

impl Table {
    /// Adds a process that was just started.
    pub(crate) fn push(&mut self, process: Process) {
        self.processes.push(process);
        self.num_running += 1;
    }

    /// Notes that a process that has ended is to be started again: until then it counts as one that runs.
    /// It has failed at once so often in a row.
    pub(crate) fn await_restart(&mut self, place: usize, num_at_once: u32) {
        if let Some(process) = self.processes.get_mut(place)
            && process.restart == Restart::No
        {
            process.restart = Restart::Awaited;
            process.num_at_once = num_at_once;
            self.num_running += 1;
        }
    }

    /// Notes that a process is not started again after all.
    pub(crate) fn give_up_restart(&mut self, place: usize) {
        if let Some(process) = self.processes.get_mut(place)
            && std::mem::take(&mut process.restart) != Restart::No
        {
            self.num_running -= 1;
        }
    }

    /// Puts a process that was just started in the place of one that was to be started again, which is reaped.
    pub(crate) fn replace(&mut self, place: usize, process: Process) {
        self.give_up_restart(place);
        let Some(old) = self.processes.get_mut(place) else {
            return self.push(process);
        };
        // Its number is free afterwards.
        let _ = waitid(WaitId::Pid(old.pid), WaitIdOptions::EXITED);
        *old = Process {
            num_restarts: old.num_restarts.saturating_add(1),
            num_at_once: old.num_at_once,
            ..process
        };
        self.num_running += 1;
    }

    /// Kills the rest of the process group of a process that has ended, which may still be started again.
    pub(crate) fn kill_group(&mut self, place: usize) {
        if let Some(process) = self.processes.get_mut(place) {
            let restart = process.restart;
            process.signal(Signal::KILL);
            process.restart = restart;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter()
    }

    /// Whether a process is one of them.
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.processes.iter().any(|process| process.pid == pid)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Process> {
        self.processes.get(index)
    }

    /// The process of a rank.
    pub(crate) fn with_rank(&self, rank: Rank) -> Option<&Process> {
        self.processes.get(self.place(rank)?)
    }

    /// The place of a rank.
    pub(crate) fn place(&self, rank: Rank) -> Option<usize> {
        let index = self.processes.binary_search_by_key(&rank, |p| p.rank);
        index.ok()
    }

    /// The process of a rank, to be changed.
    pub(crate) fn of_rank(&mut self, rank: Rank) -> Option<&mut Process> {
        let place = self.place(rank)?;
        self.processes.get_mut(place)
    }

    /// How many have not ended, or are to be started again.
    pub(crate) fn num_running(&self) -> usize {
        self.num_running
    }

    /// Notes which processes have ended since the last time, but for one that is left for the next time, and
    /// returns their places.
    pub(crate) fn ended(&mut self, now: Instant, left: Option<Rank>) -> Vec<usize> {
        let mut ended = Vec::new();
        for (index, process) in self.processes.iter_mut().enumerate() {
            if process.ended.is_some() || left == Some(process.rank) {
                continue;
            }
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(process.pid), options) {
                Ok(Some(status)) => {
                    process.ended = Some((Ending::from(&status), now));
                    ended.push(index);
                }
                Ok(None) => {}
                // Somebody else in this process waited for it.
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
        ended
    }

    /// Sends a signal to every process and what it started, those that outlived it too.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.processes.iter_mut().for_each(|p| p.signal(signal));
    }

    /// Continues processes that were stopped as they executed their program.
    pub(crate) fn continue_stopped(&mut self, is_meant: impl Fn(Rank) -> bool) {
        let stopped = self
            .processes
            .iter_mut()
            .filter(|process| process.is_stopped_on_exec);
        for process in stopped.filter(|process| is_meant(process.rank)) {
            process.is_stopped_on_exec = false;
            process.signal(Signal::CONT);
        }
    }

    /// Sends a signal to the processes of some ranks that have not ended, and to what they started. One that is
    /// to be started again is not, if the signal ends processes. Returns how many these are.
    pub(crate) fn signal_some(&mut self, ranks: &BTreeSet<Rank>, signal: Signal) -> usize {
        // Some numbers stand for many ranks; they are above those that name one.
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
    /// Ends what is left, and reaps.
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        for process in &self.processes {
            // Nothing is left to be told: the end was noted, or the launch failed.
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
