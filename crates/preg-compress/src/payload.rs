// SPDX-License-Identifier: MIT OR Apache-2.0
//! The payload: the length of the text, then one compressed stream of it (frozen: append only).

use pmix_map::NodeListBuilder;
use pmix_types::memory;
use preg_core::{Error, Limits, NodeList, ProcMap};

use crate::pcompress::damage;
use crate::pcompress::{Backend, Pcompress};

/// The size of the length field in bytes.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Returns the payload of a list, or `None` if the list is too short, too long or does not shrink.
///
/// A list with a NUL is declined, because the NUL would end the list in every reader in C.
pub(crate) fn encode(list: &[u8], pcompress: &Pcompress) -> Option<Vec<u8>> {
    // `u32::MAX` is reserved, as in OpenPMIx.
    let length = u32::try_from(list.len()).ok().filter(|n| *n < u32::MAX)?;
    if u64::from(length) < pcompress.limit() || list.contains(&0) {
        return None;
    }
    let mut payload = length.to_le_bytes().to_vec();
    let written = pcompress.compress(list, &mut payload);
    (written && payload.len() < list.len()).then_some(payload)
}

/// The two parts of a payload, and the back end that decodes the second.
pub(crate) struct Parts<'a> {
    /// The length of the text in bytes, as the payload states it.
    pub(crate) declared: u32,
    /// The compressed stream.
    pub(crate) stream: &'a [u8],
    /// The back end that decodes the stream.
    pub(crate) backend: &'static dyn Backend,
}

impl<'a> Parts<'a> {
    /// Splits a payload and recognizes the format of its stream.
    pub(crate) fn split(payload: &'a [u8], pcompress: &Pcompress) -> Result<Self, Error> {
        let Some((length, stream)) = payload.split_first_chunk::<LENGTH_BYTES>() else {
            return Err(damage(
                payload.len(),
                "the payload ends inside its 4-byte length field",
            ));
        };
        let backend = pcompress
            .reader_of(stream)
            .map_err(|message| damage(LENGTH_BYTES, message))?;
        Ok(Self {
            declared: u32::from_le_bytes(*length),
            stream,
            backend,
        })
    }

    /// Inflates the text, which must have exactly the stated length.
    ///
    /// DEVIATION: OpenPMIx accepts a stated length that is greater than the actual one; here both
    /// must agree, and memory grows with the decoded bytes; `a_lying_length_is_refused`.
    pub(crate) fn inflate(&self, limits: &Limits) -> Result<Vec<u8>, Error> {
        let declared = self.plausible(limits)?;
        let text = self
            .backend
            .inflate(self.stream, declared)
            .map_err(|e| e.shifted(LENGTH_BYTES))?;
        agrees(declared, text.len())?;
        no_nul(&text, 0).map_err(|e| e.shifted(LENGTH_BYTES))?;
        Ok(text)
    }

    /// Returns the node list. The text is parsed while it is inflated, so the whole text is never
    /// in memory.
    pub(crate) fn nodes(&self, limits: &Limits) -> Result<NodeList, Error> {
        let declared = self.plausible(limits)?;
        let mut builder = NodeListBuilder::new(limits);
        // The offset in the buffer of the first unparsed name, and the offset in the text of the
        // buffer.
        let (mut from, mut base) = (0, 0);
        let mut read = |buffer: &mut Vec<u8>| {
            no_nul(buffer, base)?;
            from = builder.text_part(buffer, from).map_err(in_text)?;
            let gone = from.saturating_sub(HISTORY);
            buffer.drain(..gone);
            (from, base) = (from - gone, base + gone);
            if u64::try_from(buffer.len() - from).map_or(true, |len| len > limits.max_name) {
                let limit = pmix_map::Error::limit("bytes of one name", limits.max_name);
                return Err(Error::from(limit).at(0));
            }
            if buffer.len() == buffer.capacity() {
                // The buffer contains only the beginning of one name.
                let more = buffer.len();
                memory::reserve(buffer, more)?;
            }
            Ok(())
        };
        let (len, mut rest) = self
            .backend
            .inflate_parts(self.stream, declared, &mut read)
            .map_err(|e| e.shifted(LENGTH_BYTES))?;
        agrees(declared, len)?;
        read(&mut rest).map_err(|e| e.shifted(LENGTH_BYTES))?;
        if len > 0 {
            let last = rest.get(from..).unwrap_or_default();
            let full = builder.name(last).map_err(in_text);
            full.map_err(|e| e.shifted(LENGTH_BYTES))?;
        }
        Ok(builder.finish())
    }

    /// Returns the process map.
    pub(crate) fn procs(&self, limits: &Limits) -> Result<ProcMap, Error> {
        let text = self.inflate(limits)?;
        let map = ProcMap::parse_text(&text, limits).map_err(in_text);
        map.map_err(|e| e.shifted(LENGTH_BYTES))
    }

    /// Returns the stated length if the stream can expand to it and the limits allow it.
    fn plausible(&self, limits: &Limits) -> Result<usize, Error> {
        let most = u64::try_from(self.stream.len())
            .unwrap_or(u64::MAX)
            .saturating_mul(self.backend.max_expansion());
        if u64::from(self.declared) > most {
            return Err(damage(
                0,
                format!(
                    "the length field says {} bytes, {} bytes of {} give at most {most}",
                    self.declared,
                    self.stream.len(),
                    self.backend.format()
                ),
            ));
        }
        let over = || Error::from(pmix_map::Error::limit("bytes of text", limits.max_text)).at(0);
        if u64::from(self.declared) > limits.max_text {
            return Err(over());
        }
        usize::try_from(self.declared).map_err(|_| over())
    }
}

/// The bytes of parsed text that remain in the buffer, to which the next part may refer.
const HISTORY: usize = 32 << 10;

fn agrees(declared: usize, held: usize) -> Result<(), Error> {
    if held == declared {
        return Ok(());
    }
    let message = format!("the length field says {declared} bytes, the stream holds {held}");
    Err(damage(0, message))
}

/// Converts an error of the list text. Its offset in the text means nothing in the value, so the
/// error is at the start of the stream.
fn in_text(error: pmix_map::Error) -> Error {
    match error.offset() {
        Some(at) => Error::new(
            error.status(),
            format!(
                "{} (byte {at} of the list that was compressed)",
                error.message()
            ),
        )
        .at(0),
        None => error.into(),
    }
}

/// Decodes a payload to list text.
pub(crate) fn decode(
    payload: &[u8],
    pcompress: &Pcompress,
    limits: &Limits,
) -> Result<Vec<u8>, Error> {
    Parts::split(payload, pcompress)?.inflate(limits)
}

/// DEVIATION: OpenPMIx truncates the text at a NUL; here it is an error;
/// `a_nul_in_the_text_is_refused`.
///
/// `base` is the offset of the bytes in the text.
fn no_nul(bytes: &[u8], base: usize) -> Result<(), Error> {
    match memchr::memchr(0, bytes) {
        None => Ok(()),
        Some(at) => {
            let nul = base + at;
            let message = format!("byte {nul} of the list that was compressed is a NUL");
            Err(damage(0, message))
        }
    }
}
