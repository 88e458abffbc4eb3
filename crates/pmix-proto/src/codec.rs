// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shapes of message fields, each one or more pack calls.

mod message;
mod shapes;

use bfrops::{Decoder, Encoder, Limits, RegexFramer, WireType};

use crate::part::Part;
use crate::{Error, ListLimits, PeerForm, wire_type};

pub(crate) use message::{message, payloads};
pub(crate) use shapes::{Each, EachToEnd, Kvals, Many, Maybe, NspaceText, One, Since, Tail};

/// The limits of a message: in the worst case an empty info takes 72 bytes of memory for 3 bytes.
const LIMITS: Limits = Limits {
    depth: 64,
    memory_factor: 32,
    memory_base: 63 * 1024,
};

/// The bytes of memory that a request may take beyond its length. Processes send megabytes only as
/// values, whose bytes are borrowed. Lists of names and infos take several times their packed size,
/// and also time.
const MOST_OF_REQUEST: usize = 16 << 20;

/// A reader of shapes from the payload of a message.
pub(crate) struct Reader<'a> {
    decoder: Decoder<'a>,
    form: PeerForm,
    /// `true` if the rest of the payload was taken unparsed.
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

    /// Limits the memory of a request, which any process may send, and the number of processes and
    /// infos in its lists.
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

    /// Reads the next call of `PMIX_SIZE` if it is the last one; otherwise reads nothing.
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

    /// Ends the reading.
    pub(crate) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns the rest of the payload, unparsed.
    pub(crate) const fn rest(&mut self) -> &'a [u8] {
        self.end();
        self.decoder.rest()
    }

    /// Checks that the payload was read to its end.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        match self.has_ended {
            true => Ok(()),
            false => Ok(self.decoder.finish()?),
        }
    }

    /// Reads a count, and returns it with the offset of the call.
    fn count(&mut self) -> Result<(usize, u64), Error> {
        let start = self.offset();
        let count = self.one::<wire_type::Size>()?;
        Ok((start, count))
    }
}

/// A writer of shapes into the payload of a message.
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

/// The encoding of a field of a message.
pub(crate) trait Shape {
    /// The Rust type of the field.
    type Of<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Self::Of<'a>, Error>;

    fn write(writer: &mut Writer<'_>, field: &Self::Of<'_>) -> Result<(), Error>;

    /// Returns the outline of a field with this name, between peers of a major release.
    fn outline(name: &'static str, major: u32) -> Vec<Part>;
}

/// The content of bytes that are passed on unparsed.
pub(crate) trait Contents {
    fn outline() -> Vec<Part>;
}
