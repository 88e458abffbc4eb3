// SPDX-License-Identifier: MIT OR Apache-2.0
//! The codec of a peer, and a reader of its bytes.
//!
//! Source: OpenPMIx, the framework `bfrops` and the component `pcompress/zlib`.

use std::ops::Range;

use bfrops::{Decoder, Encoder, Layout, Limits, MessageTemplate, RegexFramer, WireType};
use pmix_types::{Bytes, Key, Kval, Value};

use super::CommitLimits;
use super::modex_store::Entry;
use crate::Error;

/// A function that inflates compressed bytes. Returns `None` if they are damaged or too large.
pub type Inflate = fn(&[u8]) -> Option<Vec<u8>>;

/// The layout of packed data for or from a peer, with the functions for encoded maps and compressed
/// data.
#[derive(Clone, Copy)]
pub struct Codec<'w> {
    layout: Layout,
    framer: Option<&'w dyn RegexFramer>,
    inflate: Option<Inflate>,
}

/// The limits for unpacking byte objects inside a message: in proportion to their length. There is
/// no constant allowance, because many small objects would multiply it.
const LIMITS: Limits = Limits {
    depth: 64,
    memory_factor: 64,
    memory_base: 0,
};

/// The bytes of memory that a decoded value may take in addition to the remaining length of the
/// message.
const VALUE_MEMORY: usize = 16 << 20;

/// Returns the memory limit for a value, by the remaining length of the message. Each value has its
/// own limit, because it is stored before the next one is unpacked.
fn memory(len: usize) -> usize {
    let most = len.saturating_add(VALUE_MEMORY);
    len.saturating_mul(LIMITS.memory_factor).min(most)
}

/// The maximum number of values of one key, with different qualifiers, in a commit message.
pub(crate) const MAX_VARIANTS: usize = 256;
/// The maximum number of stored values of one key, with different qualifiers, each for local and
/// for remote processes.
pub(crate) const MAX_STORED_VARIANTS: usize = 4 * MAX_VARIANTS;

impl<'w> Codec<'w> {
    /// Creates a codec for a layout.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        Self {
            layout,
            framer: None,
            inflate: None,
        }
    }

    /// Sets the framer, which determines the length of encoded maps in string form.
    #[must_use]
    pub const fn with_framer(mut self, framer: &'w dyn RegexFramer) -> Self {
        self.framer = Some(framer);
        self
    }

    /// Sets the function that inflates data. Newer servers send compressed data.
    #[must_use]
    pub const fn with_inflate(mut self, inflate: Inflate) -> Self {
        self.inflate = Some(inflate);
        self
    }

    /// Returns the layout of the peer.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) const fn inflate(&self) -> Option<Inflate> {
        self.inflate
    }

    pub(crate) fn encoder<'o>(&self, out: &'o mut Vec<u8>) -> Encoder<'o>
    where
        'w: 'o,
    {
        let encoder = Encoder::new(self.layout, out);
        match self.framer {
            Some(framer) => encoder.with_framer(framer),
            None => encoder,
        }
    }

    /// Returns an empty template.
    pub(crate) fn template(&self) -> MessageTemplate<'w> {
        self.framed(MessageTemplate::new(self.layout))
    }

    /// Returns an empty template that is written as a byte object with a key.
    pub(crate) fn template_in_object(
        &self,
        key: &Key<'_>,
    ) -> Result<MessageTemplate<'w>, bfrops::Error> {
        MessageTemplate::in_object(self.layout, key).map(|template| self.framed(template))
    }

    /// Returns an empty template that is written as an array of infos with a key.
    pub(crate) fn template_in_info_array(
        &self,
        key: &Key<'_>,
    ) -> Result<MessageTemplate<'w>, bfrops::Error> {
        MessageTemplate::in_info_array(self.layout, key).map(|template| self.framed(template))
    }

    fn framed(&self, template: MessageTemplate<'w>) -> MessageTemplate<'w> {
        match self.framer {
            Some(framer) => template.with_framer(framer),
            None => template,
        }
    }

    /// Runs a closure that packs into a separate buffer, and returns the bytes.
    pub(crate) fn pack(
        &self,
        write: impl FnOnce(&mut Encoder<'_>) -> Result<(), bfrops::Error>,
    ) -> Result<Vec<u8>, bfrops::Error> {
        let mut out = Vec::new();
        write(&mut self.encoder(&mut out))?;
        Ok(out)
    }

    /// Returns a reader of a range of a message, which is inside of it.
    pub(crate) fn reader_of<'a>(&self, message: &'a [u8], range: Range<usize>) -> Reader<'a>
    where
        'w: 'a,
    {
        let start = range.start;
        Reader {
            start,
            ..self.reader(message.get(range).unwrap_or_default())
        }
    }

    pub(crate) fn reader<'a>(&self, bytes: &'a [u8]) -> Reader<'a>
    where
        'w: 'a,
    {
        let decoder = Decoder::new(self.layout, bytes).with_limits(LIMITS);
        Reader {
            codec: *self,
            decoder: match self.framer {
                Some(framer) => decoder.with_framer(framer),
                None => decoder,
            },
            start: 0,
            inside: None,
        }
    }
}

