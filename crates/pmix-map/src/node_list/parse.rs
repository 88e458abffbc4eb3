// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads list text into a builder.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_regex`: names with
//! commas between them.

use super::build::{Row, is_unit};
use super::{Kind, NodeListBuilder, SEPARATOR};
use crate::{Error, scan};

impl NodeListBuilder {
    /// Appends the names of a text, which is not empty.
    pub(super) fn text(&mut self, text: &[u8]) -> Result<(), Error> {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.count_bytes(bytes.saturating_add(1))?;
        self.names(text, 0)
    }

    /// Appends the names of a text that comes in parts: those from `from` on that end with a
    /// separator. Returns where the name starts that does not; it is the last one, which
    /// [`Self::name`] appends, unless a further part ends it.
    ///
    /// What stands before `from` is text that was appended just before, as much of it as the
    /// caller still has: lists that repeat what they had are read faster beside it.
    ///
    /// # Errors
    /// The list would exceed the limits.
    pub fn text_part(&mut self, text: &[u8], from: usize) -> Result<usize, Error> {
        let new = text.get(from..).unwrap_or_default();
        let Some(len) = memchr::memrchr(SEPARATOR, new) else {
            return Ok(from);
        };
        let end = from + len;
        self.count_bytes(u64::try_from(len + 1).unwrap_or(u64::MAX))?;
        self.names(&text[..end], from)?;
        Ok(end + 1)
    }

    /// Appends the names from `at` on, whose bytes are counted.
    ///
    /// Most names have the shape of the one before, so they are read at their expected length
    /// and the separator is looked for where it must be. Three kinds of list are not read name by
    /// name at all: rows (`scan::successors`), lattices (see [`super::repeat`]), and numbers
    /// without a rule, which need no folding.
    fn names(&mut self, text: &[u8], mut at: usize) -> Result<(), Error> {
        // A row that came in the part before goes on; later it is taken up once it is one.
        let mut resumes = self.row.count > 2;
        while at <= text.len() {
            self.count(1)?;
            self.folded = false;
            let end = match self.expected(text, at) {
                Some((end, number)) => {
                    self.number(number)?;
                    end
                }
                None => {
                    let end = scan::name_end(text, at, SEPARATOR);
                    self.place(&text[at..end])?;
                    end
                }
            };
            at = match self.row.count {
                1 if self.folded => self.repeat_text(text, at..end)?,
                2 => self.scatter_text(text, end + 1)?,
                3 => self.row_text(text, at..end)?,
                4.. if resumes => self.row_text(text, at..end)?,
                _ => end + 1,
            };
            resumes = false;
        }
        Ok(())
    }

    /// The end and the number of the name at `at`, if it has the current shape.
    #[inline]
    fn expected(&self, text: &[u8], at: usize) -> Option<(usize, i64)> {
        let matcher = self.matchers.get(self.current)?;
        let end = at + matcher.len();
        if let Some(number) = matcher.entry(text, at) {
            return Some((end, number));
        }
        let ends = text.get(end).is_none_or(|b| *b == SEPARATOR);
        let number = matcher.number(text.get(at..end)?)?;
        ends.then_some((end, number))
    }

    /// Appends the names from `at` on while their numbers follow no rule, and those before them
    /// did not either; returns where the first one that is left starts.
    fn scatter_text(&mut self, text: &[u8], at: usize) -> Result<usize, Error> {
        let scattered = self.list.blocks.last().is_some_and(|last| {
            matches!(last.kind, Kind::Scatter) && last.shape == self.shape_id()
        });
        let Some(matcher) = self.matchers.get(self.current) else {
            return Ok(at);
        };
        if !scattered || is_unit(self.row.step) {
            return Ok(at);
        }
        let stride = matcher.stride();
        let room = usize::try_from(self.limits.max_nodes - self.list.len).unwrap_or(usize::MAX);
        let places = (at..at.saturating_add(room.saturating_mul(stride))).step_by(stride);
        let (row, numbers) = (&mut self.row, &mut self.list.numbers);
        let names = match matcher.plain() {
            Some(plain) => scatter(row, numbers, places.map_while(|at| plain.entry(text, at))),
            None => scatter(row, numbers, places.map_while(|at| matcher.entry(text, at))),
        };
        self.count(u64::try_from(names).unwrap_or(u64::MAX))?;
        Ok(at + names * stride)
    }

    /// Appends the names that continue the row in one field; returns where the next one starts.
    fn row_text(&mut self, text: &[u8], name: std::ops::Range<usize>) -> Result<usize, Error> {
        let behind = name.end + 1;
        let Some(field) = self.shape().and_then(|shape| {
            let span = (0..shape.spans.len()).find(|s| shape.unit(*s) == self.row.step)?;
            Some(shape.spans[span].start()..shape.spans[span].end())
        }) else {
            return Ok(behind);
        };
        let (more, next) = scan::successors(text, behind, &text[name], field, SEPARATOR);
        let count = u64::try_from(more).unwrap_or(u64::MAX);
        self.count(count)?;
        self.row.count += count;
        self.row.next += self.row.step * count.cast_signed();
        Ok(next)
    }
}

/// Stores numbers that follow no rule, all but the last two, which are the row; returns how many
/// were taken.
#[inline]
fn scatter(row: &mut Row, stored: &mut Vec<i64>, numbers: impl Iterator<Item = i64>) -> usize {
    let (mut first, mut last) = (row.first, row.first + row.step);
    let before = stored.len();
    for number in numbers {
        // What may become a row is left to those who know rows, and a table that is full to the one who may refuse.
        let is_full = stored.len() == stored.capacity();
        if is_full || number - last == last - first || is_unit(number - last) {
            break;
        }
        stored.push(first);
        (first, last) = (last, number);
    }
    let step = last - first;
    *row = Row {
        first,
        step,
        count: 2,
        next: last + step,
    };
    stored.len() - before
}
