// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text that may be shown on a terminal: foreign bytes must not move its cursor or hide a name.

use std::fmt::Write as _;

/// Bytes as text on one line: what is not printable is escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\0' => text.push_str("\\0"),
                c if is_hidden(c) => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            // Writing into a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Makes text of several lines printable.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| printable(line.as_bytes()));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns `true` if a terminal shows these bytes unchanged.
pub(crate) fn is_printable(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(is_hidden))
}

/// Returns `true` for control characters, and for characters that change the direction of the text.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns the columns that printable text takes on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Returns the columns of a character: 2 for wide scripts and pictures, 0 for combining marks.
fn width(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable(b"a\x1b[2J\x07"), "a\\u{1b}[2J\\u{7}");
        assert_eq!(
            printable("\u{9b}2J \u{202e}x".as_bytes()),
            "\\u{9b}2J \\u{202e}x"
        );
        assert_eq!(printable(b"\x9b\0"), "\\x9b\\0");
        assert_eq!(printable("nœud日本".as_bytes()), "nœud日本");
        assert_eq!(printable_lines("a\nb\r"), "a\nb\\r");
        assert!(
            is_printable("nœud".as_bytes()) && !is_printable(b"a\tb") && !is_printable(b"\xff")
        );
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(columns("n1"), 2);
        assert_eq!(columns("日本n"), 5);
        assert_eq!(columns("e\u{301}"), 1);
    }
}
