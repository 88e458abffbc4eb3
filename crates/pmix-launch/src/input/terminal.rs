// SPDX-License-Identifier: MIT OR Apache-2.0
//! A terminal as the standard input of rank 0.
//!
//! Rank 0 inherits any other kind of input. A terminal cannot be inherited: rank 0 is in a background process group,
//! so the kernel would stop it (`SIGTTIN`) when it reads.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use pmix_host::forward::StdinPipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The interval at which the launcher tests if it is in the foreground while the terminal has input. A shell need not
/// signal a running process when it brings it to the foreground.
const LOOK: Duration = Duration::from_millis(250);

/// The input of a terminal on its way to rank 0.
pub(crate) struct TerminalInput<'a> {
    terminal: BorrowedFd<'a>,
    state: State,
    rank0: StdinPipe,
}

/// The state of reading the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Open; the next event of the poll is awaited.
    Watched,
    /// Open with input, while another process group is in the foreground. The launcher tests again at this time.
    Background(Instant),
    /// Hung up; the session was not yet notified.
    HungUp,
    /// Closed; nothing more is read.
    Closed,
}

/// The result of polling the terminal.
enum News {
    Input,
    Nothing,
    /// The other side was closed, so every read returns at once.
    HangUp,
}

impl<'a> TerminalInput<'a> {
    /// Registers the terminal with the poll under this token.
    ///
    /// The poll reports each change once (edge-triggered). The terminal is read until it is empty and never
    /// registered again: a descriptor that stays readable or that hung up would be reported again at once, forever.
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

    /// Forwards typed input to rank 0.
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
                // Backpressure: input that rank 0 does not read stays in the terminal. When the pipe has room again,
                // a write causes the next turn.
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
                // Ctrl-D ends the input of rank 0; later input is not read.
                Ok(0) => self.rank0.end(),
                Err(e) => {
                    tracing::debug!("cannot read the terminal: {e}");
                    return self.hang_up(registry);
                }
            }
        }
    }

    /// Returns the time for the next test of the foreground, if one is due.
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

    /// Ends the input of rank 0 and stops polling the terminal.
    fn hang_up(&mut self, registry: &Registry) {
        self.rank0.end();
        self.state = State::HungUp;
        let fd = self.terminal.as_raw_fd();
        if let Err(e) = registry.deregister(&mut SourceFd(&fd)) {
            tracing::debug!("cannot stop polling the terminal: {e}");
        }
    }

    /// Returns `true` if the launcher may read. A read from the background would stop the launcher (`SIGTTIN`).
    fn is_in_foreground(&self) -> bool {
        rustix::termios::tcgetpgrp(self.terminal) == Ok(rustix::process::getpgrp())
    }
}

/// Polls a terminal without waiting.
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
