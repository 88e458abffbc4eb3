// SPDX-License-Identifier: MIT OR Apache-2.0
//! The collectives that are under way.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::tracker::{Key, Phase, Tracker};
use crate::registry::ClientId;

/// How many collectives of the same participants may have failed without all of them knowing; one
/// more and the oldest is forgotten.
const MAX_FAILED: usize = 1024;

/// The name of a collective; none is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TrackerId(u64);

/// The collectives that are under way: those of the same participants in the order in which they
/// began.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    last: u64,
    trackers: BTreeMap<TrackerId, Tracker>,
    by_key: HashMap<Key, VecDeque<TrackerId>>,
}

impl Collectives {
    /// The first collective of these participants that a process has not taken part in.
    pub(super) fn find(&self, key: &Key, client: ClientId) -> Option<TrackerId> {
        let mut same = self.by_key.get(key)?.iter();
        let expects = |id: &TrackerId| self.get(*id).is_some_and(|t| t.expects(client));
        same.find(|id| expects(id)).copied()
    }

    pub(super) fn add(&mut self, tracker: Tracker) -> TrackerId {
        self.last += 1;
        let id = TrackerId(self.last);
        let same = self.by_key.entry(tracker.key.clone()).or_default();
        same.push_back(id);
        self.trackers.insert(id, tracker);
        id
    }

    /// Takes a collective out of its place for a moment.
    pub(super) fn lift(&mut self, id: TrackerId) -> Option<Tracker> {
        self.trackers.remove(&id)
    }

    /// Puts it back.
    pub(super) fn put_back(&mut self, id: TrackerId, tracker: Tracker) {
        self.trackers.insert(id, tracker);
    }

    pub(super) fn get(&self, id: TrackerId) -> Option<&Tracker> {
        self.trackers.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: TrackerId) -> Option<&mut Tracker> {
        self.trackers.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: TrackerId) -> Option<Tracker> {
        let tracker = self.trackers.remove(&id)?;
        if let Some(same) = self.by_key.get_mut(&tracker.key) {
            same.retain(|other| *other != id);
            if same.is_empty() {
                self.by_key.remove(&tracker.key);
            }
        }
        Some(tracker)
    }

    /// Removes a failed collective of which all participants know, or else one that is too old to
    /// be kept for those who do not.
    pub(super) fn tidy(&mut self, id: TrackerId) {
        let Some(tracker) = self.trackers.get(&id) else {
            return;
        };
        if tracker.is_complete() {
            self.remove(id);
            return;
        }
        let same = self.by_key.get(&tracker.key).into_iter().flatten();
        let failed = |id: &&TrackerId| {
            let phase = self.get(**id).map(|tracker| tracker.phase);
            matches!(phase, Some(Phase::Failed(_)))
        };
        let mut failed = same.filter(failed).copied();
        let oldest = failed.next();
        if failed.count() >= MAX_FAILED
            && let Some(oldest) = oldest
        {
            self.remove(oldest);
        }
    }

    /// All collectives for which something is so.
    pub(super) fn which(&self, is_so: impl Fn(&Tracker) -> bool) -> Vec<TrackerId> {
        let trackers = self.trackers.iter();
        let found = trackers.filter(|(_, tracker)| is_so(tracker));
        found.map(|(id, _)| *id).collect()
    }
}
