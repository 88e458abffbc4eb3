// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a numeric field of a name in the form `[width:number]`, and the comparison of names in a column.

use pmix_map::scan;

use crate::grammar;
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
        name.len() - width + PUNCTUATION + grammar::decimal_len(width as u64)
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
            let number = grammar::significant_digits(f.digits(name)).len();
            (f.frame_len(name) + number, Some(f))
        })
        .min_by_key(|(len, _)| *len)
        .filter(|(len, _)| *len <= name.len())
        .unwrap_or(verbatim)
}

// Comparison of names that differ in one field only, word by word. This is the inner loop for
// numbers in any order.

/// The bytes of a word.
const WORD: usize = 8;

/// The words of a name and its separator, with a mask that excludes the field.
#[derive(Debug, Default)]
pub(crate) struct Column {
    words: Vec<Word>,
    /// The number of bytes of the field, and the offset of its end.
    width: usize,
    end: usize,
}

/// A word of the name.
#[derive(Debug)]
struct Word {
    /// The offset in the name.
    at: usize,
    text: u64,
    /// Bits set in the bytes that must be equal.
    mask: u64,
}

impl Column {
    /// Sets the words and masks from a name and a field.
    pub(crate) fn set(&mut self, name: &[u8], field: Field) {
        (self.width, self.end) = (field.end - field.start, field.end);
        self.words.clear();
        for at in (0..=name.len()).step_by(WORD) {
            let (mut text, mut mask) = ([0; WORD], [0; WORD]);
            for (n, place) in (at..=name.len()).take(WORD).enumerate() {
                if place < field.start || place >= field.end {
                    text[n] = name.get(place).copied().unwrap_or(b',');
                    mask[n] = 0xff;
                }
            }
            if mask != [0; WORD] {
                self.words.push(Word {
                    at,
                    text: u64::from_le_bytes(text),
                    mask: u64::from_le_bytes(mask),
                });
            }
        }
    }

    /// Returns the number in the field of the name at an offset. Returns `None` if the rest of the
    /// name differs, or if a word would extend past the end of the text.
    #[inline]
    pub(crate) fn number(&self, text: &[u8], at: usize) -> Option<u64> {
        // Bytes past the end of the text are zero, which is not a separator.
        let differs = |w: &Word| (scan::word(text, at + w.at) ^ w.text) & w.mask != 0;
        if self.words.iter().any(differs) {
            return None;
        }
        scan::number_before(text, at + self.end, self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_if_the_text_around_its_number_is_equal() {
        for prefix in ["", "n", "node", "a-long-prefix-of-names-"] {
            for (width, number) in [(1, 7), (3, 42), (8, 12_345_678), (18, 98_765_432_101)] {
                for suffix in ["", "b", "-ib", ".cluster.example.com"] {
                    let name = format!("{prefix}{number:0width$}{suffix}");
                    let field = Field {
                        start: prefix.len(),
                        end: prefix.len() + width,
                    };
                    let mut column = Column::default();
                    column.set(name.as_bytes(), field);
                    let text = format!("x,{name},then some more").into_bytes();
                    assert_eq!(column.number(&text, 2), Some(number), "{name}");
                    for at in 2..2 + name.len() + 1 {
                        let mut other = text.clone();
                        other[at] = b'#';
                        assert_eq!(column.number(&other, 2), None, "{name} but {at}");
                    }
                    for end in 0..2 + name.len() + 1 {
                        assert_eq!(column.number(&text[..end], 2), None, "{name} to {end}");
                    }
                }
            }
        }
    }
}
