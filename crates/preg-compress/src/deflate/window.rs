// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access to text in words of eight bytes.

/// Returns the eight bytes from `at` on, with zeros past the end.
#[inline]
pub(super) fn word(text: &[u8], at: usize) -> u64 {
    match text.get(at..at + 8).and_then(<[u8]>::first_chunk) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            let rest = text.get(at..).unwrap_or_default();
            bytes
                .iter_mut()
                .zip(rest)
                .for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(bytes)
        }
    }
}

/// Returns the length of the match between the bytes at `from` and at `at`, up to `most`. `from` is
/// less than `at`, and `at + most` is within the text.
#[inline]
pub(super) fn match_length(text: &[u8], from: usize, at: usize, most: usize) -> usize {
    let mut length = 0;
    while length < most {
        let differ = word(text, from + length) ^ word(text, at + length);
        if differ != 0 {
            return most.min(length + differ.trailing_zeros() as usize / 8);
        }
        length += 8;
    }
    most
}
