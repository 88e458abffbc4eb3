// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of names that differ in one field only, word by word. This is the inner loop for
//! numbers in any order.

use pmix_map::scan;

use crate::fold::Field;

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
