// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integers of the fourth and later modules: groups of seven bits.
//!
//! | bytes | content |
//! | --- | --- |
//! | each but the last | seven bits of the number, lowest first; the top bit set |
//! | the last | the remaining bits; the top bit clear |
//! | the ninth, if any | the top eight bits |
//!
//! Frozen: append only. A signed number is folded first, so that small numbers of either sign are
//! short: 0, -1, 1, -2 become 0, 1, 2, 3. (OpenPMIx, framework `psquash`, component `flex128`.)

/// The maximum length of a packed number in bytes.
pub(crate) const MAX_LEN: usize = 9;

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Packs a number. Returns the first eight bytes, the ninth byte, and the number of used bytes.
#[inline]
pub(crate) const fn encode(number: u64) -> ([u8; 8], u8, usize) {
    let len = LENGTHS[(number | 1).leading_zeros() as usize];
    if len == MAX_LEN {
        let spread = spread(number & (u64::MAX >> 8)) | HIGH_BITS;
        return (spread.to_le_bytes(), (number >> 56) as u8, MAX_LEN);
    }
    // Sets the top bit of every byte but the last.
    let more = HIGH_BITS & ((1_u64 << (8 * len - 8)) - 1);
    ((spread(number) | more).to_le_bytes(), 0, len)
}

/// The packed length of a number in bytes, by its number of leading zero bits.
const LENGTHS: [usize; 64] = {
    let mut lengths = [MAX_LEN; 64];
    let mut zeros = 8;
    while zeros < 64 {
        lengths[zeros] = (64 - zeros).div_ceil(7);
        zeros += 1;
    }
    lengths
};

/// Moves each group of seven bits into a byte of its own.
#[inline]
const fn spread(number: u64) -> u64 {
    let x = ((number & 0x00ff_ffff_f000_0000) << 4) | (number & 0x0fff_ffff);
    let x = ((x & 0x0fff_c000_0fff_c000) << 2) | (x & 0x0000_3fff_0000_3fff);
    ((x & 0x3f80_3f80_3f80_3f80) << 1) | (x & 0x007f_007f_007f_007f)
}

/// Joins the low seven bits of eight bytes.
#[inline]
const fn gather(bytes: u64) -> u64 {
    let x = ((bytes & 0x7f00_7f00_7f00_7f00) >> 1) | (bytes & 0x007f_007f_007f_007f);
    let x = ((x & 0x3fff_0000_3fff_0000) >> 2) | (x & 0x0000_3fff_0000_3fff);
    ((x & 0x0fff_ffff_0000_0000) >> 4) | (x & 0x0fff_ffff)
}

/// Unpacks the number at the start of the bytes. Returns it with its length in bytes, or `None` if
/// it is truncated.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    let Some(front) = bytes.first_chunk::<8>() else {
        return decode_short(bytes);
    };
    let word = u64::from_le_bytes(*front);
    let last = !word & HIGH_BITS;
    if last == 0 {
        let top = *bytes.get(8)?;
        return Some((gather(word) | (u64::from(top) << 56), MAX_LEN));
    }
    // The number ends at the first byte whose top bit is clear.
    let mine = last ^ (last - 1);
    let len = (last.trailing_zeros() / 8 + 1) as usize;
    Some((gather(word & mine), len))
}

/// Unpacks a number if fewer than eight bytes remain.
fn decode_short(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (place, byte) in bytes.iter().enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((number, place + 1));
        }
    }
    None
}

/// Folds a signed number into an unsigned one.
#[inline]
pub(crate) const fn fold(number: i64) -> u64 {
    (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned()
}

/// Restores a signed number.
#[inline]
pub(crate) const fn unfold(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// A type that is packed in groups of seven bits.
pub(crate) trait Flexible: Copy + Default {
    /// Returns the packed number.
    fn to_flex(self) -> u64;

    /// Returns the value of a packed number, if the type can hold it.
    fn from_flex(number: u64) -> Option<Self>;
}

macro_rules! flexible {
    (unsigned $($type:ty),*) => {
        $(impl Flexible for $type {
            #[inline]
            fn to_flex(self) -> u64 {
                self.into()
            }

            #[inline]
            fn from_flex(number: u64) -> Option<Self> {
                number.try_into().ok()
            }
        })*
    };
    (signed $($type:ty),*) => {
        $(impl Flexible for $type {
            #[inline]
            fn to_flex(self) -> u64 {
                fold(self.into())
            }

            #[inline]
            fn from_flex(number: u64) -> Option<Self> {
                unfold(number).try_into().ok()
            }
        })*
    };
}

flexible!(unsigned u16, u32, u64);
flexible!(signed i16, i32, i64);

/// The length in bytes of the block in which [`encode_run`] collects numbers.
const BLOCK: usize = 1024;

/// Packs consecutive numbers, a block of bytes at a time.
#[inline]
pub(crate) fn encode_run(numbers: impl Iterator<Item = u64>, mut write: impl FnMut(&[u8])) {
    // Each number begins at or before `LAST_START` and takes at most `MAX_LEN` bytes, so it ends
    // within the block.
    const LAST_START: usize = BLOCK - 16;
    const { assert!(LAST_START + MAX_LEN <= BLOCK) };
    // Each number is written as at least eight bytes. The next number overwrites the unused ones.
    let mut block = [0; BLOCK];
    let mut at = 0;
    for number in numbers {
        let (low, top, len) = encode(number);
        if at > LAST_START {
            write(&block[..at]);
            at = 0;
        }
        if let Some(place) = block.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<9>) {
            place[..8].copy_from_slice(&low);
            place[8] = top;
        }
        at += len;
    }
    write(&block[..at]);
}

/// An iterator over packed numbers.
///
/// The start of a number depends on the length of the previous one. Consecutive numbers often have
/// the same length, so the length is guessed and then checked: a correct guess avoids the wait.
pub(crate) struct Run<'a> {
    rest: &'a [u8],
    guess: Guess,
}

