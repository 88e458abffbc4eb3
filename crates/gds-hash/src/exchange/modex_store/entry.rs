// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that a process put, and their scopes.

use std::borrow::Cow;
use std::ops::{BitAnd, BitOr};
use std::sync::Arc;

use bfrops::{Decoder, Encoder, Layout, wire_type};
use pmix_types::{
    DataArray, DataType, Info, IntoOwned, Key, Kval, Rank, Scope, Value, keys, memory,
};

use super::chunks::Keyed;
use super::named;
#[cfg(test)]
use crate::exchange::counted;
use crate::qualifiers::Qualifiers;
use crate::{Answer, Error};

/// A value that a process put.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    datum: Arc<Datum>,
    pub(super) scopes: ScopeSet,
}

/// The part of an entry that several processes may share.
#[derive(Debug)]
struct Datum {
    content: Content,
    /// The qualifiers of a qualified value.
    qualifiers: Qualifiers,
    /// The packed size of the kval or its size in memory, whichever is larger, in bytes.
    bytes: usize,
}

/// A key and its value.
#[derive(Debug, PartialEq)]
enum Content {
    /// The value as it was put, or unpacked, if its bytes are not worth keeping.
    Kval(Kval<'static>),
    /// A string or bytes as a peer packed them. They are passed on unchanged.
    Packed {
        key: Key<'static>,
        data_type: DataType,
        layout: Layout,
        value: Box<[u8]>,
    },
}

impl Entry {
    /// Creates an entry without scopes from a valid kval.
    pub(crate) fn new(kval: Kval<'_>) -> Result<Self, Error> {
        let bytes = storage_bytes(&kval);
        let entry = Self::travelling(kval, bytes)?;
        match entry.is_deletion() {
            true => Err(Error::bad(format!(
                "{} has a value of no type",
                entry.key()
            ))),
            false => Ok(entry),
        }
    }

    /// Creates an entry without scopes from a kval that has `wire_bytes` bytes in a message. A
    /// value of no type means a deletion.
    pub(super) fn travelling(kval: Kval<'_>, wire_bytes: usize) -> Result<Self, Error> {
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
        let bytes = match &kval.value {
            // Elements may be much shorter in a message than in memory, so the size in memory
            // counts if it is larger.
            Value::DataArray(_) => wire_bytes.max(storage_bytes(&kval)),
            _ => wire_bytes,
        };
        let content = Content::Kval(kval.try_into_owned()?);
        Ok(Self::of(content, bytes))
    }

    /// Creates an entry without scopes from a kval in a message, with the packed bytes of its
    /// value. A value of no type means a deletion.
    pub(crate) fn packed(kval: Kval<'_>, layout: Layout, value: &[u8]) -> Result<Self, Error> {
        let wire_bytes = kval.key.as_bytes().len() + value.len();
        let keeps_bytes = match &kval.value {
            Value::String(text) => text.is_some(),
            Value::ByteObject(_) | Value::CompressedByteObject(_) | Value::CompressedString(_) => {
                true
            }
            _ => false,
        };
        if !keeps_bytes
            || !layout.packs_alike(layout, kval.value.data_type())
            || kval.key.is(keys::QUALIFIED_VALUE)
        {
            return Self::travelling(kval, wire_bytes);
        }
        let content = Content::Packed {
            data_type: kval.value.data_type(),
            key: named(kval.key)?.into_owned(),
            layout,
            value: memory::copy(value)?.into_boxed_slice(),
        };
        Ok(Self::of(content, wire_bytes))
    }

    /// Returns the entry with a set of scopes.
    pub(super) fn for_scopes(self, scopes: ScopeSet) -> Self {
        Self { scopes, ..self }
    }

    fn of(content: Content, bytes: usize) -> Self {
        let qualifiers = content
            .qualified()
            .map_or(&[][..], |(_, qualifiers)| qualifiers);
        Self {
            datum: Arc::new(Datum {
                qualifiers: Qualifiers::of(qualifiers),
                content,
                bytes,
            }),
            scopes: ScopeSet::NONE,
        }
    }

    /// Returns the packed size of the kval or its size in memory, whichever is larger, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.datum.bytes
    }

    /// Returns the approximate length of the packed `PMIX_KVAL` in bytes. It is too high for a
    /// value that takes more bytes in memory.
    pub(super) fn likely_bytes(&self) -> usize {
        /// The bytes for counts, type and lengths.
        const AROUND: usize = 16;
        match &self.datum.content {
            Content::Packed { key, value, .. } => key.as_bytes().len() + value.len() + AROUND,
            Content::Kval(kval) => match kval.value {
                Value::DataArray(_) => 0,
                _ => self.datum.bytes + AROUND,
            },
        }
    }

    /// Returns the qualifiers of a qualified value.
    pub(super) fn qualifiers(&self) -> &Qualifiers {
        &self.datum.qualifiers
    }

