// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that look random and come again with the same seed.

/// Numbers that look random (xorshift of 64 bits).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Seeds that differ little give numbers that do not.
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        dice.number();
        dice
    }

    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() >> 16).unwrap() % bound
    }

    /// One of several.
    pub(crate) fn of<'a, T>(&mut self, choice: &'a [T]) -> &'a T {
        &choice[self.below(choice.len())]
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.number().to_be_bytes()[0]
    }
}
