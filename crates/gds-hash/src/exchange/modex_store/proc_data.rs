// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one process put.

use pmix_types::Key;

use super::chunks::SortedChunks;
use super::entry::Entry;
use super::packed::Packed;
use super::removed_keys::RemovedKeys;
use super::scope_set::ScopeSet;
use crate::qualifiers::Qualifiers;

/// What one process put.
///
/// Each scope sees at most one entry of a key with the same qualifiers.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcData {
    entries: SortedChunks<Entry>,
    /// What other nodes may still hold and are not to hold.
    removed: RemovedKeys,
    /// The bytes that the entries take and their number, kept up with each change.
    bytes: usize,
    num_entries: usize,
    /// Keeps the data as they were packed last for clients.
    packed: Packed,
}

impl ProcData {
    /// Stores a value for a set of scopes; all others see the key no longer. Tells whether another value
    /// was there.
    pub(super) fn replace(&mut self, entry: Entry, scopes: ScopeSet) -> bool {
        let key = entry.key();
        let lost = self.take(key.as_bytes(), ScopeSet::ALL, |old| old.excludes(&entry));
        if lost.meets(ScopeSet::REMOTE) && !scopes.meets(ScopeSet::REMOTE) {
            self.removed.add(key.clone());
        }
        self.insert(entry, scopes);
        lost != ScopeSet::NONE
    }

    /// Stores values for a set of scopes; what others see stays. Of several for one key the last
    /// counts, and one of no type says that the key is removed. Tells whether other values were there.
    pub(super) fn merge(&mut self, mut batch: Vec<Entry>, scopes: ScopeSet) -> bool {
        // Entries of one chunk follow each other.
        batch.sort_by(|a, b| a.key().cmp(b.key()));
        self.entries.expect(batch.len());
        let mut lost = ScopeSet::NONE;
        for entry in batch {
            lost = lost | self.merge_one(entry, scopes);
        }
        lost != ScopeSet::NONE
    }

    /// Stores a value, and says who saw another one in its place.
    fn merge_one(&mut self, entry: Entry, scopes: ScopeSet) -> ScopeSet {
        let key = entry.key().as_bytes();
        let mut lost = ScopeSet::NONE;
        if entry.is_deletion() {
            return self.take(key, scopes, |_| true);
        }
        let known = self.entries.of_key(key);
        match known.iter().find(|old| old.is_twin(&entry)) {
            Some(twin) if twin.scopes & scopes == scopes => {}
            Some(_) => {
                if known.len() > 1 {
                    lost = self.take(key, scopes, |old| {
                        !old.is_twin(&entry) && old.excludes(&entry)
                    });
                }
                self.entries.change(key, |items, range| {
                    let items = items.get_mut(range).unwrap_or_default();
                    if let Some(twin) = items.iter_mut().find(|old| old.is_twin(&entry)) {
                        twin.scopes = twin.scopes | scopes;
                    }
                });
            }
            None => {
                if !known.is_empty() {
                    lost = self.take(key, scopes, |old| old.excludes(&entry));
                }
                self.insert(entry, scopes);
            }
        }
        lost
    }

    /// Removes a key for a set of scopes. Tells whether anybody saw it.
    pub(super) fn remove(&mut self, key: &[u8], scopes: ScopeSet) -> bool {
        let lost = self.take(key, scopes, |_| true);
        if lost.meets(ScopeSet::REMOTE) {
            self.removed.add(Key::new(key.to_vec()));
        }
        lost != ScopeSet::NONE
    }

    /// Takes the values of a key that qualifiers tell apart away from a set of scopes, but for those that are said
    /// again. Tells whether anybody saw one of them.
    pub(super) fn take_unsaid(
        &mut self,
        key: &[u8],
        scopes: ScopeSet,
        is_said: impl Fn(&Entry) -> bool,
    ) -> bool {
        let lost = self.take(key, scopes, |old| old.is_qualified() && !is_said(old));
        lost != ScopeSet::NONE
    }

