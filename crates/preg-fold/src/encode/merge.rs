// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folding of the differences of a region into products.
//!
//! Names are often generated like an odometer. Then the difference of the fastest counter is the
//! most frequent, that of the next counter the second, and so on. So the differences are processed
//! in order of frequency. Each pass joins neighbors of equal shape into a loop around this shape.
//! The list may begin and end within a round. The first neighbor is then the end of a shape, the
//! last neighbor is the beginning of a shape, and the element is a window of a product. The number
//! of passes and comparisons is bounded, so the time is linear.

use super::region::{Region, Step, Symbol, index};
use super::shape::{SINGLE, ShapeId, Shapes};
use crate::format::digits;

/// The maximum number of differences that become loops. Each takes a pass.
const PASSES: usize = 16;
/// The reciprocal of the minimum frequency: a difference gets a pass only if it precedes at least
/// one in `RARE` elements.
const RARE: u64 = 256;
/// The number of rounds from which on a loop is always shorter. For fewer rounds, the lengths are
/// compared.
const SURE: usize = 8;
/// The number of bytes by which a whole product may be longer than its parts.
const SLACK: usize = 2;

/// A window of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    /// The offset in the text of the first record.
    pub(crate) offset: usize,
    pub(crate) shape: ShapeId,
    /// The index in the product of the first record.
    pub(crate) skip: u64,
    /// The number of records.
    pub(crate) total: u64,
    /// The difference from the last record to the first record of the next element.
    pub(crate) joint: Option<Symbol>,
}

/// Folds a region into windows of products, in order.
pub(crate) fn fold(region: &Region<'_>, shapes: &mut Shapes<'_>) -> Vec<Element> {
    let counts = &region.symbols.counts;
    let mut order: Vec<Symbol> = (0..).take(region.symbols.len()).collect();
    let by_count = |s: &Symbol| std::cmp::Reverse(counts.get(index(*s)).copied());
    if order.len() > PASSES {
        // Selects the most frequent differences. They are sorted below.
        order.select_nth_unstable_by_key(PASSES - 1, |s| (by_count(s), *s));
        order.truncate(PASSES);
    }
    order.sort_unstable_by_key(|s| (by_count(s), *s));
    let Some((fastest, slower)) = order.split_first() else {
        return Vec::new();
    };
    let mut elements = runs(region, *fastest, shapes);
    for symbol in slower {
        let count = counts.get(index(*symbol)).copied().unwrap_or(0);
        if count.saturating_mul(RARE) < u64::try_from(elements.len()).unwrap_or(u64::MAX) {
            continue;
        }
        Pass {
            region,
            shapes,
            symbol: *symbol,
        }
        .join(&mut elements);
    }
    elements
}

/// Converts consecutive equal differences into elements. The record between two such elements
/// belongs to the one with the difference `fastest`, or else to the first one.
fn runs(region: &Region<'_>, fastest: Symbol, shapes: &mut Shapes<'_>) -> Vec<Element> {
    let single = |offset| Element {
        offset,
        shape: SINGLE,
        skip: 0,
        total: 1,
        joint: None,
    };
    let mut elements: Vec<Element> = Vec::new();
    let mut open = single(region.layout.record.start);
    for (at, step) in region.steps.iter().enumerate() {
        let next = region.steps.get(at + 1);
        if step.symbol == fastest {
            open.total += u64::from(step.count);
            open.shape = shapes.intern(SINGLE, open.total, step.symbol);
        } else if let (1, Some(next)) = (step.count, next) {
            open.joint = Some(step.symbol);
            elements.push(open);
            open = single(next.offset);
        } else {
            open = other_run(region, step, next, fastest, open, shapes, &mut elements);
        }
    }
    elements.push(open);
    elements
}

/// Adds consecutive equal differences that are not `fastest` as an element. The element includes
/// the record before it if that record is single. It leaves its last record to the next element if
/// that one has the difference `fastest`.
fn other_run(
    region: &Region<'_>,
    step: &Step,
    next: Option<&Step>,
    fastest: Symbol,
    mut open: Element,
    shapes: &mut Shapes<'_>,
    elements: &mut Vec<Element>,
) -> Element {
    let leave = next.filter(|n| n.symbol == fastest);
    let mut total = u64::from(step.count) - u64::from(leave.is_some());
    let mut run = open;
    if open.shape == SINGLE {
        total += 1;
    } else {
        open.joint = Some(step.symbol);
        run.offset = region.layout.end(step.offset) + 1;
        elements.push(open);
    }
    if total > 0 {
        run.total = total;
        run.shape = match total {
            1 => SINGLE,
            _ => shapes.intern(SINGLE, total, step.symbol),
        };
    }
    match leave {
        Some(next) => {
            if total > 0 {
                run.joint = Some(step.symbol);
                elements.push(run);
            }
            Element {
                offset: next.offset,
                shape: SINGLE,
                skip: 0,
                total: 1,
                joint: None,
            }
        }
        None => run,
    }
}

