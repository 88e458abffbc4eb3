// SPDX-License-Identifier: MIT OR Apache-2.0
//! From runs back to text: only the digits that change are written.

use super::{ProcMap, Ranks};

/// A rank in decimal, with the separator behind it. Copied as a whole, which is one store.
struct Decimal {
    text: [u8; 16],
    /// Bytes of digits.
    len: usize,
    number: i64,
    /// The numbers that have `len` digits.
    low: i64,
    high: i64,
}

impl Decimal {
    fn new() -> Self {
        Self {
            text: [b','; 16],
            len: 0,
            number: -1,
            low: 0,
            high: -1,
        }
    }

    /// Becomes another number, which is not negative and has at most ten digits.
    #[inline]
    fn set(&mut self, number: i64) {
        if number < self.low || number > self.high {
            self.resize(number);
        }
        let (mut from, mut to) = (self.number, number);
        for digit in self.text[..self.len].iter_mut().rev() {
            if from == to {
                break;
            }
            *digit = b'0' + u8::try_from(to % 10).unwrap_or(0);
            (from, to) = (from / 10, to / 10);
        }
        self.number = number;
    }

    /// Makes room for the digits of a number; what was there is forgotten.
    #[cold]
    fn resize(&mut self, number: i64) {
        (self.len, self.low, self.high) = (1, 0, 9);
        while number > self.high && self.len < 12 {
            (self.low, self.high) = (self.high + 1, self.high * 10 + 9);
            self.len += 1;
        }
        self.text = [b','; 16];
        // Differs from every number in every digit, so all of them are written.
        self.number = -1;
    }

    #[inline]
    fn append(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.len + 1;
        out.extend_from_slice(&self.text);
        out.truncate(end);
    }
}

impl ProcMap {
    /// How many bytes [`Self::write_text`] appends.
    #[must_use]
    pub fn text_len(&self) -> usize {
        usize::try_from(self.bytes.saturating_sub(1)).unwrap_or(usize::MAX)
    }

    /// Appends `node;node;...` to `out`, ranks expanded and separated by commas.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        out.reserve(self.text_len().saturating_add(16));
        let mut decimal = Decimal::new();
        for (node, ranks) in self.iter().enumerate() {
            if node > 0 {
                out.push(b';');
            }
            ranks.write(&mut decimal, out);
        }
    }

    /// Appends the ranks of one node to `out`, expanded and separated by commas.
    pub fn write_node(&self, node: usize, out: &mut Vec<u8>) {
        if let Some(ranks) = self.ranks_of(node) {
            ranks.write(&mut Decimal::new(), out);
        }
    }
}

impl Ranks<'_> {
    fn write(&self, decimal: &mut Decimal, out: &mut Vec<u8>) {
        for run in self.runs {
            let mut number = self.base + run.offset;
            for _ in 0..run.count {
                decimal.set(number);
                decimal.append(out);
                number += run.step;
            }
        }
        if !self.runs.is_empty() {
            out.pop();
        }
    }
}
