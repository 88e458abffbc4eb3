// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection, its socket and its pending output; all connections by token and by name in the engine.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

use mio::Token;
use mio::net::TcpStream;
use pmix_engine::{Chunk, PeerId};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};

use super::outbox::{Outbox, Written};

/// The number of pending bytes at which the peer is no longer read.
const HIGH_WATER: usize = 1 << 20;

/// Number of reads of one connection before others are served.
const READS: usize = 8;

/// Size up to which the output of a peer is written before longer output of other peers.
const QUICK: usize = 16 << 10;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// The peer in the engine.
    pub(super) peer: PeerId,
    /// The address of the peer, for the log.
    pub(super) from: SocketAddr,
    pub(super) uid: Option<u32>,
    outbox: Outbox,
    /// `true` if there may be input.
    pub(super) readable: bool,
    /// `true` if the kernel reported that no input follows the available one.
    pub(super) is_ending: bool,
    /// `true` while the connection is not read because its messages have not been handled.
    pub(super) is_paused: bool,
}

/// A writer to a socket that never generates SIGPIPE. `writev(2)`, by which the standard library writes several slices,
/// does where the peer has closed the connection, and the signal ends hosts in C.
struct WithoutSignal<'a>(&'a TcpStream);

impl Write for WithoutSignal<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut ancillary = SendAncillaryBuffer::default();
        Ok(sendmsg(
            self.0,
            slices,
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// All available input is read, or reading is suspended.
    Drained,
    /// There may be more.
    More,
    /// The connection is closed or broken.
    Closed,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: PeerId, from: SocketAddr, uid: Option<u32>) -> Self {
        Self {
            stream,
            peer,
            from,
            uid,
            outbox: Outbox::default(),
            // Most peers have sent their hello before they are accepted.
            readable: true,
            is_ending: false,
            is_paused: false,
        }
    }

    /// Reads available input in pieces while `take` returns `true`. A peer that does not read its own messages is not
    /// read either, since its requests would produce more of them.
    pub(super) fn read(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[u8]) -> bool) -> Input {
        for _ in 0..READS {
            if self.outbox.len() >= HIGH_WATER {
                return Input::Drained;
            }
            match self.stream.read(buffer) {
                Ok(0) => return Input::Closed,
                Ok(len) => {
                    let wants_more = take(buffer.get(..len).unwrap_or_default());
                    if len < buffer.len() && !self.is_ending {
                        // The socket was drained, so new input causes a new event.
                        self.readable = false;
                        return Input::Drained;
                    }
                    if !wants_more {
                        return Input::More;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Input::Drained;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Input::Closed,
            }
        }
        Input::More
    }

    /// Queues bytes. Returns `true` if no output was pending before, so the caller can write at once.
    pub(super) fn push(&mut self, chunk: Chunk) -> bool {
        let first = self.outbox.is_empty();
        self.outbox.push(chunk);
        first
    }

    /// Writes pending output without blocking, at most about `most` bytes.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub(super) fn write(&mut self, most: usize) -> io::Result<Written> {
        self.outbox.write(&mut WithoutSignal(&self.stream), most)
    }

    /// Returns `true` if the kernel accepts the pending output at once because of its short length.
    pub(super) fn is_quick_to_write(&self) -> bool {
        self.outbox.len() <= QUICK
    }

    /// Returns `true` if output is pending.
    pub(super) fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Drops the pending output.
    pub(super) fn discard_output(&mut self) {
        self.outbox = Outbox::default();
    }

    /// Returns `true` if it must be read again without a new event, because reading was suspended while too
    /// much output was pending.
    pub(super) fn resumes(&self) -> bool {
        self.readable && self.outbox.len() < HIGH_WATER
    }
}

/// The tokens that do not belong to a connection.
pub(super) const LISTENER: Token = Token(0);

pub(super) const WAKER: Token = Token(1);

pub(super) const HOST: Token = Token(2);

const FIRST: usize = 3;

/// Both keys are numbers that count up here, so a peer cannot cause collisions.
type ByNumber = BuildHasherDefault<NumberHasher>;

/// A hasher that spreads a number over all bits.
#[derive(Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio of 2^64 maps neighboring numbers far apart.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(u64::try_from(number).unwrap_or(u64::MAX));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// All connections. Tokens are not reused, so an event of a closed connection cannot concern a later one.
#[derive(Debug)]
pub(super) struct Connections {
    by_token: HashMap<Token, Connection, ByNumber>,
    by_peer: HashMap<PeerId, Token, ByNumber>,
    next: usize,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self {
            by_token: HashMap::default(),
            by_peer: HashMap::default(),
            next: FIRST,
        }
    }

    /// Returns the token of the next connection.
    pub(super) fn next_token(&mut self) -> Token {
        let token = Token(self.next);
        self.next += 1;
        token
    }

    pub(super) fn insert(&mut self, token: Token, connection: Connection) {
        self.by_peer.insert(connection.peer, token);
        self.by_token.insert(token, connection);
    }

    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut Connection> {
        self.by_token.get_mut(&token)
    }

    pub(super) fn token(&self, peer: PeerId) -> Option<Token> {
        self.by_peer.get(&peer).copied()
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<Connection> {
        let connection = self.by_token.remove(&token)?;
        self.by_peer.remove(&connection.peer);
        Some(connection)
    }

    pub(super) fn len(&self) -> usize {
        self.by_token.len()
    }

    /// Returns all connections.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.by_token.values_mut()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_write_to_a_closed_connection_generates_no_signal() {
        let is_signaled = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGPIPE, Arc::clone(&is_signaled))
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        let stream = TcpStream::from_std(stream);
        let bytes = [0; 4096];
        // The kernel takes bytes until it knows that the peer has closed its socket.
        let write = || {
            let slices = [IoSlice::new(&bytes), IoSlice::new(&bytes)];
            let vectored = WithoutSignal(&stream).write_vectored(&slices);
            vectored.and_then(|_| WithoutSignal(&stream).write(&bytes))
        };
        let broken = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            write()
                .err()
                .filter(|error| error.kind() == io::ErrorKind::BrokenPipe)
        });
        assert!(broken.is_some());
        assert!(!is_signaled.load(Ordering::Relaxed));
    }
}
