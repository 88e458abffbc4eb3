// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thorough parse, for lists without order: it finds the encoding of a stretch of text with the
//! fewest bits.
//!
//! Each position stores the last token of the cheapest encoding of the text before it. The next
//! token is a literal or a match. Candidates for matches are the latest positions with the same
//! four bytes, because short distances are cheap. The latest positions with the same ten bytes are
//! also candidates, because these matches are long.

use std::ops::Range;

use super::block::Block;
use super::chains::{Chains, match_length};
use super::cost_model::CostModel;
use super::symbols::{MAX_MATCH, MIN_MATCH, WINDOW};

/// The length of a stretch in bytes. Prices are adapted after each stretch.
const STRETCH: usize = 16 << 10;

/// The maximum numbers of examined positions with the same four bytes, and with the same ten bytes.
const DEPTH: (usize, usize) = (3, 8);

/// The same numbers for positions inside a good match, most of which are skipped.
const SHALLOW: (usize, usize) = (1, 2);

const GOOD: usize = 8;

/// The length from which on a match is used without examining alternatives.
const NICE: usize = 26;

/// The state of the parse, shared by all blocks of a text.
pub(super) struct OptimalParse {
    four: Chains<4>,
    ten: Chains<10>,
    ways: ShortestPaths,
    path: Vec<Step>,
}

/// A position from which tokens are offered.
#[derive(Clone, Copy)]
struct Place<'a> {
    text: &'a [u8],
    at: usize,
    /// The offset from the start of the stretch.
    here: usize,
    /// The maximum length of a match, which must end inside the stretch.
    most: usize,
}

impl OptimalParse {
    pub(super) fn new() -> Self {
        Self::reaching(0)
    }

    /// Creates a parse whose matches do not reach back before `first`.
    pub(super) fn reaching(first: usize) -> Self {
        Self {
            four: Chains::new(first),
            ten: Chains::new(first),
            ways: ShortestPaths::new(STRETCH),
            path: Vec::new(),
        }
    }

    /// Appends tokens for the next part of the text to the block. Each part must begin at the end
    /// of the previous part.
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

    /// Finds the cheapest encoding up to each position of a stretch.
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

    /// Offers all tokens at a place, and returns the length of the longest match.
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

    /// Appends the tokens of the cheapest encoding of a stretch.
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

/// Follows a chain, offers each match that is longer than all before, and returns the length of the
/// longest.
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

// The shortest path to each position of a stretch: the cheapest encoding of the text before the
// position.

/// The price of a position that has not been reached.
const UNREACHED: u32 = u32::MAX;

/// The last token of the cheapest encoding up to a position. A literal has length 1.
#[derive(Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) length: u16,
    pub(super) distance: u16,
}

/// The cheapest encodings. Positions are relative to the start of the stretch.
pub(super) struct ShortestPaths {
    pub(super) prices: CostModel,
    costs: Vec<u32>,
    steps: Vec<Step>,
}

impl ShortestPaths {
    /// Creates paths through stretches of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            prices: CostModel::new(),
            costs: vec![0; most + 1],
            steps: vec![Step::default(); most + 1],
        }
    }

    /// Clears all paths except the one to the start.
    pub(super) fn start(&mut self, len: usize) {
        self.costs[..=len].fill(UNREACHED);
        self.costs[0] = 0;
    }

    /// Offers a literal after a reached position.
    #[inline]
    pub(super) fn offer_literal(&mut self, here: usize, byte: u8) {
        let cost = self.costs[here] + self.prices.literal(byte);
        if cost < self.costs[here + 1] {
            self.costs[here + 1] = cost;
            self.steps[here + 1] = Step {
                length: 1,
                distance: 0,
            };
        }
    }

    /// Offers a match with each of these lengths after a reached position.
    #[inline]
    pub(super) fn offer_match(&mut self, here: usize, lengths: Range<usize>, distance: usize) {
        let cost = self.costs[here] + self.prices.distance(distance);
        let reached = here + lengths.start..here + lengths.end;
        let prices = &self.prices.lengths()[lengths.clone()];
        let costs = &mut self.costs[reached.clone()];
        let steps = &mut self.steps[reached];
        for (((old, step), price), length) in costs.iter_mut().zip(steps).zip(prices).zip(lengths) {
            if cost + price < *old {
                *old = cost + price;
                *step = Step {
                    length: length as u16,
                    distance: distance as u16,
                };
            }
        }
    }

    /// Stores the tokens of the cheapest encoding up to `end` in `path`, last token first.
    pub(super) fn back_from(&self, end: usize, path: &mut Vec<Step>) {
        path.clear();
        let mut here = end;
        while here > 0 {
            let step = self.steps[here];
            path.push(step);
            here -= usize::from(step.length);
        }
    }
}
