// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefixing of lines with a tag.

use pmix_types::Proc;

use super::delivery::{LineForm, OutputStream};

/// The largest length of a line; a longer one is written in parts.
const LONGEST: usize = 64 << 10;

/// The largest length of several lines that are tagged at once.
const SHORT_LINES: usize = 4 << 10;

/// The assembler of the lines of a stream, which arrive in pieces. It puts a tag before each line.
///
/// At most 64 KiB of a line are kept. A longer one is written in parts; with a tag, each part becomes a line.
#[derive(Debug)]
pub struct Lines {
    tag: Vec<u8>,
    /// The beginning of an incomplete line.
    rest: Vec<u8>,
}

impl Lines {
    /// Creates it with a tag that has the process and the name of the stream, for example `stdout`.
    #[must_use]
    pub fn tagged(source: &Proc<'_>, stream: &str) -> Self {
        let Proc { nspace, rank } = source;
        Self::new(format!("[{nspace},{rank}]<{stream}>: "))
    }

    /// Creates it with any tag. With an empty tag lines are only kept complete.
    pub(super) fn new(tag: impl Into<Vec<u8>>) -> Self {
        Self {
            tag: tag.into(),
            rest: Vec::new(),
        }
    }

    /// Appends complete lines to `out`. Only newlines are interpreted.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.tag.is_empty() {
            return self.push_untagged(bytes, out);
        }
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let whole = piece.ends_with(b"\n");
            if whole {
                out.extend_from_slice(&self.tag);
                out.append(&mut self.rest);
                out.extend_from_slice(piece);
            } else {
                self.rest.extend_from_slice(piece);
                // A line without an end must not fill the memory of the host.
                if self.rest.len() >= LONGEST {
                    self.finish(out);
                }
            }
        }
    }

    /// Appends all complete lines at once.
    fn push_untagged(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.pass_untagged(bytes, |lines| out.extend_from_slice(lines));
    }

    /// Passes all complete lines to `pass` at once, without copying those that arrive now. Returns `true` if there were
    /// any.
    pub(super) fn pass_untagged(&mut self, bytes: &[u8], mut pass: impl FnMut(&[u8])) -> bool {
        let last = memchr::memrchr(b'\n', bytes);
        let (lines, rest) = bytes.split_at(last.map_or(0, |end| end + 1));
        if !lines.is_empty() {
            if !self.rest.is_empty() {
                pass(&self.rest);
                self.rest.clear();
            }
            pass(lines);
        }
        self.rest.extend_from_slice(rest);
        let is_too_long = self.rest.len() >= LONGEST;
        if is_too_long {
            pass(&self.rest);
            self.rest.clear();
        }
        is_too_long || !lines.is_empty()
    }

    /// Returns `true` if there is no tag, so lines are only kept complete.
    pub(super) fn are_untagged(&self) -> bool {
        self.tag.is_empty()
    }

    /// Returns `true` if an incomplete line is kept.
    pub(super) fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Appends the incomplete line at the end of the stream. With a tag it gets a line end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.rest.is_empty() {
            out.extend_from_slice(&self.tag);
            out.append(&mut self.rest);
            if !self.tag.is_empty() {
                out.push(b'\n');
            }
        }
    }
}

/// Returns the length of the next piece of a text: some whole lines, or one line, or the first 64 KiB of a longer one.
pub(super) fn piece_of_lines(text: &[u8]) -> usize {
    let few = text.get(..SHORT_LINES).unwrap_or(text);
    let one = text.get(..LONGEST).unwrap_or(text);
    let end = memchr::memrchr(b'\n', few).or_else(|| memchr::memchr(b'\n', one));
    end.map_or(one.len(), |end| end + 1)
}

/// Returns the line assembler for a form, or `None` if bytes are written as they arrive.
pub(super) fn lines(
    source: &Proc<'_>,
    form: LineForm,
    kind: OutputStream,
    host: &str,
) -> Option<Lines> {
    let stream = kind.name();
    let Proc { nspace, rank } = source;
    match form {
        LineForm::Plain => None,
        LineForm::Whole | LineForm::WholeWithin(_) => Some(Lines::new("")),
        LineForm::Tagged => Some(Lines::tagged(source, stream)),
        LineForm::Detailed { pid } => {
            let name = nspace.to_string();
            let number = name.rsplit('@').next().unwrap_or_default();
            let tag = format!("[{number},{rank}][{host}:{pid}]<{stream}>: ");
            Some(Lines::new(tag))
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
    fn pieces_are_whole_lines_up_to_the_greatest_length_of_a_line() {
        assert_eq!(piece_of_lines(b"a\nb\nc"), 4);
        assert_eq!(piece_of_lines(b"abc"), 3);
        let text = [&vec![b'x'; SHORT_LINES][..], b"\n\n\n"].concat();
        assert_eq!(piece_of_lines(&text), SHORT_LINES + 1);
        assert_eq!(piece_of_lines(&text[1..]), SHORT_LINES);
        assert_eq!(piece_of_lines(&vec![b'x'; 2 * LONGEST]), LONGEST);
    }

    #[test]
    fn bytes_are_kept_whatever_they_are() {
        assert_eq!(tagged(&[b"\xff\0\r\n"]), b"T:\xff\0\r\n");
    }

    #[test]
    fn untagged_lines_are_complete_and_the_last_one_is_unchanged() {
        let mut lines = Lines::new("");
        let mut out = Vec::new();
        lines.push(b"a", &mut out);
        assert_eq!(out, b"");
        lines.push(b"b\nc\nd", &mut out);
        assert_eq!(out, b"ab\nc\n");
        lines.finish(&mut out);
        assert_eq!(out, b"ab\nc\nd");
        for _ in 0..100 {
            lines.push(&[b'x'; 4096], &mut out);
            assert!(lines.rest.len() < LONGEST);
        }
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
