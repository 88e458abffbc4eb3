// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections in their handshake, by user.

use std::collections::{BTreeSet, HashMap};

use crate::peers::PeerId;

/// The connections in their handshake, by user. Connections of unknown users count as those of one user.
#[derive(Debug, Default)]
pub(super) struct Handshaking {
    by_user: HashMap<Option<u32>, BTreeSet<PeerId>>,
}

impl Handshaking {
    /// Adds a connection and removes and returns the oldest of its user if there are more than `most` now.
    pub(super) fn add(&mut self, user: Option<u32>, peer: PeerId, most: usize) -> Option<PeerId> {
        let peers = self.by_user.entry(user).or_default();
        peers.insert(peer);
        // Identifiers increase, so the first is the oldest.
        let oldest = peers.first().copied().filter(|_| peers.len() > most)?;
        peers.remove(&oldest);
        Some(oldest)
    }

    /// Removes an admitted or closed connection.
    pub(super) fn remove(&mut self, user: Option<u32>, peer: PeerId) {
        if let Some(peers) = self.by_user.get_mut(&user) {
            peers.remove(&peer);
            if peers.is_empty() {
                self.by_user.remove(&user);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_user.values().map(BTreeSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_handshake_of_the_same_user_is_dropped() {
        let mut handshaking = Handshaking::default();
        let ids: Vec<_> = (0..6).map(PeerId::of).collect();
        assert_eq!(handshaking.add(Some(1), ids[0], 2), None);
        assert_eq!(handshaking.add(Some(2), ids[1], 2), None);
        assert_eq!(handshaking.add(None, ids[2], 2), None);
        assert_eq!(handshaking.add(Some(1), ids[3], 2), None);
        assert_eq!(handshaking.add(Some(1), ids[4], 2), Some(ids[0]));
        handshaking.remove(Some(1), ids[3]);
        assert_eq!(handshaking.add(Some(1), ids[5], 2), None);
        for (user, id) in [(1, 4), (1, 5), (2, 1)] {
            handshaking.remove(Some(user), ids[id]);
        }
        handshaking.remove(None, ids[2]);
        assert!(handshaking.by_user.is_empty());
    }
}
