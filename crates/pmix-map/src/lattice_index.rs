// SPDX-License-Identifier: MIT OR Apache-2.0
//! An index that finds the lattice of a number, with bounded work for any set of lattices.
//!
//! Lattices belong to classes (shapes of names) and have an order. A search returns the first
//! lattice of a class that contains the number. Lattices that overlap no other of their class are
//! in one sorted table. The others are split into rows, each with one step. Rows with the same step
//! and remainder are intervals. A sweep turns overlapping intervals into disjoint pieces, each with
//! the first row that covers it. So a search takes one binary search for each distinct step. Only
//! hostile lists have more than [`MAX_STEPS`] distinct steps in overlapping rows; their other rows
//! are searched one by one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;

use pmix_types::memory::{self, OutOfMemory};

use crate::lattice::{self, Dim};

/// Returns the index in a cell. The first call builds it. Without memory for it the cell stays empty, and a later call
/// tries again.
pub(crate) fn build_once<T>(
    cell: &OnceLock<T>,
    build: impl FnOnce() -> Result<T, OutOfMemory>,
) -> Result<&T, OutOfMemory> {
    match cell.get() {
        Some(index) => Ok(index),
        None => {
            let index = build()?;
            Ok(cell.get_or_init(|| index))
        }
    }
}

/// The maximum number of distinct steps that have their own table.
const MAX_STEPS: usize = 24;

/// The maximum length of a row whose numbers are always indexed one by one. The step of such a row
/// does not matter.
const SHORT: u64 = 4;

/// The maximum length of rows whose numbers are indexed one by one if no table is left for their
/// step.
const SHORT_OF_RARE_STEP: u64 = 64;

/// The index of the table for single numbers.
const SINGLE: usize = 0;

/// A dimension with a single number, which has no effect.
const STILL: Dim = Dim { count: 1, step: 0 };

/// A lattice in the index. Its dimensions are looked up by `id`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) class: u32,
    /// The id of the lattice. If several lattices contain a number, the one with the lowest id is
    /// the first.
    pub(crate) id: u32,
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// The rows with one step, as disjoint intervals.
#[derive(Clone, Debug)]
struct Stride {
    step: i64,
    /// The intervals, sorted by class, remainder and low end.
    pieces: Vec<Item>,
}

impl Stride {
    fn key(&self, class: u32, number: i64) -> (u32, i64, i64) {
        (class, track(number, self.step), number)
    }
}

/// The index.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatticeIndex {
    /// Lattices that overlap no other, sorted by class and low end.
    alone: Vec<Item>,
    strides: Vec<Stride>,
    /// The rows with all other steps, sorted by class and low end. Each has the highest end among
    /// itself and the rows before it.
    rest: Vec<(Item, i64)>,
}

impl LatticeIndex {
    /// Indexes the items. `lattice` returns the first number and the dimensions for an id.
    ///
    /// # Errors
    ///
    /// The process has no memory for the index.
    pub(crate) fn new(
        mut items: Vec<Item>,
        lattice: impl Fn(u32, &mut dyn FnMut(i64, &[Dim])),
    ) -> Result<Self, OutOfMemory> {
        items.sort_unstable_by_key(|i| (i.class, i.low, i.id));
        let mut stab = Self::default();
        let mut group = 0;
        while group < items.len() {
            let end = group_end(&items, group);
            if end == group + 1 {
                memory::reserve(&mut stab.alone, 1)?;
                stab.alone.push(items[group]);
            } else {
                // The table for single numbers must be the first one (`SINGLE`).
                stab.stride(1);
                for item in &items[group..end] {
                    if item.low == item.high {
                        let pieces = &mut stab.strides[SINGLE].pieces;
                        memory::reserve(pieces, 1)?;
                        pieces.push(*item);
                        continue;
                    }
                    let mut cut = Ok(());
                    lattice(item.id, &mut |first, dims| {
                        cut = stab.cut(item, first, dims)
                    });
                    cut?;
                }
            }
            group = end;
        }
        for stride in &mut stab.strides {
            let step = stride.step;
            stride
                .pieces
                .sort_unstable_by_key(|i| (i.class, track(i.low, step), i.low, i.id));
            stride.pieces = sweep(&stride.pieces, step)?;
        }
        stab.finish_rest();
        stab.alone.shrink_to_fit();
        Ok(stab)
    }

