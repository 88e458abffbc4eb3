// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that are stopped when they have loaded their program, before its first instruction.
//!
//! A process that asks to be traced is stopped by the system when it executes a program. Only the process
//! itself can ask for that, so each is started by way of a command that does and then becomes the program
//! ([`stop_on_exec`]). Whoever started it lets go of it at once and leaves it stopped as by SIGSTOP, so that a
//! debugger can attach; SIGCONT continues it.
//!
//! What the environment of the program says to the dynamic linker is for the program alone, so that command gets
//! it as words: a library that the linker cannot load, or a pipe in the place of one, is not to keep the command,
//! which is waited for, from asking. All else stays in the environment, which no other user can read.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use nix::sys::ptrace;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

/// What stands between the variables and the arguments of the program.
const END: &str = "--";

/// Becomes a program whose launcher stops it before its first instruction: the
/// [`stopper`](crate::Plan::stopper) of a plan, with what follows the words of its command. These are the
/// program, what it is called, variables of the dynamic linker as `NAME=VALUE`, `--`, and its arguments. Returns
/// why it does not.
#[allow(
    clippy::disallowed_methods,
    reason = "it is handed on but for what is meant for this command alone"
)]
pub fn stop_on_exec(words: impl IntoIterator<Item = OsString>) -> io::Error {
    let mut words = words.into_iter();
    let (Some(program), Some(name)) = (words.next(), words.next()) else {
        return io::ErrorKind::InvalidInput.into();
    };
    let mut command = Command::new(program);
    command.arg0(name);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_linker(name)) {
        command.env_remove(name);
    }
    loop {
        let Some(word) = words.next() else {
            return io::ErrorKind::InvalidInput.into();
        };
        if word == END {
            break;
        }
        let mut parts = word.as_bytes().splitn(2, |byte| *byte == b'=');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            return io::ErrorKind::InvalidInput.into();
        };
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    match ptrace::traceme() {
        Ok(()) => command.args(words).exec(),
        Err(error) => error.into(),
    }
}

/// The words for [`stop_on_exec`] that follow the name of the program.
pub(crate) fn linker_words<'v>(
    vars: impl Iterator<Item = (&'v Arc<OsStr>, &'v Arc<OsStr>)>,
) -> impl Iterator<Item = OsString> {
    let word = |(name, value): (&Arc<OsStr>, &Arc<OsStr>)| {
        OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    let of_linker = vars.filter(|(name, _)| is_of_linker(name));
    of_linker.map(word).chain([OsString::from(END)])
}

/// Whether the dynamic linker, or the C library before the first instruction of a program, obeys a variable.
pub(crate) fn is_of_linker(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"LD_") || name == "GLIBC_TUNABLES"
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
