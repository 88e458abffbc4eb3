// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefix codes of limited length (RFC 1951, section 3.2.2), and the writer of bits.

/// The maximum code length in bits for literals and distances, and for code lengths.
pub(super) const MAX_BITS: usize = 15;

pub(super) const MAX_LENGTH_BITS: usize = 7;

/// Returns the code length of each symbol, zero for a symbol that does not occur. At least two
/// symbols get a code, because decoders require complete codes.
pub(super) fn code_lengths(frequencies: &[u32], limit: usize) -> Vec<u8> {
    let mut lengths = vec![0; frequencies.len()];
    let mut used: Vec<(u32, usize)> = frequencies
        .iter()
        .enumerate()
        .filter(|(_, f)| **f > 0)
        .map(|(symbol, f)| (*f, symbol))
        .collect();
    while used.len() < 2 {
        let spare = usize::from(used.first().is_some_and(|(_, symbol)| *symbol == 0));
        used.push((1, spare));
    }
    used.sort_unstable();
    let counts = limited(depth_counts(&used), used.len(), limit);
    // The rarest symbols are first and get the longest codes.
    let mut symbols = used.iter().map(|(_, symbol)| *symbol);
    for (bits, count) in counts.iter().enumerate().rev() {
        for symbol in symbols.by_ref().take(*count) {
            lengths[symbol] = bits as u8;
        }
    }
    lengths
}

/// Returns the number of leaves of Huffman's tree at each depth. The frequencies must be sorted.
fn depth_counts(leaves: &[(u32, usize)]) -> Vec<usize> {
    let n = leaves.len();
    let mut weights: Vec<u64> = leaves.iter().map(|(f, _)| u64::from(*f)).collect();
    let mut parents = vec![0; 2 * n - 1];
    let (mut leaf, mut node) = (0, n);
    for parent in n..2 * n - 1 {
        let mut sum = 0;
        for _ in 0..2 {
            let take_leaf = leaf < n && (node >= parent || weights[leaf] <= weights[node]);
            let least = if take_leaf { &mut leaf } else { &mut node };
            sum += weights[*least];
            parents[*least] = parent;
            *least += 1;
        }
        weights.push(sum);
    }
    let mut depths = vec![0; 2 * n - 1];
    for at in (0..2 * n - 2).rev() {
        depths[at] = depths[parents[at]] + 1;
    }
    let mut counts = vec![0; n + 1];
    for depth in &depths[..n] {
        counts[*depth] += 1;
    }
    counts
}

/// Moves leaves up until none is deeper than the limit, and moves others down to make the code
/// complete again.
fn limited(mut counts: Vec<usize>, leaves: usize, limit: usize) -> Vec<usize> {
    let deep: usize = counts.iter().skip(limit + 1).sum();
    counts.resize(limit + 1, 0);
    counts[limit] += deep;
    // A complete code fills the tree exactly. Sizes are in leaves of the deepest level.
    let room = 1_usize << limit;
    let mut taken: usize = (1..=limit).map(|b| counts[b] << (limit - b)).sum();
    while taken > room {
        // A leaf above the limit becomes an inner node, whose children are the leaf and one from
        // the deepest level.
        let above = (1..limit).rev().find(|b| counts[*b] > 0);
        let Some(above) = above else { break };
        counts[limit] -= 1;
        counts[above] -= 1;
        counts[above + 1] += 2;
        taken -= 1;
    }
    debug_assert_eq!(counts.iter().sum::<usize>(), leaves);
    counts
}

/// Returns the canonical codes for these lengths. The bits of each code are reversed for output.
pub(super) fn codes(lengths: &[u8]) -> Vec<Bits> {
    let mut counts = [0_u32; MAX_BITS + 1];
    for length in lengths.iter().filter(|l| **l > 0) {
        counts[usize::from(*length)] += 1;
    }
    let mut next = [0_u32; MAX_BITS + 2];
    for bits in 1..=MAX_BITS {
        next[bits + 1] = (next[bits] + counts[bits]) << 1;
    }
    lengths
        .iter()
        .map(|length| {
            let bits = u32::from(*length);
            if bits == 0 {
                return Bits::default();
            }
            let code = next[usize::from(*length)];
            next[usize::from(*length)] += 1;
            Bits::new(u64::from(code.reverse_bits() >> (32 - bits)), bits)
        })
        .collect()
}

/// One or more codes, at most 56 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) value: u64,
    pub(super) count: u32,
}

impl Bits {
    pub(super) fn new(value: u64, count: u32) -> Self {
        Self { value, count }
    }

