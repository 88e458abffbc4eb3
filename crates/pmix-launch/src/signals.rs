// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals of the launcher, as something to be polled.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGXFSZ,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::Error;

/// Those that end a process that does not care, so that they are left alone where they were
/// ignored: `nohup` ignores one, a shell without job control the others.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// A file became too large (`ulimit -f`). Whoever writes it is told by an error as well, and to be
/// ended by the signal besides would leave processes behind. It is taken and not ignored, because
/// processes inherit what is ignored, and what is taken is back at its default for them.
const TOO_LARGE: i32 = SIGXFSZ;
/// Those that are taken in any case.
const OTHERS: [i32; 5] = [SIGCHLD, SIGCONT, SIGTSTP, SIGUSR1, SIGUSR2];

/// Signals of the launcher.
pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    hang_up: HangUp,
}

/// How the launcher learned of the hang-up of its terminal: by SIGHUP, from the terminal itself, or from both, of which
/// the second says nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HangUp {
    /// Not yet.
    Unknown,
    /// The terminal was found closed; the signal may follow.
    Terminal,
    /// By the signal, which may come again.
    Signal,
    /// SIGHUP is ignored (`nohup`), and so is what it would say.
    Ignored,
}

impl HangUp {
    /// Notes a SIGHUP. Returns `true` unless the terminal has said the same.
    fn note_signal(&mut self) -> bool {
        std::mem::replace(self, Self::Signal) != Self::Terminal
    }

    /// Notes that the terminal was found closed. Returns `true` if the launcher is to act on it.
    fn note_terminal(&mut self) -> bool {
        let is_first = *self == Self::Unknown;
        if is_first {
            *self = Self::Terminal;
        }
        is_first
    }
}

impl Signals {
    /// Takes them from now on.
    pub(crate) fn take(registry: &Registry, token: Token) -> Result<Self, Error> {
        let cannot = |e: io::Error| Error::system("cannot receive signals", e);
        let ignored = ignored();
        let ending = ENDING.iter().chain(&[TOO_LARGE]);
        let ending = ending.filter(|&&signal| !contains(ignored, signal));
        let taken = ending.chain(&OTHERS);
        let (reader, writer) = UnixStream::pair().map_err(cannot)?;
        reader.set_nonblocking(true).map_err(cannot)?;
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

    /// Returns the signals that came since the last call, each once.
    pub(crate) fn pending(&mut self) -> Vec<i32> {
        let pending = self.delivery.pending();
        pending
            .filter(|&signal| signal != SIGHUP || self.hang_up.note_signal())
            .collect()
    }

    /// Notes that the terminal of the launcher hung up. Returns `true` if the launcher is to act as on SIGHUP: the
    /// signal has not come before, and is not ignored.
    pub(crate) fn is_first_hang_up(&mut self) -> bool {
        self.hang_up.note_terminal()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.delivery.handle().close();
        // Whoever wants to end what comes after the job finds nobody who would hand a signal on.
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

/// The mask of signals that this process ignores, as it was started.
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
        assert!(by_terminal.note_terminal());
        assert!(!by_terminal.note_signal());
        // A user sends it again to be obeyed at once.
        assert!(by_terminal.note_signal());
        let mut by_signal = HangUp::Unknown;
        assert!(by_signal.note_signal());
        assert!(!by_signal.note_terminal());
        assert!(!HangUp::Ignored.note_terminal());
    }
}
