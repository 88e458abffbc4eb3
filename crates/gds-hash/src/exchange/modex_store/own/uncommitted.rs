// SPDX-License-Identifier: MIT OR Apache-2.0
//! The uncommitted data of a process, in the order of the puts, and the messages that contain them.
//!
//! A server limits the length of a message, so a large commit takes several messages. Each message
//! has all removed keys first, as those of clients of OpenPMIx 7. The remaining values of a removed
//! key are in the same message, so that no process finds the key without them.
//!
//! Source: OpenPMIx, the messages between its clients and servers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bfrops::wire_type;
use pmix_types::{Key, Kval, Rank, Scope, Status, Value, memory};

use super::super::commit::pack;
use super::super::{Entry, ScopeSet};
use crate::exchange::codec::MAX_VARIANTS;
#[cfg(test)]
use crate::exchange::counted;
use crate::{Codec, Error};

/// The bytes of a request in addition to the data: command, scopes, lengths.
pub(super) const REQUEST_OVERHEAD: usize = 256;

/// The maximum number of values and removed keys in a message. An item for both local and remote
/// processes counts twice. The number is limited because a server handles a message in one step.
const MAX_KVALS: usize = 32 << 10;

/// The blocks of a message in order: the scope, its set, and `true` for removed keys.
const BLOCKS: [(Scope, ScopeSet, bool); 4] = [
    (Scope::DEL_LOCAL, ScopeSet::LOCAL, true),
    (Scope::DEL_REMOTE, ScopeSet::REMOTE, true),
    (Scope::LOCAL, ScopeSet::LOCAL, false),
    (Scope::REMOTE, ScopeSet::REMOTE, false),
];

/// An item for the next commit.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A value for the scopes of the entry.
    Value(Entry),
    /// The removal of a key with all its values, for some scopes.
    Removed(Key<'static>, ScopeSet),
}

/// The position of an item in the order of all puts of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place(u64);

/// The items of a message with their positions.
pub(super) type Said = Vec<(Place, Item)>;

/// The uncommitted items. The removal of a key precedes its values.
#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    last: Place,
    items: BTreeMap<Place, Item>,
    pub(super) places: HashMap<Key<'static>, BTreeSet<Place>>,
}

impl Item {
    pub(super) fn key(&self) -> &Key<'static> {
        match self {
            Self::Value(entry) => entry.key(),
            Self::Removed(key, _) => key,
        }
    }

    pub(super) const fn scopes(&self) -> ScopeSet {
        match self {
            Self::Value(entry) => entry.scopes,
            Self::Removed(_, scopes) => *scopes,
        }
    }

    const fn is_removal(&self) -> bool {
        matches!(self, Self::Removed(..))
    }

    fn is_qualified(&self) -> bool {
        matches!(self, Self::Value(entry) if entry.is_qualified())
    }

    /// Returns how many copies of an item are in a message: two for an item for both local and
    /// remote processes.
    fn times(&self) -> usize {
        match self.scopes() & ScopeSet::GLOBAL == ScopeSet::GLOBAL {
            true => 2,
            false => 1,
        }
    }

    fn for_scopes(&self, scopes: ScopeSet) -> Self {
        match self {
            Self::Value(entry) => Self::Value(entry.clone().for_scopes(scopes)),
            Self::Removed(key, _) => Self::Removed(key.clone(), scopes),
        }
    }

    /// Packs a call of `PMIX_KVAL`.
    fn encode(&self, codec: &Codec<'_>, rank: Rank, out: &mut Vec<u8>) -> Result<(), Error> {
        #[cfg(test)]
        counted::add_one(&counted::PACKED);
        let mut encoder = codec.encoder(out);
        match self {
            Self::Value(entry) => {
                let done = entry.encode(&mut encoder);
                done.map_err(|error| entry.unsent(&error, rank))?;
            }
            Self::Removed(key, _) => {
                let key = key.clone();
                let kval = Kval {
                    key,
                    value: Value::Undef,
                };
                encoder.one::<wire_type::Kval>(&kval)?;
            }
        }
        Ok(())
    }
}

impl Uncommitted {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds a value for the scopes of the entry, and drops the value that it replaces.
    pub(super) fn put(&mut self, entry: Entry) {
        self.forget(entry.key(), ScopeSet::GLOBAL, |old| old.excludes(&entry));
        self.push(Item::Value(entry));
    }

