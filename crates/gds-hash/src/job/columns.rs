// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of many processes or nodes, by key and then by the number of the process or node.
//!
//! A host that describes every process registers millions of values, but only few distinct ones.
//! Each key has a column of numbers: the value itself if it is a number, otherwise its index in a
//! pool of distinct values. A column is stored as runs of evenly spaced or equal numbers, or as an
//! array with the smallest sufficient integer width, whichever takes less memory.

mod numbers;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use pmix_types::{DataType, Info, IntoOwned, Key, Measure, Rank, Status, Text, Value, keys};

use self::numbers::Numbers;
use super::qualified::{self, Qualified};
use numbers::Run;

/// Values by key and by the number of the process or node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// The columns, in the order of their keys.
    columns: Vec<(Key<'static>, Column)>,
    /// The indices of the columns, in the order in which the host first gave their keys.
    given: Vec<usize>,
    pool: Vec<Value<'static>>,
    qualified: Qualified,
}

/// The values of one key, as numbers, separated by type.
#[derive(Clone, Debug, Default)]
struct Column(Vec<(DataType, Numbers)>);

impl Columns {
    /// Returns the value of a key of a process or node.
    pub(crate) fn get(&self, key: &[u8], index: u32) -> Option<Value<'static>> {
        let place = self
            .columns
            .binary_search_by(|(k, _)| k.as_bytes().cmp(key))
            .ok()?;
        self.value(&self.columns[place].1, index)
    }

    /// Returns the value of a key of a process or node that has the requested qualifiers.
    pub(crate) fn qualified(
        &self,
        key: &[u8],
        index: u32,
        asked: &[Info<'_>],
    ) -> Option<Value<'static>> {
        self.qualified.get(index, key, asked).cloned()
    }

    /// Returns the keys with values, without those of qualified values.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key<'static>> {
        self.columns.iter().map(|(key, _)| key)
    }

    /// Returns `true` if there are no values.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.qualified.is_empty()
    }

    /// Returns all values of a process or node, in the order in which the host first gave their
    /// keys, then the qualified values.
    pub(crate) fn all(&self, index: u32) -> impl Iterator<Item = (&Key<'static>, Value<'static>)> {
        let places = self.given.iter();
        places
            .filter_map(|place| self.columns.get(*place))
            .filter_map(move |(key, column)| Some((key, self.value(column, index)?)))
            .chain((self.qualified.infos(index)).map(|info| (&*qualified::KEY, info.value)))
    }

    /// Returns the processes or nodes with values, as disjoint ascending ranges.
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

    /// Calls `f` with every key, number and value.
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

    /// Returns the number of values without qualifiers.
    pub(crate) fn num_values(&self) -> usize {
        let mut count = 0;
        for (_, numbers) in self.columns.iter().flat_map(|(_, column)| &column.0) {
            numbers.for_each(|_, _| count += 1);
        }
        count
    }

    /// Returns the lowest number with a value for a key.
    pub(crate) fn first_with(&self, key: &[u8]) -> Option<u32> {
        let place = self
            .columns
            .binary_search_by(|(k, _)| k.as_bytes().cmp(key))
            .ok()?;
        let columns = &self.columns[place].1;
        columns.0.iter().filter_map(|(_, n)| n.first()).min()
    }

    /// Returns the bytes of heap memory of the values.
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

    /// Returns the bytes of memory for a copy of the value of a key, or 0 if there is no value.
    pub(crate) fn measure(&self, key: &[u8], index: u32) -> usize {
        let found = (self.columns).binary_search_by(|(k, _)| k.as_bytes().cmp(key));
        found.map_or(0, |place| self.measure_of(&self.columns[place].1, index))
    }

    /// Returns the bytes of memory for copies of all values of a process or node.
    pub(crate) fn measure_all(&self, index: u32) -> usize {
        let columns = self.columns.iter();
        let each = columns.map(|(key, column)| {
            let value = self.measure_of(column, index);
            let info = size_of::<Info<'_>>() + key.as_bytes().len();
            value.saturating_add(info)
        });
        each.sum()
    }

    /// Returns an upper bound of the bytes of memory for copies of all values of any process or
    /// node.
    pub(crate) fn largest_bytes(&self) -> usize {
        let pool = self.pool.iter();
        let largest = pool.map(|value| value.measure(Measure::All)).max();
        let each = largest.unwrap_or(0).saturating_add(size_of::<Info<'_>>());
        each.saturating_mul(self.columns.len())
    }

    fn measure_of(&self, column: &Column, index: u32) -> usize {
        let pooled = column.0.iter().find_map(|(data_type, numbers)| {
            let number = numbers.get(index)?;
            match from_number(*data_type, number) {
                Some(_) => None,
                None => self.pool.get(usize::try_from(number).ok()?),
            }
        });
        pooled.map_or(0, |value| value.measure(Measure::All))
    }
}

