// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a back end is, and how streams are told apart.

use std::fmt;

use preg_core::Error;

/// One compression library.
pub(crate) trait Backend: Sync {
    /// What its streams are.
    fn format(&self) -> Format;

    /// More bytes than this cannot come out of one byte of a stream.
    fn max_expansion(&self) -> u64;

    /// Appends `text`, compressed, to `out`; `false` when it cannot.
    fn compress(&self, text: &[u8], level: Option<u32>, out: &mut Vec<u8>) -> bool;

    /// The text of a stream, which must end with the bytes given and hold at most `most` bytes.
    ///
    /// Memory grows with what is decoded. Offsets of errors count from the stream's first byte.
    fn inflate(&self, stream: &[u8], most: usize) -> Result<Vec<u8>, Error>;

    /// As [`Self::inflate`], for text that is read as it comes: `take` is called whenever the
    /// buffer is full and takes away what it has read. Returns how long the text was, and what
    /// of it is in the buffer at the end.
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
    /// RFC 1950: what peers read.
    Zlib,
    /// RFC 8878: what newer peers may write under the same label.
    Zstd,
}

impl Format {
    /// The format of a stream, by its first bytes.
    pub(crate) fn of(stream: &[u8]) -> Option<Self> {
        match *stream {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [cmf, flg, ..] if Self::is_zlib_header(cmf, flg) => Some(Self::Zlib),
            _ => None,
        }
    }

    /// RFC 1950, section 2.2: method deflate, a window of at most 32 KiB, no preset dictionary,
    /// and the check bits.
    fn is_zlib_header(cmf: u8, flg: u8) -> bool {
        let check = u16::from_be_bytes([cmf, flg]) % 31;
        cmf & 0x0f == 8 && cmf >> 4 <= 7 && flg & 0x20 == 0 && check == 0
    }

    /// The back end's name.
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
