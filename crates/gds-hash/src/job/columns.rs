// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of many processes or nodes: by key, then by the number of the process or node.
//!
//! A host that describes every process gives millions of values, and few different ones. Each key
//! is a column of numbers: the datum itself where it is a number, else its place in a pool where
//! equal values are stored once. A column that counts or repeats is kept as runs, another one as
//! an array of as few bytes as its numbers need.

mod reader;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use pmix_types::{DataType, Info, IntoOwned, Key, Rank, Status, Text, Value, keys};

pub(crate) use self::reader::Reader;
use super::qualified::{self, Qualified};

/// Values by key and number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// In the order of their keys.
    columns: Vec<(Key<'static>, Column)>,
    /// Their places in the order in which they were first given.
    given: Vec<usize>,
    pool: Vec<Value<'static>>,
    qualified: Qualified,
}

/// The values of one key: those of each type apart.
#[derive(Clone, Debug, Default)]
struct Column(Vec<(DataType, Numbers)>);

/// Numbers by number, in ascending order of the latter.
#[derive(Clone, Debug)]
enum Numbers {
    Runs(Vec<Run>),
    /// Of `first` and those that follow.
    Dense(u32, Cells),
    Sparse(Vec<u32>, Cells),
}

/// Numbers that count up or down, or repeat.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first: u32,
    count: u32,
    start: u64,
    step: u64,
}

/// Numbers in as few bytes as they need.
#[derive(Clone, Debug)]
enum Cells {
    Byte(Box<[u8]>),
    Short(Box<[u16]>),
    Word(Box<[u32]>),
    Long(Box<[u64]>),
}

impl Columns {
    /// The value of a key for a process or node.
    pub(crate) fn get(&self, key: &[u8], index: u32) -> Option<Value<'static>> {
        let place = self
            .columns
            .binary_search_by(|(k, _)| k.as_bytes().cmp(key))
            .ok()?;
        self.value(&self.columns[place].1, index)
    }

    /// The value of a key for a process or node that has the qualifiers which are asked for.
    pub(crate) fn qualified(
        &self,
        key: &[u8],
        index: u32,
        asked: &[Info<'_>],
    ) -> Option<Value<'static>> {
        self.qualified.get(index, key, asked).cloned()
    }

    /// Whether there are no values.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.qualified.is_empty()
    }

    /// All values of a process or node, in the order in which their keys were first given, then
    /// those that qualifiers tell apart.
    pub(crate) fn all(&self, index: u32) -> impl Iterator<Item = (&Key<'static>, Value<'static>)> {
        let places = self.given.iter();
        places
            .filter_map(|place| self.columns.get(*place))
            .filter_map(move |(key, column)| Some((key, self.value(column, index)?)))
            .chain((self.qualified.infos(index)).map(|info| (&*qualified::KEY, info.value)))
    }

    /// The processes or nodes that have a value, as stretches in ascending order that do not meet.
    pub(crate) fn spans(&self) -> Vec<RangeInclusive<u32>> {
        let mut spans: Vec<_> = self.qualified.numbers().map(|n| n..=n).collect();
        for (_, numbers) in self.columns.iter().flat_map(|(_, column)| &column.0) {
            numbers.spans(&mut spans);
        }
        spans.sort_unstable_by_key(|span| *span.start());
        let mut merged: Vec<RangeInclusive<u32>> = Vec::new();
        for span in spans {
            match merged.last_mut() {
                Some(last) if *span.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(span.end());
                }
                _ => merged.push(span),
            }
        }
        merged
    }

    /// Calls `f` with every value, its key and its number.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Key<'static>, u32, &Value<'static>)) {
        let given = self.given.iter();
        for (key, column) in given.filter_map(|place| self.columns.get(*place)) {
            for (data_type, numbers) in &column.0 {
                numbers.for_each(|index, number| {
                    let pooled = || self.pool.get(usize::try_from(number).ok()?).cloned();
                    if let Some(value) = from_number(*data_type, number).or_else(pooled) {
                        f(key, index, &value);
                    }
                });
            }
        }
        for index in self.qualified.numbers() {
            for info in self.qualified.infos(index) {
                f(&qualified::KEY, index, &info.value);
            }
        }
    }

    /// The lowest number that has a value for a key.
    pub(crate) fn first_with(&self, key: &[u8]) -> Option<u32> {
        let place = self
            .columns
            .binary_search_by(|(k, _)| k.as_bytes().cmp(key))
            .ok()?;
        let columns = &self.columns[place].1;
        columns.0.iter().filter_map(|(_, n)| n.first()).min()
    }

    /// The bytes of heap that the values take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let cells = self.columns.iter().flat_map(|(_, column)| &column.0);
        self.columns.capacity() * (size_of::<(Key<'_>, Column)>() + size_of::<usize>())
            + self.pool.capacity() * size_of::<Value<'_>>()
            + self.qualified.memory_bytes()
            + cells
                .map(|(_, numbers)| numbers.memory_bytes())
                .sum::<usize>()
    }

    fn value(&self, column: &Column, index: u32) -> Option<Value<'static>> {
        column.0.iter().find_map(|(data_type, numbers)| {
            let number = numbers.get(index)?;
            match from_number(*data_type, number) {
                Some(value) => Some(value),
                None => self.pool.get(usize::try_from(number).ok()?).cloned(),
            }
        })
    }
}

