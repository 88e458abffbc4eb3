// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequential reading of columns.

use pmix_types::{DataType, Info, Key, Value};

use super::numbers::{Numbers, Run};
use super::{Columns, from_number};

/// The values of one key and type, optimized for access in ascending order.
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
    /// Returns a reader for each key and type, in the order in which the keys were first given.
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
        // Most callers continue with the next run.
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

    /// Returns `true` if the values are unsigned and equal to their numbers.
    pub(crate) const fn is_unsigned(&self) -> bool {
        matches!(
            self.data_type,
            DataType::UINT16 | DataType::UINT32 | DataType::UINT64 | DataType::PROC_RANK
        )
    }

    /// Returns the value of a number.
    #[inline]
    pub(crate) fn value(&self, number: u64) -> Option<Value<'static>> {
        from_number(self.data_type, number)
            .or_else(|| self.pool.get(usize::try_from(number).ok()?).cloned())
    }
}