    /// Drops the matching values of a key for some scopes.
    pub(super) fn forget(
        &mut self,
        key: &Key<'_>,
        scopes: ScopeSet,
        matches: impl Fn(&Entry) -> bool,
    ) {
        for place in self.places_of(key) {
            let Some(Item::Value(old)) = self.items.get_mut(&place) else {
                continue;
            };
            if matches(old) {
                old.scopes = old.scopes.without(scopes);
                if !old.scopes.meets(ScopeSet::GLOBAL) {
                    self.take(place);
                }
            }
        }
    }

    /// Adds the removal of a key for these scopes. The caller then adds the remaining values of the
    /// key again.
    pub(super) fn remove(&mut self, key: &Key<'static>, scopes: ScopeSet) {
        for place in self.places_of(key) {
            if let Some(Item::Removed(_, of)) = self.items.get_mut(&place) {
                *of = *of | scopes;
                return;
            }
        }
        self.push(Item::Removed(key.clone(), scopes));
    }

    /// Returns `true` if the items contain a value for at least its scopes.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        let mut places = self.places_of(entry.key()).into_iter();
        places.any(|place| match self.items.get(&place) {
            Some(Item::Value(known)) => known.covers(entry),
            _ => false,
        })
    }

    fn push(&mut self, item: Item) {
        self.last.0 += 1;
        self.insert(self.last, item);
    }

    /// Puts an item back to its position. It is merged with the part of the item that did not fit
    /// the message.
    pub(super) fn put_back(&mut self, place: Place, item: Item) {
        let left = self.items.get(&place).map_or(ScopeSet::NONE, Item::scopes);
        let whole = item.for_scopes(item.scopes() | left);
        self.insert(place, whole);
    }

    /// Inserts an item at its position.
    fn insert(&mut self, place: Place, item: Item) {
        let key = item.key().clone();
        self.places.entry(key).or_default().insert(place);
        self.items.insert(place, item);
    }

    fn take(&mut self, place: Place) -> Option<Item> {
        let item = self.items.remove(&place)?;
        if let Some(places) = self.places.get_mut(item.key()) {
            places.remove(&place);
            if places.is_empty() {
                self.places.remove(item.key());
            }
        }
        Some(item)
    }

    fn places_of(&self, key: &Key<'_>) -> Vec<Place> {
        let places = self.places.get(key.as_bytes()).into_iter();
        places.flatten().copied().collect()
    }

    /// Returns the positions of the removal at `place`, and of the later values of its key.
    fn places_behind(&self, place: Place, key: &Key<'_>) -> Vec<Place> {
        let places = self.places.get(key.as_bytes()).into_iter();
        places
            .flat_map(|places| places.range(place..))
            .copied()
            .collect()
    }

    /// Adds the items at these positions to a message if all of them fit, and returns them.
    fn add_all(
        &self,
        codec: &Codec<'_>,
        rank: Rank,
        places: &[Place],
        message: &mut Message,
    ) -> Result<Option<Said>, Error> {
        let mut all = Vec::new();
        let (mut num_bytes, mut num_kvals, mut num_variants) = (0_usize, 0, 0);
        for (place, item) in { places.iter() }.filter_map(|at| Some((at, self.items.get(at)?))) {
            let mut packed = Vec::new();
            item.encode(codec, rank, &mut packed)?;
            let times = item.times();
            num_bytes = num_bytes.saturating_add(packed.len().saturating_mul(times));
            num_kvals += times;
            if !message.has_room(num_bytes, num_kvals)
                || !message.has_room_for_variant(item, num_variants)
            {
                return Ok(None);
            }
            num_variants += usize::from(item.is_qualified());
            all.push((
                *place,
                item.for_scopes(item.scopes() & ScopeSet::GLOBAL),
                packed,
            ));
        }
        let mut said = Said::new();
        for (place, item, packed) in all {
            message.add(&item, &packed)?;
            said.push((place, item));
        }
        Ok(Some(said))
    }

    /// Takes as many items as fit a message of `most` bytes, but at least a part of one, and packs
    /// the message. A removal is taken together with all later values of its key, unless they do
    /// not fit into any message.
    ///
    /// # Errors
    ///
    /// A value cannot be packed. The error has its key. Then no item was taken.
    pub(super) fn take_message(
        &mut self,
        codec: &Codec<'_>,
        rank: Rank,
        most: usize,
    ) -> Result<(Vec<u8>, Said), Error> {
        let mut message = Message::new(most.saturating_sub(REQUEST_OVERHEAD));
        let (mut said, mut packed) = (Said::new(), Vec::new());
        let mut taken = HashSet::new();
        for (place, item) in &self.items {
            if taken.contains(place) {
                continue;
            }
            if item.is_removal() {
                let values = self.places_behind(*place, item.key());
                match self.add_all(codec, rank, &values, &mut message)? {
                    Some(all) => {
                        taken.extend(all.iter().map(|(place, _)| *place));
                        said.extend(all);
                        continue;
                    }
                    None if !said.is_empty() => break,
                    None => {}
                }
            }
            packed.clear();
            item.encode(codec, rank, &mut packed)?;
            let scopes = message.room(item, packed.len(), said.is_empty());
            let Some(scopes) = scopes else {
                break;
            };
            let part = item.for_scopes(scopes);
            message.add(&part, &packed)?;
            said.push((*place, part));
            if scopes != item.scopes() {
                break;
            }
        }
        let bytes = message.into_bytes(codec)?;
        for (place, part) in &said {
            let Some(item) = self.take(*place) else {
                continue;
            };
            let left = item.scopes().without(part.scopes());
            if left.meets(ScopeSet::GLOBAL) {
                self.insert(*place, item.for_scopes(left));
            }
        }
        Ok((bytes, said))
    }
}

