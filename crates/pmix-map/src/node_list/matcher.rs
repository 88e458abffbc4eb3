// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the number of a name whose shape is expected: the inner loop of every list parser.

use super::shape::Shape;
use crate::scan::{self, word};

/// A stretch of one to eight digits, and what the last of them is worth.
#[derive(Clone, Copy, Debug)]
struct Digits {
    end: usize,
    len: u32,
    unit: i64,
}

/// A shape, prepared for comparing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    /// The shape's id in its list.
    pub(crate) id: u32,
    text: Vec<u8>,
    /// 0xff where the text must be equal, 0 where a digit stands.
    mask: Vec<u8>,
    digits: Vec<Digits>,
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
            self.mask[span.start()..span.end()].fill(0);
            let mut end = span.end();
            while end > span.start() {
                let len = u8::try_from(end - span.start()).map_or(8, |n| n.min(8));
                let len = u32::from(len);
                self.digits.push(Digits { end, len, unit });
                unit = unit.wrapping_mul(10i64.pow(len));
                end -= len as usize;
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
        let mut number = 0i64;
        for digits in &self.digits {
            let value = match digits.len {
                1 => i64::from(name[digits.end - 1].wrapping_sub(b'0')),
                len => scan::eight_digits(word_before(name, digits.end), len)?,
            };
            if digits.len == 1 && value > 9 {
                return None;
            }
            number = number.wrapping_add(value.wrapping_mul(digits.unit));
        }
        Some(number)
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

/// The eight bytes that end at a place; what would lie before the name is zero.
#[inline]
fn word_before(bytes: &[u8], end: usize) -> u64 {
    match end.checked_sub(8) {
        Some(start) => word(bytes, start),
        None => bytes[..end]
            .iter()
            .fold(0, |w, b| w >> 8 | u64::from(*b) << 56),
    }
}
