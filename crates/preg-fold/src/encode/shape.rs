// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of loops, with one number for equal ones, and the period of the shapes of the next names.

use std::collections::{HashMap, VecDeque};

use super::region::{Symbol, Symbols};
use crate::format::{VALUE_END, digits};

/// The number of a shape in its [`Shapes`].
pub(crate) type ShapeId = usize;

/// The shape of a single record.
pub(crate) const SINGLE: ShapeId = 0;

/// A loop around an inner shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) inner: ShapeId,
    pub(crate) count: u64,
    /// The difference from the last record of a round to the first of the next.
    pub(crate) symbol: Symbol,
    /// The number of records in the shape.
    pub(crate) size: u64,
    /// The approximate length of the loops in the value, in bytes.
    pub(crate) cost: usize,
}

/// All shapes of a region.
#[derive(Debug)]
pub(crate) struct Shapes<'s> {
    pub(crate) symbols: &'s Symbols,
    columns: usize,
    shapes: Vec<Shape>,
    /// The total increments from the first to the last record of each shape, a row of `columns`
    /// numbers each.
    spans: Vec<i64>,
    numbers: HashMap<(ShapeId, u64, Symbol), ShapeId>,
    last: Option<((ShapeId, u64, Symbol), ShapeId)>,
}

impl<'s> Shapes<'s> {
    pub(crate) fn new(symbols: &'s Symbols, columns: usize) -> Self {
        let single = Shape {
            inner: SINGLE,
            count: 1,
            symbol: 0,
            size: 1,
            cost: 0,
        };
        Self {
            symbols,
            columns,
            shapes: vec![single],
            spans: vec![0; columns],
            numbers: HashMap::new(),
            last: None,
        }
    }

    pub(crate) fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id]
    }

    fn span(&self, id: ShapeId) -> &[i64] {
        &self.spans[id * self.columns..(id + 1) * self.columns]
    }

    /// Returns the increments of a loop around `inner`, from round to round. `symbol` is the
    /// difference between the last record of a round and the first record of the next.
    pub(crate) fn step(&self, inner: ShapeId, symbol: Symbol) -> impl Iterator<Item = i64> + '_ {
        let diff = self.symbols.diff(symbol);
        (diff.iter().zip(self.span(inner))).map(|(d, s)| d.saturating_add(*s))
    }

    /// Returns the shape of `count` rounds of `inner` with the difference `symbol` between them.
    /// Adds it if it is new.
    pub(crate) fn intern(&mut self, inner: ShapeId, count: u64, symbol: Symbol) -> ShapeId {
        let key = (inner, count, symbol);
        if let Some((last, id)) = self.last
            && last == key
        {
            return id;
        }
        let id = match self.numbers.get(&key) {
            Some(id) => *id,
            None => self.add(key),
        };
        self.last = Some((key, id));
        id
    }

    fn add(&mut self, key: (ShapeId, u64, Symbol)) -> ShapeId {
        let (inner, count, symbol) = key;
        let rounds = i64::try_from(count - 1).unwrap_or(i64::MAX);
        let row: Vec<i64> = self
            .step(inner, symbol)
            .zip(self.span(inner))
            .map(|(step, span)| step.saturating_mul(rounds).saturating_add(*span))
            .collect();
        let shape = Shape {
            inner,
            count,
            symbol,
            size: self.shapes[inner].size.saturating_mul(count),
            cost: self.cost(inner, count, symbol),
        };
        let id = self.shapes.len();
        self.shapes.push(shape);
        self.spans.extend(row);
        self.numbers.insert(key, id);
        id
    }

    /// Returns the approximate length of the loops of a shape, in bytes. The shape need not exist
    /// yet.
    pub(crate) fn cost(&self, inner: ShapeId, count: u64, symbol: Symbol) -> usize {
        let mut moving = self.step(inner, symbol).filter(|s| *s != 0);
        let moves = match (moving.next(), moving.next()) {
            (None, _) => 2,
            (Some(1), None) => 0,
            (Some(step), None) => 1 + digits(step.unsigned_abs()),
            (Some(_), Some(_)) => moves_cost(self.step(inner, symbol)),
        };
        self.shapes[inner].cost + 1 + digits(count) + moves
    }

    /// Returns the approximate length of a joint.
    pub(crate) fn joint_cost(&self, symbol: Symbol) -> usize {
        let diff = self.symbols.diff(symbol).iter().copied();
        let mut moving = diff.clone().filter(|d| *d != 0);
        let moves = match (moving.next(), moving.next()) {
            (None, _) => 0,
            (Some(step), None) => usize::from(step < 0) + digits(step.unsigned_abs()),
            (Some(_), Some(_)) => moves_cost(diff),
        };
        1 + moves
    }

    /// Returns the shape of the first or last `records` records of a shape, or `None` if they are
    /// not one of its inner shapes or fewer rounds.
    pub(crate) fn part(&self, mut id: ShapeId, records: u64) -> Option<ShapeId> {
        loop {
            let shape = self.get(id);
            if records == shape.size {
                return Some(id);
            }
            let inner = self.get(shape.inner).size;
            if records > inner {
                let key = (shape.inner, records.div_ceil(inner), shape.symbol);
                return self.numbers.get(&key).copied();
            }
            id = shape.inner;
        }
    }

    /// Returns `true` if the columns of all records of a product are within bounds. `values` are
    /// the columns of record `skip`.
    pub(crate) fn fits(&self, id: ShapeId, skip: u64, values: &[i64]) -> bool {
        let mut low: Vec<i128> = values.iter().map(|v| i128::from(*v)).collect();
        let mut high = low.clone();
        let (mut id, mut skip) = (id, skip);
        while id != SINGLE {
            let shape = *self.get(id);
            let inner = self.get(shape.inner).size;
            let (at, last) = (i128::from(skip / inner), i128::from(shape.count - 1));
            skip %= inner;
            for (column, step) in self.step(shape.inner, shape.symbol).enumerate() {
                let (first, end) = (-at * i128::from(step), (last - at) * i128::from(step));
                low[column] += first.min(end);
                high[column] += first.max(end);
            }
            id = shape.inner;
        }
        low.iter().all(|v| *v >= 0) && high.iter().all(|v| *v < i128::from(VALUE_END))
    }

    /// Returns the loops of a shape, innermost first: inner shape, count, symbol.
    pub(crate) fn loops(&self, mut id: ShapeId) -> Vec<Shape> {
        let mut loops = Vec::new();
        while id != SINGLE {
            loops.push(*self.get(id));
            id = self.get(id).inner;
        }
        loops.reverse();
        loops
    }
}

