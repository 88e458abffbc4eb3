// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of a record: its literals and columns.

use std::ops::Range;

use crate::format::MAX_COLUMNS;
use crate::value::push_number;

/// A column: the last digits of a sequence of digits, at most 18.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// The literal before the column, relative to the start of the record.
    literal: Range<usize>,
    /// The digits of the column in the first record.
    pub(crate) digits: Range<usize>,
    /// The index in the record of the name that contains the column.
    pub(crate) name: usize,
    /// `true` if digits precede the column. Then it has 18 digits in every record.
    pub(crate) cut: bool,
    /// The width of the column, if a record has leading zeros in it.
    pub(crate) width: Option<usize>,
    /// The minimum number of digits of the numbers without leading zeros so far.
    shortest: usize,
}

/// The literals and columns of a record of one or more names.
#[derive(Clone, Debug)]
pub(crate) struct Layout<'a> {
    text: &'a [u8],
    /// The first record.
    pub(crate) record: Range<usize>,
    pub(crate) slots: Vec<Slot>,
    tail: Range<usize>,
}

impl<'a> Layout<'a> {
    /// Returns the layout of `text[record]`, and appends the numbers in its columns to `values`.
    /// Returns `None` if it has too many columns.
    pub(crate) fn new(text: &'a [u8], record: Range<usize>, values: &mut Vec<i64>) -> Option<Self> {
        let bytes = &text[record.clone()];
        let mut layout = Self {
            text,
            record: record.clone(),
            slots: Vec::new(),
            tail: 0..0,
        };
        let (mut at, mut literal, mut name) = (0, 0, 0);
        while at < bytes.len() {
            if !bytes[at].is_ascii_digit() {
                name += usize::from(matches!(bytes[at], b',' | b';'));
                at += 1;
                continue;
            }
            let start = at;
            at += bytes[at..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count();
            let digits = start.max(at.saturating_sub(18))..at;
            if layout.slots.len() == MAX_COLUMNS {
                return None;
            }
            values.push(number(&bytes[digits.clone()]));
            let padded = digits.len() > 1 && bytes[digits.start] == b'0';
            let cut = digits.start > start;
            layout.slots.push(Slot {
                literal: literal..digits.start,
                name,
                cut,
                width: (padded || cut).then_some(digits.len()),
                shortest: digits.len(),
                digits,
            });
            literal = at;
        }
        layout.tail = literal..bytes.len();
        Some(layout)
    }

    /// Parses the record at `at` if it has this layout. Stores the numbers in its columns in
    /// `values` and returns its end.
    #[inline]
    pub(crate) fn read(&mut self, mut at: usize, values: &mut [i64]) -> Option<usize> {
        let text = self.text;
        let base = self.record.start;
        for (slot, value) in self.slots.iter_mut().zip(values) {
            at = literal(text, base, &slot.literal, at)?;
            let (read, len) = leading_number(text, at);
            if !slot.takes(len, text[at..].first() == Some(&b'0')) {
                return None;
            }
            *value = read;
            at += len;
        }
        at = literal(text, base, &self.tail, at)?;
        match text.get(at) {
            None | Some(b',' | b';') => Some(at),
            Some(_) => None,
        }
    }

    /// Returns the number of names of a record.
    pub(crate) fn names(&self) -> usize {
        let separators = self.text[self.record.clone()].iter();
        1 + separators.filter(|b| matches!(b, b',' | b';')).count()
    }

    /// Returns the byte before an offset, or `None` outside of the text.
    pub(crate) fn separator_before(&self, at: usize) -> Option<u8> {
        self.text.get(at.checked_sub(1)?).copied()
    }

    /// Compares the names at `at` with those of the record that has these numbers in its columns.
    /// Returns the number of equal names, and the end of the last one.
    pub(crate) fn matching_names(&self, values: &[i64], at: usize) -> (usize, usize) {
        let record = &self.text[self.record.clone()];
        let mut expected = Vec::with_capacity(record.len());
        for (slot, value) in self.slots.iter().zip(values) {
            expected.extend_from_slice(&record[slot.literal.clone()]);
            push_number(&mut expected, *value, slot.width.unwrap_or(1));
        }
        expected.extend_from_slice(&record[self.tail.clone()]);
        let (mut names, mut end) = (0, 0);
        for (offset, byte) in expected.iter().enumerate() {
            let found = self.text.get(at + offset);
            if matches!(byte, b',' | b';') && matches!(found, None | Some(b',' | b';')) {
                (names, end) = (names + 1, offset);
            }
            if found != Some(byte) {
                break;
            }
        }
        (names, at + end)
    }

    /// Returns the ranges of the columns in a record that has this layout.
    pub(crate) fn places(&self, mut at: usize) -> Vec<Range<usize>> {
        let mut places = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            at += slot.literal.len();
            let len = leading_number(self.text, at).1;
            places.push(at..at + len);
            at += len;
        }
        places
    }

    /// Returns the numbers in the columns of a record that has this layout.
    pub(crate) fn values(&self, at: usize) -> Vec<i64> {
        let places = self.places(at);
        places.into_iter().map(|p| number(&self.text[p])).collect()
    }

    /// Returns the end of a record that has this layout.
    pub(crate) fn end(&self, mut at: usize) -> usize {
        for slot in &self.slots {
            at += slot.literal.len();
            at += leading_number(self.text, at).1;
        }
        at + self.tail.len()
    }
}

impl Slot {
    /// Returns `true` if the column can have a number of `len` digits besides the previous numbers.
    /// `zero` is `true` if it has leading zeros.
    #[inline]
    fn takes(&mut self, len: usize, zero: bool) -> bool {
        if len == 0 || len > 18 {
            return false;
        }
        match (self.width, zero && len > 1) {
            (Some(width), true) => len == width,
            (Some(width), false) => len == width || (len > width && !self.cut),
            (None, true) => {
                // The template is the first record, so the first record must already show the
                // width.
                let fits = len <= self.shortest && len == self.digits.len();
                if fits {
                    self.width = Some(len);
                }
                fits
            }
            (None, false) => {
                self.shortest = self.shortest.min(len);
                true
            }
        }
    }
}

/// If the text has this literal of the first record at `at`, returns its end there.
#[inline]
fn literal(text: &[u8], base: usize, range: &Range<usize>, at: usize) -> Option<usize> {
    let end = at + range.len();
    let here = text.get(at..end)?;
    let wanted = &text[base + range.start..base + range.end];
    // Literals are short, so a call to `memcmp` would cost more than the comparison.
    let same = if here.len() <= 8 {
        here.iter().zip(wanted).all(|(a, b)| a == b)
    } else {
        here == wanted
    };
    same.then_some(end)
}

/// Returns the number at `at` and its number of digits. Digits after the first 18 are counted but
/// not parsed.
#[inline]
fn leading_number(text: &[u8], at: usize) -> (i64, usize) {
    let (mut value, mut len) = (0_i64, 0);
    for byte in text.get(at..).unwrap_or_default() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        len += 1;
        if len > 18 {
            break;
        }
        value = value * 10 + i64::from(digit);
    }
    (value, len)
}

fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0'))
}
