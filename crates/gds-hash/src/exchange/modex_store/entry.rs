// SPDX-License-Identifier: MIT OR Apache-2.0
//! One value that a process put, and the scopes that see it.

use std::borrow::Cow;
use std::sync::Arc;

use bfrops::{Decoder, Encoder, Layout, wire_type};
use pmix_types::{DataArray, DataType, Info, IntoOwned, Key, Kval, Rank, Value, keys, memory};

use super::chunks::Keyed;
use super::named;
use super::scope_set::ScopeSet;
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

/// What entries of several processes may share.
#[derive(Debug)]
struct Datum {
    content: Content,
    /// The qualifiers of a qualified value.
    qualifiers: Qualifiers,
    /// The larger of the packed size of the kval and its size in memory, in bytes.
    bytes: usize,
}

/// A key and its value.
#[derive(Debug, PartialEq)]
enum Content {
    /// As it was put, or as it was read where nothing is gained by keeping its bytes.
    Kval(Kval<'static>),
    /// Text or bytes as a peer packed them: they are handed on as they are.
    Packed {
        key: Key<'static>,
        data_type: DataType,
        layout: Layout,
        value: Box<[u8]>,
    },
}

impl Entry {
    /// A datum that can be stored, for nobody yet.
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

    /// The same for one that came in a message, where a value of no type means a deletion, and
    /// that had so many bytes there.
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
            // A few bytes of a message may be an element.
            Value::DataArray(_) => wire_bytes.max(storage_bytes(&kval)),
            _ => wire_bytes,
        };
        let content = Content::Kval(kval.try_into_owned()?);
        Ok(Self::of(content, bytes))
    }

    /// A datum that came in a message, where its value has these bytes; a value of no type means a
    /// deletion.
    pub(crate) fn packed(kval: Kval<'_>, layout: Layout, value: &[u8]) -> Result<Self, Error> {
        let wire_bytes = kval.key.as_bytes().len() + value.len();
        let keeps_bytes = match &kval.value {
            Value::String(text) => text.is_some(),
            Value::ByteObject(_) | Value::CompressedByteObject(_) | Value::CompressedString(_) => {
                true
            }
            _ => false,
        };
        if !keeps_bytes || !layout.packs_alike(layout) || kval.key.is(keys::QUALIFIED_VALUE) {
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

    /// The same datum for a set of scopes.
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

    /// Returns the larger of the packed size of the kval and its size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.datum.bytes
    }

    /// Returns about how many bytes the call of `PMIX_KVAL` takes in which it travels; none for a value that may take
    /// much less there than in memory.
    pub(super) fn likely_bytes(&self) -> usize {
        /// The counts, the type and the lengths.
        const AROUND: usize = 16;
        match &self.datum.content {
            Content::Packed { key, value, .. } => key.as_bytes().len() + value.len() + AROUND,
            Content::Kval(kval) => match kval.value {
                Value::DataArray(_) => 0,
                _ => self.datum.bytes + AROUND,
            },
        }
    }

    /// The qualifiers of a qualified value.
    pub(super) fn qualifiers(&self) -> &Qualifiers {
        &self.datum.qualifiers
    }

    /// Whether this is the datum that was read as this key and value with these bytes.
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

    /// Packs the call of `PMIX_KVAL` in which it travels; bytes that a peer packed are handed on
    /// where the reader takes them.
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) -> Result<(), bfrops::Error> {
        match &self.datum.content {
            Content::Packed {
                key,
                data_type,
                layout,
                value,
            } if encoder.layout().packs_alike(*layout) => {
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
            } if encoder.layout().packs_alike(*layout) => encoder.value_of_bytes(*data_type, value),
            _ => encoder.one::<wire_type::Value>(&self.unpacked()?.value),
        }
    }

    /// Returns the key and value, if the process has memory for a value that is unpacked for this.
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
                    value: value.into_owned(),
                }))
            }
        }
    }

    /// As it travels.
    pub(crate) fn kval(&self) -> Cow<'_, Kval<'static>> {
        // The bytes were read when they came.
        self.read().unwrap_or_default()
    }

    /// The key under which it travels.
    pub(crate) fn wire_key(&self) -> &Key<'static> {
        match &self.datum.content {
            Content::Kval(Kval { key, .. }) | Content::Packed { key, .. } => key,
        }
    }

    /// The bytes of heap that its datum takes, and what it has in common with those that share it.
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
        // The two counts of an `Arc` stand before its datum.
        let own = size_of::<Datum>() + 2 * size_of::<usize>();
        let qualifiers = self.datum.qualifiers.memory_bytes();
        (Arc::as_ptr(&self.datum).cast(), own + heap + qualifiers)
    }

    /// Its own key.
    pub(crate) fn key(&self) -> &Key<'static> {
        let qualified = self.datum.content.qualified();
        qualified.map_or_else(|| self.wire_key(), |(own, _)| &own.key)
    }

    /// The value itself.
    pub(crate) fn value(&self) -> Result<Answer<'_>, Error> {
        Ok(
            match (&self.datum.content, self.datum.content.qualified()) {
                (_, Some((own, _))) => Cow::Borrowed(&own.value),
                (Content::Kval(kval), None) => Cow::Borrowed(&kval.value),
                (Content::Packed { .. }, None) => Cow::Owned(self.unpacked()?.into_owned().value),
            },
        )
    }

    /// Whether it says that a key is removed.
    pub(crate) fn is_deletion(&self) -> bool {
        match (&self.datum.content, self.datum.content.qualified()) {
            (_, Some((own, _))) => own.value == Value::Undef,
            (Content::Kval(kval), None) => kval.value == Value::Undef,
            (Content::Packed { .. }, None) => false,
        }
    }

    /// Whether it has qualifiers.
    pub(crate) fn is_qualified(&self) -> bool {
        self.wire_key().is(keys::QUALIFIED_VALUE)
    }

    /// Whether both are the same datum.
    pub(super) fn is_twin(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.datum, &other.datum)
            || (self.datum.qualifiers == other.datum.qualifiers
                && self.datum.content == other.datum.content)
    }

    /// Whether both are the same datum, and this one is there for all scopes of the other.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.scopes.without(self.scopes) == ScopeSet::NONE && self.is_twin(other)
    }

    /// Whether only one of both can be there for a set of scopes.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        self.datum.qualifiers == other.datum.qualifiers && self.key() == other.key()
    }

    /// Why it cannot be sent.
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
    /// The value of a qualified value with its own key, and its qualifiers.
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

/// About how many bytes a kval takes in memory.
fn storage_bytes(kval: &Kval<'_>) -> usize {
    kval.key.as_bytes().len() + kval.value.storage_size().unwrap_or_default()
}
