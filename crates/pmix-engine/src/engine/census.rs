// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an engine has to remember at a moment.

use crate::Engine;

/// What an engine has to remember at a moment, apart from what the host registered. All of it is
/// zero when nobody is connected and nothing is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Connections, those that have not said who they are included.
    pub num_peers: usize,
    /// Questions about data that wait.
    pub num_questions: usize,
    /// Requests of the host for data of processes that wait.
    pub num_requested: usize,
    /// Fences, connects and disconnects that are under way, or failed and not known to all.
    pub num_collectives: usize,
    /// Things that are to happen at a time.
    pub num_alarms: usize,
    /// Calls that the host has not answered.
    pub num_host_calls: usize,
    /// Connections that have not said who they are.
    pub num_greetings: usize,
    /// Requests that wait for their answers.
    pub num_requests: usize,
    /// Bytes that are queued for peers and not written yet.
    pub queued_bytes: usize,
    /// Processes of other nodes whose data the host is to bring.
    pub num_asked: usize,
    /// Processes that finalise and wait for the host.
    pub num_leaving: usize,
    /// Peers that listen to events, what they listen to, and those that had some that are kept.
    pub num_listeners: usize,
    /// Pulls of output.
    pub num_pulls: usize,
    /// Signs of life that are watched.
    pub num_watched: usize,
    /// What the driver has not taken yet: bytes, calls and events, by number.
    pub num_undelivered: usize,
}

impl Engine {
    /// What the engine has to remember now. It takes time in proportion to the connections.
    #[must_use]
    pub fn census(&self) -> Census {
        let (num_requests, queued_bytes) = self.peers.waiting();
        let [listening, codes, _, had] = self.events.len();
        Census {
            num_peers: self.peers.len(),
            num_questions: self.waiting.len(),
            num_requested: self.requested.len(),
            num_collectives: self.collectives.len(),
            num_alarms: self.alarms.len(),
            num_host_calls: self.calls.len(),
            num_greetings: self.greetings.len(),
            num_requests,
            queued_bytes,
            num_asked: self.directs.len(),
            num_leaving: self.leaving.len(),
            num_listeners: listening + codes + had,
            num_pulls: self.forwarding.num_pulls(),
            num_watched: self.control.num_watched(),
            num_undelivered: self.peers.num_queued()
                + self.calls.num_queued()
                + self.outcomes.len(),
        }
    }
}
