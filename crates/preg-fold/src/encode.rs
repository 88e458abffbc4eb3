// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoder of list text, in time proportional to the text, and the comparison of a value with its list.
//!
//! The text is divided into regions of records with the same literals ([`layout`], [`period`]). For
//! each region, the encoder computes the differences between records ([`region`]), folds these into
//! products ([`shape`], [`merge`]) and writes the products ([`write`]). Finally it decodes the
//! value and compares it with the text ([`verify`]).

mod layout;
mod merge;
mod region;
mod shape;
mod write;

use preg_core::{Error, Status};

use crate::expand::{Run, Sink, each_record, expand};
use crate::format::{FOLDED, STORED};
use crate::value::Template;
use region::Region;
use shape::{Ahead, Shapes};
use write::{Writer, push_plain};

/// The length in bytes from which on a region is also encoded with longer records.
const TURNS: usize = 24;

/// Encodes a list, or returns `None` if it contains a NUL, which the string form cannot represent.
///
/// The value is at most one byte longer than the list.
pub(crate) fn encode(text: &[u8]) -> Option<Vec<u8>> {
    if memchr::memchr(0, text).is_some() {
        return None;
    }
    let folded = fold(text);
    if folded.len() <= text.len() {
        let exact = says(&folded, 1, text);
        debug_assert!(exact, "a value that is not its list");
        if exact {
            return Some(folded);
        }
    }
    let mut stored = Vec::with_capacity(text.len() + 1);
    stored.push(STORED);
    stored.extend_from_slice(text);
    Some(stored)
}

fn fold(text: &[u8]) -> Vec<u8> {
    let mut out = vec![FOLDED];
    let mut ahead = Ahead::new(text);
    let mut at = 0;
    loop {
        let (names, record) = ahead.record(at);
        at = match Region::read(text, at, record) {
            Some(region) => push_region(text, &region, &mut out),
            None => {
                let end = if names == 1 {
                    record
                } else {
                    name_end(text, at)
                };
                push_plain(&mut out, &text[at..end]);
                end
            }
        };
        let Some(separator) = text.get(at) else {
            return out;
        };
        out.push(*separator);
        at += 1;
    }
}

fn name_end(text: &[u8], at: usize) -> usize {
    memchr::memchr2(b',', b';', &text[at..]).map_or(text.len(), |n| at + n)
}

/// Appends the region that starts at `at` and returns its end in the text.
fn push_region(text: &[u8], region: &Region<'_>, out: &mut Vec<u8>) -> usize {
    let mut written = items(text, region);
    let start = region.layout.record.start;
    let mut end = region.end;
    // Names of equal shape may belong to alternating series. Then records of several names are
    // shorter.
    if region.names == 1
        && written.len() > TURNS
        && let Some(period) = region.period()
        && let Some(turns) = Region::read(text, start, names_end(text, start, period))
    {
        let better = items(text, &turns);
        // The two encodings may end at different names, so their bytes per byte of text are
        // compared.
        let (ours, theirs) = (
            better.len() * (end - start),
            written.len() * (turns.end - start),
        );
        if ours < theirs {
            (written, end) = (better, turns.end);
        }
    }
    let plain = &text[start..end];
    if written.len() <= plain.len() {
        out.extend(written);
    } else {
        push_plain(out, plain);
    }
    end
}

/// Returns the end of the `names` names from `at` on.
fn names_end(text: &[u8], at: usize, names: usize) -> usize {
    (1..names).fold(name_end(text, at), |end, _| name_end(text, end + 1))
}

/// Returns the encoded items of a region.
fn items(text: &[u8], region: &Region<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut shapes = Shapes::new(&region.symbols, region.layout.slots.len());
    let elements = merge::fold(region, &mut shapes);
    Writer::new(text, region, &shapes).write(&elements, &mut out);
    out
}

// The verification of a new value.
//
// A wrong map would send ranks to wrong hosts, so every value must decode to its list byte by byte.
// This takes about as long as the encoding. On a mismatch the encoder falls back to the verbatim
// list. Builds with debug assertions, such as the fuzz targets, panic instead.

/// Returns `true` if the items of a value, from `at` on, decode to this text.
fn says(value: &[u8], at: usize, text: &[u8]) -> bool {
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