    /// Returns `true` if this entry has this key, and its value was unpacked from the same bytes.
    pub(crate) fn is_of(&self, kval: &Kval<'_>, layout: Layout, bytes: &[u8]) -> bool {
        match &self.datum.content {
            Content::Kval(own) => own == kval,
            Content::Packed {
                key,
                data_type,
                layout: own,
                value,
            } => {
                *own == layout
                    && *data_type == kval.value.data_type()
                    && **value == *bytes
                    && *key == kval.key
            }
        }
    }

    /// Packs the `PMIX_KVAL`. Bytes of a peer are passed on unchanged if the reader's layout allows
    /// that.
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) -> Result<(), bfrops::Error> {
        match &self.datum.content {
            Content::Packed {
                key,
                data_type,
                layout,
                value,
            } if encoder.layout().packs_alike(*layout, *data_type) => {
                encoder.kval_of_bytes(key, *data_type, value)
            }
            _ => encoder.one::<wire_type::Kval>(&*self.unpacked()?),
        }
    }

    /// Packs a call of `PMIX_VALUE` with the value alone.
    pub(crate) fn encode_value(&self, encoder: &mut Encoder<'_>) -> Result<(), bfrops::Error> {
        match &self.datum.content {
            Content::Packed {
                data_type,
                layout,
                value,
                ..
            } if encoder.layout().packs_alike(*layout, *data_type) => {
                encoder.value_of_bytes(*data_type, value)
            }
            _ => encoder.one::<wire_type::Value>(&self.unpacked()?.value),
        }
    }

    /// Returns the kval, or an error if the process has no memory to unpack it.
    fn unpacked(&self) -> Result<Cow<'_, Kval<'static>>, bfrops::Error> {
        if let Content::Packed { value, .. } = &self.datum.content {
            memory::check(value.len())?;
        }
        self.read()
    }

    fn read(&self) -> Result<Cow<'_, Kval<'static>>, bfrops::Error> {
        match &self.datum.content {
            Content::Kval(kval) => Ok(Cow::Borrowed(kval)),
            Content::Packed {
                key, layout, value, ..
            } => {
                #[cfg(test)]
                counted::add_one(&counted::UNPACKED);
                let value = Decoder::new(*layout, value).value_of_bytes()?;
                Ok(Cow::Owned(Kval {
                    key: key.clone(),
                    value: value.try_into_owned()?,
                }))
            }
        }
    }

    /// Returns the kval as it is packed.
    pub(crate) fn kval(&self) -> Cow<'_, Kval<'static>> {
        // The bytes were validated on arrival, so unpacking does not fail.
        self.read().unwrap_or_default()
    }

    /// Returns the key as it is packed: `pmix.qual.val` for a qualified value.
    pub(crate) fn wire_key(&self) -> &Key<'static> {
        match &self.datum.content {
            Content::Kval(Kval { key, .. }) | Content::Packed { key, .. } => key,
        }
    }

    /// Returns the address of the shared datum, and its bytes of heap memory.
    pub(super) fn datum(&self) -> (*const (), usize) {
        let heap = match &self.datum.content {
            Content::Packed { key, value, .. } => key.as_bytes().len() + value.len(),
            Content::Kval(Kval { key, value }) => {
                let value = match value {
                    Value::String(text) => text.as_ref().map_or(0, |text| text.as_bytes().len()),
                    Value::ByteObject(bytes)
                    | Value::CompressedByteObject(bytes)
                    | Value::CompressedString(bytes)
                    | Value::DataBuffer(bytes) => bytes.len(),
                    other => other.storage_size().unwrap_or_default(),
                };
                key.as_bytes().len() + value
            }
        };
        // An `Arc` has two counters before its datum.
        let own = size_of::<Datum>() + 2 * size_of::<usize>();
        let qualifiers = self.datum.qualifiers.memory_bytes();
        (Arc::as_ptr(&self.datum).cast(), own + heap + qualifiers)
    }

    /// Returns the key of the value, without its qualifiers.
    pub(crate) fn key(&self) -> &Key<'static> {
        let qualified = self.datum.content.qualified();
        qualified.map_or_else(|| self.wire_key(), |(own, _)| &own.key)
    }

    /// Returns the value, without its qualifiers.
    pub(crate) fn value(&self) -> Result<Answer<'_>, Error> {
        Ok(
            match (&self.datum.content, self.datum.content.qualified()) {
                (_, Some((own, _))) => Cow::Borrowed(&own.value),
                (Content::Kval(kval), None) => Cow::Borrowed(&kval.value),
                (Content::Packed { .. }, None) => Cow::Owned(self.unpacked()?.into_owned().value),
            },
        )
    }

    /// Returns `true` if the entry removes a key.
    pub(crate) fn is_deletion(&self) -> bool {
        match (&self.datum.content, self.datum.content.qualified()) {
            (_, Some((own, _))) => own.value == Value::Undef,
            (Content::Kval(kval), None) => kval.value == Value::Undef,
            (Content::Packed { .. }, None) => false,
        }
    }

    /// Returns `true` if the value has qualifiers.
    pub(crate) fn is_qualified(&self) -> bool {
        self.wire_key().is(keys::QUALIFIED_VALUE)
    }

    /// Returns `true` if both entries share one datum.
    pub(super) fn is_twin(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.datum, &other.datum)
            || (self.datum.qualifiers == other.datum.qualifiers
                && self.datum.content == other.datum.content)
    }

    /// Returns `true` if both entries share one datum and this entry has all scopes of the other.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.scopes.without(self.scopes) == ScopeSet::NONE && self.is_twin(other)
    }

    /// Returns `true` if both entries have the same key and equal qualifiers, so that a scope can
    /// have only one of them.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        self.datum.qualifiers == other.datum.qualifiers && self.key() == other.key()
    }

    /// Creates the error for an entry that cannot be sent.
    #[cold]
    pub(crate) fn unsent(&self, error: &bfrops::Error, rank: Rank) -> Error {
        let (key, why) = (self.key(), error.message());
        let message = format!("{key} of rank {rank} cannot be sent: {why}");
        Error::new(error.status(), message)
    }
}

