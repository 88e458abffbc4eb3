// SPDX-License-Identifier: MIT OR Apache-2.0
//! The codec of a peer, and a reader of its bytes.
//!
//! Source: OpenPMIx, the framework `bfrops` and the component `pcompress/zlib`.

use bfrops::{Decoder, Encoder, Layout, Limits, MessageTemplate, RegexFramer, WireType};
use pmix_types::{Bytes, Key, Kval, Value};

use super::limits::CommitLimits;
use super::modex_store::Entry;
use crate::Error;

/// Inflates compressed bytes; none if they are damaged or too large.
pub type Inflate = fn(&[u8]) -> Option<Vec<u8>>;

/// Describes how bytes for a peer or from one are packed, and what reads old maps and compressed
/// data in them.
#[derive(Clone, Copy)]
pub struct Codec<'w> {
    layout: Layout,
    framer: Option<&'w dyn RegexFramer>,
    inflate: Option<Inflate>,
}

/// What nested bytes may cost: in proportion to them, without an allowance that many small
/// objects could add up.
const LIMITS: Limits = Limits {
    depth: 64,
    memory_factor: 64,
    memory_base: 0,
};

/// A decoded value may take as much memory as the bytes that are left of its message, and this
/// many bytes more.
const VALUE_MEMORY: usize = 16 << 20;

/// The bytes of memory that a value may take where so many bytes are left: what a value takes does
/// not count against the next, which is read when the first is stored.
fn memory(len: usize) -> usize {
    let most = len.saturating_add(VALUE_MEMORY);
    len.saturating_mul(LIMITS.memory_factor).min(most)
}

/// How many values of one key qualifiers may tell apart in a message of a commit.
pub(crate) const MAX_VARIANTS: usize = 256;
/// The same with those that are stored for the processes of this node, or for others.
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

    /// Sets what tells the length of old encoded maps.
    #[must_use]
    pub const fn with_framer(mut self, framer: &'w dyn RegexFramer) -> Self {
        self.framer = Some(framer);
        self
    }

    /// Sets what inflates the data that newer servers compress.
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

    /// An empty template.
    pub(crate) fn template(&self) -> MessageTemplate<'w> {
        self.framed(MessageTemplate::new(self.layout))
    }

    /// An empty template that is written as a byte object under a key.
    pub(crate) fn template_in_object(
        &self,
        key: &Key<'_>,
    ) -> Result<MessageTemplate<'w>, bfrops::Error> {
        MessageTemplate::in_object(self.layout, key).map(|template| self.framed(template))
    }

    /// An empty template that is written as an array of infos under a key.
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

    /// Packs what a closure says, apart from the message it will stand in.
    pub(crate) fn pack(
        &self,
        write: impl FnOnce(&mut Encoder<'_>) -> Result<(), bfrops::Error>,
    ) -> Result<Vec<u8>, bfrops::Error> {
        let mut out = Vec::new();
        write(&mut self.encoder(&mut out))?;
        Ok(out)
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

/// Takes calls off bytes that may be a part of a message, and names faults by the message.
pub(crate) struct Reader<'a> {
    codec: Codec<'a>,
    decoder: Decoder<'a>,
    /// Where the bytes start in the message.
    start: usize,
    /// Where the compressed object starts that they come from.
    inside: Option<usize>,
}

impl<'a> Reader<'a> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.decoder.is_empty()
    }

    /// Where the next call starts in the message.
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

    /// How the bytes are packed.
    pub(crate) const fn layout(&self) -> Layout {
        self.codec.layout
    }

    /// A call of one `PMIX_KVAL`, and the bytes of its value.
    pub(crate) fn kval(&mut self) -> Result<(Kval<'a>, &'a [u8]), Error> {
        self.decoder.allow_memory(memory(self.rest().len()));
        let read = self.decoder.kval_with_bytes();
        read.map_err(|error| self.fault(&error))
    }

    /// A call of one `PMIX_VALUE`, and the bytes of the value.
    pub(crate) fn value(&mut self) -> Result<(Value<'a>, &'a [u8]), Error> {
        self.decoder.allow_memory(memory(self.rest().len()));
        let read = self.decoder.value_with_bytes();
        read.map_err(|error| self.fault(&error))
    }

    pub(crate) fn all<K: WireType>(&mut self) -> Result<Vec<K::Item<'a>>, Error> {
        let read = self.decoder.all::<K>();
        read.map_err(|error| self.fault(&error))
    }

    /// A byte object or a buffer, to be read on its own.
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

    /// The bytes that are left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.decoder.rest()
    }

    /// All faults are in a compressed object that starts here.
    pub(crate) fn inside(mut self, object: usize) -> Self {
        self.inside = Some(object);
        self
    }

    /// Calls of one kval each up to the end, while they are within limits, which become narrower by
    /// them.
    pub(crate) fn kvals(
        &mut self,
        entries: &mut Vec<Entry>,
        limits: &mut CommitLimits,
    ) -> Result<(), Error> {
        while !self.is_empty() {
            let start = self.offset();
            let (kval, value) = self.kval()?;
            let entry = Entry::packed(kval, self.layout(), value);
            let entry = entry.map_err(|error| error.at(start))?;
            *limits = limits.beside(entry.bytes()).ok_or_else(|| {
                let status = pmix_types::Status::ERR_OUT_OF_RESOURCE;
                Error::new(status, "more data than a process may put").at(start)
            })?;
            entries.push(entry);
        }
        Ok(())
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

/// Returns the values that have qualifiers, in the order of their keys.
pub(crate) fn qualified<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<&'e Entry> {
    let entries = entries.into_iter().filter(|entry| entry.is_qualified());
    let mut qualified: Vec<_> = entries.collect();
    qualified.sort_unstable_by_key(|entry| entry.key());
    qualified
}

/// Checks that a message does not have so many values of a key that finding one takes long.
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

/// Checks that so many values of one key that qualifiers tell apart are not too many.
pub(crate) fn check_num_variants(count: usize, most: usize) -> Result<(), Error> {
    if count <= most {
        return Ok(());
    }
    let status = pmix_types::Status::ERR_OUT_OF_RESOURCE;
    let message = format!("{count} values of one key, more than {most}");
    Err(Error::new(status, message))
}
