// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of list text.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_regex`: names
//! separated by commas.

use super::build::{Row, is_unit};
use super::{Kind, NodeListBuilder, SEPARATOR};
use crate::{Error, scan};

impl NodeListBuilder {
    /// Appends the names of a text, which must not be empty.
    pub(super) fn text(&mut self, text: &[u8]) -> Result<(), Error> {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.count_bytes(bytes.saturating_add(1))?;
        self.names(text, 0)
    }

    /// Appends the names of one part of a text: those from `from` on that end with a separator.
    /// Returns the start of the last name, which has no separator yet. The next part may continue
    /// this name. If there is none, the caller appends the name with [`Self::name`].
    ///
    /// The bytes before `from` are text that was already appended, if the caller still has it. They
    /// make parsing of repetitive lists faster.
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

    /// Appends the names from `at` on. Their bytes are already counted.
    ///
    /// Most names have the shape of the previous one, so they are parsed with the expected length,
    /// and only one byte is compared with the separator. Names in rows (`scan::successors`), in
    /// lattices ([`super::repeat`]), and with irregular numbers, which do not fold, are not parsed
    /// one by one.
    fn names(&mut self, text: &[u8], mut at: usize) -> Result<(), Error> {
        // A row of the previous part may continue at the first name. Other rows must first begin in
        // this part.
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

    /// Returns the end and the number of the name at `at`, if it has the current shape.
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

    /// Appends the names from `at` on as long as their numbers are irregular, if the previous
    /// numbers were irregular, too. Returns the start of the first name that is not appended.
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

    /// Appends the names that continue the row in one field. Returns the start of the next name.
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

/// Stores irregular numbers, except the last two, which become the row. Returns how many numbers it
/// took.
#[inline]
fn scatter(row: &mut Row, stored: &mut Vec<i64>, numbers: impl Iterator<Item = i64>) -> usize {
    let (mut first, mut last) = (row.first, row.first + row.step);
    let before = stored.len();
    for number in numbers {
        // Stops at numbers that may become a row, and at a full table: the caller grows the table
        // and can return an error.
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
