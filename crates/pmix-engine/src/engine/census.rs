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
}

impl Engine {
    /// What the engine has to remember now.
    #[must_use]
    pub fn census(&self) -> Census {
        Census {
            num_peers: self.peers.len(),
            num_questions: self.waiting.len(),
            num_requested: self.requested.len(),
            num_collectives: self.collectives.len(),
            num_alarms: self.alarms.len(),
            num_host_calls: self.calls.len(),
        }
    }
}
