// SPDX-License-Identifier: MIT OR Apache-2.0
//! An observer on the connections, for traces.
//!
//! Source: none outside.

use pmix_engine::PeerId;

/// Observes all messages between a server and its peers.
///
/// It is called by whoever drives the server, before anything is done about what it hears; one that
/// takes long holds up everybody.
pub trait WireObserver: Send {
    /// Bytes of a peer, as they came: a piece of its stream, which need not end with a message.
    fn received(&mut self, peer: PeerId, bytes: &[u8]);

    /// A message for a peer in two runs: its header and its payload. The welcome has no header.
    fn sent(&mut self, peer: PeerId, header: &[u8], payload: &[u8]);

    /// The connection is closed.
    fn closed(&mut self, peer: PeerId);
}
