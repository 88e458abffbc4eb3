// SPDX-License-Identifier: MIT OR Apache-2.0
//! One end of a link: two descriptors that are read and written without waiting.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use mio::unix::pipe::{Receiver, Sender};
use mio::{Interest, Registry, Token};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frames::{self, Frames};
use crate::Error;

/// The number of bytes of one read.
const PIECE: usize = 64 << 10;
/// The number of reads before others are served.
const READS_A_TURN: usize = 16;

/// The largest number of bytes that wait for the other end: two of the largest messages.
const MOST_UNSENT: usize = 2 * frames::MOST_BYTES;

/// One end of a link.
#[derive(Debug)]
pub(crate) struct Link {
    reader: Receiver,
    writer: Sender,
    frames: Frames,
    outbox: Vec<u8>,
    /// The number of bytes of `outbox` that were written.
    written: usize,
    /// `true` if the reader may have more bytes; an edge-triggered poll reports each event only once.
    has_input: bool,
    /// `true` after the other end has closed the link, or a read or write has failed.
    is_closed: bool,
}

impl Link {
    /// Registers the two descriptors of a link with a poll.
    ///
    /// # Errors
    /// Returns an error of the system.
    pub(crate) fn new(
        registry: &Registry,
        (read_token, reader): (Token, OwnedFd),
        (write_token, writer): (Token, OwnedFd),
    ) -> io::Result<Self> {
        let (mut reader, mut writer) = (Receiver::from(reader), Sender::from(writer));
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        registry.register(&mut reader, read_token, Interest::READABLE)?;
        registry.register(&mut writer, write_token, Interest::WRITABLE)?;
        Ok(Self {
            reader,
            writer,
            frames: Frames::default(),
            outbox: Vec::new(),
            written: 0,
            has_input: true,
            is_closed: false,
        })
    }

    /// Records that the poll reported one of the descriptors.
    pub(crate) fn handle_ready(&mut self) {
        self.has_input = true;
        self.flush();
    }

    /// Returns `true` if a turn can read at once.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_input && !self.is_closed
    }

    /// Returns `true` after the end of the link. Messages that arrived before it can still be taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the number of bytes that the other end has not taken.
    pub(crate) fn num_unsent(&self) -> usize {
        self.outbox.len() - self.written
    }

    /// Reads what has arrived, a bounded number of bytes.
    pub(crate) fn read(&mut self) {
        let mut piece = [0; PIECE];
        for _ in 0..READS_A_TURN {
            if !self.is_busy() {
                return;
            }
            match self.reader.read(&mut piece) {
                Ok(0) => self.is_closed = true,
                Ok(len) => self.frames.extend(piece.get(..len).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.has_input = false,
                Err(e) => {
                    tracing::debug!("a link has failed: {e}");
                    self.is_closed = true;
                }
            }
        }
    }

    /// Takes the greeting, if it has arrived.
    ///
    /// # Errors
    /// Returns [`Error`] if it is not that of this release.
    pub(crate) fn take_greeting(&mut self) -> Result<bool, Error> {
        self.frames.take_greeting()
    }

    /// Returns the text that has arrived instead of a greeting.
    pub(crate) fn noise(&self) -> String {
        self.frames.noise()
    }

    /// Takes the next message that has arrived.
    ///
    /// # Errors
    /// Returns [`Error`] if it is damaged.
    pub(crate) fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        self.frames.take()
    }

    /// Sends the greeting of an agent.
    pub(crate) fn greet(&mut self) {
        self.outbox.extend_from_slice(frames::greeting().as_bytes());
        self.flush();
    }

    /// Sends a message. It is written now as far as the other end takes it, and later as the poll reports room.
    ///
    /// # Errors
    /// Returns [`Error`] if the message exceeds the limit, and closes the link if the messages that wait exceed theirs.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), Error> {
        if self.is_closed {
            return Ok(());
        }
        frames::push(message, &mut self.outbox)?;
        self.flush();
        match self.num_unsent() > MOST_UNSENT {
            true => {
                self.is_closed = true;
                Err(Error::no_room(format!(
                    "the other end of the link has not taken more than {MOST_UNSENT} bytes"
                )))
            }
            false => Ok(()),
        }
    }

    fn flush(&mut self) {
        while self.written < self.outbox.len() && !self.is_closed {
            match self
                .writer
                .write(self.outbox.get(self.written..).unwrap_or_default())
            {
                Ok(len) => self.written += len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => {
                    tracing::debug!("a link has failed: {e}");
                    // The messages of the other end can still be read.
                    self.written = self.outbox.len();
                }
            }
        }
        if self.written == self.outbox.len() {
            self.outbox.clear();
            self.written = 0;
        } else if self.written > (1 << 20) {
            self.outbox.drain(..self.written);
            self.written = 0;
        }
    }
}