    /// Takes the matching entries of a key away from a set of scopes, and says who saw one of them.
    fn take(&mut self, key: &[u8], scopes: ScopeSet, matches: impl Fn(&Entry) -> bool) -> ScopeSet {
        let mut lost = ScopeSet::NONE;
        let taken = |old: &Entry| old.scopes.meets(scopes) && matches(old);
        if !self.entries.of_key(key).iter().any(taken) {
            return lost;
        }
        let (mut gone, mut bytes) = (0, 0);
        self.entries.change(key, |items, range| {
            for place in range.rev() {
                let Some(old) = items.get_mut(place).filter(|old| taken(old)) else {
                    continue;
                };
                lost = lost | (old.scopes & scopes);
                old.scopes = old.scopes.without(scopes);
                if old.scopes == ScopeSet::NONE {
                    gone += 1;
                    bytes += old.bytes();
                    items.remove(place);
                }
            }
        });
        self.bytes = self.bytes.saturating_sub(bytes);
        self.num_entries = self.num_entries.saturating_sub(gone);
        lost
    }

    fn insert(&mut self, entry: Entry, scopes: ScopeSet) {
        self.bytes = self.bytes.saturating_add(entry.bytes());
        self.num_entries += 1;
        let new = entry.clone().for_scopes(scopes);
        self.entries.change(entry.key().as_bytes(), |items, range| {
            items.insert(range.end, new);
        });
    }

    /// The keys that other nodes may still hold and are not to hold.
    pub(super) fn removed(&self) -> impl Iterator<Item = &Key<'static>> {
        self.removed.iter()
    }

    /// The bytes that the entries take, on the wire or in memory. Removed keys, which have a bound of their own, do not
    /// count: no process could make room by a removal.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of entries.
    pub(super) const fn num_keys(&self) -> usize {
        self.num_entries
    }

    /// Returns where the packed data are kept.
    pub(super) const fn packed(&self) -> &Packed {
        &self.packed
    }

    /// Drops the packed data before a change, after which they are outdated.
    pub(super) fn begin_change(&mut self) {
        self.packed.clear();
    }

    /// The bytes of heap that it takes without its data, which others may share.
    pub(super) fn memory_bytes(&self) -> usize {
        let lists = self.entries.memory_bytes() + self.removed.memory_bytes();
        lists + self.packed.memory_bytes()
    }

    /// All that it holds, whoever sees it.
    pub(super) fn held(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Whether a key is there for anyone.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        !self.entries.of_key(key).is_empty()
    }

    /// All values of a key that qualifiers tell apart, whoever sees them.
    pub(super) fn of_key(&self, key: &[u8]) -> &[Entry] {
        self.entries.of_key(key)
    }

    /// The value that a set of scopes sees under a key.
    pub(super) fn get(&self, key: &[u8], scopes: ScopeSet, asked: &Qualifiers) -> Option<&Entry> {
        let seen = (self.entries.of_key(key).iter())
            .filter(|entry| entry.scopes.meets(scopes) && entry.qualifiers().answer(asked));
        seen.min_by_key(|entry| entry.scopes.nearest(scopes))
    }

    /// All that a set of scopes sees: of values for one key that differ, the one for the nearest.
    pub(super) fn entries(&self, scopes: ScopeSet) -> impl Iterator<Item = &Entry> {
        let seen = move |entry: &&Entry| entry.scopes.meets(scopes);
        let hidden = move |entry: &Entry| {
            let nearest = entry.scopes.nearest(scopes);
            let entries = self.entries.of_key(entry.key().as_bytes());
            entries.iter().any(|other| {
                let nearer = other.scopes.nearest(scopes) < nearest;
                nearer && other.excludes(entry)
            })
        };
        let several = scopes.is_several();
        let entries = self.entries.iter().filter(seen);
        entries.filter(move |entry| !several || !hidden(entry))
    }
}
