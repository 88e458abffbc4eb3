// SPDX-License-Identifier: MIT OR Apache-2.0
//! A terminal as standard input of rank 0.
//!
//! Anything but a terminal is handed to rank 0 as it is. A terminal cannot be: rank 0 is in a
//! process group of its own, in the background, and would be stopped when it reads.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use pmix_host::forward::StdinPipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What is typed, on its way to rank 0.
pub(crate) struct TerminalInput<'a> {
    terminal: BorrowedFd<'a>,
    token: Token,
    rank0: StdinPipe,
}

impl<'a> TerminalInput<'a> {
    /// The poll tells of typing by this token.
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
            token,
            rank0,
        })
    }

    /// Moves what was typed.
    pub(super) fn turn(&mut self, registry: &Registry) {
        self.rank0.write();
        while self.rank0.is_drained() && self.may_read() {
            let mut piece = [0; 4096];
            match rustix::io::read(self.terminal, &mut piece) {
                Ok(len @ 1..) => self.rank0.push(piece[..len].to_vec(), None),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // The end of the input, or the terminal hung up.
                Ok(0) | Err(_) => self.rank0.end(),
            }
        }
        // News may have come while nobody wanted it.
        let fd = self.terminal.as_raw_fd();
        let result = registry.reregister(&mut SourceFd(&fd), self.token, Interest::READABLE);
        if let Err(e) = result {
            tracing::debug!("the terminal cannot be awaited: {e}");
        }
    }

    /// Whether somebody typed and it was meant for us: reading in the background would stop the
    /// launcher.
    fn may_read(&self) -> bool {
        let foreground = rustix::termios::tcgetpgrp(self.terminal);
        if self.rank0.is_closed() || foreground != Ok(rustix::process::getpgrp()) {
            return false;
        }
        let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}
