// SPDX-License-Identifier: MIT OR Apache-2.0
//! The payload: the length of the text, then one compressed stream of it (frozen: append only).

use preg_core::{Error, Limits, Status};

use crate::pcompress::{Backend, Pcompress};

/// Bytes of the length field.
pub(crate) const LENGTH_BYTES: usize = 4;

/// The payload of a list; `None` when the list is too short, too long or does not shrink.
///
/// A list with a NUL is declined: it would end the list in every reader that is written in C.
pub(crate) fn encode(list: &[u8], pcompress: &Pcompress) -> Option<Vec<u8>> {
    // The largest length is kept free, as OpenPMIx does.
    let length = u32::try_from(list.len()).ok().filter(|n| *n < u32::MAX)?;
    if u64::from(length) < pcompress.limit() || list.contains(&0) {
        return None;
    }
    let mut payload = length.to_le_bytes().to_vec();
    let written = pcompress.compress(list, &mut payload);
    (written && payload.len() < list.len()).then_some(payload)
}

/// The two parts of a payload and the back end that reads the second.
pub(crate) struct Parts<'a> {
    /// Bytes of the text, as declared.
    pub(crate) declared: u32,
    /// The compressed stream.
    pub(crate) stream: &'a [u8],
    /// Who reads it.
    pub(crate) backend: &'static dyn Backend,
}

impl<'a> Parts<'a> {
    /// Splits a payload and recognises its stream by content.
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

    /// The text, exactly as long as declared.
    ///
    /// DEVIATION: OpenPMIx accepts a declared length beyond the real one (the list ends early); here
    /// both must agree, and memory follows what is decoded, not what is declared;
    /// `a_lying_length_is_refused`.
    pub(crate) fn inflate(&self, limits: &Limits) -> Result<Vec<u8>, Error> {
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
        let over = || Error::from(pmix_map::Error::limit("bytes of text", limits.max_bytes)).at(0);
        if u64::from(self.declared) > limits.max_bytes {
            return Err(over());
        }
        let declared = usize::try_from(self.declared).map_err(|_| over())?;
        let text = self
            .backend
            .inflate(self.stream, declared)
            .map_err(|e| e.shifted(LENGTH_BYTES))?;
        if text.len() != declared {
            return Err(damage(
                0,
                format!(
                    "the length field says {declared} bytes, the stream holds {}",
                    text.len()
                ),
            ));
        }
        no_nul(text)
    }
}

/// The list text of a payload.
pub(crate) fn decode(
    payload: &[u8],
    pcompress: &Pcompress,
    limits: &Limits,
) -> Result<Vec<u8>, Error> {
    Parts::split(payload, pcompress)?.inflate(limits)
}

/// A fault of the payload; OpenPMIx reports these as not supported.
pub(crate) fn damage(offset: usize, message: impl Into<String>) -> Error {
    Error::new(Status::ERR_NOT_SUPPORTED, message).at(offset)
}

/// DEVIATION: OpenPMIx cuts the text at a NUL and loses the rest; here it is no list;
/// `a_nul_in_the_text_is_refused`.
fn no_nul(text: Vec<u8>) -> Result<Vec<u8>, Error> {
    if !text.contains(&0) {
        return Ok(text);
    }
    let nul = text.iter().take_while(|b| **b != 0).count();
    Err(damage(
        LENGTH_BYTES,
        format!("byte {nul} of the list that was compressed is a NUL"),
    ))
}
