// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a numeric field of a name costs when it is written as `[width:number]`.

use pmix_map::scan;

use crate::decimal;
use crate::parse::PLAIN_WIDTH;

/// How many fields of one name are weighed; the first is always among them.
pub(crate) const MAX_FIELDS: usize = 16;

/// The bytes of brackets and colon around a group's width and ranges.
const PUNCTUATION: usize = 3;

/// A numeric field: these bytes of a name are digits, and at most [`scan::MAX_DIGITS`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Field {
    /// The fields of a name that are weighed, left to right.
    pub(crate) fn of(name: &[u8]) -> impl Iterator<Item = Self> + '_ {
        scan::fields(name).map(Self::from).take(MAX_FIELDS)
    }

    /// The digits of the field.
    pub(crate) fn digits(self, name: &[u8]) -> &[u8] {
        &name[self.start..self.end]
    }

    /// Where the number begins in the encoded form: a run of digits that is too long to be a
    /// number as a whole may still have zeros in front of the field, which the width then covers.
    pub(crate) fn padded_start(self, name: &[u8]) -> usize {
        let most = PLAIN_WIDTH - (self.end - self.start);
        let before = &name[..self.start];
        if !before.last().is_some_and(u8::is_ascii_digit) {
            return self.start;
        }
        self.start - (before.iter().rev().take(most).take_while(|b| **b == b'0')).count()
    }

    /// The bytes of a group on this field without its ranges.
    pub(crate) fn frame_len(self, name: &[u8]) -> usize {
        let width = self.end - self.padded_start(name);
        name.len() - width + PUNCTUATION + decimal::len(width as u64)
    }
}

impl From<std::ops::Range<usize>> for Field {
    fn from(range: std::ops::Range<usize>) -> Self {
        Self {
            start: range.start,
            end: range.end,
        }
    }
}

/// The shortest form of a name alone: its length, and the field to write in brackets unless it is
/// written as it stands.
///
/// Brackets pay from four leading zeros on; on a tie they win, as OpenPMIx's generator has it, and
/// between fields the first.
pub(crate) fn alone(name: &[u8]) -> (usize, Option<Field>) {
    let verbatim = (name.len(), None);
    if !name.windows(4).any(|w| w == b"0000") {
        return verbatim;
    }
    Field::of(name)
        .map(|f| {
            let number = decimal::significant(f.digits(name)).len();
            (f.frame_len(name) + number, Some(f))
        })
        .min_by_key(|(len, _)| *len)
        .filter(|(len, _)| *len <= name.len())
        .unwrap_or(verbatim)
}
