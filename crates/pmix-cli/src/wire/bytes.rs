// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input of `pmix wire decode`: bytes in hexadecimal, or raw bytes.

use crate::args::WireDecode;
use crate::excerpt::Excerpt;
use crate::failure::Failure;
use crate::input::{Form, Source, read_path};

/// Reads the bytes to unpack.
pub(super) fn read(args: &WireDecode) -> Result<Source, Failure> {
    decoded(args, source(args)?)
}

/// Reads the source that the command line names, without decoding it.
pub(super) fn source(args: &WireDecode) -> Result<Source, Failure> {
    match &args.hex {
        Some(digits) => Ok(Source {
            origin: "--hex".to_owned(),
            bytes: digits.clone().into_bytes(),
            comments: false,
            form: Form::Map,
        }),
        None => read_path(args.file.as_deref()),
    }
}

/// Returns the bytes of the input.
pub(super) fn decoded(args: &WireDecode, mut source: Source) -> Result<Source, Failure> {
    if !args.raw {
        let digits = std::mem::take(&mut source.bytes);
        source.bytes = unhex(&digits, &source)?;
    }
    Ok(source)
}

/// Decodes pairs of digits. Blanks, commas and colons may be between bytes, and `0x` before them.
/// In a file, `#` begins a comment up to the end of the line.
fn unhex(text: &[u8], source: &Source) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut places = text.iter().copied().enumerate().peekable();
    while let Some((place, byte)) = places.next() {
        if byte.is_ascii_whitespace() || matches!(byte, b',' | b':') {
            continue;
        }
        if byte == b'#' && source.comments {
            while places.next_if(|(_, b)| *b != b'\n').is_some() {}
            continue;
        }
        let next = places.next().map(|(_, next)| next);
        if byte == b'0' && matches!(next, Some(b'x' | b'X')) {
            continue;
        }
        match (digit(byte), next.and_then(digit)) {
            (Some(high), Some(low)) => bytes.push(high << 4 | low),
            (None, _) => return Err(not_hex(text, source, place)),
            (_, None) => return Err(not_hex(text, source, place + 1)),
        }
    }
    Ok(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

fn not_hex(text: &[u8], source: &Source, place: usize) -> Failure {
    let message = match text.get(place) {
        Some(_) => "not a hexadecimal digit",
        None => "the last byte has only one hexadecimal digit",
    };
    let failure = Failure::data(message).at(Excerpt::new(&source.origin, text, place));
    match source.comments {
        true => failure.cure("use --raw for binary input"),
        false => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, comments: bool) -> Result<Vec<u8>, String> {
        let source = Source {
            origin: "a file".to_owned(),
            bytes: Vec::new(),
            comments,
            form: Form::Map,
        };
        let bytes = unhex(text.as_bytes(), &source);
        bytes.map_err(|e| e.to_json()["offset"].to_string())
    }

    #[test]
    fn digits_are_read_as_tools_print_them() {
        for text in [
            "02ff0a",
            "02 FF 0a\n",
            "0x02, 0xff, 0x0a",
            "02:ff:0a",
            " 0x02ff0A",
        ] {
            assert_eq!(read(text, false), Ok(vec![2, 255, 10]), "{text}");
        }
        assert_eq!(read("# a call\n02 # one\nff", true), Ok(vec![2, 255]));
        assert_eq!(read("", true), Ok(vec![]));
        assert_eq!(read("00", false), Ok(vec![0]));
    }

    #[test]
    fn invalid_digits_are_located() {
        for (text, place) in [
            ("02 g0", "3"),
            ("0", "1"),
            ("02 0 2", "4"),
            ("#", "0"),
            ("0xz", "2"),
        ] {
            assert_eq!(read(text, false), Err(place.to_owned()), "{text}");
        }
    }
}