/// A pass, which joins the elements that one difference separates.
struct Pass<'p, 's, 'a> {
    region: &'p Region<'a>,
    shapes: &'p mut Shapes<'s>,
    symbol: Symbol,
}

impl Pass<'_, '_, '_> {
    fn join(&mut self, elements: &mut Vec<Element>) {
        let (mut read, mut write) = (0, 0);
        while read < elements.len() {
            let (joined, used) = match self.chain(&elements[read..]) {
                Some(found) => found,
                None => (elements[read], 1),
            };
            elements[write] = joined;
            write += 1;
            read += used;
        }
        elements.truncate(write);
    }

    /// Joins the first elements into a product. Returns the product and the number of elements in
    /// it, or `None` if they form no product.
    fn chain(&mut self, elements: &[Element]) -> Option<(Element, usize)> {
        let [first, second, ..] = elements else {
            return None;
        };
        if first.joint != Some(self.symbol) {
            return None;
        }
        let shape = if self.is_full(second) && self.is_end(first, second.shape) {
            second.shape
        } else if self.is_full(first) && self.is_start(second, first.shape) {
            first.shape
        } else {
            return None;
        };
        let joined = |at: usize| elements[at - 1].joint == Some(self.symbol);
        let mut used = 1;
        while used < elements.len()
            && joined(used)
            && elements[used].shape == shape
            && self.is_full(&elements[used])
        {
            used += 1;
        }
        let tail = used < elements.len() && joined(used) && self.is_start(&elements[used], shape);
        let found = tail
            .then(|| self.product(&elements[..=used], shape))
            .flatten();
        if let Some(product) = found {
            return Some((product, used + 1));
        }
        if used < 2 {
            return None;
        }
        Some((self.product(&elements[..used], shape)?, used))
    }

    /// Returns the elements as rounds of a loop around `shape`, if that is valid and shorter.
    fn product(&mut self, parts: &[Element], shape: ShapeId) -> Option<Element> {
        let (first, last) = (parts.first()?, parts.last()?);
        let count = u64::try_from(parts.len()).ok()?;
        let inner = self.shapes.get(shape).size;
        let skip = inner.checked_sub(first.total)?;
        let total: u64 = parts.iter().map(|p| p.total).sum();
        let size = inner.checked_mul(count)?;
        if parts.len() < SURE {
            let cost = self.shapes.cost(shape, count, self.symbol) + window(skip, total, size);
            let joint = self.shapes.joint_cost(self.symbol);
            let apart: usize = parts.iter().map(|p| self.cost(p)).sum();
            // A whole product may be longer by `SLACK`, because a later pass may make it a round of
            // an outer loop.
            let slack = if total == size { SLACK } else { 0 };
            if cost > apart + joint * (parts.len() - 1) + slack {
                return None;
            }
        }
        let id = self.shapes.intern(shape, count, self.symbol);
        if total < size {
            let values = self.region.layout.values(first.offset);
            if !self.shapes.fits(id, skip, &values) {
                return None;
            }
        }
        Some(Element {
            offset: first.offset,
            shape: id,
            skip,
            total,
            joint: last.joint,
        })
    }

    fn cost(&self, element: &Element) -> usize {
        let shape = self.shapes.get(element.shape);
        shape.cost + window(element.skip, element.total, shape.size)
    }

    fn is_full(&self, element: &Element) -> bool {
        element.skip == 0 && element.total == self.shapes.get(element.shape).size
    }

    /// Returns `true` if the element consists of the last records of a shape, or of all.
    fn is_end(&self, element: &Element, shape: ShapeId) -> bool {
        element.total <= self.shapes.get(shape).size
            && self.shapes.part(shape, element.total) == Some(element.shape)
            && element.skip + element.total == self.shapes.get(element.shape).size
    }

    /// Returns `true` if the element consists of the first records of a shape, or of all.
    fn is_start(&self, element: &Element, shape: ShapeId) -> bool {
        element.total <= self.shapes.get(shape).size
            && self.shapes.part(shape, element.total) == Some(element.shape)
            && element.skip == 0
    }
}

/// Returns the length of a window in the value, in bytes.
fn window(skip: u64, total: u64, size: u64) -> usize {
    let skipped = if skip > 0 { 1 + digits(skip) } else { 0 };
    let taken = if skip + total < size {
        1 + digits(total)
    } else {
        0
    };
    skipped + taken
}
