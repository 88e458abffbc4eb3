// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strings that a client of 5.0 compressed in a put (`PMIX_COMPRESSED_STRING`).
//!
//! | field | content | since |
//! | --- | --- | --- |
//! | length | length of the original in bytes, uint32 in the byte order of the writer | 4.0 |
//! | stream | the original as a zlib stream | 4.0 |
//!
//! Frozen: append only.

use std::io::Read as _;

use flate2::read::ZlibDecoder;
use pmix_types::{Status, Text, Value, memory};

use crate::Error;

/// The largest number of bytes that one byte of a zlib stream can expand to.
const MAX_EXPANSION: usize = 1032;
/// An upper bound of the memory that the decompressor allocates for itself.
const INFLATE_BYTES: usize = 64 << 10;
/// The number of bytes decompressed before memory is reserved again.
const PORTION: usize = 16 << 10;

/// Returns the original of a compressed string. Any other value, or a damaged string, is returned unchanged.
///
/// Any process can put such a string, so its length is not trusted. A length that the stream cannot expand to is
/// rejected before memory is reserved, and memory then grows with the output.
///
/// # Errors
///
/// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the string is longer than `most`, or `PMIX_ERR_NOMEM` if the process has no
/// memory for it.
pub(crate) fn inflated(value: Value<'static>, most: usize) -> Result<Value<'static>, Error> {
    let Value::CompressedString(bytes) = &value else {
        return Ok(value);
    };
    let Some((len, stream)) = claimed(bytes) else {
        return Ok(value);
    };
    if len > most {
        let message = format!(
            "a compressed string of {len} bytes exceeds the limit of {most} (Settings::max_string_bytes)"
        );
        return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
    }
    Ok(match inflate(stream, len)? {
        Some(text) => Value::String(Some(Text::new(text))),
        None => value,
    })
}

/// Returns the claimed length of a compressed string and its stream, or `None` if the stream cannot expand to that
/// length.
fn claimed(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (len, stream) = bytes.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_ne_bytes(*len)).ok()?;
    (len <= stream.len().saturating_mul(MAX_EXPANSION)).then_some((len, stream))
}

/// Returns the decompressed text, or `None` if the stream is damaged or its length differs.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOMEM` if the process has no memory for the text.
fn inflate(stream: &[u8], len: usize) -> Result<Option<Vec<u8>>, Error> {
    memory::check(INFLATE_BYTES)?;
    let mut text = Vec::new();
    let mut portion = [0; PORTION];
    let mut stream = ZlibDecoder::new(stream);
    loop {
        let Ok(len_read) = stream.read(&mut portion) else {
            return Ok(None);
        };
        if len_read == 0 {
            return Ok((text.len() == len).then_some(text));
        }
        let missing = len - text.len();
        // The claimed length was wrong, so the value is not what its process put.
        if len_read > missing {
            return Ok(None);
        }
        if text.capacity() - text.len() < len_read {
            let additional = text.len().max(len_read).min(missing);
            memory::reserve_exact(&mut text, additional)?;
        }
        text.extend_from_slice(portion.get(..len_read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn compressed(text: &[u8], claimed: u32) -> Value<'static> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text).unwrap();
        let bytes = [&claimed.to_ne_bytes()[..], &encoder.finish().unwrap()].concat();
        Value::CompressedString(bytes.into())
    }

    #[test]
    fn a_compressed_string_is_read_as_it_was_put() {
        let text = "z".repeat(20_000);
        let value = inflated(compressed(text.as_bytes(), 20_000), 20_000);
        assert_eq!(value, Ok(Value::from(text)));
    }

    #[test]
    fn a_length_that_lies_leaves_the_value_alone() {
        for claimed in [0, 5, 7, u32::MAX] {
            let value = compressed(b"abcdef", claimed);
            assert_eq!(inflated(value.clone(), 100), Ok(value));
        }
        let cut = Value::CompressedString(vec![1, 0].into());
        assert_eq!(inflated(cut.clone(), 100), Ok(cut));
    }

    #[test]
    fn a_string_beyond_the_limit_is_refused_by_name() {
        let text = vec![0; 1 << 20];
        let error = inflated(compressed(&text, 1 << 20), (1 << 20) - 1).unwrap_err();
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
        assert!(error.message().contains("max_string_bytes"), "{error}");
        assert!(inflated(compressed(&text, 1 << 20), 1 << 20).is_ok());
    }
}
