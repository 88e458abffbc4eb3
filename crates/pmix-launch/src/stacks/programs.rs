// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs that print stacks, as children of the launcher.
//!
//! The launcher takes its children for processes of jobs and their orphans, which it waits for and kills. The threads
//! that run these programs register here. The kernel lists children by the thread that started them, so a program is
//! known as one from its start on.

use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::gettid;

/// The time for the exit of a program that has closed its output, and after its kill.
const EXIT: Duration = Duration::from_secs(1);

/// The delay between two checks for the exit of a program.
const CHECK: Duration = Duration::from_millis(5);

/// The programs of one launcher, and the threads that run them.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackPrograms(Arc<Mutex<Running>>);

#[derive(Debug, Default)]
struct Running {
    threads: Vec<Pid>,
    /// The programs that are not reaped. A program in an uninterruptible system call stays here after its kill.
    programs: Vec<Pid>,
    /// The number of programs that are being started.
    num_starting: usize,
    /// `true` after the end of the session, when no program starts any more.
    is_closed: bool,
}

/// The registration of a thread. It ends on drop.
#[derive(Debug)]
pub(crate) struct RunningThread<'a> {
    programs: &'a StackPrograms,
    thread: Pid,
}

/// A started program, which leads a process group. Dropping it ends the program.
#[derive(Debug)]
pub(super) struct Program<'a> {
    programs: &'a StackPrograms,
    child: Child,
}

impl StackPrograms {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the calling thread as one that runs programs.
    pub(crate) fn enter(&self) -> RunningThread<'_> {
        let thread = gettid();
        self.running().threads.push(thread);
        RunningThread {
            programs: self,
            thread,
        }
    }

    /// Returns `true` if the children of a thread are programs.
    pub(crate) fn has_thread(&self, thread: Pid) -> bool {
        self.running().threads.contains(&thread)
    }

    /// Returns `true` if a process is a program that is not reaped.
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.running().programs.contains(&pid)
    }

    /// Starts a program as the leader of a process group. Returns `None` if it cannot be started.
    pub(super) fn start(&self, command: &mut Command) -> Option<Program<'_>> {
        {
            let mut running = self.running();
            if running.is_closed {
                return None;
            }
            running.num_starting += 1;
        }
        // Without the lock: the file of the program may be on a server that does not answer.
        let child = command.spawn().ok();
        let mut running = self.running();
        running.num_starting -= 1;
        let child = child?;
        running.programs.push(Pid::from_child(&child));
        drop(running);
        Some(Program {
            programs: self,
            child,
        })
    }

    /// Kills the programs, and prevents the start of others.
    pub(crate) fn close(&self) {
        self.running().is_closed = true;
        let until = Instant::now() + EXIT;
        while self.running().num_starting > 0 && Instant::now() < until {
            std::thread::sleep(CHECK);
        }
        // Under the lock, no program is reaped, so each number still means the group of a program.
        for &program in &self.running().programs {
            kill_group(program);
        }
    }
}

impl Drop for RunningThread<'_> {
    fn drop(&mut self) {
        let threads = &mut self.programs.running().threads;
        threads.retain(|thread| *thread != self.thread);
    }
}

impl Program<'_> {
    /// Kills the group of the program.
    pub(super) fn kill(&self) {
        // The program is not reaped, so its number still means its group.
        kill_group(Pid::from_child(&self.child));
    }

    /// Waits for the exit of the program for a bounded time. Returns `true` if the program is reaped.
    fn has_exited(&mut self) -> bool {
        let until = Instant::now() + EXIT;
        loop {
            let mut running = self.programs.running();
            // After an error, there is nothing to reap.
            if !matches!(self.child.try_wait(), Ok(None)) {
                let pid = Pid::from_child(&self.child);
                running.programs.retain(|program| *program != pid);
                return true;
            }
            drop(running);
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(CHECK);
        }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if self.has_exited() {
            return;
        }
        self.kill();
        if !self.has_exited() {
            let pid = self.child.id();
            tracing::debug!("process {pid} does not end after its kill and is abandoned");
        }
    }
}

fn kill_group(leader: Pid) {
    // The group may have ended in the meantime.
    let _ = kill_process_group(leader, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;

    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("sh");
        // The reader of the pipe ends with the last process of the group.
        command
            .args(["-c", "sleep 1000 & sleep 1000"])
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    #[test]
    fn the_group_of_a_program_ends_with_the_session() {
        let programs = StackPrograms::default();
        let thread = programs.enter();
        assert!(programs.has_thread(gettid()));
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = sleeper();
        command.stdout(writer);
        let program = programs.start(&mut command).unwrap();
        drop(command);
        let pid = Pid::from_child(&program.child);
        assert!(programs.has(pid));
        programs.close();
        // The end of the pipe comes only after the end of all processes of the group.
        std::io::Read::read_to_end(&mut reader, &mut Vec::new()).unwrap();
        drop(program);
        assert!(!programs.has(pid));
        assert!(programs.start(&mut sleeper()).is_none());
        drop(thread);
        assert!(!programs.has_thread(gettid()));
    }
}
