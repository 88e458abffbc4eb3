// SPDX-License-Identifier: MIT OR Apache-2.0
//! A region: consecutive records of one layout, as the differences between records.

use std::collections::HashMap;

use super::layout::Layout;
use crate::format::{MAX_COLUMNS, VALUE_END};

/// The maximum number of differences in the lookup table. A list with more differences is
/// irregular, and a table larger than the caches is slow.
const TABLE: usize = 1 << 15;

/// The number of differences that are examined for a period.
const PERIODS: usize = 3 * MAX_COLUMNS;

/// The number of a difference between two records. Equal differences have the same number.
pub(crate) type Symbol = u32;

/// The differences in a region. Each consists of a separator and the increments of the columns.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    columns: usize,
    separators: Vec<u8>,
    /// One row of `columns` numbers for each symbol.
    diffs: Vec<i64>,
    /// The number of occurrences of each symbol.
    pub(crate) counts: Vec<u64>,
    /// The symbols by the hash of their difference, at most `TABLE`.
    numbers: HashMap<u64, Symbol>,
    /// The most recent symbols, which are compared first.
    recent: [Symbol; 4],
}

/// A difference, and how many times in a row it occurs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The offset of the record before the first of these differences.
    pub(crate) offset: usize,
    pub(crate) symbol: Symbol,
    pub(crate) count: u32,
}

/// Consecutive records of one layout.
#[derive(Debug)]
pub(crate) struct Region<'a> {
    pub(crate) layout: Layout<'a>,
    pub(crate) symbols: Symbols,
    pub(crate) steps: Vec<Step>,
    /// The number of names in a record.
    pub(crate) names: usize,
    /// The number of names missing in the last record. Only a record that repeats the previous
    /// difference may lack names.
    pub(crate) cut: usize,
    /// The end of the last record.
    pub(crate) end: usize,
}

impl Symbols {
    fn new(columns: usize) -> Self {
        Self {
            columns,
            ..Self::default()
        }
    }

    /// Returns the separator of a difference.
    pub(crate) fn separator(&self, symbol: Symbol) -> u8 {
        self.separators.get(index(symbol)).copied().unwrap_or(b',')
    }

    /// Returns the increments of a difference.
    pub(crate) fn diff(&self, symbol: Symbol) -> &[i64] {
        let start = index(symbol) * self.columns;
        self.diffs
            .get(start..start + self.columns)
            .unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.separators.len()
    }

    #[inline]
    fn is(&self, symbol: Symbol, separator: u8, diff: &[i64]) -> bool {
        let known = self.diff(symbol);
        // Rows are short, so a call to `memcmp` would cost more than the comparison.
        self.separators.get(index(symbol)) == Some(&separator)
            && known.len() == diff.len()
            && known.iter().zip(diff).all(|(a, b)| a == b)
    }

    #[inline]
    fn number(&mut self, separator: u8, diff: &[i64]) -> Symbol {
        for place in 0..self.recent.len() {
            let symbol = self.recent[place];
            if self.is(symbol, separator, diff) {
                self.recent[..=place].rotate_right(1);
                return symbol;
            }
        }
        self.look_up(separator, diff)
    }

    fn look_up(&mut self, separator: u8, diff: &[i64]) -> Symbol {
        let hash = hash(separator, diff);
        let known = self.numbers.get(&hash).copied();
        let symbol = match known.filter(|s| self.is(*s, separator, diff)) {
            Some(symbol) => symbol,
            None => self.add(hash, separator, diff),
        };
        self.recent.rotate_right(1);
        self.recent[0] = symbol;
        symbol
    }

    /// Adds a symbol. If the table is full or hashes collide, a difference may get two symbols.
    /// Then the list is folded less, but correctly.
    fn add(&mut self, hash: u64, separator: u8, diff: &[i64]) -> Symbol {
        let symbol = Symbol::try_from(self.separators.len()).unwrap_or(Symbol::MAX);
        self.separators.push(separator);
        self.diffs.extend_from_slice(diff);
        self.counts.push(0);
        if self.numbers.len() < TABLE {
            self.numbers.entry(hash).or_insert(symbol);
        }
        symbol
    }
}

