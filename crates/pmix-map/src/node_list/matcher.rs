// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the number of a name whose shape is expected: the inner loop of every list parser.

use super::shape::Shape;

/// A shape, prepared for comparing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    /// The shape's id in its list.
    pub(crate) id: u32,
    text: Vec<u8>,
    /// 0xff where the text must be equal, 0 where a digit stands.
    mask: Vec<u8>,
    /// Where the digits are, and what each is worth.
    digits: Vec<(u32, i64)>,
}

impl Matcher {
    /// Prepares a shape, reusing the memory of another.
    pub(crate) fn set(&mut self, id: u32, shape: &Shape<'_>) {
        self.id = id;
        self.text.clear();
        self.text.extend_from_slice(shape.text);
        self.mask.clear();
        self.mask.resize(shape.text.len(), 0xff);
        self.digits.clear();
        let mut unit = 1i64;
        for span in shape.spans.iter().rev() {
            for at in (span.start..span.start + u32::from(span.len)).rev() {
                self.mask[at as usize] = 0;
                self.digits.push((at, unit));
                unit = unit.wrapping_mul(10);
            }
        }
    }

    /// How many bytes a name of the shape has.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The number of a name, if it has the shape.
    #[inline]
    pub(crate) fn number(&self, name: &[u8]) -> Option<i64> {
        if name.len() != self.text.len() || !self.same_text(name) {
            return None;
        }
        let (mut number, mut all_digits) = (0i64, true);
        for (at, unit) in &self.digits {
            let digit = name[*at as usize].wrapping_sub(b'0');
            all_digits &= digit < 10;
            number = number.wrapping_add(i64::from(digit).wrapping_mul(*unit));
        }
        all_digits.then_some(number)
    }

    #[inline]
    fn same_text(&self, name: &[u8]) -> bool {
        let len = name.len();
        let Some(tail) = len.checked_sub(8) else {
            let pairs = name.iter().zip(&self.text).zip(&self.mask);
            return pairs.fold(0, |d, ((a, b), m)| d | ((a ^ b) & m)) == 0;
        };
        let differs = |at| (word(name, at) ^ word(&self.text, at)) & word(&self.mask, at) != 0;
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

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|w| w.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}
