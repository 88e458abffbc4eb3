// SPDX-License-Identifier: MIT OR Apache-2.0
//! A window of the input with a caret under one byte.

use std::fmt::Write as _;

use crate::style::Style;

/// Bytes shown before the place and after it.
const BEFORE: usize = 40;
const AFTER: usize = 30;

/// One place in an input, with what stands around it.
#[derive(Debug)]
pub(crate) struct Excerpt {
    origin: String,
    offset: usize,
    line: usize,
    lines: bool,
    before: String,
    after: String,
}

impl Excerpt {
    /// Copies what stands around `offset`, at most one line.
    pub(crate) fn new(origin: &str, bytes: &[u8], offset: usize) -> Self {
        let at = offset.min(bytes.len());
        let (head, tail) = bytes.split_at(at);
        let start = memchr::memrchr(b'\n', head).map_or(0, |n| n + 1);
        let end = memchr::memchr(b'\n', tail).map_or(bytes.len(), |n| at + n);
        let from = start.max(at.saturating_sub(BEFORE));
        let to = end.min(at + AFTER);
        let mut before = printable(&bytes[from..at]);
        let mut after = printable(&bytes[at..to]);
        if from > start {
            before.insert(0, '…');
        }
        if to < end {
            after.push('…');
        }
        Self {
            origin: origin.to_owned(),
            offset,
            line: memchr::memchr_iter(b'\n', head).count() + 1,
            lines: memchr::memchr(b'\n', bytes).is_some_and(|n| n + 1 < bytes.len()),
            before,
            after,
        }
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Appends where it is, the text, and the caret.
    pub(crate) fn render(&self, style: Style, out: &mut String) {
        let line = if self.lines {
            format!(" line {},", self.line)
        } else {
            String::new()
        };
        let caret = " ".repeat(self.before.chars().count());
        let place = format!("in {},{line} byte {}", self.origin, self.offset);
        let _ = writeln!(out, "  {}", style.dim(&place));
        let _ = writeln!(out, "    {}{}", self.before, self.after);
        let _ = writeln!(out, "    {caret}{}", style.green("^"));
    }
}

/// Bytes as text on one line: what is not printable is escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\0' => text.push_str("\\0"),
                c if c.is_control() => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8], offset: usize) -> (String, usize) {
        let excerpt = Excerpt::new("argument 1", bytes, offset);
        let mut text = String::new();
        excerpt.render(Style::plain(), &mut text);
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        (lines[1].clone(), lines[2].chars().count() - 1)
    }

    #[test]
    fn the_caret_stands_under_the_byte_in_long_escaped_text() {
        let (text, caret) = shown(b"n[1-x]", 4);
        assert_eq!(text.chars().nth(caret), Some('x'));
        let mut long = vec![b'a'; 200];
        long[3] = 0xff;
        long[150] = b'!';
        let (text, caret) = shown(&long, 150);
        assert_eq!(text.chars().nth(caret), Some('!'));
        let (text, caret) = shown(b"\0\xff\tq", 3);
        assert_eq!(text.chars().nth(caret), Some('q'));
    }

    #[test]
    fn an_offset_past_the_end_is_the_end() {
        assert_eq!(shown(b"ab", 99).1, 6);
    }
}
