// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pipe that rank 0 reads, and what waits for room in it.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::process::ChildStdin;

use mio::unix::pipe::Sender;
use mio::{Interest, Registry, Token};
use pmix_server::Completion;
use pmix_types::Status;

/// The pipe that rank 0 reads. Whoever sends more than it takes waits for its completion.
pub(crate) struct StdinPipe {
    /// None when it is closed, by us or by its reader.
    pipe: Option<Sender>,
    waiting: VecDeque<Piece>,
    /// It is closed when nothing waits any more.
    ends: bool,
}

struct Piece {
    bytes: Vec<u8>,
    written: usize,
    done: Option<Completion<()>>,
}

impl StdinPipe {
    /// The poll tells of room by this token.
    pub(super) fn new(registry: &Registry, token: Token, pipe: ChildStdin) -> io::Result<Self> {
        let mut pipe = Sender::from(pipe);
        pipe.set_nonblocking(true)?;
        registry.register(&mut pipe, token, Interest::WRITABLE)?;
        Ok(Self {
            pipe: Some(pipe),
            waiting: VecDeque::new(),
            ends: false,
        })
    }

    /// Whether there is nobody who reads any more.
    pub(super) fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Whether all that came has been written.
    pub(super) fn is_drained(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes bytes as there is room; the completion is answered when they are in the pipe.
    pub(super) fn push(&mut self, bytes: Vec<u8>, done: Option<Completion<()>>) {
        self.waiting.push_back(Piece {
            bytes,
            written: 0,
            done,
        });
        self.write();
    }

    /// Closes the pipe behind what waits.
    pub(super) fn end(&mut self) {
        self.ends = true;
        self.write();
    }

    /// Writes what there is room for. To be called when a poll names the token.
    pub(super) fn write(&mut self) {
        while let Some(piece) = self.waiting.front_mut() {
            let Some(pipe) = self.pipe.as_mut().filter(|_| !piece.is_written()) else {
                let piece = self.waiting.pop_front();
                piece.into_iter().for_each(Piece::answer);
                continue;
            };
            match pipe.write(&piece.bytes[piece.written..]) {
                Ok(len) => piece.written += len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // It reads no more.
                Err(_) => self.pipe = None,
            }
        }
        if self.ends {
            self.pipe = None;
        }
    }
}

impl Piece {
    fn is_written(&self) -> bool {
        self.written == self.bytes.len()
    }

    fn answer(self) {
        let is_written = self.is_written();
        match self.done {
            Some(done) if is_written => done.succeed(()),
            Some(done) => done.fail(Status::ERR_IOF_COMPLETE),
            None => {}
        }
    }
}
