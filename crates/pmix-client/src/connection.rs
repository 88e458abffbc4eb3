// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket to the server with time limits.

use std::io;
use std::time::{Duration, Instant};

use crate::core::Core;
use crate::socket::Socket;

/// The length of a read buffer.
pub(crate) const BUFFER_BYTES: usize = 16 << 10;

/// The socket to the server, its read buffer and the message being sent.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    buffer: Box<[u8]>,
    /// The message being sent, and the number of its bytes already written.
    unsent: (Vec<u8>, usize),
}

/// The time at which a wait ends; `None` for no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Returns the earlier of this deadline and `other`.
    pub(crate) fn or_before(self, other: Option<Instant>) -> Self {
        Self(self.0.into_iter().chain(other).min())
    }

    /// Returns the time itself.
    pub(crate) const fn at(self) -> Option<Instant> {
        self.0
    }

    /// Returns the remaining time, at least 1 ms, since the system rejects a time limit of zero.
    pub(crate) fn left(self) -> Option<Duration> {
        let left = self.0?.saturating_duration_since(Instant::now());
        Some(left.max(Duration::from_millis(1)))
    }

    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|end| end <= Instant::now())
    }
}

impl Connection {
    /// Creates a connection from a socket.
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            unsent: (Vec::new(), 0),
        }
    }

    /// Returns the socket and the read buffer, for another thread or loop that waits on the socket.
    pub(crate) fn into_parts(self) -> (Socket, Box<[u8]>) {
        (self.socket, self.buffer)
    }

    /// Sends all messages of the core. Returns `false` if the server did not read them in time.
    ///
    /// The rest of a partial message is sent first the next time, so a frame is never truncated.
    pub(crate) fn transmit(&mut self, core: &mut Core, end: Deadline) -> io::Result<bool> {
        while self.send_rest(end)? {
            let Some(next) = core.poll_transmit() else {
                self.unsent = (Vec::new(), 0);
                return Ok(true);
            };
            self.unsent = (next, 0);
        }
        Ok(false)
    }

    /// Sends bytes. Returns `false` if the server did not read them in time.
    pub(crate) fn send_all(&mut self, bytes: &[u8], end: Deadline) -> io::Result<bool> {
        self.unsent = (bytes.to_vec(), 0);
        self.send_rest(end)
    }

    /// Sends the rest of the current message. Returns `false` if the server did not read it in time.
    fn send_rest(&mut self, end: Deadline) -> io::Result<bool> {
        loop {
            let (bytes, sent) = &mut self.unsent;
            let rest = bytes.get(*sent..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(true);
            }
            self.socket.set_write_timeout(end.left())?;
            match self.socket.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => *sent += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_late(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
            // Each write restarts the timeout of the socket. A server that reads single bytes must not extend the
            // limit.
            if end.has_passed() && bytes.len() > *sent {
                return Ok(false);
            }
        }
    }

    /// Waits for bytes. Returns `None` if none arrived in time.
    pub(crate) fn receive(&mut self, end: Deadline) -> io::Result<Option<&[u8]>> {
        loop {
            // `left` is never zero, so only this check ends a wait that signals interrupt again and again.
            if end.has_passed() {
                return Ok(None);
            }
            self.socket.set_read_timeout(end.left())?;
            match self.socket.read(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => return Ok(self.buffer.get(..len)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_late(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}
