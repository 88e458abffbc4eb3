// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output: buffered, flushed once, and the JSON forms shared by commands.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use crate::failure::Failure;
use crate::style::{is_hidden, is_printable, printable};

/// Standard output of one command.
pub(crate) struct Out {
    inner: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

impl Out {
    pub(crate) fn new() -> Self {
        let stdout = io::stdout().lock();
        let terminal = stdout.is_terminal();
        Self {
            inner: BufWriter::with_capacity(1 << 16, stdout),
            terminal,
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a JSON value on one line.
    pub(crate) fn json(&mut self, value: &serde_json::Value) -> Result<(), Failure> {
        self.json_text(&value.to_string())?;
        self.inner.write_all(b"\n")?;
        Ok(())
    }

    /// Writes JSON text.
    pub(crate) fn json_text(&mut self, json: &str) -> io::Result<()> {
        self.inner.write_all(escaped(json).as_bytes())
    }

    /// Writes bytes of a map unchanged. On a terminal, control characters are escaped.
    pub(crate) fn foreign(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(&shown(bytes, self.terminal))
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Returns the bytes to print, with control characters escaped for a terminal.
fn shown(bytes: &[u8], terminal: bool) -> Cow<'_, [u8]> {
    if terminal && !is_printable(bytes) {
        return Cow::Owned(printable(bytes).into_bytes());
    }
    Cow::Borrowed(bytes)
}

/// Escapes the invisible characters that JSON permits unescaped in strings: DEL, C1 controls,
/// zero-width and direction marks.
fn escaped(json: &str) -> Cow<'_, str> {
    let is_odd = |c: char| is_hidden(c) && u32::from(c) <= 0xffff;
    if json.is_ascii() && !json.contains('\x7f') || !json.contains(is_odd) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_odd(c) {
            // These characters occur only in strings. Writing into a String cannot fail.
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

/// Writes bytes as a JSON string. Bytes that are not UTF-8 become the replacement character.
///
/// Returns `true` if the string represents the bytes exactly.
pub(crate) fn json_string(bytes: &[u8], out: &mut impl Write) -> io::Result<bool> {
    let text = String::from_utf8_lossy(bytes);
    // Most strings are host names and ranks, which need no escapes.
    if text
        .bytes()
        .all(|b| (b' '..0x7f).contains(&b) && b != b'"' && b != b'\\')
    {
        out.write_all(b"\"")?;
        out.write_all(text.as_bytes())?;
        out.write_all(b"\"")?;
    } else {
        let text = serde_json::to_string(&*text)?;
        out.write_all(escaped(&text).as_bytes())?;
    }
    Ok(text.len() == bytes.len() && text.as_bytes() == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters_and_a_pipe_gets_every_byte() {
        for (bytes, escaped) in [
            (&b"n\x1b[31m"[..], &b"n\\u{1b}[31m"[..]),
            (b"\xff", b"\\xff"),
            (b"a\tb", b"a\\tb"),
            (b"n1", b"n1"),
        ] {
            assert_eq!(&*shown(bytes, true), escaped);
            assert_eq!(&*shown(bytes, false), bytes);
        }
    }

    #[test]
    fn control_characters_in_json_strings_are_escaped() {
        let string = |text: &str| {
            let mut out = Vec::new();
            json_string(text.as_bytes(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            string("a\u{9b}\u{7f}\x1b\u{202e}"),
            r#""a\u009b\u007f\u001b\u202e""#
        );
        assert_eq!(string("nœud"), "\"nœud\"");
        let back: String = serde_json::from_str(&string("\u{9b}\\\"\u{2066}")).unwrap();
        assert_eq!(back, "\u{9b}\\\"\u{2066}");
    }
}
