// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random values that follow from a seed, so that a seed reproduces a whole run.

use pmix_random::{Seeded, Source as _};

/// A seeded generator of random values.
pub struct Random(Seeded);

impl Random {
    /// Creates a generator that always returns the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(Seeded::new(seed))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0.take(8)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high - low + 1)
    }

    /// Returns a random element.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.number() % from.len() as u64;
        &from[usize::try_from(index).unwrap_or(0)]
    }

    /// Returns `true` once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.number().is_multiple_of(n)
    }

    /// Shuffles the elements.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = self.within(0, last as u64);
            all.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn shuffling_keeps_every_element() {
        let mut all: Vec<u32> = (0..100).collect();
        Random::new(1).shuffle(&mut all);
        assert_ne!(all, (0..100).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }
}
