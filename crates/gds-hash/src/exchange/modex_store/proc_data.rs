// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of one process.

use pmix_types::Key;

use super::chunks::SortedChunks;
use super::entry::{Entry, ScopeSet};
use super::packed::Packed;
use super::removed_keys::RemovedKeys;
#[cfg(test)]
use crate::exchange::counted;
use crate::qualifiers::Qualifiers;

/// The number of entries up to which each is stored by a search of its own.
const FEW: usize = 16;

/// Returns the sum of the bytes of entries.
fn num_bytes(entries: &[Entry]) -> usize {
    let bytes = entries.iter().map(Entry::bytes);
    bytes.fold(0, usize::saturating_add)
}

/// Sorts entries by key, and keeps the order of those with the same key.
fn sort(batch: &mut Vec<Entry>) {
    if batch.is_sorted_by_key(Entry::key) {
        return;
    }
    // Keys are in memory of their own, so most comparisons use a copy of the eight bytes after the common prefix.
    let first = batch.first().map(|entry| entry.key().clone());
    let first = first.as_ref().map_or(&[][..], |key| key.as_bytes());
    let common = |key: &[u8]| key.iter().zip(first).take_while(|(a, b)| a == b).count();
    let skipped = { batch.iter() }.map(|entry| common(entry.key().as_bytes()));
    let skipped = skipped.min().unwrap_or(0);
    let mut sorted: Vec<_> = batch
        .drain(..)
        .map(|entry| (eight_bytes(entry.key().as_bytes(), skipped), entry))
        .collect();
    sorted.sort_by(|(a, first), (b, second)| a.cmp(b).then_with(|| first.key().cmp(second.key())));
    batch.extend(sorted.into_iter().map(|(_, entry)| entry));
}

/// Returns eight bytes of a key as a number that sorts as they do. Bytes after the end of the key are zero.
fn eight_bytes(key: &[u8], at: usize) -> u64 {
    let rest = key.get(at..).unwrap_or_default();
    let mut bytes = [0; 8];
    bytes
        .iter_mut()
        .zip(rest)
        .for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(bytes)
}

/// The data of one process.
///
/// A scope has at most one entry with the same key and equal qualifiers.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcData {
    entries: SortedChunks<Entry>,
    /// The removed keys that other nodes may still hold.
    removed: RemovedKeys,
    /// The total bytes and the number of the entries, updated with each change.
    bytes: usize,
    num_entries: usize,
    /// The cache of the last packed reply for clients.
    packed: Packed,
}

impl ProcData {
    /// Stores a value for a set of scopes, and removes the key for all other scopes. Returns `true`
    /// if it replaced another value.
    pub(super) fn replace(&mut self, entry: Entry, scopes: ScopeSet) -> bool {
        let key = entry.key();
        let lost = self.take(key.as_bytes(), ScopeSet::ALL, |old| old.excludes(&entry));
        if lost.meets(ScopeSet::REMOTE) && !scopes.meets(ScopeSet::REMOTE) {
            self.removed.add(key.clone());
        }
        self.insert(entry, scopes);
        lost != ScopeSet::NONE
    }

    /// Stores values for a set of scopes. Other scopes do not change. If a key has several values,
    /// the last one is stored; a value of no type removes the key. Returns `true` if other values
    /// were replaced or removed.
    pub(super) fn merge(&mut self, mut batch: Vec<Entry>, scopes: ScopeSet) -> bool {
        // Entries of one chunk are consecutive then.
        sort(&mut batch);
        self.entries.expect(batch.len());
        let mut lost = ScopeSet::NONE;
        let batch = match batch.len() > FEW && self.entries.is_worth_a_pass(batch.len()) {
            true => self.insert_new(batch, scopes),
            false => batch,
        };
        for entry in batch {
            lost = lost | self.merge_one(entry, scopes);
        }
        lost != ScopeSet::NONE
    }

    /// Stores the values whose keys the process does not have, in one pass. Returns the other entries of the batch, which is
    /// sorted.
    fn insert_new(&mut self, batch: Vec<Entry>, scopes: ScopeSet) -> Vec<Entry> {
        let mut single = Vec::with_capacity(batch.len());
        let mut others = Vec::new();
        let mut batch = batch.into_iter().peekable();
        while let Some(entry) = batch.next() {
            let is_same = |next: &Entry| next.key() == entry.key();
            if entry.is_deletion() || batch.peek().is_some_and(is_same) {
                let key = entry.key().clone();
                others.push(entry);
                while let Some(next) = batch.next_if(|next| *next.key() == key) {
                    others.push(next);
                }
            } else {
                single.push(entry.for_scopes(scopes));
            }
        }
        let (mut count, mut bytes) = (single.len(), num_bytes(&single));
        let known = self.entries.insert_new(single, |behind, entry| {
            count -= 1;
            bytes = bytes.saturating_sub(entry.bytes());
            // Clients up to 5.0 repeat all data in each commit, so most values are those that the process has.
            let first = behind.first();
            first.is_some_and(|old| old.scopes & scopes == scopes && old.is_twin(entry))
                && behind.get(1).is_none_or(|next| next.key() != entry.key())
        });
        self.num_entries += count;
        self.bytes = self.bytes.saturating_add(bytes);
        others.extend(known);
        others
    }

