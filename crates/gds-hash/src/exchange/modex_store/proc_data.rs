// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one process put.

use std::sync::Arc;

use pmix_types::{DataArray, Info, IntoOwned, Key, Kval, Rank, Value, keys};

use super::chunks::{Keyed, SortedChunks};
use super::named;
use super::scope_set::ScopeSet;
use crate::Error;
use crate::qualifiers::Qualifiers;

/// What one process put.
///
/// Each scope sees at most one entry of a key with the same qualifiers.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcData {
    entries: SortedChunks<Entry>,
    /// What other nodes may still hold and are not to hold, each key once.
    withdrawn: SortedChunks<Key<'static>>,
    /// The bytes that all of it takes when it travels, kept up with each change.
    wire_bytes: usize,
}

/// A value in the form in which it travels, so that nothing is built to send it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    datum: Arc<Datum>,
    scopes: ScopeSet,
}

/// What entries of several processes may share.
#[derive(Debug)]
struct Datum {
    kval: Kval<'static>,
    /// The qualifiers of a qualified value.
    qualifiers: Qualifiers,
    /// How many bytes the kval takes when it travels.
    wire_bytes: usize,
}

impl Keyed for Entry {
    fn sort_key(&self) -> &[u8] {
        self.key().as_bytes()
    }
}

impl Entry {
    /// A datum that can be stored, for nobody yet.
    pub(crate) fn new(kval: Kval<'_>) -> Result<Self, Error> {
        let wire_bytes = about_wire_bytes(&kval);
        let entry = Self::travelling(kval, wire_bytes)?;
        match entry.value() {
            Value::Undef => Err(Error::bad(format!(
                "{} has a value of no type",
                entry.key()
            ))),
            _ => Ok(entry),
        }
    }

    /// The same for one that came in a message, where a value of no type means a deletion, and
    /// that had so many bytes there.
    pub(crate) fn travelling(kval: Kval<'_>, wire_bytes: usize) -> Result<Self, Error> {
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
        let kval = kval.into_owned();
        let qualifiers = Qualifiers::of(parts(&kval).2);
        Ok(Self {
            datum: Arc::new(Datum {
                kval,
                qualifiers,
                wire_bytes,
            }),
            scopes: ScopeSet::NONE,
        })
    }

    /// As it travels.
    pub(crate) fn kval(&self) -> &Kval<'static> {
        &self.datum.kval
    }

    /// The bytes of heap that its datum takes, and what it has in common with those that share it.
    pub(super) fn datum(&self) -> (*const Kval<'static>, usize) {
        let Kval { key, value } = self.kval();
        let value = match value {
            Value::String(text) => text.as_ref().map_or(0, |text| text.as_bytes().len()),
            Value::ByteObject(bytes)
            | Value::CompressedByteObject(bytes)
            | Value::CompressedString(bytes)
            | Value::DataBuffer(bytes) => bytes.len(),
            other => other.storage_size().unwrap_or_default(),
        };
        // The two counts of an `Arc` stand before its datum.
        let own = size_of::<Datum>() + 2 * size_of::<usize>();
        let qualifiers = self.datum.qualifiers.memory_bytes();
        let bytes = own + key.as_bytes().len() + value + qualifiers;
        (self.kval(), bytes)
    }

    /// Its own key.
    pub(crate) fn key(&self) -> &Key<'static> {
        parts(self.kval()).0
    }

    /// The value itself.
    pub(crate) fn value(&self) -> &Value<'static> {
        parts(self.kval()).1
    }

    /// Whether it has qualifiers.
    pub(crate) fn is_qualified(&self) -> bool {
        self.kval().key.is(keys::QUALIFIED_VALUE)
    }

    /// Why it cannot be sent.
    #[cold]
    pub(crate) fn unsent(&self, error: &bfrops::Error, rank: Rank) -> Error {
        let (key, why) = (self.key(), error.message());
        let message = format!("{key} of rank {rank} cannot be sent: {why}");
        Error::new(error.status(), message)
    }

    /// Whether only one of both can be there for a set of scopes.
    fn excludes(&self, other: &Self) -> bool {
        self.datum.qualifiers == other.datum.qualifiers && self.key() == other.key()
    }

    /// Whether both are the same datum.
    fn is_twin(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.datum, &other.datum)
            || (self.datum.qualifiers == other.datum.qualifiers && self.kval() == other.kval())
    }
}

/// The key, the value and the qualifiers of what travels.
fn parts<'k>(
    kval: &'k Kval<'static>,
) -> (&'k Key<'static>, &'k Value<'static>, &'k [Info<'static>]) {
    if let Value::DataArray(DataArray::Info(infos)) = &kval.value
        && kval.key.is(keys::QUALIFIED_VALUE)
        && let Some((own, qualifiers)) = infos.split_first()
    {
        return (&own.key, &own.value, qualifiers);
    }
    (&kval.key, &kval.value, &[])
}

