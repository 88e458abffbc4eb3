// SPDX-License-Identifier: MIT OR Apache-2.0
//! All connections, by their tokens and by their names in the engine.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use mio::Token;
use pmix_engine::PeerId;

use super::connection::Connection;

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
