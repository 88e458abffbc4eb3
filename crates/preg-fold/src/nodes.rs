// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversion of a value into a node list. If all separators are commas, it creates no list
//! text.

use pmix_map::Progression;
use pmix_types::memory;
use preg_core::{Error, Limits, NodeList, NodeListBuilder};

use crate::expand::{Run, Sink, each_record, equal_widths};
use crate::value::Template;

/// A sink that builds a node list.
///
/// In a node list, a semicolon is part of a name, and only a comma ends a name. `name` is the text
/// of the name so far. Only a run without semicolons is passed on as a progression.
pub(crate) struct NodeSink {
    builder: NodeListBuilder,
    limits: Limits,
    name: Vec<u8>,
    /// `true` if the value contains a semicolon.
    semicolons: bool,
    /// `true` if there was any input. Without input the list is empty, instead of one empty name.
    separated: bool,
    /// `true` if the last input was a run, whose names are complete. Then `name` is not used.
    closed: bool,
    names: u64,
    /// The bytes of names written so far. They bound the time, and the limit for text bounds them.
    work: usize,
}

impl NodeSink {
    /// Creates a sink for a value with these bytes.
    pub(crate) fn new(bytes: &[u8], limits: &Limits) -> Self {
        Self {
            builder: NodeListBuilder::new(limits),
            limits: *limits,
            name: Vec::new(),
            semicolons: bytes.iter().any(|b| matches!(b, b';' | b'/' | b'~')),
            separated: false,
            closed: true,
            names: 0,
            work: 0,
        }
    }

    /// Returns the finished list.
    pub(crate) fn finish(mut self) -> Result<NodeList, Error> {
        if !self.closed && (self.separated || !self.name.is_empty()) {
            self.builder.name(&self.name)?;
        }
        Ok(self.builder.finish())
    }

    fn separator(&mut self, separator: Option<u8>) -> Result<(), Error> {
        self.separated |= separator.is_some();
        match separator {
            Some(b';') => {
                memory::reserve(&mut self.name, 1)?;
                self.name.push(b';');
            }
            Some(_) if !self.closed => {
                self.builder.name(&self.name)?;
                self.name.clear();
            }
            _ => {}
        }
        self.closed = false;
        Ok(())
    }

    /// Adds text, which may contain separators.
    fn text(&mut self, text: &[u8]) -> Result<(), Error> {
        self.work = self.work.saturating_add(text.len());
        self.fits()?;
        for (index, part) in text.split(|b| *b == b',').enumerate() {
            if index > 0 {
                self.separator(Some(b','))?;
            }
            memory::append(&mut self.name, part)?;
        }
        Ok(())
    }

    fn fits(&self) -> Result<(), Error> {
        if u64::try_from(self.work).unwrap_or(u64::MAX) > self.limits.max_bytes {
            return Err(pmix_map::Error::limit("bytes of names", self.limits.max_bytes).into());
        }
        Ok(())
    }

    /// Passes a run to the builder as progressions, or returns `false` if it is not a progression.
    fn progression(&mut self, run: &Run<'_>) -> Result<bool, Error> {
        let [(column, step)] = *run.moves else {
            return Ok(false);
        };
        if self.semicolons || run.count < 2 || run.template.names != 1 {
            return Ok(false);
        }
        self.separator(run.before)?;
        // No name is open here, so its buffer can be reused.
        self.name.clear();
        let number = run.template.render(run.values, column, &mut self.name);
        self.work = self.work.saturating_add(self.name.len());
        self.fits()?;
        for (first, count, width) in equal_widths(run, column, step) {
            self.builder.progression(&Progression {
                prefix: &self.name[..number.start],
                width,
                first: first.unsigned_abs(),
                count,
                step,
                suffix: &self.name[number.end..],
            })?;
        }
        self.name.clear();
        self.closed = true;
        self.separated = true;
        Ok(true)
    }
}

impl Sink for NodeSink {
    fn expect(&mut self, records: u64, template: &Template) -> Result<(), Error> {
        if self.semicolons {
            // Names may span records, so this checks the limit for text instead of the limit for
            // names.
            let record = u64::try_from(template.min_len()).unwrap_or(u64::MAX);
            let least = records.saturating_mul(record.saturating_add(1));
            if least.saturating_sub(1) > self.limits.max_bytes {
                return Err(pmix_map::Error::limit("bytes of names", self.limits.max_bytes).into());
            }
            return Ok(());
        }
        let names = u64::try_from(template.names).unwrap_or(u64::MAX);
        self.names = self.names.saturating_add(records.saturating_mul(names));
        if self.names > self.limits.max_nodes {
            return Err(pmix_map::Error::limit("nodes", self.limits.max_nodes).into());
        }
        Ok(())
    }

    fn plain(&mut self, before: Option<u8>, text: &[u8]) -> Result<(), Error> {
        self.separator(before)?;
        self.text(text)
    }

    fn run(&mut self, run: &Run<'_>) -> Result<(), Error> {
        if self.progression(run)? {
            return Ok(());
        }
        each_record(run, |before, record| self.plain(before, record))
    }
}
