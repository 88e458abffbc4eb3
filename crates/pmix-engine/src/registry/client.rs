// SPDX-License-Identifier: MIT OR Apache-2.0
//! A local process that may connect.

use std::time::Instant;

use pmix_types::Proc;

use crate::host::HostObject;
use crate::peers::PeerId;

/// A local process that may connect.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) proc: Proc<'static>,
    /// The user and the group that it has to show.
    pub(crate) user: (u32, u32),
    pub(crate) object: HostObject,
    pub(crate) state: ClientState,
    /// Until when it is waited for, once it has left as it should.
    pub(crate) until: Option<Instant>,
    /// How often it has connected; a child that speaks for it does not count.
    pub(crate) incarnation: u32,
    /// Its connections that have not said that they leave: one, unless children speak for it.
    pub(crate) peers: Vec<PeerId>,
    /// Whether it has committed what it put.
    pub(crate) has_committed: bool,
    /// Whether messages of its first commit are stored, and the last one is to come.
    pub(crate) has_begun_commit: bool,
    /// How many bytes it has put, at the most.
    pub(crate) put_bytes: usize,
    /// Whether what it put was put by an incarnation that ended without notice, or by a process of its
    /// name that was removed.
    pub(super) is_orphaned: bool,
}

/// The state of a local process that the host registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// It is to come.
    Expected,
    /// It is connected.
    Connected,
    /// It has left as it should and may come back.
    Finalized,
    /// It has left as it should and has not come back in time. It may still come back, but nobody
    /// waits for it.
    Left,
    /// It went away without saying so.
    Lost,
}

impl Client {
    pub(super) fn new(proc: Proc<'static>, user: (u32, u32), object: HostObject) -> Self {
        Self {
            proc,
            user,
            object,
            state: ClientState::Expected,
            until: None,
            incarnation: 0,
            peers: Vec::new(),
            has_committed: false,
            has_begun_commit: false,
            put_bytes: 0,
            is_orphaned: false,
        }
    }

    /// It connects, and begins another incarnation unless this is a child that speaks for it. Tells
    /// whether the previous incarnation ended without notice: what it put is nobody's then.
    pub(crate) fn connect(&mut self, peer: PeerId) -> bool {
        let was_lost = self.is_orphaned;
        if self.state != ClientState::Connected {
            self.incarnation = self.incarnation.saturating_add(1);
            self.state = ClientState::Connected;
            self.has_committed &= !was_lost;
            self.has_begun_commit = false;
            self.is_orphaned = false;
            // A connection of the previous incarnation may be about to close.
            self.peers.clear();
        }
        self.peers.push(peer);
        was_lost
    }

    /// It has said over a connection that it leaves. Its incarnation ends unless others speak for it; it is
    /// waited for until then. Tells whether it has ended.
    pub(crate) fn finalize(&mut self, peer: PeerId, until: Option<Instant>) -> bool {
        self.peers.retain(|known| *known != peer);
        let has_left = self.peers.is_empty() && self.state == ClientState::Connected;
        if has_left {
            self.state = ClientState::Finalized;
            self.until = until;
        }
        has_left
    }

    /// A connection of it is closed. Tells whether that was the end of an incarnation without PMIx_Finalize.
    pub(crate) fn disconnect(&mut self, peer: PeerId) -> bool {
        let is_known = self.peers.contains(&peer);
        self.peers.retain(|known| *known != peer);
        let is_lost = is_known && self.peers.is_empty() && self.state == ClientState::Connected;
        if is_lost {
            self.state = ClientState::Lost;
            self.is_orphaned = true;
        }
        is_lost
    }

    /// The host says that it is to come again.
    pub(super) fn revive(&mut self) {
        if matches!(self.state, ClientState::Lost | ClientState::Left) {
            self.state = ClientState::Expected;
        }
    }
}
