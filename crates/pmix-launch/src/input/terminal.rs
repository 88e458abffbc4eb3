// SPDX-License-Identifier: MIT OR Apache-2.0
//! A terminal as standard input of rank 0.
//!
//! Anything but a terminal is handed to rank 0 as it is. A terminal cannot be: rank 0 is in a
//! process group of its own, in the background, and would be stopped when it reads.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use pmix_host::forward::StdinPipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How often the launcher looks whether it came to the foreground while the terminal has input to read. A shell
/// need not signal a process that runs when it brings it to the foreground.
const LOOK: Duration = Duration::from_millis(250);

/// The input of a terminal on its way to rank 0.
pub(crate) struct TerminalInput<'a> {
    terminal: BorrowedFd<'a>,
    state: State,
    rank0: StdinPipe,
}

/// What the launcher waits for at its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next news of the poll.
    Watched,
    /// Its turn to read: the terminal has input, and another process group is in the foreground. The launcher looks
    /// again at this time.
    Background(Instant),
    /// The terminal hung up, which the session has yet to learn.
    HungUp,
    /// Nothing.
    Closed,
}

/// What the terminal has for the launcher.
enum News {
    Input,
    Nothing,
    /// It was closed on its other side, so every read ends at once.
    HangUp,
}

impl<'a> TerminalInput<'a> {
    /// Registers the terminal with the poll under this token.
    ///
    /// The poll reports each change once. The terminal is read until it has nothing more, so it is never registered a
    /// second time: a descriptor that stays readable, or that hung up, would be reported again at once, for ever.
    pub(super) fn new(
        registry: &Registry,
        token: Token,
        terminal: BorrowedFd<'a>,
        rank0: StdinPipe,
    ) -> io::Result<Self> {
        let fd = terminal.as_raw_fd();
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
        Ok(Self {
            terminal,
            state: State::Watched,
            rank0,
        })
    }

    /// Moves what was typed.
    pub(super) fn turn(&mut self, registry: &Registry, now: Instant) {
        self.rank0.write();
        if matches!(self.state, State::HungUp | State::Closed) {
            return;
        }
        self.state = State::Watched;
        loop {
            match news(self.terminal) {
                News::Nothing => return,
                News::HangUp => return self.hang_up(registry),
                // What waits for rank 0 to read is held back in the terminal. A write that makes room brings the next
                // turn.
                News::Input if self.rank0.is_closed() || !self.rank0.is_drained() => return,
                News::Input if !self.is_in_foreground() => {
                    self.state = State::Background(now + LOOK);
                    return;
                }
                News::Input => {}
            }
            let mut piece = [0; 4096];
            match rustix::io::read(self.terminal, &mut piece) {
                Ok(len @ 1..) => self.rank0.push(piece[..len].to_vec(), None),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Ctrl-D. What is typed after it is not read.
                Ok(0) => self.rank0.end(),
                Err(e) => {
                    tracing::debug!("cannot read the terminal: {e}");
                    return self.hang_up(registry);
                }
            }
        }
    }

    /// Returns when to look again without news of the poll, if ever.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Background(until) => Some(until),
            State::Watched | State::HungUp | State::Closed => None,
        }
    }

    /// Returns `true` once after the terminal hung up.
    pub(super) fn take_hang_up(&mut self) -> bool {
        let hung_up = self.state == State::HungUp;
        if hung_up {
            self.state = State::Closed;
        }
        hung_up
    }

    /// Ends the input of rank 0: the terminal has none any more.
    fn hang_up(&mut self, registry: &Registry) {
        self.rank0.end();
        self.state = State::HungUp;
        let fd = self.terminal.as_raw_fd();
        if let Err(e) = registry.deregister(&mut SourceFd(&fd)) {
            tracing::debug!("cannot stop polling the terminal: {e}");
        }
    }

    /// Returns whether the launcher may read: reading in the background would stop it.
    fn is_in_foreground(&self) -> bool {
        rustix::termios::tcgetpgrp(self.terminal) == Ok(rustix::process::getpgrp())
    }
}

/// Returns what a terminal has without waiting for it.
fn news(terminal: BorrowedFd<'_>) -> News {
    let mut fds = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    let asked = loop {
        match poll(&mut fds, Some(&Timespec::default())) {
            Err(Errno::INTR) => {}
            asked => break asked,
        }
    };
    if let Err(e) = asked {
        tracing::debug!("cannot poll the terminal: {e}");
        return News::Nothing;
    }
    let told = fds[0].revents();
    match () {
        () if told.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => News::HangUp,
        () if told.contains(PollFlags::IN) => News::Input,
        () => News::Nothing,
    }
}
