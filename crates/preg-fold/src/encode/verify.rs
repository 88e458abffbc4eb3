// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a value back beside the list it was made from.
//!
//! A wrong map sends ranks to wrong hosts, so no value leaves that does not say its list byte for
//! byte; it costs about as much as making the value. Builds with debug assertions, the fuzz
//! targets among them, stop instead of falling back.

use preg_core::{Error, Status};

use crate::expand::{Run, Sink, each_record, expand};
use crate::value::Template;

/// Whether the items of a value, from `at` on, are exactly this text.
pub(crate) fn says(value: &[u8], at: usize, text: &[u8]) -> bool {
    let mut rest = Rest { text };
    expand(value, at, &mut rest).is_ok() && rest.text.is_empty()
}

/// The text that is still to come.
struct Rest<'t> {
    text: &'t [u8],
}

impl Rest<'_> {
    fn take(&mut self, before: Option<u8>, part: &[u8]) -> Result<(), Error> {
        let rest = match before {
            Some(separator) => self.text.strip_prefix(&[separator]),
            None => Some(self.text),
        };
        self.text = rest
            .and_then(|rest| rest.strip_prefix(part))
            .ok_or_else(|| Error::new(Status::ERROR, "the value says something else"))?;
        Ok(())
    }
}

impl Sink for Rest<'_> {
    fn expect(&mut self, _: u64, _: &Template) -> Result<(), Error> {
        Ok(())
    }

    fn plain(&mut self, before: Option<u8>, text: &[u8]) -> Result<(), Error> {
        self.take(before, text)
    }

    fn run(&mut self, run: &Run<'_>) -> Result<(), Error> {
        each_record(run, |before, record| self.take(before, record))
    }
}

#[cfg(test)]
mod tests {
    use super::says;

    #[test]
    fn only_the_very_text_is_said() {
        assert!(says(b"n1*3,x", 0, b"n1,n2,n3,x"));
        for other in [
            &b"n1,n2,n3,y"[..],
            b"n1,n2,n3",
            b"n1,n2,n3,x,",
            b"n1,n2;n3,x",
            b"",
        ] {
            assert!(!says(b"n1*3,x", 0, other));
        }
        assert!(!says(b"n1*", 0, b"n1"));
    }
}
