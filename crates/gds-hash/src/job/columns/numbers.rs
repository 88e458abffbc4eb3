// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of a column: runs of evenly spaced or equal numbers, or an array with the smallest
//! sufficient integer width, whichever takes less memory.
//!
//! Source: this project; the decision is `docs/decisions/0008-a-job-is-two-maps-and-columns.md`.

use std::ops::RangeInclusive;

/// Numbers by index, in ascending order of the index.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    Runs(Vec<Run>),
    /// The numbers of `first` and the following indices.
    Dense(u32, Cells),
    Sparse(Vec<u32>, Cells),
}

/// Evenly spaced or equal numbers at consecutive indices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) first: u32,
    count: u32,
    start: u64,
    step: u64,
}

/// Numbers in an array with the smallest sufficient integer width.
#[derive(Clone, Debug)]
pub(super) enum Cells {
    Byte(Box<[u8]>),
    Short(Box<[u16]>),
    Word(Box<[u32]>),
    Long(Box<[u64]>),
}

impl Numbers {
    pub(super) fn get(&self, index: u32) -> Option<u64> {
        match self {
            Self::Runs(runs) => {
                let place = runs
                    .partition_point(|run| run.first <= index)
                    .checked_sub(1)?;
                runs.get(place)?.number(index)
            }
            Self::Dense(first, cells) => cells.get(index.checked_sub(*first)?.try_into().ok()?),
            Self::Sparse(indices, cells) => cells.get(indices.binary_search(&index).ok()?),
        }
    }

    pub(super) fn for_each(&self, mut f: impl FnMut(u32, u64)) {
        match self {
            Self::Runs(runs) => {
                for run in runs {
                    let mut number = run.start;
                    for index in run.first..run.first + run.count {
                        f(index, number);
                        number = number.wrapping_add(run.step);
                    }
                }
            }
            Self::Dense(first, cells) => (*first..).zip(cells.iter()).for_each(|(i, n)| f(i, n)),
            Self::Sparse(indices, cells) => {
                indices.iter().zip(cells.iter()).for_each(|(i, n)| f(*i, n));
            }
        }
    }

    pub(super) fn spans(&self, spans: &mut Vec<RangeInclusive<u32>>) {
        match self {
            Self::Runs(runs) => {
                spans.extend(
                    runs.iter()
                        .map(|run| run.first..=run.first + (run.count - 1)),
                );
            }
            Self::Dense(first, cells) => {
                // Each index up to the last has a cell.
                let behind = u32::try_from(cells.len())
                    .ok()
                    .and_then(|n| n.checked_sub(1));
                spans.extend(behind.map(|behind| *first..=first.saturating_add(behind)));
            }
            Self::Sparse(indices, _) => spans.extend(indices.iter().map(|i| *i..=*i)),
        }
    }

    pub(super) fn first(&self) -> Option<u32> {
        match self {
            Self::Runs(runs) => runs.first().map(|run| run.first),
            Self::Dense(first, _) => Some(*first),
            Self::Sparse(indices, _) => indices.first().copied(),
        }
    }

    /// Stores numbers in the form with the fewest bytes. The cells must be in ascending order.
    pub(super) fn new(cells: &[(u32, u64)]) -> Self {
        let runs = runs(cells);
        let largest = cells.iter().map(|(_, number)| *number).max().unwrap_or(0);
        let (first, last) = match (cells.first(), cells.last()) {
            (Some(first), Some(last)) => (first.0, last.0),
            _ => return Self::Runs(runs),
        };
        let contiguous = u64::from(last - first) + 1 == cells.len() as u64;
        let width = Cells::width(largest) + if contiguous { 0 } else { 4 };
        if runs.len() * size_of::<Run>() <= cells.len() * width {
            return Self::Runs(runs);
        }
        let packed = Cells::new(largest, cells.iter().map(|(_, number)| *number));
        match contiguous {
            true => Self::Dense(first, packed),
            false => Self::Sparse(cells.iter().map(|(index, _)| *index).collect(), packed),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Runs(runs) => runs.capacity() * size_of::<Run>(),
            Self::Dense(_, cells) => cells.memory_bytes(),
            Self::Sparse(indices, cells) => indices.capacity() * 4 + cells.memory_bytes(),
        }
    }
}

impl Run {
    /// Returns the number at an index, if the run contains it.
    #[inline]
    pub(super) fn number(&self, index: u32) -> Option<u64> {
        let offset = index.checked_sub(self.first)?;
        let number = self
            .step
            .wrapping_mul(offset.into())
            .wrapping_add(self.start);
        (offset < self.count).then_some(number)
    }
}

/// Folds cells into runs of maximum length.
fn runs(cells: &[(u32, u64)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, number) in cells {
        if let Some(run) = runs.last_mut()
            && run.first + run.count == *index
        {
            let step = number.wrapping_sub(run.start);
            if run.count == 1 {
                (run.count, run.step) = (2, step);
                continue;
            }
            if step == run.step.wrapping_mul(run.count.into()) {
                run.count += 1;
                continue;
            }
        }
        runs.push(Run {
            first: *index,
            count: 1,
            start: *number,
            step: 0,
        });
    }
    runs.shrink_to_fit();
    runs
}

impl Cells {
    const fn width(largest: u64) -> usize {
        match largest {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        }
    }

    fn new(largest: u64, numbers: impl Iterator<Item = u64>) -> Self {
        // All numbers fit this width, because the largest does.
        match Self::width(largest) {
            1 => Self::Byte(numbers.map(|n| n.try_into().unwrap_or_default()).collect()),
            2 => Self::Short(numbers.map(|n| n.try_into().unwrap_or_default()).collect()),
            4 => Self::Word(numbers.map(|n| n.try_into().unwrap_or_default()).collect()),
            _ => Self::Long(numbers.collect()),
        }
    }

    fn get(&self, place: usize) -> Option<u64> {
        match self {
            Self::Byte(cells) => cells.get(place).map(|n| (*n).into()),
            Self::Short(cells) => cells.get(place).map(|n| (*n).into()),
            Self::Word(cells) => cells.get(place).map(|n| (*n).into()),
            Self::Long(cells) => cells.get(place).copied(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Byte(cells) => cells.len(),
            Self::Short(cells) => cells.len(),
            Self::Word(cells) => cells.len(),
            Self::Long(cells) => cells.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        (0..).map_while(|place| self.get(place))
    }

    fn memory_bytes(&self) -> usize {
        let width = match self {
            Self::Byte(_) => 1,
            Self::Short(_) => 2,
            Self::Word(_) => 4,
            Self::Long(_) => 8,
        };
        self.len() * width
    }
}