/// Returns a datum as a number, if its type allows that.
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
    // No conversion can fail, because the number was converted from a value of this type.
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

/// A builder of columns from values in any order.
#[derive(Debug, Default)]
pub(crate) struct ColumnsBuilder {
    keys: HashMap<Key<'static>, usize>,
    cells: Vec<Vec<(u32, DataType, u64)>>,
    pool: Vec<Value<'static>>,
    texts: HashMap<Text<'static>, u64>,
    /// The pool index of the last value that is not text, by key.
    last: HashMap<usize, u64>,
    qualified: Qualified,
}

impl ColumnsBuilder {
    /// Stores a value. A later value with the same key and number replaces it.
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

    /// Returns the columns.
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
        // The sort is stable, so among cells with equal index the last one remains last.
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

/// A reader of the values of one key and type, optimized for access in ascending order.
pub(crate) struct Reader<'c> {
    key: &'c Key<'static>,
    data_type: DataType,
    numbers: &'c Numbers,
    pool: &'c [Value<'static>],
    /// The last run that was read, and its index.
    near: Run,
    run: usize,
}

impl Columns {
    /// Returns a reader for each key and type, in the order in which the host first gave the keys.
    pub(crate) fn readers(&self) -> Vec<Reader<'_>> {
        let given = self.given.iter();
        let columns = given.filter_map(|place| self.columns.get(*place));
        let readers = columns.flat_map(|(key, column)| {
            column.0.iter().map(move |(data_type, numbers)| Reader {
                key,
                data_type: *data_type,
                numbers,
                pool: &self.pool,
                near: Run::default(),
                run: 0,
            })
        });
        readers.collect()
    }

    /// Returns the qualified values of a process or node, each in its info.
    pub(crate) fn all_qualified(&self, index: u32) -> impl Iterator<Item = Info<'static>> {
        self.qualified.infos(index)
    }
}

impl<'c> Reader<'c> {
    /// Returns the key.
    pub(crate) const fn key(&self) -> &'c Key<'static> {
        self.key
    }

    /// Returns the stored number of a process or node, for [`Self::value`]. Equal numbers mean
    /// equal values.
    #[inline]
    pub(crate) fn number(&mut self, index: u32) -> Option<u64> {
        self.near.number(index).or_else(|| self.far(index))
    }

    fn far(&mut self, index: u32) -> Option<u64> {
        let Numbers::Runs(runs) = self.numbers else {
            return self.numbers.get(index);
        };
        // Tries the next run first, because most callers read in ascending order.
        let next = runs.get(self.run + 1);
        if next.is_some_and(|run| run.number(index).is_some()) {
            self.run += 1;
        } else {
            let behind = runs.partition_point(|run| run.first <= index);
            self.run = behind.checked_sub(1)?;
        }
        self.near = *runs.get(self.run)?;
        self.near.number(index)
    }

    /// Returns `true` if the values are unsigned integers, which equal their numbers.
    pub(crate) const fn is_unsigned(&self) -> bool {
        matches!(
            self.data_type,
            DataType::UINT16 | DataType::UINT32 | DataType::UINT64 | DataType::PROC_RANK
        )
    }

    /// Returns the value for a number that [`Self::number`] returned.
    #[inline]
    pub(crate) fn value(&self, number: u64) -> Option<Value<'static>> {
        from_number(self.data_type, number)
            .or_else(|| self.pool.get(usize::try_from(number).ok()?).cloned())
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
    fn numbers_of_every_pattern_survive() {
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
    fn spans_are_disjoint() {
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
    fn equal_texts_are_stored_once_and_runs_take_no_memory() {
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
