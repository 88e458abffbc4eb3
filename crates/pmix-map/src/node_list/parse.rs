// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads list text into a builder.

use super::NodeListBuilder;
use crate::{Error, scan};

impl NodeListBuilder {
    /// Appends the names of a text, which is not empty.
    ///
    /// Most names have the shape of the one before, so they are read at their expected length
    /// and the separator is looked for where it must be; rows are read by `scan::successors`.
    pub(super) fn text(&mut self, text: &[u8], separator: u8) -> Result<(), Error> {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.count_bytes(bytes.saturating_add(1))?;
        let mut at = 0;
        while at <= text.len() {
            self.count(1)?;
            let end = match self.expected(text, at, separator) {
                Some((end, number)) => {
                    self.number(number)?;
                    end
                }
                None => {
                    let end = scan::name_end(text, at, separator);
                    self.place(&text[at..end])?;
                    end
                }
            };
            at = match self.row.count {
                3 => self.row_text(text, at..end, separator)?,
                _ => end + 1,
            };
        }
        Ok(())
    }

    /// The end and the number of the name at `at`, if it has the current shape.
    #[inline]
    fn expected(&self, text: &[u8], at: usize, separator: u8) -> Option<(usize, i64)> {
        let matcher = self.matchers.get(self.current)?;
        let end = at + matcher.len();
        let ends = text.get(end).is_none_or(|b| *b == separator);
        let number = matcher.number(text.get(at..end)?)?;
        ends.then_some((end, number))
    }

    /// Appends the names that continue the row in one field; returns where the next one starts.
    fn row_text(
        &mut self,
        text: &[u8],
        name: std::ops::Range<usize>,
        separator: u8,
    ) -> Result<usize, Error> {
        let behind = name.end + 1;
        let Some(field) = self.shape().and_then(|shape| {
            let span = (0..shape.spans.len()).find(|s| shape.unit(*s) == self.row.step)?;
            Some(shape.spans[span].start()..shape.spans[span].end())
        }) else {
            return Ok(behind);
        };
        let (more, next) = scan::successors(text, behind, &text[name], field, separator);
        let count = u64::try_from(more).unwrap_or(u64::MAX);
        self.count(count)?;
        self.row.count += count;
        self.row.next += self.row.step * count.cast_signed();
        Ok(next)
    }
}