impl Keyed for Entry {
    fn sort_key(&self) -> &[u8] {
        self.key().as_bytes()
    }
}

impl Content {
    /// Returns the value and the qualifiers of a qualified value.
    fn qualified(&self) -> Option<(&Info<'static>, &[Info<'static>])> {
        match self {
            Self::Kval(Kval {
                key,
                value: Value::DataArray(DataArray::Info(infos)),
            }) if key.is(keys::QUALIFIED_VALUE) => infos.split_first(),
            _ => None,
        }
    }
}

/// Returns the approximate memory of a kval.
fn storage_bytes(kval: &Kval<'_>) -> usize {
    kval.key.as_bytes().len() + kval.value.storage_size().unwrap_or_default()
}

/// The scopes of a value: the processes that see it, relative to the process that put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeSet(u8);

/// The action of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Store,
    Remove,
}

impl ScopeSet {
    /// The process itself.
    pub(crate) const OWN: Self = Self(1);
    /// The other processes of its node.
    pub(crate) const LOCAL: Self = Self(2);
    /// The processes of other nodes.
    pub(crate) const REMOTE: Self = Self(4);
    /// All other processes.
    pub(crate) const GLOBAL: Self = Self(2 | 4);
    pub(crate) const ALL: Self = Self(1 | 2 | 4);
    pub(crate) const NONE: Self = Self(0);

    /// Returns the scopes of the data that a fetch with this scope finds.
    ///
    /// DEVIATION: a fetch in the global scope does not find internal data; OpenPMIx finds them,
    /// although by the Standard no other process sees them;
    /// `internal_data_are_seen_only_by_their_process`.
    pub(super) const fn seen_in(scope: Scope) -> Option<Self> {
        match scope {
            Scope::LOCAL => Some(Self::LOCAL),
            Scope::REMOTE => Some(Self::REMOTE),
            Scope::GLOBAL => Some(Self::GLOBAL),
            Scope::INTERNAL | Scope::UNDEF => Some(Self::ALL),
            _ => None,
        }
    }

    /// For a fetch with these scopes, returns the other scopes in which a value may exist without
    /// being visible.
    pub(super) fn other_side(self) -> Option<Self> {
        match self {
            Self::LOCAL => Some(Self::REMOTE),
            Self::REMOTE => Some(Self::LOCAL),
            _ => None,
        }
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self & other != Self::NONE
    }

    /// Returns `true` if the set has more than one scope.
    pub(super) const fn is_several(self) -> bool {
        self.0.count_ones() > 1
    }

    /// Returns the distance of the nearest scope in both sets. A lower number is nearer.
    pub(super) const fn nearest(self, other: Self) -> u32 {
        (self.0 & other.0).trailing_zeros()
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Action {
    /// Returns the action and the scopes of a put with this scope.
    pub(super) const fn of(scope: Scope) -> Option<(Self, ScopeSet)> {
        Some(match scope {
            Scope::LOCAL => (Self::Store, ScopeSet::LOCAL),
            Scope::REMOTE => (Self::Store, ScopeSet::REMOTE),
            Scope::GLOBAL => (Self::Store, ScopeSet::GLOBAL),
            Scope::INTERNAL => (Self::Store, ScopeSet::OWN),
            Scope::DEL_LOCAL => (Self::Remove, ScopeSet::LOCAL),
            Scope::DEL_REMOTE => (Self::Remove, ScopeSet::REMOTE),
            Scope::DEL_GLOBAL => (Self::Remove, ScopeSet::GLOBAL),
            Scope::DEL_INTERNAL => (Self::Remove, ScopeSet::OWN),
            _ => return None,
        })
    }
}

impl BitAnd for ScopeSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for ScopeSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
