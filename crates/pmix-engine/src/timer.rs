// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timers of the engine.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::host::CallId;
use crate::ids::{ClientId, DirectModexId, EarlyId, ElectionId, GetId, InvitationId, TrackerId};
use crate::peers::PeerId;

/// The deadline that a timer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The handshake of a connection, or the host's admission of a tool.
    Handshake(PeerId),
    /// The wait of a finalizing client for the host.
    Finalize(PeerId),
    /// The next heartbeat of a process.
    Heartbeat(PeerId),
    /// The wait of a call for the registration of its job.
    Early(EarlyId),
    /// The return of a process that has finalized.
    Return(ClientId),
    /// The time limit of a collective.
    Collective(TrackerId),
    /// The time limit of a get.
    Get(GetId),
    /// The time limit of a `dmodex_request` of the host.
    InboundDmodex(DirectModexId),
    /// The election of a new leader for an invitation.
    Election(ElectionId),
    /// The time limit of an invitation that this server runs.
    Invitation(InvitationId),
    /// The leader's decision about a group construct.
    Leadership(TrackerId),
    /// The time limit of a query to the host.
    Query(CallId),
    /// The next progress check of partial long messages.
    Intake,
}

/// The active timers, ordered by time.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub(crate) fn cancel(&mut self, at: Instant, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    /// Counts the timers without a deadline in `limits`, and the deadlines without a timer.
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

    /// Removes and returns the first timer if it has expired.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Timer> {
        self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
