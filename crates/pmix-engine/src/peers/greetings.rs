// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that have not said who they are, by user.

use std::collections::{BTreeSet, HashMap};

use super::PeerId;

/// Connections that have not said who they are, by user; those whose user nobody knows count as
/// one user's.
#[derive(Debug, Default)]
pub(crate) struct Greetings {
    by_user: HashMap<Option<u32>, BTreeSet<PeerId>>,
}

impl Greetings {
    /// Adds a connection and returns the oldest of its user if there are more than `most` now.
    pub(crate) fn add(&mut self, user: Option<u32>, peer: PeerId, most: usize) -> Option<PeerId> {
        let peers = self.by_user.entry(user).or_default();
        peers.insert(peer);
        // Names grow, so that the first is the oldest.
        let oldest = peers.first().copied().filter(|_| peers.len() > most)?;
        peers.remove(&oldest);
        Some(oldest)
    }

    /// Removes a connection that was let in or closed.
    pub(crate) fn remove(&mut self, user: Option<u32>, peer: PeerId) {
        if let Some(peers) = self.by_user.get_mut(&user) {
            peers.remove(&peer);
            if peers.is_empty() {
                self.by_user.remove(&user);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_user.values().map(BTreeSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_a_user_makes_room_and_nobody_elses() {
        let mut greetings = Greetings::default();
        let ids: Vec<_> = (0..6).map(PeerId).collect();
        assert_eq!(greetings.add(Some(1), ids[0], 2), None);
        assert_eq!(greetings.add(Some(2), ids[1], 2), None);
        assert_eq!(greetings.add(None, ids[2], 2), None);
        assert_eq!(greetings.add(Some(1), ids[3], 2), None);
        assert_eq!(greetings.add(Some(1), ids[4], 2), Some(ids[0]));
        greetings.remove(Some(1), ids[3]);
        assert_eq!(greetings.add(Some(1), ids[5], 2), None);
        for (user, id) in [(1, 4), (1, 5), (2, 1)] {
            greetings.remove(Some(user), ids[id]);
        }
        greetings.remove(None, ids[2]);
        assert!(greetings.by_user.is_empty());
    }
}
