// SPDX-License-Identifier: MIT OR Apache-2.0
//! An excerpt of the input with a caret under one byte.

use std::fmt::Write as _;

use crate::style::{Style, columns, printable};

/// The number of columns printed before and after the position.
const BEFORE: usize = 40;
const AFTER: usize = 30;

/// A position in an input, with the surrounding text.
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
    /// Creates the excerpt around `offset`, at most one line.
    pub(crate) fn new(origin: &str, bytes: &[u8], offset: usize) -> Self {
        let at = offset.min(bytes.len());
        let (head, tail) = bytes.split_at(at);
        let start = memchr::memrchr(b'\n', head).map_or(0, |n| n + 1);
        let end = memchr::memchr(b'\n', tail).map_or(bytes.len(), |n| at + n);
        let (from, mut before) = before(&bytes[start..at]);
        let from = start + from;
        let (len, mut after) = after(&bytes[at..end]);
        let to = at + len;
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

    /// Appends the position, the text, and the caret.
    pub(crate) fn render(&self, style: Style, out: &mut String) {
        let line = if self.lines {
            format!(" line {},", self.line)
        } else {
            String::new()
        };
        let caret = " ".repeat(columns(&self.before));
        let origin = printable(self.origin.as_bytes());
        let place = format!("in {origin},{line} byte {}", self.offset);
        let _ = writeln!(out, "  {}", style.dim(&place));
        let _ = writeln!(out, "    {}{}", self.before, self.after);
        let _ = writeln!(out, "    {caret}{}", style.green("^"));
    }
}

/// Returns the end of a text that fits, and where it begins.
fn before(text: &[u8]) -> (usize, String) {
    let mut from = text.len().saturating_sub(BEFORE);
    loop {
        from += text[from..]
            .iter()
            .take_while(|b| from > 0 && is_inside(**b))
            .count();
        let shown = printable(&text[from..]);
        if columns(&shown) <= BEFORE {
            return (from, shown);
        }
        from += 1;
    }
}

/// Returns the first characters of a text that fit, and the offset at which they end.
fn after(text: &[u8]) -> (usize, String) {
    let mut to = text.len().min(AFTER);
    loop {
        while text.get(to).is_some_and(|b| to > 0 && is_inside(*b)) {
            to -= 1;
        }
        let shown = printable(&text[..to]);
        if columns(&shown) <= AFTER {
            return (to, shown);
        }
        to -= 1;
    }
}

/// Returns `true` if a byte continues a UTF-8 character.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
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
    fn the_caret_is_under_the_byte_in_long_escaped_text() {
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
    fn every_line_fits_the_terminal() {
        for text in ["\x1b", "日", "é", "a", "\u{80}"] {
            let long = text.repeat(300);
            let at = 150 * text.len();
            let (line, _) = shown(long.as_bytes(), at);
            assert!(columns(&line) <= 4 + BEFORE + AFTER + 2, "{line}");
            assert!(!line.contains("\\x"), "{line}");
        }
        for bytes in [&[0xff; 300][..], &[0x80; 300]] {
            assert!(columns(&shown(bytes, 150).0) <= 4 + BEFORE + AFTER + 2);
        }
    }

    #[test]
    fn the_caret_counts_the_columns_of_wide_characters() {
        let mut text = String::new();
        Excerpt::new("", "日本[1".as_bytes(), 6).render(Style::plain(), &mut text);
        assert!(text.ends_with("日本[1\n        ^\n"), "{text}");
    }

    #[test]
    fn an_offset_past_the_end_is_the_end() {
        assert_eq!(shown(b"ab", 99).1, 6);
    }
}
