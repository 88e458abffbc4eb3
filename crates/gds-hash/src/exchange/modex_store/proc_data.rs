// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one process put.

use std::ops::Range;
use std::sync::Arc;

use pmix_types::{DataArray, Info, IntoOwned, Key, Kval, Rank, Value, ValueComparison, keys};

use super::named;
use super::scope_set::ScopeSet;
use crate::Error;

/// What one process put.
///
/// Each scope sees at most one entry of a key with the same qualifiers.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcData {
    /// In the order of their keys.
    entries: Vec<Entry>,
    /// What other nodes may still hold and are not to hold, in order.
    withdrawn: Vec<Key<'static>>,
}

/// A value in the form in which it travels, so that nothing is built to send it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    kval: Arc<Kval<'static>>,
    scopes: ScopeSet,
}

impl Entry {
    /// A datum that can be stored, for nobody yet.
    pub(crate) fn new(kval: Kval<'_>) -> Result<Self, Error> {
        let entry = Self::travelling(kval)?;
        match entry.value() {
            Value::Undef => Err(Error::bad(format!(
                "{} has a value of no type",
                entry.key()
            ))),
            _ => Ok(entry),
        }
    }

    /// The same for one that another server sent, where a value of no type means a deletion.
    pub(crate) fn travelling(kval: Kval<'_>) -> Result<Self, Error> {
        let kval = Kval {
            key: named(kval.key)?,
            value: kval.value,
        };
        if kval.key.is(keys::QUALIFIED_VALUE) {
            let Value::DataArray(DataArray::Info(infos)) = &kval.value else {
                let found = kval.value.data_type();
                let message = format!("a qualified value has type {found}, expected infos");
                return Err(Error::bad(message));
            };
            let own = infos.first().map(|info| info.key.clone());
            named(own.ok_or_else(|| Error::bad("a qualified value without a value"))?)?;
        }
        Ok(Self {
            kval: Arc::new(kval.into_owned()),
            scopes: ScopeSet::NONE,
        })
    }

    /// As it travels.
    pub(crate) fn kval(&self) -> &Kval<'static> {
        &self.kval
    }

    fn parts(&self) -> (&Key<'static>, &Value<'static>, &[Info<'static>]) {
        if let Value::DataArray(DataArray::Info(infos)) = &self.kval.value
            && self.kval.key.is(keys::QUALIFIED_VALUE)
            && let Some((own, qualifiers)) = infos.split_first()
        {
            return (&own.key, &own.value, qualifiers);
        }
        (&self.kval.key, &self.kval.value, &[])
    }

    /// The bytes of heap that its datum takes, and what it has in common with those that share it.
    pub(super) fn datum(&self) -> (*const Kval<'static>, usize) {
        let Kval { key, value } = &*self.kval;
        let value = match value {
            Value::String(text) => text.as_ref().map_or(0, |text| text.as_bytes().len()),
            Value::ByteObject(bytes)
            | Value::CompressedByteObject(bytes)
            | Value::CompressedString(bytes)
            | Value::DataBuffer(bytes) => bytes.len(),
            other => other.storage_size().unwrap_or_default(),
        };
        // The two counts of an `Arc` stand before its datum.
        let own = size_of::<Kval<'_>>() + 2 * size_of::<usize>();
        (Arc::as_ptr(&self.kval), own + key.as_bytes().len() + value)
    }

    /// Its own key.
    pub(crate) fn key(&self) -> &Key<'static> {
        self.parts().0
    }

    /// The value itself.
    pub(crate) fn value(&self) -> &Value<'static> {
        self.parts().1
    }

    /// Whether it has qualifiers.
    pub(crate) fn is_qualified(&self) -> bool {
        self.kval.key.is(keys::QUALIFIED_VALUE)
    }

    fn qualifiers(&self) -> &[Info<'static>] {
        self.parts().2
    }

    /// Why it cannot be sent.
    #[cold]
    pub(crate) fn unsent(&self, error: &bfrops::Error, rank: Rank) -> Error {
        let (key, why) = (self.key(), error.message());
        let message = format!("{key} of rank {rank} cannot be sent: {why}");
        Error::new(error.status(), message)
    }

    /// Whether it is the value for someone who names these qualifiers.
    fn answers(&self, asked: &[Info<'_>]) -> bool {
        let own = self.qualifiers();
        let mut wanted = asked.iter().filter(|info| info.is_qualifier()).peekable();
        wanted.peek().is_some() != own.is_empty()
            && wanted.all(|info| own.iter().any(|own| same(own, info)))
    }

    /// Whether only one of both can be there for a set of scopes.
    fn excludes(&self, other: &Self) -> bool {
        let (own, others) = (self.qualifiers(), other.qualifiers());
        let covers =
            |a: &[Info<'_>], b: &[Info<'_>]| a.iter().all(|a| b.iter().any(|b| same(a, b)));
        self.key() == other.key() && covers(own, others) && covers(others, own)
    }
}

fn same(a: &Info<'_>, b: &Info<'_>) -> bool {
    a.key.is(b.key.as_bytes()) && a.value.compare(&b.value) == ValueComparison::Equal
}

impl ProcData {
    /// Stores a value for a set of scopes; all others see the key no longer.
    pub(super) fn replace(&mut self, entry: Entry, scopes: ScopeSet) {
        let key = entry.key();
        let lost = self.take(key.as_bytes(), ScopeSet::ALL, |old| old.excludes(&entry));
        if lost.meets(ScopeSet::REMOTE) && !scopes.meets(ScopeSet::REMOTE) {
            self.withdraw(key.clone());
        }
        self.insert(entry, scopes);
    }