fn moves_cost(steps: impl Iterator<Item = i64>) -> usize {
    steps
        .filter(|s| *s != 0)
        .map(|s| match s {
            1 => 1,
            _ => 1 + usize::from(s < 0) + digits(s.unsigned_abs()),
        })
        .sum()
}

/// The maximum number of names in a record.
const LONGEST: usize = 8;

/// The number of names that are examined for a period. It is bounded, so that the time of the
/// encoder stays linear.
const WINDOW: usize = 2 * LONGEST;

/// One of the next names: its offset, and a hash of its shape, in which consecutive digits count as
/// one.
#[derive(Clone, Copy, Debug)]
struct Look {
    start: usize,
    end: usize,
    hash: u64,
}

/// A window of the next names. Each name is hashed only once.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    text: &'a [u8],
    looks: VecDeque<Look>,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            looks: VecDeque::new(),
        }
    }

    /// Returns the number of names in a record at `at`, and the end of the first record. The number
    /// is 1 if the names have no period.
    pub(crate) fn record(&mut self, at: usize) -> (usize, usize) {
        self.fill(at);
        let hash = |index: usize| self.looks.get(index).map(|l| l.hash);
        let count = self.looks.len();
        let repeats = |p: &usize| (0..count - p).all(|n| hash(n) == hash(n + p));
        let period = (1..=LONGEST.min(count / 2)).find(repeats).unwrap_or(1);
        let end = self.looks.get(period - 1).map_or(at, |l| l.end);
        (period, end)
    }

    fn fill(&mut self, at: usize) {
        while self.looks.front().is_some_and(|l| l.start < at) {
            self.looks.pop_front();
        }
        while self.looks.len() < WINDOW {
            let start = self.looks.back().map_or(at, |l| l.end + 1);
            if start > self.text.len() {
                return;
            }
            self.looks.push_back(look(self.text, start));
        }
    }
}

fn look(text: &[u8], start: usize) -> Look {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut end = start;
    let mut digits = false;
    for byte in &text[start..] {
        if matches!(byte, b',' | b';') {
            break;
        }
        end += 1;
        let digit = byte.is_ascii_digit();
        if !(digit && digits) {
            let seen = if digit { b'0' } else { *byte };
            hash = (hash ^ u64::from(seen)).wrapping_mul(0x100_0000_01b3);
        }
        digits = digit;
    }
    Look { start, end, hash }
}
