// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a back end, the recognition of streams, and errors for bytes that are not a compressed list.

use std::fmt;

use preg_core::{Error, Status};

/// A compression library.
pub(crate) trait Backend: Sync {
    /// Returns the format of the back end's streams.
    fn format(&self) -> Format;

    /// Returns the maximum number of bytes that one byte of a stream can expand to.
    fn max_expansion(&self) -> u64;

    /// Compresses `text` and appends the stream to `out`. Returns `false` on failure.
    fn compress(&self, text: &[u8], level: Option<u32>, out: &mut Vec<u8>) -> bool;

    /// Inflates a stream. The text may have at most `most` bytes, and no bytes may follow the
    /// stream.
    ///
    /// Memory grows with the decoded bytes. Offsets of errors are relative to the stream.
    fn inflate(&self, stream: &[u8], most: usize) -> Result<Vec<u8>, Error>;

    /// Inflates like [`Self::inflate`], for text that is parsed in parts. It calls `take` whenever
    /// the buffer is full; `take` removes the bytes that it has parsed. Returns the length of the
    /// text. The last part remains in the buffer.
    fn inflate_parts(
        &self,
        stream: &[u8],
        most: usize,
        _take: &mut dyn FnMut(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(usize, Vec<u8>), Error> {
        let text = self.inflate(stream, most)?;
        Ok((text.len(), text))
    }
}

/// A format of compressed streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The format of RFC 1950, which peers can parse.
    Zlib,
    /// The format of RFC 8878, which newer peers may write with the same label.
    Zstd,
}

impl Format {
    /// Returns the format of a stream by its first bytes.
    pub(crate) fn of(stream: &[u8]) -> Option<Self> {
        match *stream {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [cmf, flg, ..] if Self::is_zlib_header(cmf, flg) => Some(Self::Zlib),
            _ => None,
        }
    }

    /// Returns `true` for a header of RFC 1950, section 2.2: method deflate, a window of at most 32
    /// KiB, no preset dictionary, and correct check bits.
    fn is_zlib_header(cmf: u8, flg: u8) -> bool {
        let check = u16::from_be_bytes([cmf, flg]) % 31;
        cmf & 0x0f == 8 && cmf >> 4 <= 7 && flg & 0x20 == 0 && check == 0
    }

    /// Returns the name of the back end.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns an error about the payload, with `PMIX_ERR_NOT_SUPPORTED` as in OpenPMIx.
pub(crate) fn damage(offset: usize, message: impl Into<String>) -> Error {
    Error::new(Status::ERR_NOT_SUPPORTED, message).at(offset)
}
