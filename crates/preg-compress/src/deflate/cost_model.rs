// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tokens will cost, guessed from what they cost before; in sixteenths of a bit.

use super::symbols::{
    MAX_MATCH, MIN_MATCH, NUM_DISTANCES, NUM_LITERALS, distance_symbol, length_symbol,
};

const UNIT: f32 = 16.0;

pub(super) struct CostModel {
    literals: [u32; 256],
    lengths: [u32; MAX_MATCH + 1],
    distances: [u32; NUM_DISTANCES],
    literal_counts: [u32; NUM_LITERALS],
    distance_counts: [u32; NUM_DISTANCES],
}

impl CostModel {
    /// Prices before anything is known: text of a few dozen different bytes, any distance.
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

    /// The price of each length, by the length.
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

    /// Makes prices of the counts, and halves these: what was long ago counts less.
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

/// The ideal code lengths of the counts, in units; what did not occur counts a little.
fn bits(counts: &[u32]) -> Vec<u32> {
    let total: u32 = counts.iter().sum();
    let all = (total as f32 + counts.len() as f32 * 0.25).log2();
    let price = |n: &u32| ((all - (*n as f32 + 0.25).log2()) * UNIT) as u32;
    counts.iter().map(price).map(|p| p.max(8)).collect()
}
