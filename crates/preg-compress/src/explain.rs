// SPDX-License-Identifier: MIT OR Apache-2.0
//! The explanation of a value for users.

use std::ops::Range;

use preg_core::{Error, Explanation, Limits};

use crate::framing::Frame;
use crate::payload::{LENGTH_BYTES, Parts};
use crate::pcompress::{Format, Pcompress};

/// The length in bytes of the header of a zlib stream, and of its checksum.
const ZLIB_HEADER: usize = 2;
const ADLER: usize = 4;

/// Explains a value that has the tag.
pub(crate) fn string_form(value: &[u8], pcompress: &Pcompress) -> Explanation {
    let mut explanation = Explanation::default();
    let frame = Frame::read_fields(value, |name, range| {
        let meaning = match name {
            "tag" => "scheme compress: a framed, compressed list follows".to_owned(),
            "label" => "fixed; it does not tell which compressor ran".to_owned(),
            _ => format!("{} bytes of payload", decimal(value, &range)),
        };
        explanation.field(range, name, meaning);
    });
    let read = frame.and_then(|frame| {
        let there = value.get(frame.header_len..).unwrap_or_default();
        let own = there.get(..frame.size).unwrap_or(there);
        let decoded = explain_payload(own, frame.header_len, pcompress, &mut explanation);
        // A wrong size may be the cause of a truncated stream, so it is reported first.
        frame.payload_of(value)?;
        decoded
    });
    explanation.fault = read.err();
    explanation
}

/// Explains the bytes of a `Regex2` of this scheme's type.
pub(crate) fn regex2(bytes: &[u8], pcompress: &Pcompress) -> Explanation {
    let mut explanation = Explanation::default();
    explanation.fault = explain_payload(bytes, 0, pcompress, &mut explanation).err();
    explanation
}

fn explain_payload(
    payload: &[u8],
    base: usize,
    pcompress: &Pcompress,
    explanation: &mut Explanation,
) -> Result<(), Error> {
    let parts = Parts::split(payload, pcompress);
    if let Some(length) = payload.first_chunk::<LENGTH_BYTES>() {
        explanation.field(
            base..base + LENGTH_BYTES,
            "length",
            format!("{} bytes of list text", u32::from_le_bytes(*length)),
        );
    }
    let parts = parts.map_err(|e| e.shifted(base))?;
    let decoded = parts.inflate(&Limits::default());
    let stream = base + LENGTH_BYTES..base + payload.len();
    match parts.backend.format() {
        Format::Zlib => zlib_fields(parts.stream, stream, decoded.is_ok(), explanation),
        Format::Zstd => explanation.field(stream, "stream", "one zstd frame (RFC 8878)"),
    }
    decoded.map(|_| ()).map_err(|e| e.shifted(base))
}

/// Explains the parts of a stream that begins with a zlib header. The checksum is at the end, so it
/// is explained only if the stream is complete.
fn zlib_fields(stream: &[u8], at: Range<usize>, whole: bool, explanation: &mut Explanation) {
    let header = at.start..at.start + ZLIB_HEADER;
    explanation.field(header.clone(), "header", zlib_header(stream));
    let checksum = stream.last_chunk::<ADLER>().filter(|_| whole);
    let data_end = at.end - checksum.map_or(0, |c| c.len());
    explanation.field(
        header.end..data_end,
        "deflate",
        "the list, deflated (RFC 1951)",
    );
    if let Some(checksum) = checksum {
        explanation.field(
            data_end..at.end,
            "adler32",
            format!("{:#010x}, matches the list", u32::from_be_bytes(*checksum)),
        );
    }
}

fn zlib_header(stream: &[u8]) -> String {
    let [cmf, flg] = *stream.first_chunk::<ZLIB_HEADER>().unwrap_or(&[0, 0]);
    format!(
        "zlib stream (RFC 1950), window {} bytes, written with effort {} of 3",
        1_u32 << (u32::from(cmf >> 4) + 8),
        flg >> 6
    )
}

fn decimal(value: &[u8], field: &Range<usize>) -> String {
    let digits = value.get(field.clone()).unwrap_or_default();
    let digits = digits.iter().filter(|b| b.is_ascii_digit());
    digits.map(|b| char::from(*b)).collect()
}
