// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines, each behind a tag.

/// A line that is longer goes out in pieces.
const LONGEST: usize = 64 << 10;

/// Puts a tag in front of each line of a stream that comes in pieces.
#[derive(Debug)]
pub(super) struct Lines {
    tag: Vec<u8>,
    /// What came of a line that has no end yet.
    rest: Vec<u8>,
}

impl Lines {
    pub(super) fn new(tag: impl Into<Vec<u8>>) -> Self {
        Self {
            tag: tag.into(),
            rest: Vec::new(),
        }
    }

    /// Appends to `out` the lines that are whole by now. Bytes are not looked at but for newlines.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let whole = piece.ends_with(b"\n");
            if whole {
                out.extend_from_slice(&self.tag);
                out.append(&mut self.rest);
                out.extend_from_slice(piece);
            } else {
                self.rest.extend_from_slice(piece);
                if self.rest.len() >= LONGEST {
                    self.finish(out);
                }
            }
        }
    }

    /// Appends what is left of a line that was never ended, and ends it.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.rest.is_empty() {
            out.extend_from_slice(&self.tag);
            out.append(&mut self.rest);
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(pieces: &[&[u8]]) -> Vec<u8> {
        let mut lines = Lines::new("T:");
        let mut out = Vec::new();
        for piece in pieces {
            lines.push(piece, &mut out);
        }
        lines.finish(&mut out);
        out
    }

    #[test]
    fn each_line_has_one_tag_however_it_came() {
        assert_eq!(tagged(&[b"a\nb\n"]), b"T:a\nT:b\n");
        assert_eq!(tagged(&[b"a", b"\n", b"", b"b\n\n"]), b"T:a\nT:b\nT:\n");
        assert_eq!(tagged(&[]), b"");
    }

    #[test]
    fn a_line_without_end_is_ended_so_that_the_next_tag_starts_a_line() {
        assert_eq!(tagged(&[b"a\nb"]), b"T:a\nT:b\n");
    }

    #[test]
    fn bytes_are_kept_whatever_they_are() {
        assert_eq!(tagged(&[b"\xff\0\r\n"]), b"T:\xff\0\r\n");
    }

    #[test]
    fn memory_does_not_grow_with_a_line_that_never_ends() {
        let mut lines = Lines::new("T:");
        let mut out = Vec::new();
        for _ in 0..100 {
            lines.push(&[b'x'; 4096], &mut out);
            assert!(lines.rest.len() < LONGEST);
        }
        lines.finish(&mut out);
        let text = out.iter().filter(|&&byte| byte == b'x').count();
        assert_eq!(text, 409_600);
    }
}
