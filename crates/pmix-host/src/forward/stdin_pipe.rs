// SPDX-License-Identifier: MIT OR Apache-2.0
//! The standard input of a process: its pipe and the bytes that wait for room in it.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use mio::unix::pipe::Sender;
use mio::{Interest, Registry, Token};
use pmix_server::Completion;
use pmix_types::Status;

/// The pipe to the standard input of a process, written without waiting for the process.
///
/// Bytes without room are kept here, and their completion is called when they have been written. So a peer that sends
/// more than the process reads has to wait.
pub struct StdinPipe {
    /// `None` after the pipe was closed, by this end or by the reader.
    pipe: Option<Sender>,
    waiting: VecDeque<Piece>,
    /// `true` if the pipe is closed once no bytes are pending.
    ends: bool,
}

struct Piece {
    bytes: Arc<[u8]>,
    written: usize,
    done: Option<PieceCompletion>,
}

/// The callback for the result.
type PieceCompletion = Box<dyn FnOnce(Status) + Send>;

impl StdinPipe {
    /// Takes the pipe of a process, or the other side of its pseudo terminal, and registers it with a poll under a
    /// token.
    ///
    /// # Errors
    /// Returns an error if the pipe cannot be made nonblocking or cannot be registered.
    pub fn new(registry: &Registry, token: Token, pipe: impl Into<Sender>) -> io::Result<Self> {
        let mut pipe = pipe.into();
        pipe.set_nonblocking(true)?;
        registry.register(&mut pipe, token, Interest::WRITABLE)?;
        Ok(Self {
            pipe: Some(pipe),
            waiting: VecDeque::new(),
            ends: false,
        })
    }

    /// Returns `true` if the pipe is closed, by [`end`](Self::end) or by its reader.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Returns `true` if no bytes are pending.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of pending bytes.
    #[must_use]
    pub fn num_waiting(&self) -> usize {
        let waiting = self.waiting.iter();
        waiting.map(|piece| piece.bytes.len() - piece.written).sum()
    }

    /// Returns the descriptor of the pipe until it is closed, for example to read the modes of a pseudo terminal.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(|pipe| pipe.as_fd())
    }

    /// Writes bytes as soon as there is room. The completion succeeds when they are in the pipe, and fails with
    /// `PMIX_ERR_IOF_COMPLETE` if the process closed it before.
    pub fn push(&mut self, bytes: Vec<u8>, done: Option<Completion<()>>) {
        let Some(done) = done else {
            return self.add(bytes.into(), None);
        };
        self.push_then(bytes.into(), move |status| match status {
            Status::SUCCESS => done.succeed(()),
            status => done.fail(status),
        });
    }

    /// Writes bytes as soon as there is room, and calls `done` when they are in the pipe: with `PMIX_SUCCESS`, or with
    /// `PMIX_ERR_IOF_COMPLETE` if the process closed it before. `done` is not called if the pipe is dropped. Bytes for
    /// several pipes are shared without a copy.
    pub fn push_then(&mut self, bytes: Arc<[u8]>, done: impl FnOnce(Status) + Send + 'static) {
        self.add(bytes, Some(Box::new(done)));
    }

    fn add(&mut self, bytes: Arc<[u8]>, done: Option<PieceCompletion>) {
        self.waiting.push_back(Piece {
            bytes,
            written: 0,
            done,
        });
        self.write();
    }

    /// Closes the pipe once no bytes are pending.
    pub fn end(&mut self) {
        self.ends = true;
        self.write();
    }

    /// Writes as much as there is room for. The host calls it for each event of the token.
    pub fn write(&mut self) {
        while let Some(piece) = self.waiting.front_mut() {
            let Some(pipe) = self.pipe.as_mut().filter(|_| !piece.is_written()) else {
                let piece = self.waiting.pop_front();
                piece.into_iter().for_each(Piece::complete);
                continue;
            };
            match pipe.write(&piece.bytes[piece.written..]) {
                Ok(len) => piece.written += len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // The process has closed its end.
                Err(_) => self.pipe = None,
            }
        }
        // The process must read all bytes before the end of its input.
        if self.ends {
            self.pipe = None;
        }
    }
}

impl Piece {
    fn is_written(&self) -> bool {
        self.written == self.bytes.len()
    }

    fn complete(self) {
        let is_written = self.is_written();
        match self.done {
            Some(done) if is_written => done(Status::SUCCESS),
            Some(done) => done(Status::ERR_IOF_COMPLETE),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_goes_to_several_pipes_is_held_once_and_pipes_move_between_threads() {
        fn moves<T: Send>(_: &T) {}
        let poll = mio::Poll::new().unwrap();
        let bytes: Arc<[u8]> = vec![b'x'; 1 << 20].into();
        let mut children = Vec::new();
        for number in 0..3 {
            let mut command = Command::new("sleep");
            let mut child = command.arg("60").stdin(Stdio::piped()).spawn().unwrap();
            let pipe = child.stdin.take().unwrap();
            let mut pipe = StdinPipe::new(poll.registry(), Token(number), pipe).unwrap();
            moves(&pipe);
            pipe.push_then(Arc::clone(&bytes), |_| {});
            assert!(!pipe.is_drained(), "the child reads nothing");
            children.push((child, pipe));
        }
        assert_eq!(Arc::strong_count(&bytes), 4);
        for (mut child, _) in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
