// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timers of the engine.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::host::CallId;
use crate::ids::{ClientId, DirectModexId, EarlyId, ElectionId, GetId, TrackerId};
use crate::peers::PeerId;

/// Says what happens when a timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A connection has not completed its handshake in time, or the host has not named a tool.
    Handshake(PeerId),
    /// A client that finalises has waited for the host long enough.
    Finalize(PeerId),
    /// A process may have missed heartbeats.
    Heartbeat(PeerId),
    /// A call has waited long enough for its job to be registered.
    Early(EarlyId),
    /// A process that finalised has not come back in time.
    Return(ClientId),
    /// The time of a collective is up.
    Collective(TrackerId),
    /// A get has waited long enough.
    Get(GetId),
    /// A `dmodex_request` of the host has waited long enough.
    InboundDmodex(DirectModexId),
    /// The election of a leader for an invitation has run out of time.
    Election(ElectionId),
    /// The decision about a construct that is led has run out of time.
    Leadership(TrackerId),
    /// The host has not answered a query in time.
    Query(CallId),
    /// Long messages have to have come on.
    Intake,
}

/// Holds the timers that are set, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub(crate) fn cancel(&mut self, at: Instant, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    /// Counts the unreferenced timers, and the limits of time that have no timer.
    pub(crate) fn compare(&self, limits: &BTreeSet<(Instant, Timer)>) -> (usize, usize) {
        let num_stale = self.0.difference(limits).count();
        (num_stale, limits.difference(&self.0).count())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the time of the next timer.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Removes a timer that has expired.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Timer> {
        self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
