// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output: buffered, flushed once, and the JSON forms shared by commands.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use crate::failure::Failure;

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

    /// One JSON value on one line.
    pub(crate) fn json(&mut self, value: &serde_json::Value) -> Result<(), Failure> {
        writeln!(self.inner, "{value}")?;
        Ok(())
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

/// Writes bytes as a JSON string; what is not UTF-8 becomes the replacement character.
///
/// Returns whether the string holds the bytes exactly.
pub(crate) fn json_string(bytes: &[u8], out: &mut impl Write) -> io::Result<bool> {
    let text = String::from_utf8_lossy(bytes);
    // The common case needs no escapes: host names and ranks.
    if text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
        out.write_all(b"\"")?;
        out.write_all(text.as_bytes())?;
        out.write_all(b"\"")?;
    } else {
        serde_json::to_writer(&mut *out, &*text)?;
    }
    Ok(text.len() == bytes.len() && text.as_bytes() == bytes)
}
