// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that follow from a seed.

use std::time::Duration;

/// Numbers that follow from a seed (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below another one, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    pub(crate) fn below_u32(&mut self, end: u32) -> u32 {
        u32::try_from(self.next() % u64::from(end)).unwrap()
    }

    /// Whether something happens that happens once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'t, T>(&mut self, things: &'t [T]) -> &'t T {
        &things[self.below(things.len())]
    }

    /// A time between two numbers of milliseconds, the second one not included.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.next() % (to - from))
    }
}
