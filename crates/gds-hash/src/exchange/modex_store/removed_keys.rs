// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys that a process removed and that other nodes may still hold.
//!
//! A process may put and remove another key in each step, so contributions to fences cannot contain
//! all removed keys. They contain the last ones: at least 4,096 keys or 256 KiB.

use pmix_types::Key;

use super::chunks::SortedChunks;

/// The minimum number of keys before older ones are dropped.
const MAX_KEYS: usize = 4 << 10;

/// The minimum number of bytes of keys before older ones are dropped.
const MAX_BYTES: usize = 256 << 10;

/// The last keys that a process removed, without duplicates.
///
/// A key remains in the list when it is put again, because another node may have a removed value of
/// the key with other qualifiers.
#[derive(Clone, Debug, Default)]
pub(super) struct RemovedKeys {
    recent: Keys,
    /// The keys that were removed before all recent keys. They are dropped when there are too many
    /// recent keys.
    earlier: Keys,
}

#[derive(Clone, Debug, Default)]
struct Keys {
    keys: SortedChunks<Key<'static>>,
    len: usize,
    /// The bytes of the keys.
    num_bytes: usize,
}

impl RemovedKeys {
    /// Records the removal of a key.
    pub(super) fn add(&mut self, key: Key<'static>) {
        if self.recent.has(&key) {
            return;
        }
        self.earlier.remove(&key);
        self.recent.insert(key);
        if self.recent.len >= MAX_KEYS || self.recent.num_bytes >= MAX_BYTES {
            self.earlier = std::mem::take(&mut self.recent);
        }
    }

    /// Records the removal of many keys at the same time. Of more than a list can hold, the last ones are recorded.
    pub(super) fn add_all<'k>(&mut self, keys: &[&Key<'k>]) {
        let first = keys.len().saturating_sub(MAX_KEYS);
        let last = keys.get(first..).unwrap_or_default();
        last.iter()
            .for_each(|key| self.add(Key::new(key.as_bytes().to_vec())));
    }

    /// Returns the keys, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Key<'static>> {
        self.earlier.keys.iter().chain(self.recent.keys.iter())
    }

    /// Returns the bytes of the keys.
    const fn num_bytes(&self) -> usize {
        self.earlier.num_bytes + self.recent.num_bytes
    }

    /// Returns the bytes of heap memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let lists = self.earlier.keys.memory_bytes() + self.recent.keys.memory_bytes();
        lists + self.num_bytes()
    }
}

impl Keys {
    fn has(&self, key: &Key<'_>) -> bool {
        !self.keys.of_key(key.as_bytes()).is_empty()
    }

    fn insert(&mut self, key: Key<'static>) {
        self.len += 1;
        self.num_bytes += key.as_bytes().len();
        let name = key.clone();
        self.keys
            .change(name.as_bytes(), |items, range| items.insert(range.end, key));
    }

    fn remove(&mut self, key: &Key<'_>) {
        if self.has(key) {
            self.len = self.len.saturating_sub(1);
            self.num_bytes = self.num_bytes.saturating_sub(key.as_bytes().len());
            self.keys.change(key.as_bytes(), |items, range| {
                items.drain(range);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(removed: &RemovedKeys) -> Vec<String> {
        removed.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_a_bounded_number_of_the_last_removed_keys() {
        let mut removed = RemovedKeys::default();
        for step in 0..2 * MAX_KEYS + 10 {
            removed.add(format!("step.{step:07}").into());
        }
        let names = names(&removed);
        assert_eq!(names.len(), MAX_KEYS + 10);
        assert_eq!(names[0], format!("step.{:07}", MAX_KEYS));
        assert_eq!(removed.num_bytes(), names.iter().map(String::len).sum());
        let mut removed = RemovedKeys::default();
        for step in 0..2_000 {
            removed.add(format!("{step:0500}").into());
            assert!(removed.num_bytes() <= 2 * (MAX_BYTES + 500));
        }
    }

    #[test]
    fn the_last_of_many_keys_that_are_removed_together_are_recorded() {
        let mut removed = RemovedKeys::default();
        removed.add("before".into());
        let keys: Vec<Key<'_>> = (0..3 * MAX_KEYS)
            .map(|step| format!("step.{step:07}").into())
            .collect();
        removed.add_all(&keys.iter().collect::<Vec<_>>());
        let names = names(&removed);
        let last: Vec<_> = keys[2 * MAX_KEYS..]
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(names.ends_with(&last));
        assert!(names.len() <= 2 * MAX_KEYS, "{}", names.len());
    }

    #[test]
    fn a_key_removed_again_becomes_the_last() {
        let mut removed = RemovedKeys::default();
        for key in ["a", "b", "a"] {
            removed.add(key.into());
        }
        assert_eq!(names(&removed), ["a", "b"]);
        for step in 2..MAX_KEYS {
            removed.add(format!("step.{step}").into());
        }
        removed.add("a".into());
        assert_eq!(names(&removed).len(), MAX_KEYS);
        assert_eq!(names(&removed).last().unwrap(), "a");
        assert_eq!(removed.recent.len, 1);
    }
}