/// A message under construction.
struct Message {
    most: usize,
    num_bytes: usize,
    num_kvals: usize,
    /// The number of values of a key with different qualifiers.
    num_variants: HashMap<Key<'static>, usize>,
    blocks: [Vec<u8>; BLOCKS.len()],
}

impl Message {
    fn new(most: usize) -> Self {
        Self {
            most,
            num_bytes: 0,
            num_kvals: 0,
            num_variants: HashMap::new(),
            blocks: Default::default(),
        }
    }

    /// Returns the scopes for which an item with this packed length fits the message. An item that
    /// is too long for any message is split by scope.
    fn room(&self, item: &Item, len: usize, is_first: bool) -> Option<ScopeSet> {
        let scopes = item.scopes() & ScopeSet::GLOBAL;
        let times = item.times();
        if self.has_room(len.saturating_mul(times), times) && self.has_room_for_variant(item, 0) {
            return Some(scopes);
        }
        let of_first = scopes & ScopeSet::LOCAL;
        is_first.then_some(if times > 1 { of_first } else { scopes })
    }

    /// Returns `true` if this number of bytes and of `PMIX_KVAL` calls fit the message.
    fn has_room(&self, num_bytes: usize, num_kvals: usize) -> bool {
        let num_bytes = self.num_bytes.saturating_add(num_bytes);
        num_bytes <= self.most && self.num_kvals + num_kvals <= MAX_KVALS
    }

    /// Returns `true` if the message can have the value in addition to `others` values of its key
    /// with different qualifiers.
    fn has_room_for_variant(&self, item: &Item, others: usize) -> bool {
        let count = self.num_variants.get(item.key());
        !item.is_qualified() || count.copied().unwrap_or_default() + others < MAX_VARIANTS
    }

    fn add(&mut self, item: &Item, packed: &[u8]) -> Result<(), Error> {
        if item.is_qualified() {
            *self.num_variants.entry(item.key().clone()).or_default() += 1;
        }
        for (block, (_, of, is_of_removals)) in self.blocks.iter_mut().zip(BLOCKS) {
            if is_of_removals == item.is_removal() && item.scopes().meets(of) {
                memory::append(block, packed)?;
                self.num_bytes = self.num_bytes.saturating_add(packed.len());
                self.num_kvals += 1;
            }
        }
        Ok(())
    }

    fn into_bytes(self, codec: &Codec<'_>) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        for (block, (scope, ..)) in self.blocks.into_iter().zip(BLOCKS) {
            pack(codec, &mut out, scope, block)?;
        }
        Ok(out)
    }
}

/// Creates the error for a value that alone exceeds a message.
pub(super) fn too_long(len: usize, most: usize) -> Error {
    let most = most.saturating_sub(REQUEST_OVERHEAD);
    let message = format!("a put of {len} bytes: a commit sends at most {most} at once");
    Error::new(Status::ERR_OUT_OF_RESOURCE, message)
}
