// SPDX-License-Identifier: MIT OR Apache-2.0
//! An observer on the connections, for traces.
//!
//! Source: none outside.

use pmix_engine::PeerId;

/// An observer of all messages between a server and its peers.
///
/// The thread that drives the server calls it before it processes a message. An observer that takes long
/// blocks all peers.
pub trait WireObserver: Send {
    /// Observes bytes of a peer as received. They are a piece of its stream and may end within a message.
    fn received(&mut self, peer: PeerId, bytes: &[u8]);

    /// Observes a message to a peer, as its header and its payload. The handshake reply has no header.
    fn sent(&mut self, peer: PeerId, header: &[u8], payload: &[u8]);

    /// Observes the end of a connection.
    fn closed(&mut self, peer: PeerId);
}
