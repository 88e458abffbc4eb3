// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a connection comes from.

/// Where a connection comes from, as the system says and not the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The user that owns the socket at the other end, if the system knows.
    pub uid: Option<u32>,
    /// The group of that user, if the system knows.
    pub gid: Option<u32>,
    /// Whether the other end is on this node.
    pub loopback: bool,
}
