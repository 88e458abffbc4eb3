// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handshake of a connection: the client's [`Hello`], the server's [`Welcome`].
//!
//! A server rejects a client by closing the connection without a reply, because clients of 4.2 do
//! not check the status of a rejection.

mod hello;
mod peer;
mod welcome;

use bfrops::TracedField;
use pmix_types::Text;

use crate::Error;

pub use hello::Hello;
pub use peer::{PeerForm, RELEASE, Role};
pub use welcome::{Welcome, WelcomeForm};

// The fields of the handshake. They are not packed by bfrops: text ends with a NUL, and numbers
// have four bytes.

/// A reader of handshake fields.
struct Fields<'a> {
    rest: &'a [u8],
    total: usize,
    /// The fields read so far, if they are recorded.
    notes: Option<Vec<TracedField>>,
}

impl<'a> Fields<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            total: bytes.len(),
            notes: None,
        }
    }

    /// Records every field from now on.
    fn with_trace(mut self) -> Self {
        self.notes = Some(Vec::new());
        self
    }

    fn into_notes(self) -> Vec<TracedField> {
        self.notes.unwrap_or_default()
    }

    const fn offset(&self) -> usize {
        self.total - self.rest.len()
    }

    const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn bytes(&mut self, len: u32, what: &str) -> Result<&'a [u8], Error> {
        let wanted = usize::try_from(len).unwrap_or(usize::MAX);
        let taken = self.take(wanted, what)?;
        if len > 0 {
            self.note(wanted, what, || format!("{len} bytes"));
        }
        Ok(taken)
    }

    fn text(&mut self, what: &str) -> Result<Text<'a>, Error> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| self.short(what))?;
        let text = self.take(end, what)?;
        self.take(1, what)?;
        let text = Text::without_nul(text);
        self.note(end + 1, what, || format!("{text:?}"));
        Ok(text)
    }

    /// Reads one byte, and records its meaning.
    fn byte(&mut self, what: &str, meaning: fn(u8) -> String) -> Result<u8, Error> {
        let [byte] = self.array(what)?;
        self.note(1, what, || format!("{byte}, {}", meaning(byte)));
        Ok(byte)
    }

    fn u32(&mut self, what: &str) -> Result<u32, Error> {
        let number = self.array(what).map(u32::from_be_bytes)?;
        self.note(4, what, || number.to_string());
        Ok(number)
    }

    fn i32(&mut self, what: &str) -> Result<i32, Error> {
        self.array(what).map(i32::from_be_bytes)
    }

    /// Reads a name in a field of fixed size, padded with NUL.
    fn padded<const N: usize>(&mut self, what: &str) -> Result<Text<'a>, Error> {
        self.take(N, what).map(Text::new)
    }

    fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8], Error> {
        let parts = self.rest.split_at_checked(len);
        let (taken, rest) = parts.ok_or_else(|| self.short(what))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Error> {
        let parts = self.rest.split_first_chunk::<N>();
        let (taken, rest) = parts.ok_or_else(|| self.short(what))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn note(&mut self, len: usize, what: &str, meaning: impl FnOnce() -> String) {
        let end = self.offset();
        if let Some(notes) = &mut self.notes {
            notes.push(TracedField {
                range: end.saturating_sub(len)..end,
                path: what.to_owned(),
                meaning: meaning(),
            });
        }
    }

    #[cold]
    fn short(&self, what: &str) -> Error {
        let message = format!("the message ends before its {what} does");
        Error::past_end(self.offset(), message)
    }
}
