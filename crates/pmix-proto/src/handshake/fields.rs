// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of the handshake, which are older than packing: texts with a NUL, numbers of four
//! bytes.

use pmix_types::Text;

use crate::Error;

/// Takes fields off the front of bytes.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            total: bytes.len(),
        }
    }

    pub(super) const fn offset(&self) -> usize {
        self.total - self.rest.len()
    }

    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn bytes(&mut self, len: u32, what: &str) -> Result<&'a [u8], Error> {
        let wanted = usize::try_from(len).unwrap_or(usize::MAX);
        match self.rest.split_at_checked(wanted) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.short(what)),
        }
    }

    pub(super) fn text(&mut self, what: &str) -> Result<Text<'a>, Error> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let parts = end.and_then(|end| Some((self.rest.get(..end)?, self.rest.get(end + 1..)?)));
        match parts {
            Some((text, rest)) => {
                self.rest = rest;
                Ok(Text::without_nul(text))
            }
            None => Err(self.short(what)),
        }
    }

    pub(super) fn byte(&mut self, what: &str) -> Result<u8, Error> {
        match self.rest.split_first() {
            Some((byte, rest)) => {
                self.rest = rest;
                Ok(*byte)
            }
            None => Err(self.short(what)),
        }
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Error> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub(super) fn i32(&mut self, what: &str) -> Result<i32, Error> {
        self.array(what).map(i32::from_be_bytes)
    }

    /// A name in so many bytes, the unused ones NUL.
    pub(super) fn padded<const N: usize>(&mut self, what: &str) -> Result<Text<'a>, Error> {
        match self.rest.split_at_checked(N) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(Text::new(taken))
            }
            None => Err(self.short(what)),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Error> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.short(what)),
        }
    }

    #[cold]
    fn short(&self, what: &str) -> Error {
        Error::past_end(
            self.offset(),
            format!("the message ends before its {what} does"),
        )
    }
}
