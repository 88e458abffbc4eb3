// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes as hexadecimal and base64 text (RFC 4648), and back.

use std::sync::LazyLock;

use data_encoding::{BASE64, DecodeKind, Encoding, HEXLOWER, HEXLOWER_PERMISSIVE};

/// The decoder of base64, with both alphabets. It ignores trailing bits.
static LENIENT_BASE64: LazyLock<Encoding> = LazyLock::new(|| {
    let mut form = BASE64.specification();
    form.padding = None;
    form.check_trailing_bits = false;
    form.translate.from.push_str("-_");
    form.translate.to.push_str("+/");
    // The specification is constant and valid, as a test shows. The strict decoder is only a
    // fallback.
    form.encoding().unwrap_or(BASE64)
});

/// Appends two lower-case digits for each byte.
pub(crate) fn push_hex(bytes: &[u8], out: &mut String) {
    HEXLOWER.encode_append(bytes, out);
}

/// Returns the bytes as hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Decodes hexadecimal text in upper or lower case. The error is the offset of the first invalid
/// byte, or the length of a text with an odd number of digits.
pub(crate) fn unhex(text: &[u8]) -> Result<Vec<u8>, usize> {
    decode(&HEXLOWER_PERMISSIVE, text, text)
}

/// Returns the bytes as base64 text with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Decodes base64 text with or without padding. Errors are like those of [`unhex`].
pub(crate) fn unbase64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let body = text.strip_suffix(b"=").unwrap_or(text);
    let body = body.strip_suffix(b"=").unwrap_or(body);
    decode(&LENIENT_BASE64, body, text)
}

fn decode(form: &Encoding, body: &[u8], text: &[u8]) -> Result<Vec<u8>, usize> {
    form.decode(body).map_err(|error| match error.kind {
        // An invalid digit may precede the missing end. Then the digit is reported.
        DecodeKind::Length => {
            let whole = body.get(..error.position).unwrap_or_default();
            let wrong = form.decode(whole).err();
            wrong.map_or(text.len(), |wrong| wrong.position)
        }
        _ => error.position,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_4648_hold() {
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(unbase64(coded.as_bytes()).as_deref(), Ok(plain.as_bytes()));
        }
        assert_eq!(hex(b"foobar"), "666f6f626172");
        assert_eq!(unhex(b"666F6f626172").as_deref(), Ok(&b"foobar"[..]));
    }

    #[test]
    fn invalid_digits_are_named_by_their_offset() {
        assert_eq!(unhex(b"00zz"), Err(2));
        assert_eq!(unbase64(b"Zm9v!m9v"), Err(4));
        assert_eq!(unhex(b"0z0"), Err(1));
        assert_eq!(unbase64(b"Zm!vY"), Err(2));
        // At most two padding characters are allowed.
        assert_eq!(unbase64(b"Zm9vY==="), Err(5));
    }

    #[test]
    fn text_that_ends_in_the_middle_of_a_byte_is_named_by_its_end() {
        assert_eq!(unhex(b"000"), Err(3));
        assert_eq!(unbase64(b"Zm9vY"), Err(5));
    }

    #[test]
    fn base64_is_read_in_both_alphabets_and_with_any_last_bits() {
        assert_eq!(unbase64(b"+/+/").as_deref(), Ok(&[0xfb, 0xff, 0xbf][..]));
        assert_eq!(unbase64(b"-_-_"), unbase64(b"+/+/"));
        assert_eq!(unbase64(b"Zh").as_deref(), Ok(&b"f"[..]));
    }

    #[test]
    fn every_byte_survives_both() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(hex(&all).as_bytes()).as_deref(), Ok(&all[..]));
        assert_eq!(unbase64(base64(&all).as_bytes()).as_deref(), Ok(&all[..]));
    }
}
