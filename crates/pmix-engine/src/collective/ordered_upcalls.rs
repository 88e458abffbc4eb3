// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of the upcalls of collectives, which is the order in which the collectives began.
//!
//! The host matches the n-th fence of some processes on one node with the n-th on another. Connects and disconnects are
//! matched in the same way. A failed collective may end before an earlier one of the same processes; its upcall waits
//! for its turn.

use std::collections::{HashMap, VecDeque};

use pmix_types::Nspace;

use super::tracker::Key;
use crate::host::Upcall;
use crate::ids::TrackerId;

/// The upcalls that wait for those of earlier collectives of the same participants.
#[derive(Debug, Default)]
pub(super) struct OrderedUpcalls(HashMap<Key, VecDeque<QueuedUpcall>>);

#[derive(Debug)]
struct QueuedUpcall {
    id: TrackerId,
    /// The job of the process that began it.
    job: Nspace<'static>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The collective has not ended.
    Open,
    /// No upcall is needed.
    Silent,
    /// The upcall is ready.
    Ready(Box<Upcall>),
}

/// An upcall to make now.
pub(super) struct DueUpcall {
    pub(super) id: TrackerId,
    pub(super) job: Nspace<'static>,
    /// The upcall, if one is needed.
    pub(super) call: Option<Upcall>,
}

impl OrderedUpcalls {
    /// Returns the number of collectives whose upcall has not been made.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    /// Adds a new collective.
    pub(super) fn begin(&mut self, key: &Key, job: &Nspace<'static>, id: TrackerId) {
        let turns = self.0.entry(key.clone()).or_default();
        turns.push_back(QueuedUpcall {
            id,
            job: job.clone(),
            state: State::Open,
        });
    }

    /// Records the upcall of a collective, or that none is needed, and returns the upcalls whose turn it is.
    pub(super) fn end(&mut self, key: &Key, id: TrackerId, call: Option<Upcall>) -> Vec<DueUpcall> {
        let Some(turns) = self.0.get_mut(key) else {
            return Vec::new();
        };
        if let Some(turn) = turns.iter_mut().find(|turn| turn.id == id) {
            turn.state = match call {
                Some(call) => State::Ready(Box::new(call)),
                None => State::Silent,
            };
        }
        let mut due = Vec::new();
        while let Some(turn) = turns.pop_front() {
            let call = match turn.state {
                State::Open => {
                    // The host matches collectives by their order, so a later upcall must not overtake this one.
                    turns.push_front(turn);
                    break;
                }
                State::Silent => None,
                State::Ready(call) => Some(*call),
            };
            due.push(DueUpcall {
                id: turn.id,
                job: turn.job,
                call,
            });
        }
        if turns.is_empty() {
            self.0.remove(key);
        }
        due
    }
}
