// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shortest path to each position of a stretch: the cheapest encoding of the text before the
//! position.

use std::ops::Range;

use super::cost_model::CostModel;

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