    /// Stores values for a set of scopes; what others see stays. Of several for one key the last
    /// counts, and one of no type says that the key is gone.
    pub(super) fn merge(&mut self, mut batch: Vec<Entry>, scopes: ScopeSet) {
        batch.sort_by(|a, b| a.key().cmp(b.key()));
        // What is new stands apart until the end, so that a batch costs as much as its length.
        let mut fresh = Self::default();
        for entry in batch {
            let again = fresh
                .entries
                .last()
                .is_some_and(|last| last.key() == entry.key());
            match again || !self.holds(entry.key().as_bytes()) {
                true => fresh.merge_one(entry, scopes),
                false => self.merge_one(entry, scopes),
            }
        }
        if !fresh.entries.is_empty() {
            self.entries.append(&mut fresh.entries);
            self.entries.sort_by(|a, b| a.key().cmp(b.key()));
        }
    }

    fn merge_one(&mut self, entry: Entry, scopes: ScopeSet) {
        let key = entry.key().as_bytes();
        if *entry.value() == Value::Undef {
            self.take(key, scopes, |_| true);
            return;
        }
        let range = self.range(key);
        let known = self.entries.get_mut(range).unwrap_or_default();
        if let Some(twin) = known.iter_mut().find(|old| old.kval == entry.kval) {
            if twin.scopes & scopes != scopes {
                twin.scopes = twin.scopes | scopes;
                self.take(key, scopes, |old| {
                    old.kval != entry.kval && old.excludes(&entry)
                });
            }
            return;
        }
        self.take(key, scopes, |old| old.excludes(&entry));
        self.insert(entry, scopes);
    }

    /// Removes a key for a set of scopes.
    pub(super) fn remove(&mut self, key: &[u8], scopes: ScopeSet) {
        let lost = self.take(key, scopes, |_| true);
        if lost.meets(ScopeSet::REMOTE) {
            self.withdraw(Key::new(key.to_vec()));
        }
    }

    /// Takes the matching entries of a key away from a set of scopes, and says who saw one of them.
    fn take(&mut self, key: &[u8], scopes: ScopeSet, matches: impl Fn(&Entry) -> bool) -> ScopeSet {
        let mut lost = ScopeSet::NONE;
        for place in self.range(key).rev() {
            let Some(old) = self.entries.get_mut(place).filter(|old| matches(old)) else {
                continue;
            };
            lost = lost | (old.scopes & scopes);
            old.scopes = old.scopes.without(scopes);
            if old.scopes == ScopeSet::NONE {
                self.entries.remove(place);
            }
        }
        lost
    }

    fn insert(&mut self, entry: Entry, scopes: ScopeSet) {
        let place = self.range(entry.key().as_bytes()).end;
        self.entries.insert(place, Entry { scopes, ..entry });
    }

    fn withdraw(&mut self, key: Key<'static>) {
        if let Err(place) = self.withdrawn.binary_search(&key) {
            self.withdrawn.insert(place, key);
        }
    }

    pub(super) fn withdrawn(&self) -> &[Key<'static>] {
        &self.withdrawn
    }

    /// The bytes of heap that it takes without its data, which others may share.
    pub(super) fn memory_bytes(&self) -> usize {
        let withdrawn = self.withdrawn.iter().map(|key| key.as_bytes().len());
        self.entries.capacity() * size_of::<Entry>()
            + self.withdrawn.capacity() * size_of::<Key<'_>>()
            + withdrawn.sum::<usize>()
    }

    /// All that it holds, whoever sees it.
    pub(super) fn held(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether a key is there for anyone.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        !self.range(key).is_empty()
    }

    /// Where the entries of a key are, or would be.
    fn range(&self, key: &[u8]) -> Range<usize> {
        let first = self.entries.partition_point(|e| e.key().as_bytes() < key);
        let behind = self.entries.get(first..).unwrap_or_default();
        // A key has few entries.
        let others = behind.iter().position(|e| e.key().as_bytes() != key);
        first..first + others.unwrap_or(behind.len())
    }

    /// The value that a set of scopes sees under a key.
    pub(super) fn get(
        &self,
        key: &[u8],
        scopes: ScopeSet,
        asked: &[Info<'_>],
    ) -> Option<&Value<'static>> {
        let entries = self.entries.get(self.range(key)).unwrap_or_default();
        let seen =
            (entries.iter()).filter(|entry| entry.scopes.meets(scopes) && entry.answers(asked));
        seen.min_by_key(|entry| entry.scopes.nearest(scopes))
            .map(Entry::value)
    }

    /// All that a set of scopes sees: of values for one key that differ, the one for the nearest.
    pub(super) fn entries(&self, scopes: ScopeSet) -> impl Iterator<Item = &Entry> {
        let seen = move |entry: &&Entry| entry.scopes.meets(scopes);
        let hidden = move |entry: &Entry| {
            let nearest = entry.scopes.nearest(scopes);
            let entries = self.entries.get(self.range(entry.key().as_bytes()));
            entries.unwrap_or_default().iter().any(|other| {
                let nearer = other.scopes.nearest(scopes) < nearest;
                nearer && other.excludes(entry)
            })
        };
        let several = scopes.is_several();
        let entries = self.entries.iter().filter(seen);
        entries.filter(move |entry| !several || !hidden(entry))
    }
}
