// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers determined by a seed.

use std::time::Duration;

use pmix_random::{Seeded, Source as _};

/// Numbers determined by a seed.
#[derive(Debug)]
pub(crate) struct Random(Seeded);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(Seeded::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.take(8)
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    pub(crate) fn below_u32(&mut self, end: u32) -> u32 {
        u32::try_from(self.next() % u64::from(end)).unwrap()
    }

    /// Returns `true` with a probability of one in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'t, T>(&mut self, things: &'t [T]) -> &'t T {
        &things[self.below(things.len())]
    }

    /// Returns one of the elements, if there are any.
    pub(crate) fn pick_of<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        (!things.is_empty()).then(|| self.pick(things))
    }

    /// Returns a time from `from` to `to` milliseconds, exclusive.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.next() % (to - from))
    }
}
