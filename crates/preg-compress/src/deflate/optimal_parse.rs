// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thorough parse, for lists without order: of all ways to write a stretch of text, the one
//! that takes the fewest bits.
//!
//! Each position knows the cheapest way to reach it. From there it may be left by a literal or by
//! a match: with one of the latest positions where the same four bytes stand, since what is near
//! is cheap, or of the latest with the same ten, since those matches are long.

use std::ops::Range;

use super::block::Block;
use super::chains::Chains;
use super::shortest_paths::{ShortestPaths, Step};
use super::symbols::{MAX_MATCH, MIN_MATCH, WINDOW};
use super::window::match_length;

/// How much text is priced at once; prices are adapted in between.
const STRETCH: usize = 16 << 10;
/// How many positions with the same four bytes, and with the same ten, are looked at.
const DEPTH: (usize, usize) = (3, 8);
/// The same behind the start of a good match, where most positions will be passed over.
const SHALLOW: (usize, usize) = (1, 2);
const GOOD: usize = 8;
/// A match of this length is taken as it is.
const NICE: usize = 26;

/// Where the parse stands; one for all blocks of a text.
pub(super) struct OptimalParse {
    four: Chains<4>,
    ten: Chains<10>,
    ways: ShortestPaths,
    path: Vec<Step>,
}

/// A position that is to be left.
#[derive(Clone, Copy)]
struct Place<'a> {
    text: &'a [u8],
    at: usize,
    /// The same from the start of the stretch.
    here: usize,
    /// The longest match that stays in the stretch.
    most: usize,
}

impl OptimalParse {
    pub(super) fn new() -> Self {
        Self::reaching(0)
    }

    /// A parse whose matches reach back to `first` at most.
    pub(super) fn reaching(first: usize) -> Self {
        Self {
            four: Chains::new(first),
            ten: Chains::new(first),
            ways: ShortestPaths::new(STRETCH),
            path: Vec::new(),
        }
    }

    /// Appends tokens for a part of the text to the block. Parts come in order.
    pub(super) fn parse(&mut self, text: &[u8], part: Range<usize>, block: &mut Block) {
        self.four.catch_up(text, part.start);
        self.ten.catch_up(text, part.start);
        let mut at = part.start;
        while at < part.end {
            let stop = part.end.min(at + STRETCH);
            self.price(text, at, stop);
            self.emit(text, at, stop, block);
            self.ways.prices.adapt();
            at = stop;
        }
    }

    /// Finds the cheapest way to each position of a stretch.
    fn price(&mut self, text: &[u8], start: usize, stop: usize) {
        self.ways.start(stop - start);
        let (mut at, mut longest) = (start, 0);
        while at < stop {
            let depth = if longest > GOOD { SHALLOW } else { DEPTH };
            let place = Place {
                text,
                at,
                here: at - start,
                most: (stop - at).min(MAX_MATCH),
            };
            longest = self.leave(place, depth);
            at += 1;
            if longest >= NICE {
                let behind = at + longest - 1;
                for skipped in at..behind {
                    self.four.insert(text, skipped);
                    self.ten.insert(text, skipped);
                }
                (at, longest) = (behind, 0);
            }
        }
    }

    /// Offers all ways from a place; returns the length of its longest match.
    #[inline]
    fn leave(&mut self, place: Place<'_>, depth: (usize, usize)) -> usize {
        let Place { text, at, here, .. } = place;
        self.ways.offer_literal(here, text[at]);
        let nearest = self.four.insert(text, at);
        let likeliest = self.ten.insert(text, at);
        let longest = MIN_MATCH - 1;
        let longest = follow(&self.four, nearest, depth.0, place, longest, &mut self.ways);
        follow(
            &self.ten,
            likeliest,
            depth.1,
            place,
            longest,
            &mut self.ways,
        )
    }

    /// Writes the cheapest way through a stretch.
    fn emit(&mut self, text: &[u8], start: usize, stop: usize, block: &mut Block) {
        self.ways.back_from(stop - start, &mut self.path);
        let mut at = start;
        for step in self.path.iter().rev() {
            let (length, distance) = (usize::from(step.length), usize::from(step.distance));
            if length == 1 {
                block.literal(text[at]);
                self.ways.prices.count_literal(text[at]);
            } else {
                block.copy(length, distance);
                self.ways.prices.count_match(length, distance);
            }
            at += length;
        }
    }
}

/// Follows a chain and offers what is longer than the matches before; returns the longest.
#[inline]
fn follow<const BYTES: u32>(
    chains: &Chains<BYTES>,
    mut distance: usize,
    depth: usize,
    place: Place<'_>,
    mut longest: usize,
    ways: &mut ShortestPaths,
) -> usize {
    let Place {
        text,
        at,
        here,
        most,
    } = place;
    for _ in 0..depth {
        if distance >= WINDOW.min(at + 1) || longest >= most.min(NICE) {
            break;
        }
        let from = at - distance;
        if text[from + longest] == text[at + longest] {
            let length = match_length(text, from, at, most);
            if length > longest {
                ways.offer_match(here, longest + 1..length + 1, distance);
                longest = length;
            }
        }
        distance += chains.earlier(from);
    }
    longest
}
