// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stream of the launcher itself, written without ever waiting for its reader.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// When so much waits for the reader, nothing more is taken in.
const FULL: usize = 256 << 10;
/// What a pipe that has room at all takes in one piece (`PIPE_BUF` of Linux).
const PIECE: usize = 4096;

/// A stream of the launcher itself.
///
/// Its descriptor is shared with who started the launcher, so it cannot be made non-blocking;
/// instead it is asked before each piece whether it has room. A paused terminal thus keeps nobody
/// from being signalled.
pub(super) struct Sink<'a> {
    fd: BorrowedFd<'a>,
    waiting: Vec<u8>,
    written: usize,
    gone: bool,
}

impl<'a> Sink<'a> {
    pub(super) fn new(fd: BorrowedFd<'a>) -> Self {
        Self {
            fd,
            waiting: Vec::new(),
            written: 0,
            gone: false,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'a> {
        self.fd
    }

    /// What is to be written, to be appended to.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// Whether it takes no more for now.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() - self.written >= FULL
    }

    /// Whether all was written.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.len() == self.written
    }

    /// Whether nobody reads it any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Drops what was not written.
    pub(super) fn lose(&mut self) {
        self.gone = true;
        self.waiting.clear();
        self.written = 0;
    }

    /// Writes as much as there is room for.
    pub(super) fn flush(&mut self) {
        while !self.is_empty() && !self.gone && has_room(self.fd) {
            let rest = &self.waiting[self.written..];
            match rustix::io::write(self.fd, &rest[..rest.len().min(PIECE)]) {
                Ok(written) => self.written += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(e) => {
                    if e != Errno::PIPE {
                        tracing::error!("output is lost: {}", io::Error::from(e));
                    }
                    self.gone = true;
                }
            }
        }
        if self.gone || self.is_empty() {
            self.waiting.clear();
            self.written = 0;
        } else if self.written >= FULL {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
    }
}

/// Whether a write of one piece would not wait.
fn has_room(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&now)) {
        // What is broken takes a write, and says so.
        Ok(ready) => ready > 0,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_reader_that_is_slow_gets_all_and_holds_nobody_up() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut sink = Sink::new(writer.as_fd());
        let text: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
        sink.buffer().extend_from_slice(&text);
        sink.flush();
        assert!(!sink.is_empty());
        let mut got = Vec::new();
        let mut piece = [0; 30_000];
        while got.len() < text.len() {
            let len = reader.read(&mut piece).unwrap();
            got.extend_from_slice(&piece[..len]);
            sink.flush();
        }
        assert!(sink.is_empty());
        assert_eq!(got, text);
    }

    #[test]
    fn it_is_full_before_memory_is() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut sink = Sink::new(writer.as_fd());
        let mut pushed = 0;
        while !sink.is_full() {
            sink.buffer().extend_from_slice(&[0; 4096]);
            sink.flush();
            pushed += 4096;
        }
        assert!(pushed <= FULL + (64 << 10) + 4096, "{pushed}");
    }

    #[test]
    fn a_reader_that_went_away_is_noticed() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut sink = Sink::new(writer.as_fd());
        sink.buffer().extend_from_slice(b"x");
        sink.flush();
        assert!(sink.is_gone() && sink.is_empty());
    }

    #[test]
    fn a_file_takes_everything() {
        let mut file = tempfile::tempfile().unwrap();
        let mut sink = Sink::new(file.as_fd());
        sink.buffer().extend_from_slice(&[7; 100_000]);
        sink.flush();
        assert!(sink.is_empty());
        io::Seek::rewind(&mut file).unwrap();
        let mut got = Vec::new();
        file.read_to_end(&mut got).unwrap();
        assert_eq!(got, [7; 100_000]);
    }
}
