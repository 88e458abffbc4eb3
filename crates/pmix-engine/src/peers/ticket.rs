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
}

impl Ticket {
    pub(super) const fn new(peer: PeerId, tag: Tag) -> Self {
        Self { peer, tag }
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
