// SPDX-License-Identifier: MIT OR Apache-2.0
//! A terminal as standard input of rank 0.
//!
//! Anything but a terminal is handed to rank 0 as it is. A terminal cannot be: rank 0 is in a
//! process group of its own, in the background, and would be stopped when it reads.

use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::process::ChildStdin;

use mio::unix::SourceFd;
use mio::unix::pipe::Sender;
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What is typed, on its way to rank 0.
pub(crate) struct Keyboard<'a> {
    terminal: BorrowedFd<'a>,
    token: Token,
    /// Rank 0, until it ends or the input does.
    rank0: Option<Sender>,
    waiting: Vec<u8>,
    ended: bool,
}

impl<'a> Keyboard<'a> {
    /// Uses two tokens, `token` and the next.
    pub(crate) fn new(
        registry: &Registry,
        token: usize,
        terminal: BorrowedFd<'a>,
        rank0: ChildStdin,
    ) -> io::Result<Self> {
        let mut rank0 = Sender::from(rank0);
        rank0.set_nonblocking(true)?;
        registry.register(&mut rank0, Token(token + 1), Interest::WRITABLE)?;
        let fd = terminal.as_raw_fd();
        registry.register(&mut SourceFd(&fd), Token(token), Interest::READABLE)?;
        Ok(Self {
            terminal,
            token: Token(token),
            rank0: Some(rank0),
            waiting: Vec::new(),
            ended: false,
        })
    }

    /// Moves what was typed. To be called when a poll names one of its tokens, and when the
    /// launcher comes to the foreground.
    pub(crate) fn turn(&mut self, registry: &Registry) {
        loop {
            self.write();
            if self.rank0.is_none() || !self.waiting.is_empty() || !self.may_read() {
                break;
            }
            let mut piece = [0; 4096];
            match rustix::io::read(self.terminal, &mut piece) {
                Ok(0) => self.ended = true,
                Ok(len) => self.waiting.extend_from_slice(&piece[..len]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // The terminal hung up.
                Err(_) => self.ended = true,
            }
            if self.ended && self.waiting.is_empty() {
                self.rank0 = None;
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
        if self.ended || foreground != Ok(rustix::process::getpgrp()) {
            return false;
        }
        let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    fn write(&mut self) {
        while let Some(rank0) = self.rank0.as_mut().filter(|_| !self.waiting.is_empty()) {
            match rank0.write(&self.waiting) {
                Ok(len) => {
                    self.waiting.drain(..len);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.rank0 = None;
                    self.waiting.clear();
                }
            }
        }
    }
}
