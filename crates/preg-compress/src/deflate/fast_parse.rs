// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quick parse, for lists in which names differ from their predecessor in a few digits.
//!
//! A general encoder looks for the longest match anywhere in the window. In a list of consecutive
//! names, the longest match is ten or a thousand names back: a distance of 13 bits for one more
//! digit. This parse always tries the same distance first, the length of a name. Each name is one
//! short match and one literal digit, and both get the shortest codes of the block.

use super::block::Block;
use super::chains::{match_length, word};
use super::symbols::{MAX_MATCH, MIN_MATCH, WINDOW};

/// The number of tokens of a block. A new block gets new codes, as the list may have changed.
const BLOCK_TOKENS: usize = 32 << 10;
const TABLE_BITS: u32 = 13;
/// The length in bytes below which a text gets a smaller table, because it could not fill a large
/// one.
const SHORT_TEXT: usize = 16 << 10;
const SHORT_TABLE_BITS: u32 = 10;
/// The minimum length of a match at a new distance, for lists with repetitions.
const LONG_MATCH: usize = 24;
/// The maximum number of bytes that are searched for the start of a name.
const MAX_NAME: usize = 80;
/// The number of bytes before a token by which an earlier place with the same bytes is found.
const TRACE: usize = 8;

/// The state of the parse, shared by all blocks of a text.
pub(super) struct FastParse {
    /// The last position after certain bytes, by a hash of these bytes.
    table: Vec<u32>,
    shift: u32,
    /// The distance of the last match.
    distance: usize,
}

impl FastParse {
    pub(super) fn new(text_len: usize) -> Self {
        let bits = if text_len < SHORT_TEXT {
            SHORT_TABLE_BITS
        } else {
            TABLE_BITS
        };
        Self {
            table: vec![0; 1 << bits],
            shift: u64::BITS - bits,
            distance: 1,
        }
    }

    /// Appends tokens for a part of the text that begins at `at`, and returns its end.
    pub(super) fn parse(&mut self, text: &[u8], mut at: usize, block: &mut Block) -> usize {
        while at < text.len() && block.num_tokens() < BLOCK_TOKENS {
            let length = self.find(text, at, (text.len() - at).min(MAX_MATCH));
            if length >= MIN_MATCH {
                block.copy(length, self.distance);
                at += length;
            } else {
                block.literal(text[at]);
                at += 1;
            }
        }
        at
    }

    /// Returns the length of the match at `at`, and sets `distance` to the distance of the match.
    #[inline]
    fn find(&mut self, text: &[u8], at: usize, most: usize) -> usize {
        let mut length = match at.checked_sub(self.distance) {
            Some(from) => match_length(text, from, at, most),
            None => 0,
        };
        if length < MIN_MATCH {
            if !is_separator(text[at]) {
                return 0;
            }
            // The length of the names has changed, so the distance changes as well.
            if let Some(distance) = name_distance(text, at) {
                self.distance = distance;
                length = match_length(text, at - distance, at, most);
            }
        }
        if length < LONG_MATCH
            && let Some((long, distance)) = self.repeat(text, at, most)
        {
            self.distance = distance;
            return long;
        }
        length
    }

    /// Returns the length and distance of a long match with an earlier place after the same bytes.
    /// These bytes include the digits in which a name differs from its neighbors, so a list without
    /// repetitions has no such place.
    #[inline]
    fn repeat(&mut self, text: &[u8], at: usize, most: usize) -> Option<(usize, usize)> {
        let trace = word(text, at.checked_sub(TRACE)?);
        let slot = trace.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        let found = std::mem::replace(&mut self.table[slot as usize], at as u32) as usize;
        let distance = at - found;
        if found < TRACE || distance > WINDOW || word(text, found - TRACE) != trace {
            return None;
        }
        let length = match_length(text, found, at, most);
        (length >= LONG_MATCH).then_some((length, distance))
    }
}

fn is_separator(byte: u8) -> bool {
    byte == b',' || byte == b';'
}

/// Returns the distance from the separator at `at` to the previous one.
fn name_distance(text: &[u8], at: usize) -> Option<usize> {
    let back = &text[at.saturating_sub(MAX_NAME)..at];
    let name = back.iter().rev().position(|b| is_separator(*b))?;
    Some(name + 1)
}
