// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upcalls of collectives reach the host in the order in which the collectives began.
//!
//! The host meets the n-th fence of some processes on one node with the n-th on another, and so it
//! does with connects and disconnects. One that fails may end before an earlier one of the same
//! processes; what the host is told of it waits then for its turn.

use std::collections::{HashMap, VecDeque};

use pmix_types::Nspace;

use super::tracker::Key;
use crate::host::Upcall;
use crate::ids::TrackerId;

/// Holds the upcalls of collectives back until those of earlier collectives of the same participants
/// were made.
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
    /// It is under way.
    Open,
    /// Nobody else has to be told of it.
    Silent,
    /// The host is to be told this.
    Ready(Box<Upcall>),
}

/// An upcall that is to be made now.
pub(super) struct DueUpcall {
    pub(super) id: TrackerId,
    pub(super) job: Nspace<'static>,
    /// What the host is told; nothing if nobody else has to be told of it.
    pub(super) call: Option<Upcall>,
}

impl OrderedUpcalls {
    /// How many collectives are under way whose upcall was not made.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    /// A collective begins.
    pub(super) fn begin(&mut self, key: &Key, job: &Nspace<'static>, id: TrackerId) {
        let turns = self.0.entry(key.clone()).or_default();
        turns.push_back(QueuedUpcall {
            id,
            job: job.clone(),
            state: State::Open,
        });
    }

    /// Says what the host is to be told of a collective, if anything, and returns those whose turn it
    /// is now.
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
