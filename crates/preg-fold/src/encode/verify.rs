// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verification of a new value.
//!
//! A wrong map would send ranks to wrong hosts, so every value must decode to its list byte by
//! byte. This takes about as long as the encoding. On a mismatch the encoder falls back to the
//! verbatim list; builds with debug assertions, such as the fuzz targets, panic instead.

use preg_core::{Error, Status};

use crate::expand::{Run, Sink, each_record, expand};
use crate::value::Template;

/// Returns `true` if the items of a value, from `at` on, decode to this text.
pub(crate) fn says(value: &[u8], at: usize, text: &[u8]) -> bool {
    let mut rest = Rest { text };
    expand(value, at, &mut rest).is_ok() && rest.text.is_empty()
}

/// A sink that compares decoded text with the text of the list: the part that is not yet compared.
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
            .ok_or_else(|| Error::new(Status::ERROR, "the value decodes to a different list"))?;
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
    fn accepts_only_the_exact_text() {
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
