// SPDX-License-Identifier: MIT OR Apache-2.0
//! The zstd back end: newer OpenPMIx releases write such streams with the zlib label.

use std::io::Read;

use pmix_types::memory;
use preg_core::Error;

use super::backend::damage;
use super::{Backend, Format};

/// The back end for RFC 8878 streams.
pub(crate) struct Zstd;

/// The default level of zstd. A higher level makes lists hardly shorter.
const LEVEL: i32 = 3;
/// The largest window that a frame may request (decoders of the format must support 2^27 bytes).
const MAX_WINDOW_LOG: u32 = 27;
/// The bytes by which memory grows while decoding.
const STEP: usize = 256 << 10;

impl Backend for Zstd {
    fn format(&self) -> Format {
        Format::Zstd
    }

    fn max_expansion(&self) -> u64 {
        // A block of one repeated byte expands from 4 bytes to 128 KiB.
        32 << 10
    }

    fn compress(&self, text: &[u8], _: Option<u32>, out: &mut Vec<u8>) -> bool {
        let Ok(mut writer) = zstd::Encoder::new(out, LEVEL) else {
            return false;
        };
        // Without the checksum, a damaged list would not be detected.
        writer.include_checksum(true).is_ok()
            && std::io::Write::write_all(&mut writer, text).is_ok()
            && writer.finish().is_ok()
    }

    fn inflate(&self, stream: &[u8], most: usize) -> Result<Vec<u8>, Error> {
        let mut rest = stream;
        let mut text = Vec::new();
        let result = read_frame(&mut rest, most, &mut text);
        let used = stream.len() - rest.len();
        result.map_err(|e| match e.downcast::<memory::OutOfMemory>() {
            Ok(shortage) => shortage.into(),
            Err(e) => damage(used, format!("the zstd stream is damaged: {e}")),
        })?;
        if text.len() > most {
            let message = format!("the stream holds more than the {most} bytes declared");
            return Err(damage(used, message));
        }
        match rest.len() {
            0 => Ok(text),
            more => Err(damage(used, format!("{more} bytes follow the zstd frame"))),
        }
    }
}

/// Decodes one frame, up to `most + 1` bytes of text.
fn read_frame(stream: &mut &[u8], most: usize, text: &mut Vec<u8>) -> std::io::Result<()> {
    let mut reader = zstd::Decoder::with_buffer(stream)?.single_frame();
    reader.window_log_max(MAX_WINDOW_LOG)?;
    while text.len() <= most {
        let room = (most - text.len()).saturating_add(1).min(STEP);
        // `read_to_end` reads into 32 more bytes to detect the end of the text.
        memory::reserve(text, room + 32).map_err(std::io::Error::other)?;
        let limit = u64::try_from(room).unwrap_or(u64::MAX);
        if reader.by_ref().take(limit).read_to_end(text)? == 0 {
            break;
        }
    }
    Ok(())
}