pub(crate) fn index(symbol: Symbol) -> usize {
    usize::try_from(symbol).unwrap_or(usize::MAX)
}

fn hash(separator: u8, diff: &[i64]) -> u64 {
    let start = u64::from(separator);
    diff.iter().fold(start, |hash, d| {
        let mixed = (hash.rotate_left(5) ^ d.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    })
}

/// Accepts the names at `at` as the beginning of a record, if they repeat the last difference.
/// Returns the number of missing names and the end of the names.
fn cut_record(
    layout: &Layout<'_>,
    symbols: &Symbols,
    steps: &mut [Step],
    last: &[i64],
    at: usize,
) -> Option<(usize, usize)> {
    let step = steps.last_mut()?;
    let diff = symbols.diff(step.symbol);
    let values: Vec<i64> = last.iter().zip(diff).map(|(l, d)| l + d).collect();
    if layout.separator_before(at) != Some(symbols.separator(step.symbol)) {
        return None;
    }
    let (names, end) = layout.matching_names(&values, at);
    let valid = layout.slots.iter().zip(values).all(|(slot, value)| {
        // Columns of missing names may be out of range. The decoder allows that.
        let least = if slot.name < names { 0 } else { 1 - VALUE_END };
        (least..VALUE_END).contains(&value)
    });
    if names == 0 || !valid {
        return None;
    }
    step.count = step.count.checked_add(1)?;
    Some((layout.names() - names, end))
}

impl<'a> Region<'a> {
    /// Reads records as long as they have the layout of the first one. Returns `None` if the first
    /// record has too many columns, or if no record follows with its layout.
    pub(crate) fn read(text: &'a [u8], start: usize, end: usize) -> Option<Self> {
        let mut last = Vec::new();
        let mut layout = Layout::new(text, start..end, &mut last)?;
        let mut symbols = Symbols::new(last.len());
        let mut steps: Vec<Step> = Vec::new();
        let (mut values, mut diff) = (last.clone(), last.clone());
        let (mut offset, mut end) = (start, end);
        while let Some(separator) = text.get(end).copied() {
            let Some(next_end) = layout.read(end + 1, &mut values) else {
                break;
            };
            for ((d, v), l) in diff.iter_mut().zip(&values).zip(&mut last) {
                *d = v - *l;
                *l = *v;
            }
            let symbol = symbols.number(separator, &diff);
            match steps.last_mut() {
                // If the counter is at its maximum, the repetitions continue as another step.
                Some(step) if step.symbol == symbol && step.count < u32::MAX => step.count += 1,
                _ => steps.push(Step {
                    offset,
                    symbol,
                    count: 1,
                }),
            }
            offset = end + 1;
            end = next_end;
        }
        let names = layout.names();
        let mut cut = 0;
        if names > 1
            && let Some((missing, at)) = cut_record(&layout, &symbols, &mut steps, &last, end + 1)
        {
            (cut, end) = (missing, at);
        }
        for step in &steps {
            if let Some(count) = symbols.counts.get_mut(index(step.symbol)) {
                *count += u64::from(step.count);
            }
        }
        (!steps.is_empty()).then_some(Self {
            layout,
            symbols,
            steps,
            names,
            cut,
            end,
        })
    }

    /// Returns the shortest period of the first differences, or else of their separators, if it is
    /// short enough.
    pub(crate) fn period(&self) -> Option<usize> {
        let first: Vec<Symbol> = (self.steps.iter().take(PERIODS))
            .flat_map(|s| (0..s.count).map(|_| s.symbol))
            .take(PERIODS)
            .collect();
        let longest = MAX_COLUMNS.min(first.len() / 3);
        let repeats = |p: &usize| first.iter().zip(&first[*p..]).all(|(a, b)| a == b);
        let separators: Vec<u8> = (first.iter().map(|s| self.symbols.separator(*s))).collect();
        let nodes = |p: &usize| {
            separators
                .iter()
                .zip(&separators[*p..])
                .all(|(a, b)| a == b)
                && separators.contains(&b';')
        };
        (2..=longest)
            .find(repeats)
            .or_else(|| (2..=longest).find(nodes))
    }
}
