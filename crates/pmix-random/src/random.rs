// SPDX-License-Identifier: MIT OR Apache-2.0
//! The generator.

use pmix_types::{DataArray, DataType};

use crate::{Carried, Source, array};

/// How deep arrays nest.
const DEPTH: u32 = 3;

/// Makes random data from a source.
pub struct Random<'a> {
    source: &'a mut dyn Source,
    pub(crate) carried: &'a Carried,
    /// How deep arrays may still nest here.
    pub(crate) depth: u32,
}

impl<'a> Random<'a> {
    /// A generator of what the receiver can carry.
    pub fn new(source: &'a mut dyn Source, carried: &'a Carried) -> Self {
        Self {
            source,
            carried,
            depth: DEPTH,
        }
    }

    /// So many data of one type: none of a type that the model does not have.
    pub fn data(&mut self, data_type: DataType, count: usize) -> DataArray<'static> {
        array::data(self, data_type, count)
    }

    /// One datum.
    pub(crate) fn one<T: Sample>(&mut self) -> T {
        T::sample(self)
    }

    /// So many data.
    pub(crate) fn many<T: Sample>(&mut self, count: usize) -> Vec<T> {
        (0..count).map(|_| self.one()).collect()
    }

    /// Fewer than so many data, one level further in.
    pub(crate) fn some<T: Sample>(&mut self, bound: usize) -> Vec<T> {
        let count = self.below(bound);
        let depth = self.depth;
        self.depth = depth.saturating_sub(1);
        let data = self.many(count);
        self.depth = depth;
        data
    }

    /// A number below another.
    pub fn below(&mut self, bound: usize) -> usize {
        let bytes = if bound <= 256 { 1 } else { 4 };
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.source.take(bytes) % bound).unwrap_or(0)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these, if there are any.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let index = self.below(from.len());
        from.get(index).copied()
    }

    /// As many bits as the source gives.
    pub(crate) fn bits(&mut self, bytes: usize) -> u64 {
        self.source.take(bytes)
    }
}

/// What can be made at random.
pub(crate) trait Sample {
    /// One of them.
    fn sample(random: &mut Random<'_>) -> Self;
}
