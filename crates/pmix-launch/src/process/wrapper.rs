// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command that prepares a process from inside and then executes its program in its place.
//!
//! Some properties of a process can be set only by the process itself, after its start and before its program. The
//! launcher therefore starts a small command that sets them and then executes the program ([`exec_wrapped`]), which keeps
//! the process id.
//!
//! - A process is stopped after it has loaded its program and before its first instruction. The kernel stops a traced
//!   process when it executes a program, and only the process itself can request that (`PTRACE_TRACEME`). The launcher
//!   detaches at once and leaves the process stopped by SIGSTOP, so that a debugger can attach. SIGCONT continues it.
//! - A process leads a session whose controlling terminal is its standard input. The keyboard of this terminal then
//!   sends signals to it, shells have job control, and `/dev/tty` is this terminal.
//!
//! Variables of the dynamic linker are meant for the program alone, so the command receives them as arguments.
//! Otherwise a library that cannot be loaded, or a pipe in its place, could block the command before its request, and
//! the launcher waits for that request. All other variables stay in the environment, which other users cannot read.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;

use nix::sys::ptrace;
use nix::unistd::execve;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, ioctl_tiocsctty, setsid, waitid,
};
use signal_hook::consts::SIGPIPE;

use super::wrapper_link::{Step, WrapperEnd, WrapperFailure};

/// The separator between the variables and the arguments of the program.
const END: &str = "--";

/// The preparations of a process by the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preparations {
    /// `true` if the process stops on exec.
    pub(crate) stops: bool,
    /// `true` if the process leads the session of the terminal that is its standard input.
    pub(crate) leads_session: bool,
}

impl Preparations {
    /// Every combination with its word.
    const ALL: [(&str, Self); 4] = [
        ("none", Self::of(false, false)),
        ("stop", Self::of(true, false)),
        ("lead", Self::of(false, true)),
        ("lead+stop", Self::of(true, true)),
    ];

    const fn of(stops: bool, leads_session: bool) -> Self {
        Self {
            stops,
            leads_session,
        }
    }

    /// Returns `true` if the process needs the command.
    pub(crate) fn are_needed(self) -> bool {
        self.stops || self.leads_session
    }

    /// Returns the word for the command.
    pub(crate) fn word(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|(_, preparations)| *preparations == self);
        found.map_or("none", |(word, _)| word)
    }

    fn read(word: &OsStr) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        let (_, preparations) = all.find(|(known, _)| word == *known)?;
        Some(preparations)
    }
}

/// Prepares this process and executes a program in its place. This is the entry point of the
/// [`wrapper`](crate::Plan::wrapper) of a plan. The words after those of the command are the preparations, the program,
/// its `argv[0]`, variables of the dynamic linker as `NAME=VALUE`, `--`, and the arguments. Standard input is a socket of
/// the launcher, from which the command receives the standard input of the program.
///
/// Returns only on an error: `None` if it was reported to the launcher, otherwise the error.
pub fn exec_wrapped(words: impl IntoIterator<Item = OsString>) -> Option<io::Error> {
    let mut link = match WrapperEnd::take() {
        Ok(link) => link,
        Err(error) => return Some(error),
    };
    let failure = fail_to_exec(words.into_iter());
    link.report(&failure).is_err().then_some(failure.cause)
}

/// Prepares this process and executes the program. Returns only on an error.
fn fail_to_exec(words: impl Iterator<Item = OsString>) -> WrapperFailure {
    let prepared = Wrapped::read(words).and_then(|wrapped| {
        prepare(wrapped.preparations)?;
        // The standard library ignores SIGPIPE, and a signal that is ignored stays ignored in the program. One with a
        // handler gets its default action.
        signal_hook::flag::register(SIGPIPE, Arc::default())?;
        Ok(wrapped)
    });
    match prepared {
        // The `exec` of the standard library would run a file that is no program with a shell.
        Ok(wrapped) => {
            let executed = execve(&wrapped.program, &wrapped.args, &wrapped.vars);
            let cause = executed.map_or_else(io::Error::from, |never| match never {});
            WrapperFailure {
                step: Step::Execute,
                cause,
            }
        }
        Err(cause) => WrapperFailure {
            step: Step::Prepare,
            cause,
        },
    }
}

/// The program that replaces this process, and its preparations.
struct Wrapped {
    preparations: Preparations,
    program: CString,
    args: Vec<CString>,
    vars: Vec<CString>,
}

impl Wrapped {
    /// Reads the words of the command.
    #[allow(
        clippy::disallowed_methods,
        reason = "it is handed on but for what is meant for this command alone"
    )]
    fn read(mut words: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let preparations = words.next().and_then(|word| Preparations::read(&word));
        let (Some(preparations), Some(program), Some(name)) =
            (preparations, words.next(), words.next())
        else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // The linker variables of this process are the launcher's own, for this command. The program's are among the
        // words.
        let own = std::env::vars_os().filter(|(name, _)| !is_of_linker(name));
        let mut vars = own
            .map(|(name, value)| variable(&name, &value))
            .collect::<io::Result<Vec<_>>>()?;
        loop {
            let word = words.next().ok_or(io::ErrorKind::InvalidInput)?;
            if word == END {
                break;
            }
            vars.push(c_string(word)?);
        }
        let args = [name].into_iter().chain(words).map(c_string);
        Ok(Self {
            preparations,
            program: c_string(program)?,
            args: args.collect::<Result<_, _>>()?,
            vars,
        })
    }
}

/// Returns a variable in the form of the environment.
fn variable(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
    Ok(CString::new(bytes)?)
}

fn c_string(word: OsString) -> io::Result<CString> {
    Ok(CString::new(word.into_vec())?)
}

fn prepare(preparations: Preparations) -> io::Result<()> {
    if preparations.leads_session {
        setsid()?;
        ioctl_tiocsctty(io::stdin())?;
    }
    if preparations.stops {
        ptrace::traceme()?;
    }
    Ok(())
}

/// Returns the words for [`exec_wrapped`] that follow the program and its `argv[0]`.
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

/// Waits until a process that was started through [`exec_wrapped`] stops, detaches from it, and leaves it stopped.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_of_preparations_has_its_word() {
        for (word, preparations) in Preparations::ALL {
            assert_eq!(preparations.word(), word);
            assert_eq!(Preparations::read(OsStr::new(word)), Some(preparations));
        }
        assert_eq!(Preparations::read(OsStr::new("stopped")), None);
        for words in [
            &["stopped", "true", "true", "--"][..],
            &["none", "true"],
            &["none", "true", "true"],
        ] {
            let words = words.iter().map(OsString::from);
            let error = Wrapped::read(words).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
