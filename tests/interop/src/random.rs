// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is drawn from numbers that follow from a seed, so that a seed is a whole run.

use pmix_random::{Seeded, Source as _};

/// The generator.
pub struct Random(Seeded);

impl Random {
    /// A generator that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(Seeded::new(seed))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0.take(8)
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high - low + 1)
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.number() % from.len() as u64;
        &from[usize::try_from(index).unwrap_or(0)]
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.number().is_multiple_of(n)
    }

    /// Puts the elements in another order.
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
