// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to happen at a time.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::DirectModexId;
use crate::collective::{EarlyId, TrackerId};
use crate::exchange::WaitId;
use crate::peers::PeerId;
use crate::registry::ClientId;

/// What is to happen when its time comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// A connection has not said who it is.
    Greeting(PeerId),
    /// A client that finalises has waited for the host long enough.
    Finalize(PeerId),
    /// A process may have missed signs of life that it promised.
    Heartbeat(PeerId),
    /// A call has waited long enough for its job to be registered.
    Early(EarlyId),
    /// A process that finalised has not come back in time.
    Return(ClientId),
    /// The time of a collective is up.
    Collective(TrackerId),
    /// A question has waited long enough.
    Question(WaitId),
    /// The host has waited long enough for data of a process.
    Requested(DirectModexId),
}

/// What is to happen, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Alarms(BTreeSet<(Instant, Alarm)>);

impl Alarms {
    pub(crate) fn set(&mut self, at: Instant, alarm: Alarm) {
        self.0.insert((at, alarm));
    }

    pub(crate) fn cancel(&mut self, at: Instant, alarm: Alarm) {
        self.0.remove(&(at, alarm));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// When the next one is.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Alarm> {
        self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.pop_first().map(|(_, alarm)| alarm)
    }
}
