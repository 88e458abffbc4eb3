// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block: its tokens, its codes and its bytes (RFC 1951, section 3.2.7).

use super::huffman::{self, BitWriter, Bits, MAX_BITS, MAX_LENGTH_BITS};
use super::symbols::{
    END_OF_BLOCK, NUM_DISTANCES, NUM_LITERALS, Token, distance_symbol, length_symbol,
};

/// The order in which the lengths of the length codes are written.
const LENGTH_ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];
const REPEAT: u8 = 16;
const FEW_ZEROS: u8 = 17;
const MANY_ZEROS: u8 = 18;

/// The tokens of a block, and the number of occurrences of each symbol.
pub(super) struct Block {
    tokens: Vec<Token>,
    literals: [u32; NUM_LITERALS],
    distances: [u32; NUM_DISTANCES],
    extra_bits: u64,
}

impl Block {
    pub(super) fn new() -> Self {
        Self {
            tokens: Vec::new(),
            literals: [0; NUM_LITERALS],
            distances: [0; NUM_DISTANCES],
            extra_bits: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        self.literals.fill(0);
        self.distances.fill(0);
        self.extra_bits = 0;
    }

    #[inline]
    pub(super) fn literal(&mut self, byte: u8) {
        self.literals[usize::from(byte)] += 1;
        self.tokens.push(Token::literal(byte));
    }

    #[inline]
    pub(super) fn copy(&mut self, length: usize, distance: usize) {
        let token = Token::copy(length, distance);
        self.tokens.push(token);
        if let Err((length, distance)) = token.parts() {
            let (length, distance) = (length_symbol(length), distance_symbol(distance));
            self.literals[usize::from(length.index)] += 1;
            self.distances[usize::from(distance.index)] += 1;
            self.extra_bits += u64::from(length.extra_bits + distance.extra_bits);
        }
    }

    pub(super) fn num_tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the optimal codes of this block.
    pub(super) fn codes(&self) -> Codes {
        let mut literals = self.literals;
        literals[END_OF_BLOCK] = 1;
        let dynamic = Codes::new(
            huffman::code_lengths(&literals, MAX_BITS),
            huffman::code_lengths(&self.distances, MAX_BITS),
            true,
        );
        let fixed = Codes::fixed();
        if self.bits(&fixed) <= self.bits(&dynamic) {
            fixed
        } else {
            dynamic
        }
    }

    /// Returns the length of the block in bits with these codes.
    pub(super) fn bits(&self, codes: &Codes) -> u64 {
        let header: u64 = codes.header.iter().map(|b| u64::from(b.count)).sum();
        header + self.body_bits(codes)
    }

    /// Returns the length of the tokens in bits with these codes.
    pub(super) fn body_bits(&self, codes: &Codes) -> u64 {
        let sum = |frequencies: &[u32], lengths: &[u8]| -> u64 {
            let pairs = frequencies.iter().zip(lengths);
            pairs.map(|(f, l)| u64::from(*f) * u64::from(*l)).sum()
        };
        let end = codes.literal_lengths.get(END_OF_BLOCK).copied();
        sum(&self.literals, &codes.literal_lengths)
            + sum(&self.distances, &codes.distance_lengths)
            + self.extra_bits
            + u64::from(end.unwrap_or(0))
    }

    pub(super) fn write(&self, codes: &Codes, last: bool, out: &mut BitWriter<'_>) {
        out.reserve(self.bits(codes) + 1);
        out.put(Bits::new(u64::from(last), 1));
        codes.header.iter().for_each(|bits| out.put(*bits));
        let literals = huffman::codes(&codes.literal_lengths);
        let distances = huffman::codes(&codes.distance_lengths);
        let lengths: Vec<Bits> = (0..=u8::MAX)
            .map(|length| {
                let symbol = length_symbol(length);
                let extra = Bits::new(u64::from(symbol.extra), u32::from(symbol.extra_bits));
                literals[usize::from(symbol.index)].then(extra)
            })
            .collect();
        for token in &self.tokens {
            out.put(match token.parts() {
                Ok(byte) => literals[usize::from(byte)],
                Err((length, distance)) => {
                    let symbol = distance_symbol(distance);
                    let extra = Bits::new(u64::from(symbol.extra), u32::from(symbol.extra_bits));
                    lengths[usize::from(length)]
                        .then(distances[usize::from(symbol.index)])
                        .then(extra)
                }
            });
        }
        out.put(literals[END_OF_BLOCK]);
    }
}

/// The codes of a block, and the block header with the codes.
pub(super) struct Codes {
    pub(super) literal_lengths: Vec<u8>,
    pub(super) distance_lengths: Vec<u8>,
    /// The header without its first bit, which marks the last block.
    header: Vec<Bits>,
}

impl Codes {
    fn new(literal_lengths: Vec<u8>, distance_lengths: Vec<u8>, dynamic: bool) -> Self {
        let mut codes = Self {
            literal_lengths,
            distance_lengths,
            header: vec![Bits::new(0b01, 2)],
        };
        if dynamic {
            codes.header = codes.dynamic_header();
        }
        codes
    }

