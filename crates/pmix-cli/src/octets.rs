// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes as hexadecimal and base64 text (RFC 4648), and back.

const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends two lower-case digits a byte.
pub(crate) fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

/// The bytes as hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    push_hex(bytes, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Reads hexadecimal text; the error is the offset of the first byte that does not belong.
pub(crate) fn unhex(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut pairs = text.chunks_exact(2);
    for (index, pair) in pairs.by_ref().enumerate() {
        let high = digit(pair[0]).ok_or(index * 2)?;
        let low = digit(pair[1]).ok_or(index * 2 + 1)?;
        out.push(high << 4 | low);
    }
    match pairs.remainder() {
        [] => Ok(out),
        _ => Err(text.len()),
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The bytes as base64 text with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let sextet = (word >> (18 - 6 * place)) & 63;
            match usize::try_from(sextet) {
                Ok(index) if place <= chunk.len() => out.push(char::from(BASE64[index])),
                _ => out.push('='),
            }
        }
    }
    out
}

/// Reads base64 text with or without padding; the error is the offset of the first byte that
/// does not belong.
pub(crate) fn unbase64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let body = text.strip_suffix(b"=").unwrap_or(text);
    let body = body.strip_suffix(b"=").unwrap_or(body);
    let mut out = Vec::with_capacity(body.len() / 4 * 3 + 2);
    for (index, chunk) in body.chunks(4).enumerate() {
        let mut word = 0;
        for (i, byte) in chunk.iter().enumerate() {
            word = word << 6 | sextet(*byte).ok_or(index * 4 + i)?;
        }
        let kept = chunk.len() - 1;
        if kept == 0 {
            return Err(index * 4);
        }
        word <<= 6 * (4 - chunk.len());
        out.extend_from_slice(&word.to_be_bytes()[1..=kept]);
    }
    Ok(out)
}

fn sextet(byte: u8) -> Option<u32> {
    match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
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
    fn what_does_not_belong_is_named_by_its_offset() {
        assert_eq!(unhex(b"00zz"), Err(2));
        assert_eq!(unhex(b"000"), Err(3));
        assert_eq!(unbase64(b"Zm9v!m9v"), Err(4));
        assert_eq!(unbase64(b"Zm9vY"), Err(4));
    }

    #[test]
    fn every_byte_survives_both() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(hex(&all).as_bytes()).as_deref(), Ok(&all[..]));
        assert_eq!(unbase64(base64(&all).as_bytes()).as_deref(), Ok(&all[..]));
    }
}
