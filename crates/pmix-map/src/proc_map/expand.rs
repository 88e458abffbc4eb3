// SPDX-License-Identifier: MIT OR Apache-2.0
//! The expansion of runs to text.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_ppn`, for the text.

use pmix_types::Rank;

use super::{ProcMap, Ranks};

/// A rank in decimal digits with a trailing comma. The first character is the lowest byte.
#[derive(Clone, Copy)]
struct Decimal {
    text: u128,
    /// The number of digits.
    len: u32,
}

impl Decimal {
    #[inline]
    fn new(rank: u32) -> Self {
        const EIGHT: u32 = 100_000_000;
        const ZEROS: u64 = 0x3030_3030_3030_3030;
        let (text, len) = if rank < EIGHT {
            let digits = eight_digits(rank);
            let skip = (digits.trailing_zeros() / 8).min(7);
            (u128::from((digits | ZEROS) >> (8 * skip)), 8 - skip)
        } else {
            let (front, digits) = (rank / EIGHT, eight_digits(rank % EIGHT) | ZEROS);
            let one = u128::from(front % 10 + 0x30) | u128::from(digits) << 8;
            match front / 10 {
                0 => (one, 9),
                ten => (u128::from(ten + 0x30) | one << 8, 10),
            }
        };
        let text = text | u128::from(b',') << (8 * len);
        Self { text, len }
    }

    /// Appends the text: writes sixteen bytes with one store, and truncates.
    #[inline]
    fn push(self, out: &mut Vec<u8>) {
        let end = out.len() + self.len as usize + 1;
        out.extend_from_slice(&self.text.to_le_bytes());
        out.truncate(end);
    }
}

/// Appends consecutive ranks. Between multiples of ten, only the last digit changes.
fn push_successors(out: &mut Vec<u8>, first: u32, count: u32) {
    let (mut rank, mut left) = (first, count);
    while left > 0 {
        let mut decimal = Decimal::new(rank);
        let one = 1 << (8 * (decimal.len - 1));
        let same = (10 - rank % 10).min(left);
        for _ in 0..same {
            decimal.push(out);
            decimal.text = decimal.text.wrapping_add(one);
        }
        rank = rank.saturating_add(same);
        left -= same;
    }
}

/// Returns the eight decimal digits of a number below 100,000,000, one per byte. The first digit is
/// the lowest byte.
#[inline]
fn eight_digits(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    // Divides by 100 and by 10 in all lanes at once, which is exact for numbers this small.
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((pairs - 10 * tens) << 8)
}

impl ProcMap {
    /// Returns the number of bytes that [`Self::write_text`] appends.
    #[must_use]
    pub fn text_len(&self) -> usize {
        usize::try_from(self.bytes.saturating_sub(1)).unwrap_or(usize::MAX)
    }

    /// Appends `node;node;...` to `out`, with expanded ranks separated by commas.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        out.reserve(self.text_len().saturating_add(16));
        for (node, ranks) in self.iter().enumerate() {
            if node > 0 {
                out.push(b';');
            }
            ranks.write(out);
        }
    }

    /// Appends the ranks of one node to `out`, expanded and separated by commas.
    pub fn write_node(&self, node: usize, out: &mut Vec<u8>) {
        if let Some(ranks) = self.ranks_of(node) {
            // The highest rank has the most digits. `push` needs spare bytes after the last rank.
            let width = ranks.last_digits() + 1;
            out.reserve(ranks.size_hint().0.saturating_mul(width).saturating_add(16));
            ranks.write(out);
        }
    }
}

impl Ranks<'_> {
    /// Returns the number of digits of the largest rank.
    fn last_digits(&self) -> usize {
        let ends = self
            .runs
            .iter()
            .flat_map(|run| [run.at(self.base, 0), run.at(self.base, run.count - 1)]);
        let largest = ends.max().map_or(0, Rank::as_raw);
        usize::try_from(largest.checked_ilog10().unwrap_or(0)).unwrap_or(0) + 1
    }

    fn write(&self, out: &mut Vec<u8>) {
        for run in self.runs {
            if run.step == 1 {
                push_successors(out, run.at(self.base, 0).as_raw(), run.count);
                continue;
            }
            for place in 0..run.count {
                Decimal::new(run.at(self.base, place).as_raw()).push(out);
            }
        }
        if !self.runs.is_empty() {
            out.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Decimal, push_successors};

    #[test]
    fn ranks_of_every_length_are_written_in_full() {
        let powers = (0..10).map(|digits| 10u32.pow(digits));
        let around = powers.flat_map(|p| [p - 1, p, p + 1, p.saturating_mul(7)]);
        for rank in around.chain([0, 4_294_967_245, 99_999_999, 102_030_405, u32::MAX]) {
            let mut out = b"x".to_vec();
            Decimal::new(rank).push(&mut out);
            assert_eq!(String::from_utf8_lossy(&out), format!("x{rank},"));
        }
        for rank in (0..100_000_000).step_by(9973) {
            let mut out = Vec::new();
            Decimal::new(rank).push(&mut out);
            assert_eq!(out, format!("{rank},").into_bytes());
        }
    }

    #[test]
    fn successors_are_written_like_single_ranks() {
        for first in [0, 7, 9, 10, 95, 999, 99_999_990, 4_294_967_100] {
            for count in [1, 2, 3, 9, 10, 11, 25, 130] {
                let (mut together, mut alone) = (Vec::new(), Vec::new());
                push_successors(&mut together, first, count);
                (first..first + count).for_each(|rank| Decimal::new(rank).push(&mut alone));
                assert_eq!(together, alone);
            }
        }
    }
}