    /// Returns the fixed codes of RFC 1951, section 3.2.6.
    pub(super) fn fixed() -> Self {
        let mut literals = vec![8; 288];
        literals[144..256].fill(9);
        literals[256..280].fill(7);
        Self::new(literals, vec![5; 30], false)
    }

    fn dynamic_header(&self) -> Vec<Bits> {
        let used = |lengths: &[u8], least: usize| {
            let last = lengths.iter().rposition(|l| *l > 0).map_or(0, |at| at + 1);
            last.max(least)
        };
        let num_literals = used(&self.literal_lengths, 257);
        let num_distances = used(&self.distance_lengths, 1);
        let lengths = [
            &self.literal_lengths[..num_literals],
            &self.distance_lengths[..num_distances],
        ]
        .concat();
        let runs = run_lengths(&lengths);
        let mut frequencies = [0_u32; 19];
        for (symbol, _) in &runs {
            frequencies[usize::from(*symbol)] += 1;
        }
        let order_lengths = huffman::code_lengths(&frequencies, MAX_LENGTH_BITS);
        let order_codes = huffman::codes(&order_lengths);
        let num_order = LENGTH_ORDER
            .iter()
            .rposition(|symbol| order_lengths[*symbol] > 0)
            .map_or(4, |at| (at + 1).max(4));
        let count = |n: usize, least: usize, bits| Bits::new((n - least) as u64, bits);
        let mut header = vec![
            Bits::new(0b10, 2),
            count(num_literals, 257, 5),
            count(num_distances, 1, 5),
            count(num_order, 4, 4),
        ];
        let order = LENGTH_ORDER.iter().take(num_order);
        header.extend(order.map(|symbol| Bits::new(u64::from(order_lengths[*symbol]), 3)));
        header.extend(
            runs.iter()
                .map(|(symbol, extra)| order_codes[usize::from(*symbol)].then(*extra)),
        );
        header
    }
}

/// Converts code lengths into symbols of the length code. Each repetition has its extra bits.
fn run_lengths(lengths: &[u8]) -> Vec<(u8, Bits)> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(&length) = lengths.get(at) {
        let same = lengths[at..].iter().take_while(|l| **l == length).count();
        at += same;
        let mut left = same;
        if length > 0 {
            runs.push((length, Bits::default()));
            left -= 1;
        }
        while left >= 3 {
            let (symbol, least, bits) = match length {
                0 if left >= 11 => (MANY_ZEROS, 11, 7),
                0 => (FEW_ZEROS, 3, 3),
                _ => (REPEAT, 3, 2),
            };
            let take = left.min(least + (1 << bits) - 1);
            runs.push((symbol, Bits::new((take - least) as u64, bits)));
            left -= take;
        }
        runs.extend(std::iter::repeat_n((length, Bits::default()), left));
    }
    runs
}
