// SPDX-License-Identifier: MIT OR Apache-2.0
//! The generator, its sources of numbers, and the data that a receiver can unpack.

use pmix_types::{DataArray, DataType};

use crate::array;

/// The depth limit of nested arrays.
const DEPTH: u32 = 3;

/// A generator of random data from a source.
pub struct Random<'a> {
    source: &'a mut dyn Source,
    pub(crate) carried: &'a Carried,
    /// The remaining depth for nested arrays.
    pub(crate) depth: u32,
}

impl<'a> Random<'a> {
    /// Creates a generator of data that the receiver can unpack.
    pub fn new(source: &'a mut dyn Source, carried: &'a Carried) -> Self {
        Self {
            source,
            carried,
            depth: DEPTH,
        }
    }

    /// Returns `count` data of one type, or none of a type that the model does not have.
    pub fn data(&mut self, data_type: DataType, count: usize) -> DataArray<'static> {
        array::data(self, data_type, count)
    }

    /// Returns one datum.
    pub(crate) fn one<T: Sample>(&mut self) -> T {
        T::sample(self)
    }

    /// Returns `count` data.
    pub(crate) fn many<T: Sample>(&mut self, count: usize) -> Vec<T> {
        (0..count).map(|_| self.one()).collect()
    }

    /// Returns fewer than `bound` data, one level deeper.
    pub(crate) fn some<T: Sample>(&mut self, bound: usize) -> Vec<T> {
        let count = self.below(bound);
        let depth = self.depth;
        self.depth = depth.saturating_sub(1);
        let data = self.many(count);
        self.depth = depth;
        data
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        let bytes = if bound <= 256 { 1 } else { 4 };
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.source.take(bytes) % bound).unwrap_or(0)
    }

    /// Returns `true` with probability 1/`n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of the items, if there are any.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let index = self.below(from.len());
        from.get(index).copied()
    }

    /// Returns a number of `bytes` bytes from the source.
    pub(crate) fn bits(&mut self, bytes: usize) -> u64 {
        self.source.take(bytes)
    }
}

/// A type with random data.
pub(crate) trait Sample {
    /// Returns a random datum.
    fn sample(random: &mut Random<'_>) -> Self;
}

/// The data that a receiver can unpack; random data contain nothing else.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The types of values.
    pub values: Vec<DataType>,
    /// The types of array elements.
    pub elements: Vec<DataType>,
    /// `true` if the flags of an info and the working directory of an application are packed, and
    /// every rank keeps its number (not in module v12).
    pub is_whole: bool,
    /// Encoded maps of the string form (`PMIX_REGEX`) that belong to an encoder.
    pub maps: Vec<Vec<u8>>,
}

impl Default for Carried {
    /// Returns the data that every module from the second on can unpack.
    fn default() -> Self {
        let values = vec![
            DataType::UNDEF,
            DataType::BOOL,
            DataType::STRING,
            DataType::INT32,
            DataType::UINT64,
            DataType::DOUBLE,
            DataType::PROC,
            DataType::BYTE_OBJECT,
            DataType::DATA_ARRAY,
        ];
        Self {
            values,
            elements: vec![DataType::INFO, DataType::STRING, DataType::UINT32],
            is_whole: true,
            maps: Vec::new(),
        }
    }
}

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
