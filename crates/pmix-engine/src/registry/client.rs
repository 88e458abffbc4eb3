// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registered local processes.
//!
//! | state | event | next state |
//! | --- | --- | --- |
//! | none | the host registers the process | expected |
//! | expected, finalized, left, lost | the process connects | connected, as the next incarnation |
//! | connected | a clone connects | connected |
//! | connected | the finalize over the last connection | finalized |
//! | connected | the last connection closes without a finalize | lost |
//! | finalized | [`Config::return_time`](crate::Config::return_time) | left |
//! | left, lost | the host registers the process again | expected |
//! | any | the host deregisters the process | removed |

use std::time::Instant;

use pmix_types::Proc;

use crate::host::HostObject;
use crate::peers::PeerId;

/// A registered local process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) proc: Proc<'static>,
    /// The user and group that its credential must prove.
    pub(crate) user: (u32, u32),
    pub(crate) object: HostObject,
    pub(crate) state: ClientState,
    /// The time until which collectives wait for the return of a finalized process.
    pub(crate) until: Option<Instant>,
    /// The number of connections so far, without clones.
    pub(crate) incarnation: u32,
    /// The connections of the process without a finalize: one, or more with clones.
    pub(crate) peers: Vec<PeerId>,
    /// `true` if the process has committed.
    pub(crate) has_committed: bool,
    /// `true` while the server has stored some messages of the process's first commit, but not the last one.
    pub(crate) has_begun_commit: bool,
    /// An upper limit of the bytes that the process put.
    pub(crate) put_bytes: usize,
    /// `true` if the stored data belong to a lost incarnation, or to a deregistered process of this name.
    pub(super) is_orphaned: bool,
}

/// The state of a registered local process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// The process has not connected yet, or is about to be restarted.
    Expected,
    /// The process is connected.
    Connected,
    /// The process has finalized and may initialize again.
    Finalized,
    /// The process has finalized and did not return in time. It may still initialize again, but collectives do not wait
    /// for it.
    Left,
    /// The connection closed without a finalize.
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

    /// Records a connection, which begins another incarnation unless it is a clone. Returns `true` if the previous
    /// incarnation was lost, whose data must then be removed.
    pub(crate) fn connect(&mut self, peer: PeerId) -> bool {
        let was_lost = self.is_orphaned;
        if self.state != ClientState::Connected {
            self.incarnation = self.incarnation.saturating_add(1);
            self.state = ClientState::Connected;
            self.has_committed &= !was_lost;
            self.has_begun_commit = false;
            self.is_orphaned = false;
            // A connection of the previous incarnation may not have closed yet; its end must not affect this
            // incarnation.
            self.peers.clear();
        }
        self.peers.push(peer);
        was_lost
    }

    /// Records a finalize over a connection. The incarnation ends with its last connection. Returns `true` if it has
    /// ended; collectives then wait for the return of the process up to `until`.
    pub(crate) fn finalize(&mut self, peer: PeerId, until: Option<Instant>) -> bool {
        self.peers.retain(|known| *known != peer);
        let has_left = self.peers.is_empty() && self.state == ClientState::Connected;
        if has_left {
            self.state = ClientState::Finalized;
            self.until = until;
        }
        has_left
    }

    /// Records the end of a connection. Returns `true` if the incarnation ended without a finalize.
    pub(crate) fn disconnect(&mut self, peer: PeerId) -> bool {
        // A connection of an earlier incarnation is not in the list; its end concerns no one.
        let is_known = self.peers.contains(&peer);
        self.peers.retain(|known| *known != peer);
        let is_lost = is_known && self.peers.is_empty() && self.state == ClientState::Connected;
        if is_lost {
            self.state = ClientState::Lost;
            self.is_orphaned = true;
        }
        is_lost
    }

    /// Records that the host expects the process again.
    pub(super) fn revive(&mut self) {
        if matches!(self.state, ClientState::Lost | ClientState::Left) {
            self.state = ClientState::Expected;
        }
    }
}
