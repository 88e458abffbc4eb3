// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recount of the contents of an engine, to verify its counters and timers.
//!
//! Source: this project.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Instant;

use crate::peers::{PeerId, Ticket};
use crate::timer::Timer;

/// A counter that differs from the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The counted objects.
    pub what: &'static str,
    /// The value of the counter.
    pub counted: usize,
    /// The number of objects found.
    pub found: usize,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            counted,
            found,
        } = self;
        write!(f, "{what}: {counted} counted, {found} found")
    }
}

/// The requests and timers that the subsystems hold, and the counters that differ from their contents. Each subsystem
/// adds all of its objects.
#[derive(Debug, Default)]
pub(crate) struct Recount {
    /// The open requests of each peer and their bytes.
    pub(crate) requests: BTreeMap<PeerId, (usize, usize)>,
    /// The timers that the contents require.
    pub(crate) deadlines: BTreeSet<(Instant, Timer)>,
    /// Collectives that are active here or with the host.
    pub(crate) num_under_way: usize,
    pub(crate) differences: Vec<Difference>,
}

impl Recount {
    /// Adds an open request.
    pub(crate) fn request(&mut self, ticket: &Ticket) {
        let (count, bytes) = self.requests.entry(ticket.peer()).or_default();
        *count += 1;
        *bytes += ticket.num_bytes();
    }

    /// Adds the timer of an object with a deadline.
    pub(crate) fn deadline(&mut self, at: Option<Instant>, timer: Timer) {
        self.deadlines.extend(at.map(|at| (at, timer)));
    }

    /// Compares a counter with the number of objects found.
    pub(crate) fn compare(&mut self, what: &'static str, counted: usize, found: usize) {
        if counted != found {
            self.differences.push(Difference {
                what,
                counted,
                found,
            });
        }
    }
}
