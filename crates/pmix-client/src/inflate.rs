// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strings that a client of 5.0 compressed when it put them (`PMIX_COMPRESSED_STRING`).
//!
//! | field | content | since |
//! | --- | --- | --- |
//! | length | of the original in bytes, uint32 in the byte order of the writer | 4.0 |
//! | stream | the original, as zlib writes it | 4.0 |
//!
//! Frozen: append only.

use std::io::Read as _;

use flate2::read::ZlibDecoder;
use pmix_types::{Text, Value};

/// The value as it was put; what cannot be made whole again stays as it is.
pub(crate) fn inflated(value: Value<'static>) -> Value<'static> {
    match &value {
        Value::CompressedString(bytes) => match inflate(bytes) {
            Some(text) => Value::String(Some(Text::new(text))),
            None => value,
        },
        _ => value,
    }
}

fn inflate(bytes: &[u8]) -> Option<Vec<u8>> {
    let (len, stream) = bytes.split_first_chunk::<4>()?;
    let len = u32::from_ne_bytes(*len);
    let mut text = Vec::new();
    // Memory grows with what is there, up to what is claimed.
    let mut stream = ZlibDecoder::new(stream).take(u64::from(len) + 1);
    stream.read_to_end(&mut text).ok()?;
    (u32::try_from(text.len()) == Ok(len)).then_some(text)
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
        let value = inflated(compressed(text.as_bytes(), 20_000));
        assert_eq!(value, Value::from(text));
    }

    #[test]
    fn a_length_that_lies_leaves_the_value_alone() {
        for claimed in [0, 5, 7, u32::MAX] {
            let value = compressed(b"abcdef", claimed);
            assert_eq!(inflated(value.clone()), value);
        }
        let cut = Value::CompressedString(vec![1, 0].into());
        assert_eq!(inflated(cut.clone()), cut);
    }
}