impl Numbers {
    fn get(&self, index: u32) -> Option<u64> {
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

    fn for_each(&self, mut f: impl FnMut(u32, u64)) {
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

    fn spans(&self, spans: &mut Vec<RangeInclusive<u32>>) {
        match self {
            Self::Runs(runs) => {
                spans.extend(
                    runs.iter()
                        .map(|run| run.first..=run.first + (run.count - 1)),
                );
            }
            Self::Dense(first, cells) => {
                // There is a cell for each number up to the last.
                let behind = u32::try_from(cells.len())
                    .ok()
                    .and_then(|n| n.checked_sub(1));
                spans.extend(behind.map(|behind| *first..=first.saturating_add(behind)));
            }
            Self::Sparse(indices, _) => spans.extend(indices.iter().map(|i| *i..=*i)),
        }
    }

    fn first(&self) -> Option<u32> {
        match self {
            Self::Runs(runs) => runs.first().map(|run| run.first),
            Self::Dense(first, _) => Some(*first),
            Self::Sparse(indices, _) => indices.first().copied(),
        }
    }

    /// Keeps numbers in the form that takes the fewest bytes. The cells are in ascending order.
    fn new(cells: &[(u32, u64)]) -> Self {
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

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Runs(runs) => runs.capacity() * size_of::<Run>(),
            Self::Dense(_, cells) => cells.memory_bytes(),
            Self::Sparse(indices, cells) => indices.capacity() * 4 + cells.memory_bytes(),
        }
    }
}

/// Folds cells into runs, each as long as it can be.
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
        // The largest fits, so all do.
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

/// A datum that is a number.
fn to_number(value: &Value<'_>) -> Option<u64> {
    Some(match value {
        Value::Bool(flag) => u64::from(*flag),
        Value::Byte(n) | Value::Uint8(n) => u64::from(*n),
        Value::Uint16(n) => u64::from(*n),
        Value::Uint32(n) | Value::Uint(n) => u64::from(*n),
        Value::Uint64(n) | Value::Size(n) => *n,
        Value::Int(n) | Value::Int32(n) => i64::from(*n).cast_unsigned(),
        Value::Int64(n) => n.cast_unsigned(),
        Value::Rank(rank) => u64::from(rank.as_raw()),
        Value::Status(status) => i64::from(status.as_raw()).cast_unsigned(),
        _ => return None,
    })
}

fn from_number(data_type: DataType, number: u64) -> Option<Value<'static>> {
    // What was stored under a type fits it.
    let small = || u32::try_from(number).unwrap_or_default();
    let signed = || i32::try_from(number.cast_signed()).unwrap_or_default();
    Some(match data_type {
        DataType::BOOL => Value::Bool(number != 0),
        DataType::BYTE => Value::Byte(number.try_into().unwrap_or_default()),
        DataType::UINT8 => Value::Uint8(number.try_into().unwrap_or_default()),
        DataType::UINT16 => Value::Uint16(number.try_into().unwrap_or_default()),
        DataType::UINT32 => Value::Uint32(small()),
        DataType::UINT => Value::Uint(small()),
        DataType::UINT64 => Value::Uint64(number),
        DataType::SIZE => Value::Size(number),
        DataType::INT => Value::Int(signed()),
        DataType::INT32 => Value::Int32(signed()),
        DataType::INT64 => Value::Int64(number.cast_signed()),
        DataType::PROC_RANK => Value::Rank(Rank::new(small())),
        DataType::STATUS => Value::Status(Status::from_raw(signed())),
        _ => return None,
    })
}

/// Gathers values in any order.
#[derive(Debug, Default)]
pub(crate) struct ColumnsBuilder {
    keys: HashMap<Key<'static>, usize>,
    cells: Vec<Vec<(u32, DataType, u64)>>,
    pool: Vec<Value<'static>>,
    texts: HashMap<Text<'static>, u64>,
    /// For each key the last pooled value that is no text.
    last: HashMap<usize, u64>,
    qualified: Qualified,
}

impl ColumnsBuilder {
    /// Stores a value; of several for one key and number the last counts.
    pub(crate) fn set(&mut self, key: &Key<'_>, index: u32, value: &Value<'_>) {
        if key.is(keys::QUALIFIED_VALUE) {
            let info = Info::new(keys::QUALIFIED_VALUE, value.clone().into_owned());
            if let Ok(value) = qualified::qualified(info) {
                return self.qualified.set(index, value);
            }
        }
        let column = match self.keys.get(key) {
            Some(column) => *column,
            None => {
                self.cells.push(Vec::new());
                let column = self.cells.len() - 1;
                self.keys.insert(key.clone().into_owned(), column);
                column
            }
        };
        let number = to_number(value).unwrap_or_else(|| self.pooled(column, value));
        self.cells[column].push((index, value.data_type(), number));
    }

