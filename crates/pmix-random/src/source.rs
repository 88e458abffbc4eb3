// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of numbers.

/// A source of numbers.
pub trait Source {
    /// Returns a number of this many bytes, at most 8.
    fn take(&mut self, bytes: usize) -> u64;
}

/// Numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// Creates a source that always gives the same numbers for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Source for Seeded {
    fn take(&mut self, bytes: usize) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) >> (64 - 8 * bytes.clamp(1, 8))
    }
}

/// Numbers from the bytes of a fuzzer; zeros after their end.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Creates a source that gives these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns `true` if only zeros follow.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Source for Bytes<'_> {
    fn take(&mut self, bytes: usize) -> u64 {
        let mut number = [0; 8];
        for byte in number.iter_mut().take(bytes) {
            if let Some((first, rest)) = self.0.split_first() {
                *byte = *first;
                self.0 = rest;
            }
        }
        u64::from_le_bytes(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        let mut source = Seeded::new(1_234_567);
        assert_eq!(source.take(8), 6_457_827_717_110_365_317);
        assert_eq!(source.take(8), 3_203_168_211_198_807_973);
    }

    #[test]
    fn bytes_are_given_in_order_and_then_zeros() {
        let mut source = Bytes::new(&[1, 2, 3]);
        assert_eq!(
            (source.take(1), source.take(8), source.take(2)),
            (1, 0x0302, 0)
        );
        assert!(source.is_empty());
    }
}