    /// Stores a value, and returns the scopes that had another value before.
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

    /// Removes a key from a set of scopes. Returns the scopes in which the key had a value.
    pub(super) fn remove(&mut self, key: &[u8], scopes: ScopeSet) -> ScopeSet {
        let lost = self.take(key, scopes, |_| true);
        if lost.meets(ScopeSet::REMOTE) {
            self.removed.add(Key::new(key.to_vec()));
        }
        lost
    }

    /// Removes keys, which are sorted, from a set of scopes. Returns for each key the scopes in which it had a value.
    pub(super) fn remove_all(&mut self, keys: &[&Key<'_>], scopes: ScopeSet) -> Vec<ScopeSet> {
        if !self.entries.is_worth_a_pass(keys.len()) {
            let each = keys.iter();
            return each
                .map(|key| self.remove(key.as_bytes(), scopes))
                .collect();
        }
        #[cfg(test)]
        counted::add_one(&counted::PASSES);
        let names: Vec<_> = keys.iter().map(|key| key.as_bytes()).collect();
        let mut lost = vec![ScopeSet::NONE; keys.len()];
        let (mut gone, mut bytes) = (0, 0);
        self.entries.retain_of(&names, |place, old| {
            lost[place] = lost[place] | (old.scopes & scopes);
            old.scopes = old.scopes.without(scopes);
            let is_gone = old.scopes == ScopeSet::NONE;
            if is_gone {
                gone += 1;
                bytes += old.bytes();
            }
            !is_gone
        });
        self.bytes = self.bytes.saturating_sub(bytes);
        self.num_entries = self.num_entries.saturating_sub(gone);
        let removed = keys.iter().zip(&lost);
        let removed = removed.filter(|(_, lost)| lost.meets(ScopeSet::REMOTE));
        let removed: Vec<_> = removed.map(|(key, _)| *key).collect();
        self.removed.add_all(&removed);
        lost
    }

    /// Removes all values of a key from a set of scopes, except the repeated ones. Returns `true`
    /// if one of the scopes had such a value.
    pub(super) fn take_unsaid(
        &mut self,
        key: &[u8],
        scopes: ScopeSet,
        is_said: impl Fn(&Entry) -> bool,
    ) -> bool {
        let lost = self.take(key, scopes, |old| old.is_qualified() && !is_said(old));
        lost != ScopeSet::NONE
    }

    /// Removes the matching entries of a key from a set of scopes. Returns the scopes that had one
    /// of them.
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

    /// Returns the removed keys that other nodes may still hold.
    pub(super) fn removed(&self) -> impl Iterator<Item = &Key<'static>> {
        self.removed.iter()
    }

    /// Returns the bytes of the entries, packed or in memory. Removed keys do not count, so that a
    /// process can get below its limit by removing keys. They have their own limit.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of entries.
    pub(super) const fn num_keys(&self) -> usize {
        self.num_entries
    }

    /// Returns the cache of packed data.
    pub(super) const fn packed(&self) -> &Packed {
        &self.packed
    }

    /// Drops the cached reply before a change that makes it outdated.
    pub(super) fn begin_change(&mut self) {
        self.packed.clear();
    }

    /// Returns the bytes of heap memory without the data, which other processes may share.
    pub(super) fn memory_bytes(&self) -> usize {
        let lists = self.entries.memory_bytes() + self.removed.memory_bytes();
        lists + self.packed.memory_bytes()
    }

    /// Returns all entries of all scopes.
    pub(super) fn held(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns `true` if any scope has a key.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        !self.entries.of_key(key).is_empty()
    }

    /// Returns all values of a key with their qualifiers, for all scopes.
    pub(super) fn of_key(&self, key: &[u8]) -> &[Entry] {
        self.entries.of_key(key)
    }

    /// Returns the value of a key for a set of scopes, with the requested qualifiers.
    pub(super) fn get(&self, key: &[u8], scopes: ScopeSet, asked: &Qualifiers) -> Option<&Entry> {
        let seen = (self.entries.of_key(key).iter())
            .filter(|entry| entry.scopes.meets(scopes) && entry.qualifiers().answer(asked));
        seen.min_by_key(|entry| entry.scopes.nearest(scopes))
    }

    /// Returns all entries for a set of scopes. If a key has different values in them, returns the
    /// value of the nearest scope.
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
