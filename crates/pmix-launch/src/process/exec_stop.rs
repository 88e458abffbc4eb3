// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that are stopped when they have loaded their program, before its first instruction.
//!
//! A process that asks to be traced is stopped by the system when it executes a program. Only the process
//! itself can ask for that, so each is started by way of a command that does and then becomes the program
//! ([`stop_on_exec`]). Whoever started it lets go of it at once and leaves it stopped as by SIGSTOP, so that a
//! debugger can attach; SIGCONT continues it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::ptrace;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

/// Becomes a program whose launcher stops it before its first instruction: the
/// [`stopper`](crate::Plan::stopper) of a plan, with what follows the words of its command. These are the
/// program, what it is called, and its arguments. Returns why it does not.
pub fn stop_on_exec(words: impl IntoIterator<Item = OsString>) -> io::Error {
    let mut words = words.into_iter();
    let (Some(program), Some(name)) = (words.next(), words.next()) else {
        return io::ErrorKind::InvalidInput.into();
    };
    match ptrace::traceme() {
        Ok(()) => Command::new(program).arg0(name).args(words).exec(),
        Err(error) => error.into(),
    }
}

/// Waits until a process that was started by way of [`stop_on_exec`] is stopped, and leaves it so. Returns whether
/// it is stopped: it may have ended before. Only the thread that started the process may call this.
pub(crate) fn hold(pid: Pid) -> io::Result<bool> {
    let traced = nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get());
    loop {
        let news = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        match wait(pid, news)? {
            Some(status) if status.exited() || status.killed() || status.dumped() => {
                return Ok(false);
            }
            _ => {}
        }
        // The end is left for who watches the job; the stop is taken.
        let stop = wait(pid, WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)?;
        let signal =
            stop.and_then(|stop| stop.trapping_signal().or_else(|| stop.stopping_signal()));
        match signal {
            None => {}
            Some(signal) if signal == Signal::TRAP.as_raw() => {
                ptrace::detach(traced, nix::sys::signal::Signal::SIGSTOP)?;
                return Ok(true);
            }
            // Somebody sent it a signal on the way.
            Some(signal) => {
                let signal = nix::sys::signal::Signal::try_from(signal)?;
                ptrace::cont(traced, signal)?;
            }
        }
    }
}

fn wait(pid: Pid, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}
