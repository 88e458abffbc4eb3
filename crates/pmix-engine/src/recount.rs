// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts again, one by one, what the counters of an engine and its timers stand for.
//!
//! Source: none outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Instant;

use crate::peers::{PeerId, Ticket};
use crate::timer::Timer;

/// A counter that does not say what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// What is counted.
    pub what: &'static str,
    /// What the counter says.
    pub counted: usize,
    /// How many there are.
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

/// Gathers what the subsystems find where they look at everything that they hold.
#[derive(Debug, Default)]
pub(crate) struct Recount {
    /// How many requests of each peer are held, and of how many bytes.
    pub(crate) requests: BTreeMap<PeerId, (usize, usize)>,
    /// The timers that something that is held waits for.
    pub(crate) deadlines: BTreeSet<(Instant, Timer)>,
    /// Collectives that are under way here or with the host.
    pub(crate) num_under_way: usize,
    pub(crate) differences: Vec<Difference>,
}

impl Recount {
    /// A request is held.
    pub(crate) fn request(&mut self, ticket: &Ticket) {
        let (count, bytes) = self.requests.entry(ticket.peer()).or_default();
        *count += 1;
        *bytes += ticket.num_bytes();
    }

    /// Something that is held waits for a timer, if it has a limit of time.
    pub(crate) fn deadline(&mut self, at: Option<Instant>, timer: Timer) {
        self.deadlines.extend(at.map(|at| (at, timer)));
    }

    /// Compares a counter with what is there.
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