/// A length, and the bit masks of a number with that length.
#[derive(Clone, Copy)]
struct Guess {
    len: usize,
    /// The mask of the bytes of the number.
    mine: u64,
    /// The mask of the top bits of those bytes.
    tops: u64,
    /// The mask of the top bit of the last byte.
    last: u64,
}

impl Guess {
    const fn new(len: usize) -> Self {
        let mine = u64::MAX >> (64 - 8 * len);
        Self {
            len,
            mine,
            tops: HIGH_BITS & mine,
            last: 0x80 << (8 * (len - 1)),
        }
    }

    /// Not inlined, so that the compiler does not replace the guess by a dependency on the actual
    /// length.
    #[cold]
    #[inline(never)]
    fn learn(len: usize) -> Self {
        Self::new(std::hint::black_box(len))
    }
}

impl<'a> Run<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            guess: Guess::new(1),
        }
    }

    /// Returns the bytes after the numbers read so far.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Fills `block` with the next numbers and returns their count. It stops early at a number that
    /// does not fit the type or is truncated.
    pub(crate) fn fill<T: Flexible>(&mut self, block: &mut [T]) -> usize {
        let (mut rest, mut guess) = (self.rest, self.guess);
        let mut filled = 0;
        for slot in block.iter_mut() {
            let Some(front) = rest.first_chunk::<8>() else {
                break;
            };
            let word = u64::from_le_bytes(*front);
            if !word & guess.tops != guess.last {
                match decode(rest) {
                    Some((_, len)) if len < MAX_LEN => guess = Guess::learn(len),
                    _ => break,
                }
            }
            let Some(number) = T::from_flex(gather(word & guess.mine)) else {
                break;
            };
            *slot = number;
            filled += 1;
            rest = rest.get(guess.len..).unwrap_or_default();
        }
        (self.rest, self.guess) = (rest, guess);
        filled + self.fill_slowly(block.get_mut(filled..).unwrap_or_default())
    }

    /// Fills `block` with numbers one by one: for numbers of nine bytes, and near the end of the
    /// message.
    fn fill_slowly<T: Flexible>(&mut self, block: &mut [T]) -> usize {
        let mut filled = 0;
        for slot in block.iter_mut() {
            let Some((number, len)) = decode(self.rest) else {
                break;
            };
            let Some(number) = T::from_flex(number) else {
                break;
            };
            *slot = number;
            filled += 1;
            self.rest = self.rest.get(len..).unwrap_or_default();
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u64) -> Vec<u8> {
        let (low, top, len) = encode(number);
        let mut all = low.to_vec();
        all.push(top);
        all.truncate(len);
        all
    }

    #[test]
    fn numbers_have_the_measured_bytes() {
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(127), [0x7f]);
        assert_eq!(bytes(128), [0x80, 1]);
        assert_eq!(bytes(1 << 40), [0x80, 0x80, 0x80, 0x80, 0x80, 0x20]);
        assert_eq!(
            bytes((1 << 56) - 1),
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]
        );
        assert_eq!(
            bytes(1 << 56),
            [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]
        );
        assert_eq!(bytes(u64::MAX), [0xff; 9]);
    }

    #[test]
    fn every_width_survives_with_and_without_following_bytes() {
        for place in 0..64 {
            for number in [1_u64 << place, (1_u64 << place) - 1, u64::MAX >> place] {
                let mut packed = bytes(number);
                let len = packed.len();
                assert_eq!(decode(&packed), Some((number, len)));
                assert_eq!(decode(&packed[..len - 1]), None);
                packed.extend([0xff; 9]);
                assert_eq!(decode(&packed), Some((number, len)));
            }
        }
    }

    #[test]
    fn runs_of_all_lengths_come_back_across_the_ends_of_blocks() {
        for front in 0..2 * MAX_LEN {
            for place in 0..64 {
                // The short numbers before a long one put it at each position near the end of a
                // block.
                let small = std::iter::repeat_n(1_u64, front);
                let numbers: Vec<u64> = small.chain(vec![u64::MAX >> place; 300]).collect();
                let (mut packed, mut expected) = (Vec::new(), Vec::new());
                encode_run(numbers.iter().copied(), |block| {
                    packed.extend_from_slice(block);
                });
                numbers
                    .iter()
                    .for_each(|number| expected.extend(bytes(*number)));
                assert_eq!(packed, expected, "{front} in front of {place}");
            }
        }
    }

    #[test]
    fn small_numbers_of_either_sign_are_short() {
        for (number, folded) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MIN, u64::MAX)] {
            assert_eq!(fold(number), folded);
            assert_eq!(unfold(folded), number);
        }
    }
}