/// About how many bytes a kval takes in a message, where it did not come in one.
fn about_wire_bytes(kval: &Kval<'_>) -> usize {
    kval.key.as_bytes().len() + kval.value.storage_size().unwrap_or_default()
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
        // Entries of one chunk follow each other.
        batch.sort_by(|a, b| a.key().cmp(b.key()));
        self.entries.expect(batch.len());
        for entry in batch {
            self.merge_one(entry, scopes);
        }
    }

    fn merge_one(&mut self, entry: Entry, scopes: ScopeSet) {
        let key = entry.key().as_bytes();
        if *entry.value() == Value::Undef {
            self.take(key, scopes, |_| true);
            return;
        }
        let twin = (self.entries.of_key(key).iter()).find(|old| old.is_twin(&entry));
        if let Some(twin) = twin {
            if twin.scopes & scopes == scopes {
                return;
            }
            self.take(key, scopes, |old| {
                !old.is_twin(&entry) && old.excludes(&entry)
            });
            self.entries.change(key, |items, range| {
                let items = items.get_mut(range).unwrap_or_default();
                if let Some(twin) = items.iter_mut().find(|old| old.is_twin(&entry)) {
                    twin.scopes = twin.scopes | scopes;
                }
            });
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
        let taken = |old: &Entry| old.scopes.meets(scopes) && matches(old);
        if !self.entries.of_key(key).iter().any(taken) {
            return lost;
        }
        let mut gone = 0;
        self.entries.change(key, |items, range| {
            for place in range.rev() {
                let Some(old) = items.get_mut(place).filter(|old| taken(old)) else {
                    continue;
                };
                lost = lost | (old.scopes & scopes);
                old.scopes = old.scopes.without(scopes);
                if old.scopes == ScopeSet::NONE {
                    gone += old.datum.wire_bytes;
                    items.remove(place);
                }
            }
        });
        self.wire_bytes = self.wire_bytes.saturating_sub(gone);
        lost
    }

    fn insert(&mut self, entry: Entry, scopes: ScopeSet) {
        self.wire_bytes = self.wire_bytes.saturating_add(entry.datum.wire_bytes);
        let datum = Arc::clone(&entry.datum);
        self.entries.change(entry.key().as_bytes(), |items, range| {
            items.insert(range.end, Entry { datum, scopes });
        });
    }

    fn withdraw(&mut self, key: Key<'static>) {
        if self.withdrawn.of_key(key.as_bytes()).is_empty() {
            self.wire_bytes = self.wire_bytes.saturating_add(key.as_bytes().len());
            let name = key.clone();
            self.withdrawn.change(name.as_bytes(), |items, range| {
                items.insert(range.end, key);
            });
        }
    }

    /// The keys that other nodes may still hold and are not to hold, in order.
    pub(super) fn withdrawn(&self) -> impl Iterator<Item = &Key<'static>> {
        self.withdrawn.iter()
    }

    /// The bytes that all of it takes when it travels.
    pub(super) const fn wire_bytes(&self) -> usize {
        self.wire_bytes
    }

    /// The bytes of heap that it takes without its data, which others may share.
    pub(super) fn memory_bytes(&self) -> usize {
        let withdrawn = self.withdrawn.iter().map(|key| key.as_bytes().len());
        self.entries.memory_bytes() + self.withdrawn.memory_bytes() + withdrawn.sum::<usize>()
    }

    /// All that it holds, whoever sees it.
    pub(super) fn held(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Whether a key is there for anyone.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        !self.entries.of_key(key).is_empty()
    }

    /// How many values a key has that qualifiers tell apart, whoever sees them.
    pub(super) fn num_variants(&self, key: &[u8]) -> usize {
        let entries = self.entries.of_key(key).iter();
        entries.filter(|entry| entry.is_qualified()).count()
    }

    /// The value that a set of scopes sees under a key.
    pub(super) fn get(
        &self,
        key: &[u8],
        scopes: ScopeSet,
        asked: &Qualifiers,
    ) -> Option<&Value<'static>> {
        let seen = (self.entries.of_key(key).iter())
            .filter(|entry| entry.scopes.meets(scopes) && entry.datum.qualifiers.answer(asked));
        seen.min_by_key(|entry| entry.scopes.nearest(scopes))
            .map(Entry::value)
    }

    /// All that a set of scopes sees: of values for one key that differ, the one for the nearest.
    pub(super) fn entries(&self, scopes: ScopeSet) -> impl Iterator<Item = &Entry> {
        let seen = move |entry: &&Entry| entry.scopes.meets(scopes);
        let hidden = move |entry: &Entry| {
            let nearest = entry.scopes.nearest(scopes);
            let entries = self.entries.of_key(entry.sort_key());
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
