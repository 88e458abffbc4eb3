// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tokens of a block, literals and matches, and their symbols (RFC 1951, section 3.2.5).

/// The minimum and maximum length of a match, and the maximum distance.
pub(super) const MIN_MATCH: usize = 3;
pub(super) const MAX_MATCH: usize = 258;
pub(super) const WINDOW: usize = 32 << 10;

/// The number of symbols for literals, the end of the block, and lengths.
pub(super) const NUM_LITERALS: usize = 286;
pub(super) const NUM_DISTANCES: usize = 30;
pub(super) const END_OF_BLOCK: usize = 256;

const FIRST_LENGTH: u16 = 257;

/// The first length and the number of extra bits of each length symbol from 257 on.
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// A symbol and the extra bits after its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) index: u16,
    pub(super) extra: u16,
    pub(super) extra_bits: u8,
}

/// The symbol of each length, indexed by the length minus [`MIN_MATCH`].
static LENGTH_SYMBOLS: [Symbol; 256] = length_symbols();

const fn length_symbols() -> [Symbol; 256] {
    let empty = Symbol {
        index: 0,
        extra: 0,
        extra_bits: 0,
    };
    let mut table = [empty; 256];
    let mut code = 0;
    while code < LENGTHS.len() {
        let (first, extra_bits) = LENGTHS[code];
        let mut extra = 0;
        while extra < 1 << extra_bits && first + extra <= 258 {
            // The last symbol is for length 258 only, although the symbol before could encode 258,
            // too.
            table[(first + extra) as usize - MIN_MATCH] = Symbol {
                index: FIRST_LENGTH + code as u16,
                extra,
                extra_bits,
            };
            extra += 1;
        }
        code += 1;
    }
    table
}

/// Returns the symbol of a match length from 3 to 258. The argument is the length minus
/// [`MIN_MATCH`].
#[inline]
pub(super) fn length_symbol(length_less_3: u8) -> Symbol {
    LENGTH_SYMBOLS[usize::from(length_less_3)]
}

/// Returns the symbol of a distance from 1 to 32768. The argument is the distance minus one.
#[inline]
pub(super) fn distance_symbol(distance_less_1: u16) -> Symbol {
    let n = distance_less_1;
    if n < 4 {
        return Symbol {
            index: n,
            extra: 0,
            extra_bits: 0,
        };
    }
    // Distances between two powers of two have two symbols, which differ in the second highest bit.
    let extra_bits = 14 - n.leading_zeros() as u16;
    Symbol {
        index: 2 * extra_bits + 2 + (n >> extra_bits & 1),
        extra: n & ((1 << extra_bits) - 1),
        extra_bits: extra_bits as u8,
    }
}

/// A literal byte or a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token(u32);

const MATCH: u32 = 1 << 31;

impl Token {
    #[inline]
    pub(super) fn literal(byte: u8) -> Self {
        Self(u32::from(byte))
    }

    /// Creates a match; `length` is 3 to 258, `distance` 1 to 32768.
    #[inline]
    pub(super) fn copy(length: usize, distance: usize) -> Self {
        debug_assert!((MIN_MATCH..=MAX_MATCH).contains(&length));
        debug_assert!((1..=WINDOW).contains(&distance));
        Self(MATCH | (length - MIN_MATCH) as u32 & 0xff | ((distance as u32 - 1) & 0x7fff) << 8)
    }

    /// Returns the literal, or the length minus three and the distance minus one.
    #[inline]
    pub(super) fn parts(self) -> Result<u8, (u8, u16)> {
        let low = (self.0 & 0xff) as u8;
        if self.0 & MATCH == 0 {
            Ok(low)
        } else {
            Err((low, (self.0 >> 8 & 0x7fff) as u16))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_symbols_agree_with_the_table() {
        let symbol = |length: usize| length_symbol(u8::try_from(length - 3).unwrap());
        for (length, index, extra, extra_bits) in [
            (3, 257, 0, 0),
            (10, 264, 0, 0),
            (11, 265, 0, 1),
            (12, 265, 1, 1),
            (130, 280, 15, 4),
            (131, 281, 0, 5),
            (257, 284, 30, 5),
            (258, 285, 0, 0),
        ] {
            assert_eq!(
                symbol(length),
                Symbol {
                    index,
                    extra,
                    extra_bits
                },
                "{length}"
            );
        }
    }

    #[test]
    fn distance_symbols_agree_with_the_table() {
        for (distance, index, extra, extra_bits) in [
            (1, 0, 0, 0),
            (4, 3, 0, 0),
            (5, 4, 0, 1),
            (6, 4, 1, 1),
            (7, 5, 0, 1),
            (9, 6, 0, 2),
            (16, 7, 3, 2),
            (24_577, 29, 0, 13),
            (32_768, 29, 8191, 13),
        ] {
            let symbol = distance_symbol(u16::try_from(distance - 1).unwrap());
            assert_eq!(
                symbol,
                Symbol {
                    index,
                    extra,
                    extra_bits
                },
                "{distance}"
            );
        }
    }

    #[test]
    fn tokens_keep_their_parts() {
        assert_eq!(Token::literal(255).parts(), Ok(255));
        assert_eq!(Token::copy(3, 1).parts(), Err((0, 0)));
        assert_eq!(Token::copy(258, 32_768).parts(), Err((255, 32_767)));
    }
}