    /// Splits a lattice into rows along its longest dimension.
    fn cut(&mut self, item: &Item, first: i64, dims: &[Dim]) -> Result<(), OutOfMemory> {
        let mut others = [STILL; lattice::MAX_DIMS];
        for (slot, dim) in others.iter_mut().zip(dims.iter().filter(|d| d.step != 0)) {
            *slot = *dim;
        }
        let longest = (0..others.len()).max_by_key(|d| others[*d].count);
        let longest = longest.unwrap_or(0);
        let mut row = std::mem::replace(&mut others[longest], STILL);
        let mut table = (row.count > SHORT)
            .then(|| self.stride(row.step.abs()))
            .flatten();
        if table.is_none() {
            if row.count > SHORT_OF_RARE_STEP {
                memory::reserve(&mut self.rest, 1)?;
                self.rest.push((*item, item.high));
                return Ok(());
            }
            others[longest] = std::mem::replace(&mut row, STILL);
            table = Some(SINGLE);
        }
        let pieces = table
            .and_then(|at| self.strides.get_mut(at))
            .map(|s| &mut s.pieces);
        let Some(pieces) = pieces else {
            return Ok(());
        };
        let rows = usize::try_from(lattice::len(&others)).unwrap_or(usize::MAX);
        memory::reserve(pieces, rows)?;
        for at in 0..lattice::len(&others) {
            let start = lattice::number(first, &others, at);
            let (low, high) = lattice::bounds(start, &[row]);
            pieces.push(Item { low, high, ..*item });
        }
        Ok(())
    }

    /// Returns the index of the table for a step. Creates the table, or returns `None` if the limit
    /// is reached.
    fn stride(&mut self, step: i64) -> Option<usize> {
        if let Some(at) = self.strides.iter().position(|s| s.step == step) {
            return Some(at);
        }
        if self.strides.len() == MAX_STEPS {
            return None;
        }
        self.strides.push(Stride {
            step,
            pieces: Vec::new(),
        });
        Some(self.strides.len() - 1)
    }

    fn finish_rest(&mut self) {
        self.rest
            .sort_unstable_by_key(|(i, _)| (i.class, i.low, i.id));
        let mut last: Option<(u32, i64)> = None;
        for (item, highest) in &mut self.rest {
            if let Some((class, high)) = last
                && class == item.class
            {
                *highest = high.max(*highest);
            }
            last = Some((item.class, *highest));
        }
    }

    /// Returns the lowest id for which `holds` returns a result, with the result.
    pub(crate) fn find<T>(
        &self,
        class: u32,
        number: i64,
        holds: impl Fn(u32) -> Option<T>,
    ) -> Option<(u32, T)> {
        let mut best: Option<(u32, T)> = None;
        let mut consider = |item: &Item| {
            let better = best.as_ref().is_none_or(|(id, _)| item.id < *id);
            if item.class == class
                && (item.low..=item.high).contains(&number)
                && better
                && let Some(answer) = holds(item.id)
            {
                best = Some((item.id, answer));
            }
        };
        let behind = self
            .alone
            .partition_point(|i| (i.class, i.low) <= (class, number));
        if let Some(item) = self.alone[..behind].last() {
            consider(item);
        }
        for stride in &self.strides {
            let key = stride.key(class, number);
            let behind = stride
                .pieces
                .partition_point(|i| stride.key(i.class, i.low) <= key);
            if let Some(item) = stride.pieces[..behind].last()
                && track(item.low, stride.step) == key.1
            {
                consider(item);
            }
        }
        let behind = self
            .rest
            .partition_point(|(i, _)| (i.class, i.low) <= (class, number));
        for (item, highest) in self.rest[..behind].iter().rev() {
            if item.class != class || *highest < number {
                break;
            }
            consider(item);
        }
        best
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let strides = self
            .strides
            .iter()
            .map(|s| s.pieces.capacity())
            .sum::<usize>();
        (self.alone.capacity() + strides) * size_of::<Item>()
            + self.strides.capacity() * size_of::<Stride>()
            + self.rest.capacity() * size_of::<(Item, i64)>()
    }
}

/// Returns the remainder of a number divided by a step. Step 1, which most rows have, needs no
/// division, the most expensive part of a search.
#[inline]
fn track(number: i64, step: i64) -> i64 {
    if step == 1 {
        0
    } else {
        number.rem_euclid(step)
    }
}

/// Returns the end of the items that overlap the one at `start`, directly or through others.
fn group_end(items: &[Item], start: usize) -> usize {
    let mut high = items[start].high;
    let mut end = start + 1;
    while let Some(item) = items.get(end)
        && item.class == items[start].class
        && item.low <= high
    {
        high = high.max(item.high);
        end += 1;
    }
    end
}

