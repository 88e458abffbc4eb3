// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversion of a value into a process map. Runs of plain ranks are passed to the builder
//! without creating text.

use pmix_map::RankRun;
use pmix_types::Rank;
use preg_core::{Error, Limits, ProcMap, ProcMapBuilder};

use crate::expand::{Run, Sink, each_record};
use crate::value::Template;

/// A sink that builds a process map.
pub(crate) struct ProcSink {
    builder: ProcMapBuilder,
    limits: Limits,
    /// The number of ranks, ranges and empty entries so far. It bounds the time.
    entries: u64,
    /// The bytes of records that were parsed as text. The limit for text bounds them.
    work: usize,
    /// `true` if there was any input except empty text.
    any: bool,
}

impl ProcSink {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            builder: ProcMapBuilder::new(limits),
            limits: *limits,
            entries: 0,
            work: 0,
            any: false,
        }
    }

    /// Returns the finished map.
    pub(crate) fn finish(mut self) -> Result<ProcMap, Error> {
        if self.any {
            self.builder.end_node()?;
        }
        Ok(self.builder.finish())
    }

    fn separator(&mut self, separator: Option<u8>) -> Result<(), Error> {
        self.any |= separator.is_some();
        if separator == Some(b';') {
            self.builder.end_node()?;
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) -> Result<(), Error> {
        self.any |= !text.is_empty();
        self.work = self.work.saturating_add(text.len());
        if u64::try_from(self.work).unwrap_or(u64::MAX) > self.limits.max_bytes {
            return Err(pmix_map::Error::limit("bytes of ranks", self.limits.max_bytes).into());
        }
        for (index, node) in text.split(|b| *b == b';').enumerate() {
            if index > 0 {
                self.builder.end_node()?;
            }
            // `ProcMap::parse_text` checks the ranks. The text contains no semicolon, so it is one
            // node.
            let map = ProcMap::parse_text(node, &self.limits).map_err(placeless)?;
            for run in map.runs_of(0).unwrap_or_default() {
                self.builder.run(run).map_err(placeless)?;
            }
        }
        Ok(())
    }

    fn ranks(&mut self, run: &Run<'_>) -> Result<(), Error> {
        let step = run.moves.first().map_or(0, |m| m.1);
        self.any = true;
        if run.between == b',' {
            self.separator(run.before)?;
            let count = u32::try_from(run.count)
                .map_err(|_| pmix_map::Error::limit("ranks", self.limits.max_ranks))?;
            return self.rank_run(run.values, count, step);
        }
        let mut value = run.values.first().copied().unwrap_or(0);
        let mut before = run.before;
        for _ in 0..run.count {
            self.separator(before)?;
            self.rank_run(&[value], 1, 0)?;
            before = Some(run.between);
            value = value.saturating_add(step);
        }
        Ok(())
    }

    fn rank_run(&mut self, values: &[i64], count: u32, step: i64) -> Result<(), Error> {
        let value = values.first().copied().unwrap_or(0);
        let first = u32::try_from(value)
            .map_err(|_| Error::new(preg_core::Status::ERR_BAD_PARAM, not_a_rank(value)))?;
        let first = Rank::new(first);
        self.builder
            .run(RankRun { first, count, step })
            .map_err(placeless)
    }
}

fn not_a_rank(value: i64) -> String {
    format!("expected a rank (0 to {}), found {value}", Rank::MAX_VALID)
}

/// Converts an error, without its offset, which is not relative to the encoded value.
fn placeless(error: pmix_map::Error) -> Error {
    Error::new(error.status(), error.message())
}

impl Sink for ProcSink {
    fn expect(&mut self, records: u64, template: &Template) -> Result<(), Error> {
        let names = u64::try_from(template.names).unwrap_or(u64::MAX);
        self.entries = (self.entries).saturating_add(records.saturating_mul(names));
        let most = self.limits.max_ranks.saturating_add(self.limits.max_nodes);
        if self.entries > most {
            return Err(pmix_map::Error::limit("ranks and nodes", most).into());
        }
        Ok(())
    }

    fn plain(&mut self, before: Option<u8>, text: &[u8]) -> Result<(), Error> {
        self.separator(before)?;
        self.text(text)
    }

    fn run(&mut self, run: &Run<'_>) -> Result<(), Error> {
        let template = run.template;
        let bare = template.columns.len() == 1 && template.literals.iter().all(Vec::is_empty);
        if bare {
            return self.ranks(run);
        }
        each_record(run, |before, record| self.plain(before, record))
    }
}
