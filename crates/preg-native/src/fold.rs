// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a numeric field of a name in the form `[width:number]`.

use pmix_map::scan;

use crate::decimal;
use crate::parse::PLAIN_WIDTH;

/// The maximum number of fields of a name that are considered. The first field is always
/// considered.
pub(crate) const MAX_FIELDS: usize = 16;

/// The length of the brackets and the colon of a group.
const PUNCTUATION: usize = 3;

/// A numeric field: a range of a name that consists of at most [`scan::MAX_DIGITS`] digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Field {
    /// Returns the considered fields of a name, left to right.
    pub(crate) fn of(name: &[u8]) -> impl Iterator<Item = Self> + '_ {
        scan::fields(name).map(Self::from).take(MAX_FIELDS)
    }

    /// Returns the digits of the field.
    pub(crate) fn digits(self, name: &[u8]) -> &[u8] {
        &name[self.start..self.end]
    }

    /// Returns the start of the padded number in the encoded form. Digits that are too many for one
    /// number may have zeros before the field. The width then includes these zeros.
    pub(crate) fn padded_start(self, name: &[u8]) -> usize {
        let most = PLAIN_WIDTH - (self.end - self.start);
        let before = &name[..self.start];
        if !before.last().is_some_and(u8::is_ascii_digit) {
            return self.start;
        }
        self.start - (before.iter().rev().take(most).take_while(|b| **b == b'0')).count()
    }

    /// Returns the length of a group on this field without its ranges.
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

/// Returns the length of the shortest form of a single name, and the field that this form has in
/// brackets. The field is `None` if the form is the name itself.
///
/// Brackets are shorter from four leading zeros on. Among forms of equal length, brackets are
/// preferred, as in OpenPMIx's generator, and then the first field.
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
