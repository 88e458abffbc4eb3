// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoding of message fields as *shapes*, each one or more pack calls, and the macros that
//! declare messages by their shapes.

mod shapes;

use std::borrow::Borrow;

use bfrops::{Decoder, Encoder, Limits, RegexFramer, WireType};
use pmix_types::DataType;

use crate::{Error, ListLimits, PeerForm, wire_type};

pub(crate) use shapes::{
    Each, EachToEnd, Given, Kvals, Many, Maybe, NspaceText, One, Since, Tail, UpTo,
};

/// The limits for unpacking a message. In the worst case, an empty info takes 72 bytes of memory
/// for 3 packed bytes.
const LIMITS: Limits = Limits {
    depth: 64,
    memory_factor: 32,
    memory_base: 63 * 1024,
};

/// The bytes of memory that a request may take in addition to its length. Large data are values,
/// whose bytes are borrowed and take no memory. Lists of processes and infos take several times
/// their packed size, and also time.
const MOST_OF_REQUEST: usize = 16 << 20;

/// A reader of fields from the payload of a message.
pub(crate) struct Reader<'a> {
    decoder: Decoder<'a>,
    form: PeerForm,
    /// `true` if the rest of the payload was returned unparsed.
    has_ended: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
        payload: &'a [u8],
    ) -> Self {
        let decoder = Decoder::new(form.layout, payload).with_limits(LIMITS);
        Self {
            decoder: match framer {
                Some(framer) => decoder.with_framer(framer),
                None => decoder,
            },
            form: *form,
            has_ended: false,
        }
    }

    /// Limits the memory of a request, and the number of processes and infos in its lists, because
    /// any process may send requests.
    pub(crate) fn of_request(mut self, limits: ListLimits) -> Self {
        self.decoder = self.decoder.with_max_procs(limits.procs);
        self.decoder = self.decoder.with_max_infos(limits.infos);
        let len = self.decoder.rest().len();
        let usual = len
            .saturating_mul(LIMITS.memory_factor)
            .saturating_add(LIMITS.memory_base);
        let limits = Limits {
            depth: LIMITS.depth,
            memory_factor: 0,
            memory_base: usual.min(len.saturating_add(MOST_OF_REQUEST)),
        };
        self.decoder = self.decoder.with_limits(limits);
        self
    }

    /// Returns the bytes of memory taken by the fields read so far.
    pub(crate) fn memory_taken(&self) -> usize {
        self.decoder.memory_taken()
    }

    pub(crate) fn one<K: WireType>(&mut self) -> Result<K::Item<'a>, Error> {
        Ok(self.decoder.one::<K>()?)
    }

    /// Reads the next call of `PMIX_SIZE` if it is the last call of the payload. Otherwise reads
    /// nothing and returns `None`.
    pub(crate) fn last_number(&mut self) -> Result<Option<u64>, Error> {
        let mut ahead = Decoder::new(self.form.layout, self.decoder.rest()).with_limits(LIMITS);
        let number = ahead.one::<wire_type::Size>();
        match number.is_ok() && ahead.is_empty() {
            true => self.one::<wire_type::Size>().map(Some),
            false => Ok(None),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.has_ended || self.decoder.is_empty()
    }

    /// Returns the offset up to which the payload was read.
    pub(crate) const fn offset(&self) -> usize {
        self.decoder.offset()
    }

    /// Returns the major release of the peer.
    pub(crate) const fn major(&self) -> u32 {
        self.form.major
    }

    /// Returns `true` if the peer is newer than this project.
    pub(crate) fn is_newer(&self) -> bool {
        self.form.is_newer()
    }

    /// Stops reading: the rest of the payload is ignored.
    pub(crate) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns the rest of the payload, unparsed.
    pub(crate) const fn rest(&mut self) -> &'a [u8] {
        self.end();
        self.decoder.rest()
    }

    /// Checks that the payload of a request was read to its end. Returns the number of bytes that a
    /// newer peer appended.
    pub(crate) fn finish_request(&self) -> Result<usize, Error> {
        match self.has_ended {
            true => Ok(0),
            // The protocol is append-only: a later release adds fields after the known ones.
            false if self.form.is_newer() => Ok(self.decoder.rest().len()),
            false => self.decoder.finish().map(|()| 0).map_err(Into::into),
        }
    }

    /// Reads a count. Returns the offset of the call and the count.
    fn count(&mut self) -> Result<(usize, u64), Error> {
        let start = self.offset();
        let count = self.one::<wire_type::Size>()?;
        Ok((start, count))
    }
}

/// A writer of fields into the payload of a message.
pub(crate) struct Writer<'f> {
    out: Vec<u8>,
    form: PeerForm,
    framer: Option<&'f dyn RegexFramer>,
}

impl<'f> Writer<'f> {
    pub(crate) fn new(form: &PeerForm, framer: Option<&'f dyn RegexFramer>) -> Self {
        Self {
            out: Vec::new(),
            form: *form,
            framer,
        }
    }

    pub(crate) fn one<K: WireType>(&mut self, item: &K::Item<'_>) -> Result<(), Error> {
        Ok(self.encoder().one::<K>(item)?)
    }

