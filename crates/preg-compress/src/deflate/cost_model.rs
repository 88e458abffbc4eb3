// SPDX-License-Identifier: MIT OR Apache-2.0
//! The estimated cost of tokens, based on previous blocks, in sixteenths of a bit.

use super::symbols::{
    MAX_MATCH, MIN_MATCH, NUM_DISTANCES, NUM_LITERALS, distance_symbol, length_symbol,
};

/// The unit of prices: 2^-4 bits.
const UNIT_BITS: u32 = 4;

/// The number of binary digits after the point in a logarithm.
const FRACTION: u32 = 16;

pub(super) struct CostModel {
    literals: [u32; 256],
    lengths: [u32; MAX_MATCH + 1],
    distances: [u32; NUM_DISTANCES],
    literal_counts: [u32; NUM_LITERALS],
    distance_counts: [u32; NUM_DISTANCES],
}

impl CostModel {
    /// Returns the initial prices: text of a few dozen different bytes, any distance.
    pub(super) fn new() -> Self {
        let mut prices = Self {
            literals: [0; 256],
            lengths: [0; MAX_MATCH + 1],
            distances: [0; NUM_DISTANCES],
            literal_counts: [0; NUM_LITERALS],
            distance_counts: [0; NUM_DISTANCES],
        };
        prices.literal_counts[..256].fill(1);
        prices.literal_counts[usize::from(b'0')..=usize::from(b'9')].fill(40);
        prices.literal_counts[257..270].fill(16);
        prices.literal_counts[270..].fill(1);
        prices.distance_counts.fill(8);
        prices.adapt();
        prices
    }

    #[inline]
    pub(super) fn literal(&self, byte: u8) -> u32 {
        self.literals[usize::from(byte)]
    }

    /// Returns the price of each match length, indexed by the length.
    #[inline]
    pub(super) fn lengths(&self) -> &[u32; MAX_MATCH + 1] {
        &self.lengths
    }

    #[inline]
    pub(super) fn distance(&self, distance: usize) -> u32 {
        let symbol = distance_symbol((distance - 1) as u16);
        self.distances[usize::from(symbol.index)]
    }

    #[inline]
    pub(super) fn count_literal(&mut self, byte: u8) {
        self.literal_counts[usize::from(byte)] += 1;
    }

    #[inline]
    pub(super) fn count_match(&mut self, length: usize, distance: usize) {
        let length = length_symbol((length - MIN_MATCH) as u8);
        let distance = distance_symbol((distance - 1) as u16);
        self.literal_counts[usize::from(length.index)] += 1;
        self.distance_counts[usize::from(distance.index)] += 1;
    }

    /// Computes prices from the counts. Then it halves the counts, so that older blocks weigh less.
    pub(super) fn adapt(&mut self) {
        let literals = bits(&self.literal_counts);
        let distances = bits(&self.distance_counts);
        self.literals.copy_from_slice(&literals[..256]);
        for length in MIN_MATCH..=MAX_MATCH {
            let symbol = length_symbol((length - MIN_MATCH) as u8);
            self.lengths[length] =
                literals[usize::from(symbol.index)] + 16 * u32::from(symbol.extra_bits);
        }
        for (symbol, price) in self.distances.iter_mut().enumerate() {
            let extra = (symbol as u32 / 2).saturating_sub(1);
            *price = distances[symbol] + 16 * extra;
        }
        self.literal_counts.iter_mut().for_each(|n| *n /= 2);
        self.distance_counts.iter_mut().for_each(|n| *n /= 2);
    }
}

/// Returns the ideal code length of each symbol by its count, in units. A symbol that does not
/// occur has a count of 1/4.
fn bits(counts: &[u32]) -> Vec<u32> {
    let quarters = |n: u32| 4 * u64::from(n) + 1;
    let all = log2(counts.iter().map(|n| quarters(*n)).sum());
    let price = |n: &u32| (all - log2(quarters(*n))) >> (FRACTION - UNIT_BITS);
    counts.iter().map(price).map(|p| p.max(8)).collect()
}

/// Returns the binary logarithm of a positive number in units of 2^-[`FRACTION`], rounded down.
/// Integer arithmetic gives the same prices on every machine and needs no floating-point library.
fn log2(number: u64) -> u32 {
    let whole = number.ilog2();
    // The mantissa, at least 1 and below 2, in units of 2^-31.
    let mut rest = match whole {
        0..=31 => number << (31 - whole),
        _ => number >> (whole - 31),
    };
    let mut log = whole;
    for _ in 0..FRACTION {
        rest = (rest * rest) >> 31;
        let bit = rest >> 32;
        rest >>= bit;
        log = 2 * log + u32::from(bit != 0);
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_agree_with_floating_point_rounded_down() {
        let powers = (0..40).flat_map(|power| [1_u64 << power, (1 << power) + 1, (3 << power) - 1]);
        for number in (1..5_000).chain(powers) {
            let exact = (number as f64).log2() * f64::from(1 << FRACTION);
            let error = exact - f64::from(log2(number));
            // Each digit results from a square that is rounded down.
            assert!((-1e-6..2.0).contains(&error), "{number}: {error}");
        }
    }
}
