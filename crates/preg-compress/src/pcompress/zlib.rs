// SPDX-License-Identifier: MIT OR Apache-2.0
//! The zlib back end. It decodes with flate2 over zlib-rs. It encodes with this crate's encoder for
//! lists, or with flate2 if a level is set.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use pmix_types::memory;
use preg_core::Error;

use super::backend::damage;
use super::{Backend, Format};
use crate::deflate;

/// The back end for RFC 1950 streams.
pub(crate) struct Zlib;

/// The initial capacity in bytes, and the multiple of its length that a stream may reserve at once.
/// Lists rarely compress better, and a false length reserves only this multiple.
const FIRST_RESERVE: usize = 64 << 10;
const FIRST_EXPANSION: usize = 16;

/// The maximum memory of an inflater in bytes: twice its window, plus its tables.
const INFLATER_BYTES: usize = 128 << 10;

/// The bytes of text in the buffer for parsing in parts: few enough for the caches.
const PART: usize = 256 << 10;

impl Backend for Zlib {
    fn format(&self) -> Format {
        Format::Zlib
    }

    fn max_expansion(&self) -> u64 {
        // A match of 258 bytes takes at least two bits: 258 * 8 / 2.
        1032
    }

    fn compress(&self, text: &[u8], level: Option<u32>, out: &mut Vec<u8>) -> bool {
        match level {
            Some(level) => at_level(text, level, out),
            None => {
                deflate::zlib_stream(text, out);
                true
            }
        }
    }

    fn inflate(&self, stream: &[u8], most: usize) -> Result<Vec<u8>, Error> {
        // One byte more than allowed, to detect a text that is too long.
        let most_reserved = most.saturating_add(1);
        let expected = stream.len().saturating_mul(FIRST_EXPANSION);
        let mut text = Vec::new();
        memory::reserve_exact(&mut text, expected.max(FIRST_RESERVE).min(most_reserved))?;
        inflate(stream, most, &mut text, &mut |text| {
            let room = most_reserved.saturating_sub(text.len());
            let more = text.len().max(FIRST_RESERVE).min(room);
            Ok(memory::reserve_exact(text, more)?)
        })?;
        Ok(text)
    }

    fn inflate_parts(
        &self,
        stream: &[u8],
        most: usize,
        take: &mut dyn FnMut(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(usize, Vec<u8>), Error> {
        let mut buffer = memory::list(PART.min(most.saturating_add(1)))?;
        let len = inflate(stream, most, &mut buffer, take)?;
        Ok((len, buffer))
    }
}

/// Inflates a whole stream. `full` is called to free or extend a full buffer. Returns the number of
/// decoded bytes.
fn inflate(
    stream: &[u8],
    most: usize,
    buffer: &mut Vec<u8>,
    full: &mut dyn FnMut(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<usize, Error> {
    memory::check(INFLATER_BYTES)?;
    let mut inflater = Decompress::new(true);
    loop {
        let used = consumed(&inflater);
        let rest = stream.get(used..).unwrap_or_default();
        let status = inflater
            .decompress_vec(rest, buffer, FlushDecompress::Finish)
            .map_err(|e| damaged(&inflater, &e.to_string()))?;
        let len = usize::try_from(inflater.total_out()).unwrap_or(usize::MAX);
        if len > most {
            let message = format!("the stream holds more than the {most} bytes declared");
            return Err(damage(consumed(&inflater), message));
        }
        if status == Status::StreamEnd {
            let used = consumed(&inflater);
            return match stream.len() - used {
                0 => Ok(len),
                more => Err(damage(used, format!("{more} bytes follow the zlib stream"))),
            };
        }
        if buffer.len() < buffer.capacity() {
            return Err(damaged(&inflater, "the stream is cut off"));
        }
        full(buffer)?;
    }
}

fn consumed(inflater: &Decompress) -> usize {
    usize::try_from(inflater.total_in()).unwrap_or(usize::MAX)
}

fn damaged(inflater: &Decompress, what: &str) -> Error {
    damage(
        consumed(inflater),
        format!("the zlib stream is damaged: {what}"),
    )
}

/// Deflates with a level of zlib's scale.
fn at_level(text: &[u8], level: u32, out: &mut Vec<u8>) -> bool {
    let mut deflater = Compress::new(Compression::new(level), true);
    loop {
        let used = usize::try_from(deflater.total_in()).unwrap_or(usize::MAX);
        out.reserve((text.len() / 8).max(1 << 10));
        let rest = text.get(used..).unwrap_or_default();
        match deflater.compress_vec(rest, out, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}
