// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frame of the string form: tag, label, size, payload (frozen: append only).

use std::ops::Range;

use preg_core::{Error, Status};

/// The prefix of a value, as text.
pub(crate) const TAG: &[u8] = b"blob:";
/// The tag and a NUL, which distinguishes a value from a host named `blob:`.
const TAG_END: &[u8] = b"blob:\0";
const LABEL_KEY: &[u8] = b"component=";
/// The only label. OpenPMIx writes it for every compressor, so it does not tell the compressor.
const LABEL: &[u8] = b"zlib";
const SIZE_KEY: &[u8] = b"size=";
const WORD_END: &[u8] = b":\0";
/// The maximum number of digits of a size: those of the largest 64-bit number.
const MAX_SIZE_DIGITS: usize = 20;

/// The frame of a value. The payload may extend beyond the available bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The number of bytes before the payload.
    pub(crate) header_len: usize,
    /// The length of the payload in bytes, as the frame states it.
    pub(crate) size: usize,
}

/// Returns `true` if the bytes begin with the tag and its NUL. A host name `blob:` has no NUL after
/// it.
pub(crate) fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(TAG_END)
}

/// Frames a payload.
pub(crate) fn write(payload: &[u8]) -> Vec<u8> {
    let size = payload.len().to_string();
    [
        TAG_END,
        LABEL_KEY,
        LABEL,
        WORD_END,
        SIZE_KEY,
        size.as_bytes(),
        WORD_END,
        payload,
    ]
    .concat()
}

impl Frame {
    /// Parses the header of bytes for which [`is_ours`] returns `true`.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        Self::read_fields(bytes, |_, _| {})
    }

    /// Parses like [`Frame::read`], and reports each recognized field by name and range.
    pub(crate) fn read_fields(
        bytes: &[u8],
        mut seen: impl FnMut(&'static str, Range<usize>),
    ) -> Result<Self, Error> {
        expect(bytes, 0, TAG_END)?;
        seen("tag", 0..TAG_END.len());

        let label = word(bytes, TAG_END.len(), LABEL_KEY)?;
        let label_end = label.end + WORD_END.len();
        seen("label", TAG_END.len()..label_end);
        check_label(bytes.get(label.clone()).unwrap_or_default(), label.start)?;

        let digits = word(bytes, label_end, SIZE_KEY)?;
        let header_len = digits.end + WORD_END.len();
        let size = size(
            bytes.get(digits.clone()).unwrap_or_default(),
            digits.start,
            header_len,
        )?;
        seen("size", label_end..header_len);
        Ok(Self { header_len, size })
    }

    /// Returns the length of the whole value; [`Frame::read`] has checked that the sum does not
    /// overflow.
    pub(crate) fn len(self) -> usize {
        self.header_len.saturating_add(self.size)
    }

    /// Returns the payload, which must be the rest of the value.
    ///
    /// DEVIATION: OpenPMIx up to 6.1 parses a value without checking its size field, and ignores
    /// bytes after the stream; here the size must be exact, so that a copy has the same bytes as
    /// the original; `a_wrong_size_is_refused`.
    pub(crate) fn payload_of(self, value: &[u8]) -> Result<&[u8], Error> {
        let payload = value.get(self.header_len..).unwrap_or_default();
        match payload.len().checked_sub(self.size) {
            Some(0) => Ok(payload),
            Some(more) => Err(Error::damaged(
                self.len(),
                format!(
                    "{more} bytes follow the {} that the size field announces",
                    self.size
                ),
            )),
            None => Err(Error::damaged(
                value.len(),
                format!(
                    "the size field announces {} bytes, {} follow it",
                    self.size,
                    payload.len()
                ),
            )),
        }
    }
}

/// DEVIATION: OpenPMIx turns a value with another label into the host name `blob:`; here it is
/// rejected; `another_label_is_refused_by_name`.
fn check_label(label: &[u8], at: usize) -> Result<(), Error> {
    if label == LABEL {
        return Ok(());
    }
    let shown = label.get(..label.len().min(32)).unwrap_or_default();
    Err(Error::new(
        Status::ERR_NOT_SUPPORTED,
        format!(
            "the label names compressor {:?}; only values labelled \"zlib\" are known",
            String::from_utf8_lossy(shown)
        ),
    )
    .at(at))
}

