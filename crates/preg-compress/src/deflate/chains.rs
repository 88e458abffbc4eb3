// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains of earlier positions with the same bytes, latest first, and word-wise access to text.

use super::symbols::WINDOW;

const TABLE_BITS: u32 = 15;

/// The chains of the last [`WINDOW`] positions. The positions of a chain have the same next `BYTES`
/// bytes, 4 to 16.
///
/// The table stores positions plus the window size, modulo 2^32. So the zeros of an empty table are
/// one window back and never match. A wrong entry is harmless, because callers compare the bytes.
pub(super) struct Chains<const BYTES: u32> {
    heads: Vec<u32>,
    /// The distance of each position in the window to its predecessor in the chain.
    links: Vec<u32>,
    /// The next position to insert.
    next: usize,
}

impl<const BYTES: u32> Chains<BYTES> {
    /// Creates chains for the positions from `first` on.
    pub(super) fn new(first: usize) -> Self {
        Self {
            heads: vec![0; 1 << TABLE_BITS],
            links: vec![0; WINDOW],
            next: first,
        }
    }

    /// Inserts the missing positions of the window before `at`.
    pub(super) fn catch_up(&mut self, text: &[u8], at: usize) {
        for position in self.next.max(at.saturating_sub(WINDOW))..at {
            self.insert(text, position);
        }
    }

    /// Inserts a position and returns the distance to its predecessor in the chain.
    #[inline]
    pub(super) fn insert(&mut self, text: &[u8], at: usize) -> usize {
        self.next = at + 1;
        let key = Self::key(text, at);
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - TABLE_BITS)) as usize;
        let entry = (at as u32).wrapping_add(WINDOW as u32);
        let distance = entry.wrapping_sub(std::mem::replace(&mut self.heads[slot], entry));
        self.links[at % WINDOW] = distance;
        distance as usize
    }

    /// Returns a hash of the bytes at a position, up to two words.
    #[inline]
    fn key(text: &[u8], at: usize) -> u64 {
        let first = word(text, at);
        match BYTES.checked_sub(8) {
            None | Some(0) => first << (u64::BITS - 8 * BYTES),
            Some(more) => {
                first.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ word(text, at + more as usize)
            }
        }
    }

    /// Returns the distance from a position to its predecessor in the chain.
    #[inline]
    pub(super) fn earlier(&self, from: usize) -> usize {
        self.links[from % WINDOW] as usize
    }
}

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
