// SPDX-License-Identifier: MIT OR Apache-2.0
//! The signals of the launcher as a source of the poll.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
    SIGXFSZ,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::Error;

/// The terminating signals. They are not handled if they were ignored at the start: `nohup` ignores SIGHUP, a shell
/// without job control the others.
const ENDING: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];
/// The signal for a file that became too large (`ulimit -f`). The failed write is reported by an error, and death by
/// the signal would leave processes behind. It is handled and not ignored: children inherit ignored signals, while
/// handled ones are reset to their default in them.
const TOO_LARGE: i32 = SIGXFSZ;
/// The signals that are always handled. A shell without job control ignores SIGQUIT for a command in the background, and
/// the report is wanted there, too.
const OTHERS: [i32; 7] = [
    SIGCHLD, SIGCONT, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
];

/// The signals of the launcher.
pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    hang_up: HangUp,
}

/// The source from which the launcher learned of the hang-up of its terminal. SIGHUP and the terminal both report it;
/// the second report is redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HangUp {
    /// Not hung up.
    Unknown,
    /// Reported by the terminal; SIGHUP may follow.
    Terminal,
    /// Reported by SIGHUP, which may be repeated.
    Signal,
    /// Ignored together with SIGHUP (`nohup`).
    Ignored,
}

impl HangUp {
    /// Records a SIGHUP. Returns `true` unless the terminal has reported the same hang-up.
    fn register_signal(&mut self) -> bool {
        std::mem::replace(self, Self::Signal) != Self::Terminal
    }

    /// Records a hang-up of the terminal. Returns `true` if the launcher has to handle it.
    fn register_terminal(&mut self) -> bool {
        let is_first = *self == Self::Unknown;
        if is_first {
            *self = Self::Terminal;
        }
        is_first
    }
}

impl Signals {
    /// Installs the signal handlers.
    pub(crate) fn take(registry: &Registry, token: Token) -> Result<Self, Error> {
        let cannot = |e: io::Error| Error::system("cannot receive signals", e);
        let ignored = ignored();
        let ending = ENDING.iter().chain(&[TOO_LARGE]);
        let ending = ending.filter(|&&signal| !contains(ignored, signal));
        let taken = ending.chain(&OTHERS);
        let (reader, writer) = UnixStream::pair().map_err(cannot)?;
        reader.set_nonblocking(true).map_err(cannot)?;
        // A signal handler writes to it, which must never block.
        writer.set_nonblocking(true).map_err(cannot)?;
        let delivery =
            SignalDelivery::with_pipe(reader, writer, SignalOnly, taken).map_err(cannot)?;
        let fd = delivery.get_read().as_raw_fd();
        registry
            .register(&mut SourceFd(&fd), token, Interest::READABLE)
            .map_err(cannot)?;
        let hang_up = match contains(ignored, SIGHUP) {
            true => HangUp::Ignored,
            false => HangUp::Unknown,
        };
        Ok(Self { delivery, hang_up })
    }

    /// Returns the signals since the last call, each once.
    pub(crate) fn pending(&mut self) -> Vec<i32> {
        let pending = self.delivery.pending();
        pending
            .filter(|&signal| signal != SIGHUP || self.hang_up.register_signal())
            .collect()
    }

    /// Records a hang-up of the terminal. Returns `true` if it has to be handled like SIGHUP, because SIGHUP did not
    /// arrive before and is not ignored.
    pub(crate) fn is_first_hang_up(&mut self) -> bool {
        self.hang_up.register_terminal()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.delivery.handle().close();
        // After the job, signals are no longer forwarded, so the terminating ones get their default effect on this
        // process.
        let ignored = ignored();
        for signal in ENDING
            .into_iter()
            .filter(|&signal| !contains(ignored, signal))
        {
            let always = Arc::new(AtomicBool::new(true));
            if let Err(e) = signal_hook::flag::register_conditional_default(signal, always) {
                tracing::debug!("cannot restore a signal handler: {e}");
            }
        }
    }
}

/// Returns the mask of the signals that this process ignores.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

fn contains(mask: u64, signal: i32) -> bool {
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_and_the_signal_tell_of_one_hang_up() {
        let mut by_terminal = HangUp::Unknown;
        assert!(by_terminal.register_terminal());
        assert!(!by_terminal.register_signal());
        // A user repeats the signal to terminate at once.
        assert!(by_terminal.register_signal());
        let mut by_signal = HangUp::Unknown;
        assert!(by_signal.register_signal());
        assert!(!by_signal.register_terminal());
        assert!(!HangUp::Ignored.register_terminal());
    }
}
