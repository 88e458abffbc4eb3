// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: their peers, what came of a frame, what waits to be sent.
//!
//! Source: none outside.

mod chunk;
mod intake;
mod peer;
mod table;
mod turns;

pub(crate) use chunk::Payload;
pub use chunk::{Chunk, Transmit};
pub use peer::Origin;
pub(crate) use peer::{Member, Peer, Phase, Ticket};
pub(crate) use table::Peers;

use std::fmt;

/// Names a connection; no name is used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(u64);

impl PeerId {
    /// A name for tests that need no connection.
    #[cfg(test)]
    pub(crate) const fn of(number: u64) -> Self {
        Self(number)
    }

    /// The number that a client is told it has.
    pub(crate) fn index(self) -> u32 {
        // Clients put it in a signed field.
        u32::try_from(self.0 & 0x7fff_ffff).unwrap_or_default()
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerId({})", self.0)
    }
}
