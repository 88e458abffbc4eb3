// SPDX-License-Identifier: MIT OR Apache-2.0
//! The expansion of numbers to names. Only changed digits are written, so a name takes a few
//! nanoseconds.
//!
//! Source: this project; the text is the list of `PMIx_generate_regex`, names separated by commas.

use super::{Kind, NodeList};
use crate::lattice::{self, Dim};

/// Numbers of one shape with a constant step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) shape: u32,
    pub(super) first: i64,
    pub(super) step: i64,
    pub(super) count: u64,
}

impl NodeList {
    /// Appends the name at an index to `out`, and returns `true` if the index exists.
    ///
    /// Allocates only the growth of `out`.
    pub fn write_nth(&self, index: usize, out: &mut Vec<u8>) -> bool {
        let Some(place) = u64::try_from(index).ok().filter(|i| *i < self.len) else {
            return false;
        };
        let block = self.block_of(place);
        let shape = self.shapes.get(block.shape);
        let start = out.len();
        out.extend_from_slice(shape.text);
        // The text of a shape is the name for the number 0.
        shape.rewrite(&mut out[start..], 0, self.number_at(block, place));
        true
    }

    /// Returns the names in order, each as an owned byte string.
    pub fn iter(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let mut name = Vec::new();
        self.rows().flat_map(move |row| {
            let shape = self.shapes.get(row.shape);
            name.clear();
            name.extend_from_slice(shape.text);
            shape.write(&mut name, row.first);
            let mut name = std::mem::take(&mut name);
            let mut number = row.first;
            (0..row.count).map(move |_| {
                let current = name.clone();
                let next = number.wrapping_add(row.step);
                shape.rewrite(&mut name, number, next);
                number = next;
                current
            })
        })
    }

    /// Calls `f` with each name in order. Allocates only a buffer for the longest name.
    pub fn for_each(&self, mut f: impl FnMut(&[u8])) {
        let (mut name, mut last) = (Vec::new(), None);
        for row in self.rows() {
            let shape = self.shapes.get(row.shape);
            match last {
                Some((id, number)) if id == row.shape => {
                    shape.rewrite(&mut name, number, row.first);
                }
                _ => {
                    name.clear();
                    name.extend_from_slice(shape.text);
                    shape.write(&mut name, row.first);
                }
            }
            f(&name);
            let mut number = row.first;
            for _ in 1..row.count {
                let next = number + row.step;
                shape.rewrite(&mut name, number, next);
                number = next;
                f(&name);
            }
            last = Some((row.shape, number));
        }
    }

    /// Appends the names to `out`, separated by `separator`. Names may contain any byte, so the
    /// text can be parsed only if no name contains the separator.
    pub fn write_text(&self, separator: u8, out: &mut Vec<u8>) {
        out.reserve(self.text_len());
        let mut first = true;
        self.for_each(|name| {
            if !std::mem::take(&mut first) {
                out.push(separator);
            }
            out.extend_from_slice(name);
        });
    }

    /// Returns the rows of the list: for each block, its innermost dimension, repeated for the
    /// outer dimensions.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.blocks.len()).flat_map(move |index| {
            let block = &self.blocks[index];
            let dims = self.dims_of(block);
            let (inner, outer) = dims
                .split_first()
                .map_or((Dim { count: 1, step: 0 }, dims), |(i, o)| (*i, o));
            let (lattices, numbers) = match block.kind {
                Kind::Lattice(_) => (lattice::len(outer), &[][..]),
                Kind::Scatter => (0, &self.numbers[self.scatter_of(index)]),
            };
            let firsts = (0..lattices).map(move |at| lattice::number(block.first, outer, at));
            firsts.chain(numbers.iter().copied()).map(move |first| Row {
                shape: block.shape,
                first,
                step: inner.step,
                count: inner.count,
            })
        })
    }
}

impl PartialEq for NodeList {
    /// Compares the names row by row. The blocks of the lists do not matter.
    fn eq(&self, other: &Self) -> bool {
        if self.len != other.len || self.bytes != other.bytes {
            return false;
        }
        let (mut left, mut right) = (self.rows(), other.rows());
        let (mut a, mut b) = (left.next(), right.next());
        while let (Some(x), Some(y)) = (a, b) {
            let count = x.count.min(y.count);
            if !self.same_row(&x, other, &y, count) {
                return false;
            }
            a = x.rest_after(count).or_else(|| left.next());
            b = y.rest_after(count).or_else(|| right.next());
        }
        a.is_none() && b.is_none()
    }
}

impl Eq for NodeList {}

impl NodeList {
    /// Returns `true` if two rows begin with the same `count` names.
    fn same_row(&self, x: &Row, other: &Self, y: &Row, count: u64) -> bool {
        let (a, b) = (self.shapes.get(x.shape), other.shapes.get(y.shape));
        if a.same(&b) {
            return x.first == y.first && (count == 1 || x.step == y.step);
        }
        if a.tail == b.tail || a.text.len() != b.text.len() {
            return false;
        }
        // If the windows are at different places, numbers are not comparable, so the names are
        // compared.
        let (mut left, mut right) = (a.text.to_vec(), b.text.to_vec());
        (0..count.cast_signed()).all(|i| {
            a.write(&mut left, x.first + x.step * i);
            b.write(&mut right, y.first + y.step * i);
            left == right
        })
    }
}

impl Row {
    /// Returns the rest of the row after its first `count` names.
    fn rest_after(self, count: u64) -> Option<Self> {
        (count < self.count).then(|| Self {
            first: self.first + self.step * count.cast_signed(),
            count: self.count - count,
            ..self
        })
    }
}
