// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quick parse, for lists in which a name is the name before but for a few digits.
//!
//! A general encoder looks for the longest match anywhere in the window, and in a list of
//! consecutive names that is some name ten or a thousand names back: a distance of 13 bits for
//! one digit gained. Here the same distance is tried again and again, the length of a name: one
//! short match and one literal digit a name, and both become the shortest codes of the block.

use super::block::Block;
use super::symbols::{MAX_MATCH, MIN_MATCH, WINDOW};
use super::window::{match_length, word};

/// A block ends at so many tokens; a list that changes gets codes that change.
const BLOCK_TOKENS: usize = 32 << 10;
const TABLE_BITS: u32 = 13;
/// Short texts do not pay for a table that they cannot fill.
const SHORT_TEXT: usize = 16 << 10;
const SHORT_TABLE_BITS: u32 = 10;
/// From here on a match at a new distance is worth leaving the old one: a list that repeats.
const LONG_MATCH: usize = 24;
/// How far back the start of a name is looked for.
const MAX_NAME: usize = 80;
/// How many bytes must have led up to a place to find it again.
const TRACE: usize = 8;

/// Where the parse stands; one for all blocks of a text.
pub(super) struct FastParse {
    /// Where the bytes before a token were last seen before a token.
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

    /// The length of the match to take at `at`; its distance is then the parse's.
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
            // Names changed their width: from here on they align again.
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

    /// A long match where the same bytes led up to a token before. They hold the digits in which
    /// the name differs from its neighbours, so in a list without repeats nothing is found.
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

/// The distance from the separator at `at` to the one before it.
fn name_distance(text: &[u8], at: usize) -> Option<usize> {
    let back = &text[at.saturating_sub(MAX_NAME)..at];
    let name = back.iter().rev().position(|b| is_separator(*b))?;
    Some(name + 1)
}
