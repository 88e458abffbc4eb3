// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversion of bits into bytes, lowest bit first (RFC 1951, section 3.1.1).

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