/// Turns sorted rows with one step into disjoint pieces. Each has the lowest id of the rows that
/// cover it.
fn sweep(rows: &[Item], step: i64) -> Result<Vec<Item>, OutOfMemory> {
    let mut pieces: Vec<Item> = memory::list(rows.len())?;
    // The heap contains the overlapping rows, at worst all. Growing it takes twice its size.
    memory::check(
        rows.len()
            .saturating_mul(2 * size_of::<Reverse<(u32, i64)>>()),
    )?;
    let mut open: BinaryHeap<Reverse<(u32, i64)>> = BinaryHeap::new();
    let track = |i: &Item| (i.class, track(i.low, step));
    let mut at = 0;
    while at < rows.len() {
        let (this, mut from) = (track(&rows[at]), rows[at].low);
        loop {
            while let Some(row) = rows.get(at).filter(|r| track(r) == this && r.low == from) {
                open.push(Reverse((row.id, row.high)));
                at += 1;
            }
            let next = rows.get(at).filter(|r| track(r) == this).map(|r| r.low);
            while open.peek().is_some_and(|Reverse((_, high))| *high < from) {
                open.pop();
            }
            let Some(Reverse((id, high))) = open.peek().copied() else {
                let Some(low) = next else { break };
                from = low;
                continue;
            };
            let to = next.map_or(high, |low| high.min(low - step));
            let piece = Item {
                class: this.0,
                id,
                low: from,
                high: to,
            };
            match pieces.last_mut() {
                Some(p) if track(p) == this && p.id == id && p.high + step == from => p.high = to,
                _ => {
                    memory::reserve(&mut pieces, 1)?;
                    pieces.push(piece);
                }
            }
            from = to + step;
        }
    }
    pieces.shrink_to_fit();
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Lattice = (i64, Vec<Dim>);

    fn stab(lattices: &[Lattice]) -> LatticeIndex {
        let items = (0u32..).zip(lattices).map(|(id, (first, dims))| {
            let (low, high) = lattice::bounds(*first, dims);
            let class = id % 2;
            Item {
                class,
                id,
                low,
                high,
            }
        });
        LatticeIndex::new(items.collect(), |id, cut| {
            let (first, dims) = &lattices[id as usize];
            cut(*first, dims);
        })
        .unwrap()
    }

    fn find(
        stab: &LatticeIndex,
        lattices: &[Lattice],
        class: u32,
        number: i64,
    ) -> Option<(u32, u64)> {
        stab.find(class, number, |id| {
            let (first, dims) = &lattices[id as usize];
            lattice::place(*first, dims, number)
        })
    }

    fn naive(lattices: &[Lattice], class: u32, number: i64) -> Option<(u32, u64)> {
        let mut all = (0u32..).zip(lattices).filter(|(id, _)| id % 2 == class);
        all.find_map(|(id, (first, dims))| Some((id, lattice::place(*first, dims, number)?)))
    }

    proptest! {
        #[test]
        fn the_first_lattice_that_holds_a_number_is_found(
            lattices in vec((0i64..300, vec((1u64..90, -40i64..40), 0..3)), 0..60)
        ) {
            let lattices: Vec<Lattice> = lattices
                .into_iter()
                .map(|(first, dims)| {
                    let dims = dims.into_iter().map(|(count, step)| Dim { count, step });
                    (first, dims.collect::<Vec<_>>())
                })
                .filter(|(_, dims)| lattice::nests(dims))
                .collect();
            let stab = stab(&lattices);
            for number in -50..600 {
                for class in 0..3 {
                    let found = find(&stab, &lattices, class, number);
                    prop_assert_eq!(found, naive(&lattices, class, number));
                }
            }
        }
    }

    #[test]
    fn rows_cost_pieces_and_not_numbers_however_they_overlap() {
        let row = |first, count, step| (first, vec![Dim { count, step }]);
        let rows = 2000;
        let nested: Vec<_> = (0..rows)
            .map(|i| row(i, 1_000_000 - 2 * i as u64, 1))
            .collect();
        let staggered: Vec<_> = (0..rows).map(|i| row(i * 10, 1_000_000, 1)).collect();
        let combed: Vec<_> = (0..rows)
            .map(|i| row(i % 7, 1_000_000 + i as u64, 7))
            .collect();
        let steps: Vec<_> = (0..rows).map(|i| row(i, 1_000_000, i % 1000 + 1)).collect();
        for lattices in [nested, staggered, combed, steps] {
            let stab = stab(&lattices);
            let pieces: usize = stab.strides.iter().map(|s| s.pieces.len()).sum();
            assert!(stab.strides.len() <= MAX_STEPS);
            assert!(pieces + stab.alone.len() + stab.rest.len() <= 2 * lattices.len());
            for number in [0, 1, 77, 1999, 20_003, 999_999, 1_000_500, 5_000_000] {
                for class in 0..2 {
                    let found = find(&stab, &lattices, class, number);
                    assert_eq!(found, naive(&lattices, class, number), "{number}");
                }
            }
        }
    }
}
