// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes for a peer.
//!
//! Source: this project; lengths are in bytes.

use std::sync::Arc;

use pmix_proto::Header;

use super::PeerId;

/// Bytes to be written to a peer, in order.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// The peer.
    pub peer: PeerId,
    /// The bytes.
    pub bytes: Chunk,
}

/// A frame as two consecutive runs of bytes; or the welcome that precedes all frames, or complete frames, as the second
/// run.
///
/// The second run may be shared with other peers, so that data sent to all clients exist once.
#[derive(Clone, Debug)]
pub struct Chunk {
    head: [u8; Header::LEN],
    /// The number of valid bytes of the head.
    head_len: usize,
    payload: Payload,
}

/// The bytes after a header.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// Bytes for this peer only.
    Owned(Vec<u8>),
    /// Shared bytes, from an offset on.
    Shared(Arc<Vec<u8>>, usize),
}

impl Payload {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes, start) => bytes.get(*start..).unwrap_or_default(),
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes)
    }
}

impl From<Arc<Vec<u8>>> for Payload {
    fn from(bytes: Arc<Vec<u8>>) -> Self {
        Self::Shared(bytes, 0)
    }
}

impl From<(Arc<Vec<u8>>, usize)> for Payload {
    fn from((bytes, start): (Arc<Vec<u8>>, usize)) -> Self {
        Self::Shared(bytes, start)
    }
}

impl Chunk {
    pub(crate) fn framed(header: &Header, payload: Payload) -> Self {
        Self {
            head: header.encode(),
            head_len: Header::LEN,
            payload,
        }
    }

    pub(crate) fn bare(bytes: impl Into<Payload>) -> Self {
        Self {
            head: [0; Header::LEN],
            head_len: 0,
            payload: bytes.into(),
        }
    }

    /// Returns the first run of bytes: the header of a frame, or nothing.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        self.head.get(..self.head_len).unwrap_or_default()
    }

    /// Returns the second run of bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.payload.as_bytes()
    }

    /// Returns the length of both runs in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a chunk is never empty")]
    pub fn len(&self) -> usize {
        self.head_len + self.payload.as_bytes().len()
    }
}
