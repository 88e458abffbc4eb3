// SPDX-License-Identifier: MIT OR Apache-2.0
//! An index of objects by the peer that they exist for, so that a disconnection does not search all objects.
//!
//! Source: this project.

use std::collections::{BTreeSet, HashMap};

use crate::peers::PeerId;

/// The keys of objects by the peer that they exist for.
#[derive(Debug)]
pub(crate) struct ByPeer<T>(HashMap<PeerId, BTreeSet<T>>);

impl<T> Default for ByPeer<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Ord> ByPeer<T> {
    pub(crate) fn insert(&mut self, peer: PeerId, name: T) {
        self.0.entry(peer).or_default().insert(name);
    }

    pub(crate) fn remove(&mut self, peer: PeerId, name: &T) {
        if let Some(own) = self.0.get_mut(&peer) {
            own.remove(name);
            // Otherwise the table would grow with every peer that ever connected.
            if own.is_empty() {
                self.0.remove(&peer);
            }
        }
    }

    /// Removes and returns all keys of a peer, in order.
    pub(crate) fn take(&mut self, peer: PeerId) -> impl Iterator<Item = T> + use<T> {
        self.0.remove(&peer).into_iter().flatten()
    }

    /// Returns the keys of a peer, if it has any.
    pub(crate) fn of(&self, peer: PeerId) -> Option<&BTreeSet<T>> {
        self.0.get(&peer)
    }

    /// Returns the total number of keys.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_their_peer_until_the_last_is_removed() {
        let mut table = ByPeer::default();
        let [first, second] = [1, 2].map(PeerId::of);
        for name in [7, 3, 5] {
            table.insert(first, name);
        }
        table.insert(second, 4);
        assert_eq!(table.len(), 4);
        table.remove(first, &5);
        table.remove(first, &4);
        let own = table.of(first).into_iter().flatten();
        assert_eq!(own.copied().collect::<Vec<_>>(), [3, 7]);
        assert_eq!(table.take(first).collect::<Vec<_>>(), [3, 7]);
        table.remove(second, &4);
        assert!(table.of(second).is_none() && table.0.is_empty());
    }
}