    fn pooled(&mut self, column: usize, value: &Value<'_>) -> u64 {
        if let Value::String(Some(text)) = value
            && let Some(place) = self.texts.get(text)
        {
            return *place;
        }
        let last = self.last.get(&column).copied();
        if let Some(place) = last
            && let Some(pooled) = usize::try_from(place).ok().and_then(|p| self.pool.get(p))
            && pooled == value
        {
            return place;
        }
        let place = self.pool.len() as u64;
        self.pool.push(value.clone().into_owned());
        match value {
            Value::String(Some(text)) => {
                self.texts.insert(text.clone().into_owned(), place);
            }
            _ => {
                self.last.insert(column, place);
            }
        }
        place
    }

    /// The columns.
    pub(crate) fn finish(mut self) -> Columns {
        let mut keys: Vec<_> = self.keys.into_iter().collect();
        keys.sort();
        let mut given: Vec<usize> = (0..keys.len()).collect();
        given.sort_by_key(|place| keys[*place].1);
        let columns = keys.into_iter().map(|(key, column)| {
            let cells = std::mem::take(&mut self.cells[column]);
            (key, Column::new(cells))
        });
        self.pool.shrink_to_fit();
        Columns {
            columns: columns.collect(),
            given,
            pool: self.pool,
            qualified: self.qualified,
        }
    }
}

impl Column {
    fn new(mut cells: Vec<(u32, DataType, u64)>) -> Self {
        // Stable: of equal numbers the last stays last.
        if !cells.is_sorted_by_key(|cell| cell.0) {
            cells.sort_by_key(|cell| cell.0);
        }
        let mut types: Vec<(DataType, Vec<(u32, u64)>)> = Vec::new();
        for (place, (index, data_type, number)) in cells.iter().enumerate() {
            if cells.get(place + 1).is_some_and(|next| next.0 == *index) {
                continue;
            }
            match types.iter_mut().find(|(t, _)| t == data_type) {
                Some((_, numbers)) => numbers.push((*index, *number)),
                None => types.push((*data_type, vec![(*index, *number)])),
            }
        }
        let numbers = types
            .into_iter()
            .map(|(t, cells)| (t, Numbers::new(&cells)));
        Self(numbers.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(values: &[(&'static str, u32, Value<'static>)]) -> Columns {
        let mut builder = ColumnsBuilder::default();
        for (key, index, value) in values {
            builder.set(&Key::new(*key), *index, value);
        }
        builder.finish()
    }

    #[test]
    fn the_last_value_of_a_key_counts_whatever_its_type() {
        let columns = columns(&[
            ("k", 3, Value::Uint32(1)),
            ("k", 1, Value::from("one")),
            ("k", 3, Value::from("three")),
        ]);
        assert_eq!(columns.get(b"k", 3), Some(Value::from("three")));
        assert_eq!(columns.get(b"k", 1), Some(Value::from("one")));
        assert_eq!(columns.get(b"k", 2), None);
        assert_eq!(columns.get(b"other", 1), None);
        assert_eq!(columns.first_with(b"k"), Some(1));
    }

    #[test]
    fn numbers_of_every_pattern_come_back() {
        let patterns: [fn(u64) -> u64; 6] = [
            |i| i,
            |_| 7,
            |i| i % 128,
            |i| 100_000 - i,
            |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40,
            |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ];
        for (gap, pattern) in [1, 3]
            .into_iter()
            .zip(0..)
            .flat_map(|(g, _)| patterns.map(|p| (g, p)))
        {
            let mut builder = ColumnsBuilder::default();
            for i in 0..5_000_u32 {
                builder.set(&Key::new("k"), i * gap, &Value::Uint64(pattern(i.into())));
            }
            let columns = builder.finish();
            for i in 0..5_000_u32 {
                let expected = Some(Value::Uint64(pattern(i.into())));
                assert_eq!(columns.get(b"k", i * gap), expected);
            }
            assert_eq!(columns.get(b"k", 5_000 * gap), None);
        }
    }

    #[test]
    fn stretches_of_numbers_do_not_meet() {
        let number = |key: &'static str, index: u32| {
            (key, index, Value::Uint32(index.wrapping_mul(0x9e37_79b9)))
        };
        let mut values: Vec<_> = (4..40).map(|index| number("dense", index)).collect();
        values.extend([1, 3, 50, u32::MAX].map(|index| number("sparse", index)));
        values.push(("text", 40, Value::from("x")));
        let spans = columns(&values).spans();
        assert_eq!(spans, [1..=1, 3..=40, 50..=50, u32::MAX..=u32::MAX]);
    }

    #[test]
    fn equal_texts_are_stored_once_and_counting_takes_no_room() {
        let mut builder = ColumnsBuilder::default();
        for rank in 0..100_000_u32 {
            builder.set(
                &Key::new("host"),
                rank,
                &Value::from(format!("n{}", rank / 1_000)),
            );
            builder.set(&Key::new("grank"), rank, &Value::Rank(Rank::new(rank + 5)));
        }
        let columns = builder.finish();
        assert_eq!(columns.pool.len(), 100);
        assert!(
            columns.memory_bytes() < 16 * 1024,
            "{}",
            columns.memory_bytes()
        );
    }
}
