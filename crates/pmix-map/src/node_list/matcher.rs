// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsing of names of an expected shape: the inner loop of every list parser.
//!
//! Inside a text, the bytes before and after a name can be read as well. So the parser reads whole
//! words, and compares the byte where the separator must be instead of searching it.

use super::SEPARATOR;
use super::shape::Shape;
use crate::scan::{self, word};

/// The length of a word in bytes, and the number of bytes before a name that are read with it.
const WORD: usize = 8;

/// A group of one to eight digits, and the place value of its last digit.
#[derive(Clone, Copy, Debug)]
struct Digits {
    end: usize,
    len: u32,
    unit: i64,
}

/// A word of an entry (a name and its separator), with the mask of the bytes that must be equal.
#[derive(Clone, Copy, Debug)]
struct Check {
    /// The offset of the word, relative to one word before the name.
    at: usize,
    text: u64,
    mask: u64,
}

/// A shape, prepared for comparisons with names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    /// The id of the shape in its list.
    pub(crate) id: u32,
    /// One empty word, the text of the shape and a separator.
    entry: Vec<u8>,
    /// The mask of the entry: 0xff for bytes that must be equal, 0 for digits and ignored bytes.
    mask: Vec<u8>,
    digits: Vec<Digits>,
    /// The words of an entry. The last word is first, because names of a list differ there.
    checks: Vec<Check>,
}

/// A [`Matcher`] for short names with one number, as most machines have. It stays in registers
/// during a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    stride: usize,
    checks: [Check; 2],
    digits: Digits,
}

impl Plain {
    /// Works like [`Matcher::entry`].
    #[inline]
    pub(crate) fn entry(&self, text: &[u8], at: usize) -> Option<i64> {
        let window = text.get(at.checked_sub(WORD)?..at + self.stride)?;
        let [a, b] = self.checks.map(|c| (word(window, c.at) ^ c.text) & c.mask);
        let number = scan::eight_digits(word(window, self.digits.end), self.digits.len)?;
        (a | b == 0).then_some(number)
    }
}

impl Matcher {
    /// Returns a [`Plain`] if names have at most two words and one number of at most eight digits.
    pub(crate) fn plain(&self) -> Option<Plain> {
        let checks = match *self.checks.as_slice() {
            [a] => [a, a],
            [a, b] => [a, b],
            _ => return None,
        };
        let [digits] = *self.digits.as_slice() else {
            return None;
        };
        let stride = self.stride();
        Some(Plain {
            stride,
            checks,
            digits,
        })
    }

    /// Sets the shape, and reuses the allocations.
    pub(crate) fn set(&mut self, id: u32, shape: &Shape<'_>) {
        self.id = id;
        self.entry.clear();
        self.entry.extend_from_slice(&[0; WORD]);
        self.entry.extend_from_slice(shape.text);
        self.entry.push(SEPARATOR);
        self.mask.clear();
        self.mask.resize(WORD, 0);
        self.mask.resize(self.entry.len(), 0xff);
        self.digits.clear();
        let mut unit = 1i64;
        for span in shape.spans.iter().rev() {
            self.mask[WORD + span.start()..WORD + span.end()].fill(0);
            let mut end = span.end();
            while end > span.start() {
                let len = u8::try_from(end - span.start()).map_or(8, |n| n.min(8));
                let len = u32::from(len);
                self.digits.push(Digits { end, len, unit });
                unit = unit.wrapping_mul(10i64.pow(len));
                end -= len as usize;
            }
        }
        self.prepare_checks();
    }

    fn prepare_checks(&mut self) {
        self.checks.clear();
        let mut end = self.entry.len();
        while end > WORD {
            let at = end - WORD;
            let (text, mask) = (word(&self.entry, at), word(&self.mask, at));
            if mask != 0 {
                self.checks.push(Check { at, text, mask });
            }
            end = at;
        }
    }

    /// Returns the length in bytes of names of the shape.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.stride().saturating_sub(1)
    }

    /// Returns the length in bytes of a name and its separator.
    #[inline]
    pub(crate) fn stride(&self) -> usize {
        self.entry.len().saturating_sub(WORD)
    }

    /// Returns the number of the name at an offset of a text, if it has the shape and a separator
    /// follows.
    ///
    /// Also returns `None` if the text has less than one word before the name.
    #[inline]
    pub(crate) fn entry(&self, text: &[u8], at: usize) -> Option<i64> {
        let window = text.get(at.checked_sub(WORD)?..at + self.stride())?;
        for check in &self.checks {
            if (word(window, check.at) ^ check.text) & check.mask != 0 {
                return None;
            }
        }
        let mut number = 0i64;
        for digits in &self.digits {
            // The digits are the last bytes of the word.
            let value = scan::last_digits(word(window, digits.end), digits.len)?;
            number = number.wrapping_add(value.wrapping_mul(digits.unit));
        }
        Some(number)
    }

    /// Returns the number of a name, if it has the shape.
    #[inline]
    pub(crate) fn number(&self, name: &[u8]) -> Option<i64> {
        if name.len() != self.len() || !self.same_text(name) {
            return None;
        }
        let mut number = 0i64;
        for digits in &self.digits {
            let value = scan::last_digits(word_before(name, digits.end), digits.len)?;
            number = number.wrapping_add(value.wrapping_mul(digits.unit));
        }
        Some(number)
    }

    #[inline]
    fn same_text(&self, name: &[u8]) -> bool {
        let len = name.len();
        let (entry, mask) = (&self.entry[WORD..], &self.mask[WORD..]);
        let Some(tail) = len.checked_sub(8) else {
            let pairs = name.iter().zip(entry).zip(mask);
            return pairs.fold(0, |d, ((a, b), m)| d | ((a ^ b) & m)) == 0;
        };
        let differs = |at| (word(name, at) ^ word(entry, at)) & word(mask, at) != 0;
        let mut at = 0;
        while at < tail {
            if differs(at) {
                return false;
            }
            at += 8;
        }
        !differs(tail)
    }
}

/// Returns the eight bytes that end at an offset. Bytes before the name are zero.
#[inline]
fn word_before(bytes: &[u8], end: usize) -> u64 {
    match end.checked_sub(8) {
        Some(start) => word(bytes, start),
        None => bytes[..end]
            .iter()
            .fold(0, |w, b| w >> 8 | u64::from(*b) << 56),
    }
}