/// Returns the range of the text after `key`, which must be at `at`, up to the next `:` NUL.
fn word(bytes: &[u8], at: usize, key: &[u8]) -> Result<Range<usize>, Error> {
    expect(bytes, at, key)?;
    let start = at + key.len();
    let rest = bytes.get(start..).unwrap_or_default();
    let len = rest
        .iter()
        .position(|b| *b == 0 || *b == b':')
        .unwrap_or(rest.len());
    expect(bytes, start + len, WORD_END)?;
    Ok(start..start + len)
}

/// Checks that `fixed` is at `at`. The error has the offset of the first difference.
fn expect(bytes: &[u8], at: usize, fixed: &[u8]) -> Result<(), Error> {
    let there = bytes.get(at..).unwrap_or_default();
    if there.starts_with(fixed) {
        return Ok(());
    }
    let same = there.iter().zip(fixed).take_while(|(a, b)| a == b).count();
    let found = match there.get(same) {
        Some(byte) => format!("found \"{}\"", byte.escape_ascii()),
        None => "the value ends".to_owned(),
    };
    let message = format!("expected \"{}\" here, {found}", fixed.escape_ascii());
    Err(Error::damaged(at + same, message))
}

fn size(digits: &[u8], at: usize, header_len: usize) -> Result<usize, Error> {
    let first_bad = digits.iter().position(|b| !b.is_ascii_digit());
    if let Some(bad) = first_bad.or_else(|| digits.is_empty().then_some(0)) {
        return Err(Error::damaged(
            at + bad,
            "expected the payload's bytes in decimal after \"size=\"",
        ));
    }
    std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.len() <= MAX_SIZE_DIGITS)
        .and_then(|text| text.parse::<usize>().ok())
        .filter(|size| size.checked_add(header_len).is_some())
        .ok_or_else(|| Error::damaged(at, "the size field is larger than any memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(bytes: &[u8]) -> (i32, Option<usize>) {
        let error = Frame::read(bytes).unwrap_err();
        (error.status().as_raw(), error.offset())
    }

    #[test]
    fn a_frame_reads_back() {
        let value = write(b"abcdef");
        assert_eq!(value, b"blob:\0component=zlib:\0size=6:\0abcdef");
        let frame = Frame::read(&value).unwrap();
        assert_eq!((frame.header_len, frame.size), (30, 6));
        assert_eq!(frame.payload_of(&value).unwrap(), b"abcdef");
    }

    #[test]
    fn a_host_name_equal_to_the_tag_is_text() {
        assert!(!is_ours(b"blob"));
        assert!(!is_ours(b"blob:"));
        assert!(!is_ours(b"blobby,n2"));
        assert!(!is_ours(b"blob:,n2"));
        assert!(is_ours(b"blob:\0"));
    }

    #[test]
    fn errors_of_the_header_have_an_offset() {
        assert_eq!(fault(b"blob:\0"), (-27, Some(6)));
        assert_eq!(fault(b"blob:\0compound=zlib:\0"), (-27, Some(11)));
        assert_eq!(fault(b"blob:\0component=zlib"), (-27, Some(20)));
        assert_eq!(fault(b"blob:\0component=zlib:size=1:\0a"), (-27, Some(21)));
        assert_eq!(
            fault(b"blob:\0component=zlib:\x001062:\0a"),
            (-27, Some(22))
        );
        assert_eq!(fault(b"blob:\0component=zlib:\0size=:\0"), (-27, Some(27)));
        assert_eq!(
            fault(b"blob:\0component=zlib:\0size=-5:\0"),
            (-27, Some(27))
        );
        assert_eq!(
            fault(b"blob:\0component=zlib:\0size=1x:\0"),
            (-27, Some(28))
        );
        assert_eq!(fault(b"blob:\0component=zlib:\0size=12"), (-27, Some(29)));
    }

    #[test]
    fn another_label_is_refused_by_name() {
        let error = Frame::read(b"blob:\0component=lz4:\0size=1:\0a").unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
        assert_eq!(error.offset(), Some(16));
        assert!(error.message().contains("lz4"));
    }

    #[test]
    fn a_wrong_size_is_refused() {
        let refused = |size: &str, at| {
            let value = [
                b"blob:\0component=zlib:\0size=",
                size.as_bytes(),
                b":\0abcdef",
            ]
            .concat();
            let error = Frame::read(&value)
                .and_then(|f| f.payload_of(&value).map(<[u8]>::len))
                .unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM);
            assert_eq!(error.offset(), Some(at), "{error}");
        };
        refused("0", 30);
        refused("5", 35);
        refused("7", 36);
        refused("9223372036854775808", 54);
        refused("18446744073709551615", 27);
        refused("18446744073709551616", 27);
        refused("000000000000000000006", 27);
    }
}
