// SPDX-License-Identifier: MIT OR Apache-2.0
//! The generator.

use pmix_types::{DataArray, DataType};

use crate::{Carried, Source, array};

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
