// SPDX-License-Identifier: MIT OR Apache-2.0
//! The right to answer a request, once.

use pmix_proto::Tag;

use super::PeerId;

/// The right to answer a request. It cannot be copied and an answer takes it, so that nothing is
/// answered twice; whoever drops it owes a reason why the peer waits for nothing.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request that is not answered hangs its client"]
pub(crate) struct Ticket {
    peer: PeerId,
    tag: Tag,
    /// How many bytes the request had: as long as it waits, something of it is kept.
    num_bytes: usize,
}

impl Ticket {
    pub(super) const fn new(peer: PeerId, tag: Tag, num_bytes: usize) -> Self {
        Self {
            peer,
            tag,
            num_bytes,
        }
    }

    pub(super) const fn num_bytes(&self) -> usize {
        self.num_bytes
    }

    /// Who asked.
    pub(crate) const fn peer(&self) -> PeerId {
        self.peer
    }

    /// Under which tag.
    pub(crate) const fn tag(&self) -> Tag {
        self.tag
    }
}
