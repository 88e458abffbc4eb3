// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job control and monitoring: signals and cleanups that processes ask for, and heartbeats.
//!
//! The host serves most of it. Heartbeats are watched here, and what is to be removed at the end of a process or a job is kept here and handed out then.
//!
//! Source: PMIx Standard, chapters "Job management" and "Server".

mod cleanup;
mod heartbeat;
mod job;
mod monitor;

use std::collections::HashMap;
use std::time::Instant;

use self::cleanup::Cleanups;
pub use self::cleanup::{Cleanup, CleanupDirectory};
use self::heartbeat::HeartbeatMonitors;
use crate::recount::Recount;
use crate::timer::Timer;
use crate::{PeerId, Stats};

/// What is to be done later.
#[derive(Debug, Default)]
pub(crate) struct Control {
    cleanups: Cleanups,
    monitors: HeartbeatMonitors,
    /// The timers that are set for heartbeats.
    watched: HashMap<PeerId, Instant>,
}

impl Control {
    /// Adds the peers that are watched for heartbeats to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_monitored = self.monitors.len().max(self.watched.len());
        (stats.num_cleanups, stats.cleanup_bytes) = self.cleanups.count();
    }

    /// Adds the timers for heartbeats to what is found, and compares what is counted with it.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (peer, at) in &self.watched {
            recount.deadline(Some(*at), Timer::Heartbeat(*peer));
        }
        self.cleanups.recount(recount);
    }
}