    /// Packs data as the shape [`Many`] does, from shared items.
    pub(crate) fn many<'i, K: WireType>(
        &mut self,
        items: &[impl Borrow<K::Item<'i>>],
    ) -> Result<(), Error> {
        self.count(items.len())?;
        match items.is_empty() {
            true => Ok(()),
            false => Ok(self.encoder().call_shared::<K>(items)?),
        }
    }

    /// Packs the bytes that precede the content of a byte object.
    pub(crate) fn byte_object_head(&mut self, len: usize) -> Result<(), Error> {
        Ok(self.encoder().byte_object_head(len)?)
    }

    /// Returns the major release of the peer.
    pub(crate) const fn major(&self) -> u32 {
        self.form.major
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    fn count(&mut self, count: usize) -> Result<(), Error> {
        self.one::<wire_type::Size>(&u64::try_from(count).unwrap_or(u64::MAX))
    }

    fn encoder(&mut self) -> Encoder<'_> {
        let encoder = Encoder::new(self.form.layout, &mut self.out);
        match self.framer {
            Some(framer) => encoder.with_framer(framer),
            None => encoder,
        }
    }
}

/// The encoding of a field in pack calls.
pub(crate) trait Shape {
    /// The Rust type of the field.
    type Of<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Self::Of<'a>, Error>;

    fn write(writer: &mut Writer<'_>, field: &Self::Of<'_>) -> Result<(), Error>;

    /// Returns the outline of a field with this name, in messages of peers of a major release.
    fn outline(name: &'static str, major: u32) -> Vec<Part>;
}

/// The outline of bytes that are passed on unparsed.
pub(crate) trait Contents {
    fn outline() -> Vec<Part>;
}

// The macros that declare messages. They generate parsing, packing and outlines.
//
// Source: this project; the decision is `docs/decisions/0010-messages-are-declared-once.md`.

/// Declares a message: its fields with their shapes, in packed order.
macro_rules! message {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$lifetime:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident: $type:ty = $shape:ty,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name $(<$lifetime>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $(<$lifetime>)? $crate::codec::Shape for $name $(<$lifetime>)? {
            type Of<'m> = message!(@of $name $($lifetime)?);

            fn read<'m>(
                reader: &mut $crate::codec::Reader<'m>,
            ) -> Result<Self::Of<'m>, $crate::Error> {
                Ok($name {
                    $($field: <$shape as $crate::codec::Shape>::read(reader)
                        .map_err(|error| error.inside(stringify!($field)))?,)*
                })
            }

            fn write(
                writer: &mut $crate::codec::Writer<'_>,
                message: &Self::Of<'_>,
            ) -> Result<(), $crate::Error> {
                $(<$shape as $crate::codec::Shape>::write(writer, &message.$field)
                    .map_err(|error| error.inside(stringify!($field)))?;)*
                Ok(())
            }

            fn outline(_: &'static str, major: u32) -> Vec<$crate::codec::Part> {
                let mut parts = Vec::new();
                $(parts.extend(<$shape as $crate::codec::Shape>::outline(
                    stringify!($field),
                    major,
                ));)*
                parts
            }
        }
    )*};
    (@of $name:ident $lifetime:lifetime) => { $name<'m> };
    (@of $name:ident) => { $name };
}

pub(crate) use message;

/// Implements parsing and packing for messages that form a whole payload.
macro_rules! payloads {
    ($($name:ident $(<$lifetime:lifetime>)?,)*) => {$(
        impl<'a> $name $(<$lifetime>)? {
            /// Parses a payload that was packed in `form`. Fields that a newer peer appends are
            /// ignored.
            ///
            /// # Errors
            ///
            /// The cause, the field and the offset.
            pub fn decode(
                form: &$crate::PeerForm,
                framer: Option<&'a dyn bfrops::RegexFramer>,
                payload: &'a [u8],
            ) -> Result<Self, $crate::Error> {
                let mut reader = $crate::codec::Reader::new(form, framer, payload);
                <Self as $crate::codec::Shape>::read(&mut reader)
            }

            /// Packs the payload in `form`.
            ///
            /// # Errors
            ///
            /// A field cannot be packed.
            pub fn encode(
                &self,
                form: &$crate::PeerForm,
                framer: Option<&dyn bfrops::RegexFramer>,
            ) -> Result<Vec<u8>, $crate::Error> {
                let mut writer = $crate::codec::Writer::new(form, framer);
                <Self as $crate::codec::Shape>::write(&mut writer, self)?;
                Ok(writer.finish())
            }
        }
    )*};
}

pub(crate) use payloads;

// The outline of the fields of a message.
//
// Source: the declarations of this crate.

/// The outline of a field, for documentation and tools that explain messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A pack call with one datum.
    One(&'static str, DataType),
    /// A pack call with a size and, if the size is not 0, one call with that number of data.
    Many(&'static str, DataType),
    /// A pack call with a size, and that number of calls with one datum each.
    Each(&'static str, DataType),
    /// A pack call with one byte object or buffer, and the fields packed in it.
    Packed(&'static str, DataType, Vec<Self>),
    /// Fields that are present only if the preceding boolean is true.
    If(Vec<Self>),
    /// Optional fields.
    Maybe(Vec<Self>),
    /// Fields that repeat up to the end.
    Rest(Vec<Self>),
}
