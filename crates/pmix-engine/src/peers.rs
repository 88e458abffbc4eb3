// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections with their peers, partial input and queued output.
//!
//! Source: this project.

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

/// The identifier of a connection, which is never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(u64);

impl PeerId {
    /// Creates an identifier for tests without connections.
    #[cfg(test)]
    pub(crate) const fn of(number: u64) -> Self {
        Self(number)
    }

    /// Returns the index that the welcome assigns to a client.
    pub(crate) fn index(self) -> u32 {
        // Clients store it in a signed field.
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
