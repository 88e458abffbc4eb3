// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversion of a value into list text.

use pmix_types::memory;
use preg_core::{Error, Limits};

use crate::expand::{Run, Sink, each_record};
use crate::value::{Template, push_number};

/// The maximum number of bytes of a number with its sign.
const MAX_NUMBER: usize = 20;

/// A sink that collects text up to a limit.
pub(crate) struct TextSink {
    pub(crate) out: Vec<u8>,
    max_text: u64,
}

impl TextSink {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            out: Vec::new(),
            max_text: limits.max_text,
        }
    }

    fn room(&self, more: u64) -> Result<(), Error> {
        let len = u64::try_from(self.out.len()).unwrap_or(u64::MAX);
        if len.saturating_add(more) > self.max_text {
            return Err(pmix_map::Error::limit("bytes of text", self.max_text).into());
        }
        Ok(())
    }

    /// Appends a run with one moving column. The rest of the first record is copied for each
    /// number.
    fn number_run(&mut self, run: &Run<'_>, column: usize, step: i64) -> Result<(), Error> {
        let record = run.template.min_len() + MAX_NUMBER + 1;
        memory::reserve(&mut self.out, record)?;
        self.out.extend(run.before);
        let start = self.out.len();
        let number = run.template.render(run.values, column, &mut self.out);
        let (prefix, suffix) = (start..number.start, number.end..self.out.len());
        self.room(0)?;
        let width = run.template.columns[column].width;
        let mut value = run.values[column];
        for _ in 1..run.count {
            value = value.saturating_add(step);
            memory::reserve(
                &mut self.out,
                prefix.len() + suffix.len() + width + MAX_NUMBER + 1,
            )?;
            self.out.push(run.between);
            self.out.extend_from_within(prefix.clone());
            push_number(&mut self.out, value, width);
            self.out.extend_from_within(suffix.clone());
            self.room(0)?;
        }
        Ok(())
    }
}

impl Sink for TextSink {
    fn expect(&mut self, records: u64, template: &Template) -> Result<(), Error> {
        let record = u64::try_from(template.min_len()).unwrap_or(u64::MAX);
        let least = records.saturating_mul(record.saturating_add(1));
        self.room(least.saturating_sub(1))
    }

    fn plain(&mut self, before: Option<u8>, text: &[u8]) -> Result<(), Error> {
        memory::reserve(&mut self.out, text.len() + 1)?;
        self.out.extend(before);
        self.out.extend_from_slice(text);
        self.room(0)
    }

    fn run(&mut self, run: &Run<'_>) -> Result<(), Error> {
        if let [(column, step)] = *run.moves
            && run.template.names == 1
        {
            return self.number_run(run, column, step);
        }
        each_record(run, |before, record| self.plain(before, record))
    }
}
