// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runs of a list in the public interface: names that differ in one number.
//!
//! Source: this project; the folded form is this project's own.

use super::expand::Row;
use super::shape::Shape;
use super::{Kind, NodeList};
use crate::{Error, scan};

/// Names that differ in one number: `prefix`, the number in `width` digits, `suffix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progression<'a> {
    /// The bytes before the number.
    pub prefix: &'a [u8],
    /// The number of digits, including leading zeros; 1 to [`scan::MAX_DIGITS`].
    pub width: usize,
    /// The first number.
    pub first: u64,
    /// The number of names, at least 1.
    pub count: u64,
    /// The difference between neighboring names; may be zero or negative.
    pub step: i64,
    /// The bytes after the number.
    pub suffix: &'a [u8],
}

impl Progression<'_> {
    /// Checks that a name can have the width and all numbers.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.width == 0 || self.width > scan::MAX_DIGITS {
            let message = format!(
                "a number of {} digits; the width must be 1 to {}",
                self.width,
                scan::MAX_DIGITS
            );
            return Err(Error::malformed(0, message));
        }
        let end = (0..self.width).fold(1i128, |n, _| n * 10);
        let first = i128::from(self.first);
        let steps = i128::from(self.count.saturating_sub(1));
        // The product of two 64-bit numbers fits 128 bits.
        let last = first + steps * i128::from(self.step);
        for number in [first, last] {
            if number < 0 || number >= end {
                let message = format!("{number} does not fit {} digits", self.width);
                return Err(Error::malformed(0, message));
            }
        }
        Ok(())
    }
}

/// A run of a [`NodeList`]: a progression of names or a single name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRun<'a> {
    /// A single name.
    Name(&'a [u8]),
    /// Names that differ in one number.
    Progression(Progression<'a>),
}

impl NodeList {
    /// Calls `f` with each run in order. Allocates only a buffer for the longest name.
    pub fn for_each_run(&self, mut f: impl FnMut(NodeRun<'_>)) {
        let mut name = Vec::new();
        for row in self.joined_rows() {
            let shape = self.shapes.get(row.shape);
            name.clear();
            name.extend_from_slice(shape.text);
            let mut rest = row;
            while rest.count > 0 {
                shape.write(&mut name, rest.first);
                let (count, run) = piece(&shape, &name, &rest);
                f(run);
                rest.first += rest.step * count.cast_signed();
                rest.count -= count;
            }
        }
    }

    /// Returns the rows of the list. Single numbers with a constant step are joined to rows.
    fn joined_rows(&self) -> impl Iterator<Item = Row> + '_ {
        let mut rows = self.rows().peekable();
        let mut block = 0;
        let mut place = 0u64;
        std::iter::from_fn(move || {
            let mut row = rows.next()?;
            while self.blocks.get(block + 1).is_some_and(|b| b.start <= place) {
                block += 1;
            }
            if self.blocks[block].kind == Kind::Scatter {
                let end = self.blocks.get(block + 1).map_or(self.len, |b| b.start);
                let shape = self.shapes.get(row.shape);
                while place + row.count < end
                    && let Some(next) = rows.peek()
                    && continues(&row, next.first, &shape)
                {
                    row.step = next.first - (row.first + row.step * (row.count - 1).cast_signed());
                    row.count += 1;
                    rows.next();
                }
            }
            place += row.count;
            Some(row)
        })
    }
}

/// Returns `true` if a number continues a row. Two numbers form a row only if they differ by one in
/// one field.
fn continues(row: &Row, number: i64, shape: &Shape<'_>) -> bool {
    if row.count == 1 {
        let step = number - row.first;
        return (0..shape.spans.len()).any(|s| shape.unit(s) == step);
    }
    row.first + row.step * row.count.cast_signed() == number
}

/// Returns the longest prefix of a row that varies in one field only, and its number of names.
fn piece<'n>(shape: &Shape<'_>, name: &'n [u8], row: &Row) -> (u64, NodeRun<'n>) {
    let one = (1, NodeRun::Name(name));
    if row.count == 1 {
        return one;
    }
    // A repeated name with a number is returned as a progression with step 0.
    let span = match row.step {
        0 => shape.spans.len().checked_sub(1),
        step => (0..shape.spans.len()).find(|s| step % shape.unit(*s) == 0),
    };
    let Some(span) = span else { return one };
    let unit = shape.unit(span);
    let width = shape.spans[span].len;
    let field = shape.spans[span].start()..shape.spans[span].end();
    let end = 10i64.pow(u32::from(width));
    let number = row.first / unit % end;
    let step = row.step / unit;
    let room = match step {
        0 => row.count,
        step if step > 0 => ((end - 1 - number) / step).cast_unsigned() + 1,
        step => (number / -step).cast_unsigned() + 1,
    };
    let count = row.count.min(room);
    if count == 1 {
        return one;
    }
    let run = NodeRun::Progression(Progression {
        prefix: &name[..field.start],
        width: usize::from(width),
        first: number.cast_unsigned(),
        count,
        step,
        suffix: &name[field.end..],
    });
    (count, run)
}
