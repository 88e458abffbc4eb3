// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that are stopped after they have loaded their program and before its first instruction.
//!
//! The kernel stops a traced process when it executes a program. Only the process itself can request that
//! (`PTRACE_TRACEME`). The launcher therefore starts a small command that makes the request and then executes the
//! program ([`stop_on_exec`]). The launcher detaches at once and leaves the process stopped by SIGSTOP, so that a
//! debugger can attach. SIGCONT continues it.
//!
//! Variables of the dynamic linker are meant for the program alone, so the command receives them as arguments.
//! Otherwise a library that cannot be loaded, or a pipe in its place, could block the command before its request, and
//! the launcher waits for that request. All other variables stay in the environment, which other users cannot read.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use nix::sys::ptrace;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

/// The separator between the variables and the arguments of the program.
const END: &str = "--";

/// Executes a program so that its launcher can stop it before its first instruction. This is the entry point of the
/// [`stopper`](crate::Plan::stopper) of a plan. The words after those of the command are the program, its `argv[0]`,
/// variables of the dynamic linker as `NAME=VALUE`, `--`, and the arguments. Returns only on an error.
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
    // These linker variables are the launcher's own, for this command. The program's are among the words.
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

/// Returns the words for [`stop_on_exec`] that follow the program and its `argv[0]`.
pub(crate) fn linker_words<'v>(
    vars: impl Iterator<Item = (&'v Arc<OsStr>, &'v Arc<OsStr>)>,
) -> impl Iterator<Item = OsString> {
    let word = |(name, value): (&Arc<OsStr>, &Arc<OsStr>)| {
        OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    let of_linker = vars.filter(|(name, _)| is_of_linker(name));
    of_linker.map(word).chain([OsString::from(END)])
}

/// Returns `true` if the dynamic linker or the start-up code of the C library evaluates this variable.
pub(crate) fn is_of_linker(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"LD_") || name == "GLIBC_TUNABLES"
}

/// Waits until a process that was started through [`stop_on_exec`] stops, detaches from it, and leaves it stopped.
/// Returns `false` if the process ended before. Only the thread that started the process may call this: it is the
/// tracer.
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
        // `NOWAIT` leaves an exited process to be reaped by the session; only the stop is consumed here.
        let stop = wait(pid, WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)?;
        let signal =
            stop.and_then(|stop| stop.trapping_signal().or_else(|| stop.stopping_signal()));
        match signal {
            None => {}
            Some(signal) if signal == Signal::TRAP.as_raw() => {
                // A process can have one tracer only, and that should be the debugger.
                ptrace::detach(traced, nix::sys::signal::Signal::SIGSTOP)?;
                return Ok(true);
            }
            // Another process sent a signal before the exec; it is delivered.
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