/// A reader of pack calls from a part of a message. The offsets of its errors are relative to the
/// whole message.
pub(crate) struct Reader<'a> {
    codec: Codec<'a>,
    decoder: Decoder<'a>,
    /// The offset of the bytes in the message.
    start: usize,
    /// The offset in the message of the compressed object from which the bytes were inflated, if
    /// any.
    inside: Option<usize>,
}

impl<'a> Reader<'a> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.decoder.is_empty()
    }

    /// Returns the offset of the next call in the message.
    pub(crate) const fn offset(&self) -> usize {
        match self.inside {
            Some(object) => object,
            None => self.start + self.decoder.offset(),
        }
    }

    pub(crate) fn one<K: WireType>(&mut self) -> Result<K::Item<'a>, Error> {
        let read = self.decoder.one::<K>();
        read.map_err(|error| self.fault(&error))
    }

    /// Returns the layout of the bytes.
    pub(crate) const fn layout(&self) -> Layout {
        self.codec.layout
    }

    /// Unpacks a call of one `PMIX_KVAL`. Also returns the packed bytes of the value.
    pub(crate) fn kval(&mut self) -> Result<(Kval<'a>, &'a [u8]), Error> {
        self.decoder.allow_memory(memory(self.rest().len()));
        let read = self.decoder.kval_with_bytes();
        read.map_err(|error| self.fault(&error))
    }

    /// Unpacks a call of one `PMIX_VALUE`. Also returns the packed bytes of the value.
    pub(crate) fn value(&mut self) -> Result<(Value<'a>, &'a [u8]), Error> {
        self.decoder.allow_memory(memory(self.rest().len()));
        let read = self.decoder.value_with_bytes();
        read.map_err(|error| self.fault(&error))
    }

    pub(crate) fn all<K: WireType>(&mut self) -> Result<Vec<K::Item<'a>>, Error> {
        let read = self.decoder.all::<K>();
        read.map_err(|error| self.fault(&error))
    }

    /// Unpacks a byte object or a buffer, and returns a reader of its content.
    pub(crate) fn object<K>(&mut self) -> Result<Self, Error>
    where
        K: for<'b> WireType<Item<'b> = Bytes<'b>>,
    {
        let call = self.offset();
        let Bytes::Borrowed(bytes) = self.one::<K>()? else {
            return Err(Error::bad("bytes that are not in the message").at(call));
        };
        let mut reader = self.codec.reader(bytes);
        reader.start = self.start + self.decoder.offset() - bytes.len();
        reader.inside = self.inside;
        Ok(reader)
    }

    /// Returns the remaining bytes.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.decoder.rest()
    }

    /// Sets the offset of the compressed object from which the bytes were inflated. All errors then
    /// have this offset.
    pub(crate) fn inside(mut self, object: usize) -> Self {
        self.inside = Some(object);
        self
    }

    /// Unpacks calls of one kval each up to the end. Deducts them from the limits, and fails if
    /// they exceed these.
    pub(crate) fn kvals(
        &mut self,
        entries: &mut Vec<Entry>,
        limits: &mut CommitLimits,
    ) -> Result<(), Error> {
        while !self.is_empty() {
            entries.push(self.entry(limits)?);
        }
        Ok(())
    }

    /// Unpacks a call of one kval. Deducts it from the limits, and fails if it exceeds these.
    pub(crate) fn entry(&mut self, limits: &mut CommitLimits) -> Result<Entry, Error> {
        let start = self.offset();
        let (kval, value) = self.kval()?;
        let entry = Entry::packed(kval, self.layout(), value);
        let entry = entry.map_err(|error| error.at(start))?;
        *limits = limits.beside(entry.bytes()).ok_or_else(|| {
            let status = pmix_types::Status::ERR_OUT_OF_RESOURCE;
            Error::new(status, "more data than a process may put").at(start)
        })?;
        Ok(entry)
    }

    fn fault(&self, error: &bfrops::Error) -> Error {
        let message = match self.inside {
            Some(_) => format!("{} in compressed data", error.message()),
            None => error.message().to_owned(),
        };
        let offset = match (self.inside, error.offset()) {
            (Some(object), _) => object,
            (None, Some(offset)) => self.start + offset,
            (None, None) => self.offset(),
        };
        Error::new(error.status(), message).at(offset)
    }
}

/// Returns the values with qualifiers, in the order of their keys.
pub(crate) fn qualified<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<&'e Entry> {
    let entries = entries.into_iter().filter(|entry| entry.is_qualified());
    let mut qualified: Vec<_> = entries.collect();
    qualified.sort_unstable_by_key(|entry| entry.key());
    qualified
}

/// Checks that a message does not have so many values of one key that searches become slow.
pub(crate) fn check_variants<'e>(
    entries: impl IntoIterator<Item = &'e Entry>,
    most: usize,
) -> Result<(), Error> {
    let said = qualified(entries);
    let counts = { said.chunk_by(|a, b| a.key() == b.key()) }.map(<[_]>::len);
    counts
        .max()
        .map_or(Ok(()), |count| check_num_variants(count, most))
}

/// Checks the number of values of one key with different qualifiers.
pub(crate) fn check_num_variants(count: usize, most: usize) -> Result<(), Error> {
    if count <= most {
        return Ok(());
    }
    let status = pmix_types::Status::ERR_OUT_OF_RESOURCE;
    let message = format!("{count} values of one key, more than {most}");
    Err(Error::new(status, message))
}
