// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job control and monitoring: signals and cleanups requested by processes, and heartbeats.
//!
//! The host serves most requests. The engine monitors heartbeats. It also stores cleanups until the process or job ends
//! and then passes them to the driver.
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

/// The cleanups and heartbeat monitors of a server.
#[derive(Debug, Default)]
pub(crate) struct Control {
    cleanups: Cleanups,
    monitors: HeartbeatMonitors,
    /// The active heartbeat timers.
    watched: HashMap<PeerId, Instant>,
}

impl Control {
    /// Adds the monitored peers and the cleanups to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_monitored = self.monitors.len().max(self.watched.len());
        (stats.num_cleanups, stats.cleanup_bytes) = self.cleanups.count();
    }

    /// Adds the heartbeat timers to a recount, and compares the counters of cleanups.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (peer, at) in &self.watched {
            recount.deadline(Some(*at), Timer::Heartbeat(*peer));
        }
        self.cleanups.recount(recount);
    }
}