    /// Returns these bits followed by `next`.
    pub(super) fn then(self, next: Self) -> Self {
        Self {
            value: self.value | next.value << self.count,
            count: self.count + next.count,
        }
    }
}

/// A writer of bits. The caller reserves the bits before it writes them.
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    at: usize,
    held: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        let at = out.len();
        Self {
            out,
            at,
            held: 0,
            count: 0,
        }
    }

    /// Reserves memory for `bits` more bits.
    pub(super) fn reserve(&mut self, bits: u64) {
        let bytes = usize::try_from(bits / 8).unwrap_or(usize::MAX);
        // Each store writes a whole word. Only the full bytes of the word count.
        self.out
            .resize(self.at.saturating_add(bytes).saturating_add(16), 0);
    }

    #[inline]
    pub(super) fn put(&mut self, bits: Bits) {
        self.held |= bits.value << self.count;
        self.count += bits.count;
        if let Some(word) = self.out.get_mut(self.at..self.at + 8) {
            word.copy_from_slice(&self.held.to_le_bytes());
        }
        let full = self.count / 8;
        self.at += full as usize;
        // At most 63 bits are held, so `full` is at most seven.
        self.held >>= full * 8;
        self.count %= 8;
    }

    /// Fills the last byte with zeros and truncates the vector to the written bytes.
    pub(super) fn finish(self) {
        self.out.truncate(self.at + usize::from(self.count > 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(frequencies: &[u32], lengths: &[u8]) -> u64 {
        let pairs = frequencies.iter().zip(lengths);
        pairs.map(|(f, l)| u64::from(*f) * u64::from(*l)).sum()
    }

    fn kraft(lengths: &[u8], limit: usize) -> usize {
        let used = lengths.iter().filter(|l| **l > 0);
        used.map(|l| 1 << (limit - usize::from(*l))).sum()
    }

    #[test]
    fn frequent_symbols_get_short_codes() {
        assert_eq!(
            code_lengths(&[45, 13, 12, 16, 9, 5], 15),
            [1, 3, 3, 3, 4, 4]
        );
        assert_eq!(code_lengths(&[0, 7, 0, 7], 15), [0, 1, 0, 1]);
    }

    #[test]
    fn codes_are_complete_even_for_one_symbol() {
        assert_eq!(code_lengths(&[0, 0, 9], 15), [1, 0, 1]);
        assert_eq!(code_lengths(&[9, 0, 0], 15), [1, 1, 0]);
        assert_eq!(code_lengths(&[0, 0, 0], 7), [1, 1, 0]);
    }

    #[test]
    fn codes_respect_the_limit_and_waste_nothing() {
        let mut frequencies = vec![1_u32, 1];
        while frequencies.len() < 40 {
            let n = frequencies.len();
            frequencies.push(frequencies[n - 1].saturating_add(frequencies[n - 2]));
        }
        for limit in [7, 9, 15] {
            let lengths = code_lengths(&frequencies, limit);
            assert!(lengths.iter().all(|l| usize::from(*l) <= limit && *l > 0));
            assert_eq!(kraft(&lengths, limit), 1 << limit);
        }
        let unlimited = cost(&frequencies, &code_lengths(&frequencies, 39));
        let limited = cost(&frequencies, &code_lengths(&frequencies, 15));
        assert!(limited >= unlimited && limited < unlimited * 102 / 100);
    }

    #[test]
    fn codes_are_canonical() {
        // RFC 1951, section 3.2.2: A to H with these lengths.
        let codes = codes(&[3, 3, 3, 3, 3, 2, 4, 4]);
        let shown: Vec<_> = codes
            .iter()
            .map(|c| c.value.reverse_bits() >> (64 - c.count))
            .collect();
        assert_eq!(shown, [2, 3, 4, 5, 6, 0, 14, 15]);
    }

    #[test]
    fn the_first_bit_is_the_lowest() {
        let mut out = b"x".to_vec();
        let mut writer = BitWriter::new(&mut out);
        writer.reserve(75);
        writer.put(Bits::new(1, 1));
        writer.put(Bits::new(0b10, 2).then(Bits::new(0b11, 2)));
        writer.put(Bits::new(0, 8));
        writer.put(Bits::new(u64::MAX >> 8, 56));
        writer.put(Bits::new(1, 6));
        writer.finish();
        assert_eq!(
            out,
            [
                b'x',
                0b0001_1101,
                0b1110_0000,
                255,
                255,
                255,
                255,
                255,
                255,
                0b0011_1111,
                0
            ]
        );
    }
}
