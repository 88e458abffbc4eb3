// SPDX-License-Identifier: MIT OR Apache-2.0
//! The expansion of the products of a value: each innermost run is passed to a sink, for example of text.
//! as one run.

use pmix_types::memory;
use preg_core::{Error, Limits};

use crate::format::{Move, VALUE_END, digits};
use crate::parse::Parser;
use crate::value::{Content, Item, Loop, Piece, Template, push_number};

/// Consecutive records of an innermost loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) template: &'a Template,
    /// The numbers in the columns of the first record.
    pub(crate) values: &'a [i64],
    /// The moves from record to record.
    pub(crate) moves: &'a [Move],
    /// The number of records, at least one.
    pub(crate) count: u64,
    /// The separator before the first record; `None` at the start of the list.
    pub(crate) before: Option<u8>,
    /// The separator between records.
    pub(crate) between: u8,
    /// The number of names that are missing at the end of the last record.
    pub(crate) cut: usize,
}

/// A consumer of records.
pub(crate) trait Sink {
    /// Checks limits for a number of records of a template, before they are passed.
    fn expect(&mut self, records: u64, template: &Template) -> Result<(), Error>;

    /// Handles verbatim text, possibly with separators in it.
    fn plain(&mut self, before: Option<u8>, text: &[u8]) -> Result<(), Error>;

    /// Handles a run of records.
    fn run(&mut self, run: &Run<'_>) -> Result<(), Error>;
}

/// The maximum memory for an item in bytes, for each byte of the value.
const ITEM_FACTOR: usize = 64;

/// Passes the items from `at` on to a sink. Errors have the offset of the item.
pub(crate) fn expand(bytes: &[u8], at: usize, sink: &mut dyn Sink) -> Result<(), Error> {
    // An item, its columns and one record of it are at most `ITEM_FACTOR` times as large as the value.
    memory::check(bytes.len().saturating_mul(ITEM_FACTOR))?;
    let mut parser = Parser::new(bytes, at, None);
    while let Some(item) = parser.next_item()? {
        expand_item(&item, sink).map_err(|e| match e.offset() {
            Some(_) => e,
            None => e.at(item.offset),
        })?;
    }
    Ok(())
}

fn expand_item(item: &Item<'_>, sink: &mut dyn Sink) -> Result<(), Error> {
    let (template, pieces) = match &item.content {
        Content::Plain(text) => return sink.plain(item.separator, text),
        Content::Folded(template, pieces) => (template, pieces),
    };
    let mut values: Vec<i64> = template.columns.iter().map(|c| c.value).collect();
    let mut before = item.separator;
    for piece in pieces {
        if let Some((separator, moves)) = &piece.joint {
            before = Some(*separator);
            for (column, step) in moves {
                values[*column] = values[*column].saturating_add(*step);
            }
        }
        let window = check(piece, template, &values)?;
        sink.expect(window.records - u64::from(window.cut > 0), template)?;
        walk(template, piece, window, &mut values, before, sink)?;
    }
    Ok(())
}

/// The records of a product that belong to a piece.
#[derive(Clone, Copy, Debug)]
struct Window {
    skip: u64,
    records: u64,
    /// The number of names missing in the last record.
    cut: usize,
}

/// Checks that the window of a piece is within its product, and converts it from names to records.
fn window(piece: &Piece, names: usize) -> Result<Window, Error> {
    let damaged = |what: String| Error::damaged(piece.offset, what);
    let names = u64::try_from(names).unwrap_or(u64::MAX);
    let full = (piece.loops.iter())
        .try_fold(names, |n, l| n.checked_mul(l.count))
        .ok_or_else(|| damaged("a product of more than 2^64 names".into()))?;
    let rest = full
        .checked_sub(piece.skip)
        .filter(|n| *n > 0 && piece.skip.is_multiple_of(names))
        .ok_or_else(|| {
            damaged(format!(
                "expected a window from a record of the product's {full} names, found {}",
                piece.skip
            ))
        })?;
    let take = piece.take.unwrap_or(rest);
    if take == 0 || take > rest {
        return Err(damaged(format!(
            "expected a window of 1 to {rest} names, found {take}"
        )));
    }
    let records = take.div_ceil(names);
    Ok(Window {
        skip: piece.skip / names,
        records,
        cut: usize::try_from(records * names - take).unwrap_or(0),
    })
}

/// Checks the window and every value of the product.
///
/// In the last record, columns of missing names may be out of range, by less than the size of the
/// range. [`each_record`] checks the columns of its other names.
fn check(piece: &Piece, template: &Template, values: &[i64]) -> Result<Window, Error> {
    let window = window(piece, template.names)?;
    let (mut low, mut high) = (widened(values), widened(values));
    let mut rounds = window.skip;
    for (count, moves) in piece.loops.iter().map(|l| (l.count, &l.moves)) {
        let (at, last) = (i128::from(rounds % count), i128::from(count - 1));
        rounds /= count;
        for (column, step) in moves {
            // The product does not overflow: fewer than 2^64 rounds with a step below 2^63.
            let step = i128::from(*step);
            let (first, end) = (-at * step, (last - at) * step);
            low[*column] = low[*column].saturating_add(first.min(end));
            high[*column] = high[*column].saturating_add(first.max(end));
        }
    }
    let kept = template.names - window.cut;
    let end = i128::from(VALUE_END);
    let out_of_range =
        template
            .columns
            .iter()
            .zip(low.iter().zip(&high))
            .find_map(|(column, (low, high))| {
                let least = if column.name < kept { 0 } else { 1 - end };
                (*low < least)
                    .then_some(low)
                    .or_else(|| (*high >= end).then_some(high))
            });
    match out_of_range {
        Some(value) => Err(Error::damaged(
            piece.offset,
            format!("a column reaches {value}, outside 0 to 10^18 - 1"),
        )),
        None => Ok(window),
    }
}

fn widened(values: &[i64]) -> Vec<i128> {
    values.iter().map(|v| i128::from(*v)).collect()
}

/// Passes the records in the window of a product to the sink. Sets `values` to the columns of the
/// last one.
fn walk(
    template: &Template,
    piece: &Piece,
    window: Window,
    values: &mut [i64],
    mut before: Option<u8>,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let single = Loop {
        separator: b',',
        count: 1,
        moves: Vec::new(),
    };
    let (inner, outer) = piece.loops.split_first().unwrap_or((&single, &[]));
    let mut at = window.skip % inner.count;
    let mut rounds: Vec<u64> = Vec::with_capacity(outer.len());
    let mut skip = window.skip / inner.count;
    for l in outer {
        rounds.push(skip % l.count);
        skip /= l.count;
    }
    let mut left = window.records;
    loop {
        let count = left.min(inner.count - at);
        sink.run(&Run {
            template,
            values,
            moves: &inner.moves,
            count,
            before,
            between: inner.separator,
            cut: if left == count { window.cut } else { 0 },
        })?;
        left -= count;
        if left == 0 {
            advance(values, &inner.moves, signed(count - 1));
            return Ok(());
        }
        advance(values, &inner.moves, -signed(at));
        at = 0;
        before = carry(outer, &mut rounds, values).or(before);
    }
}

/// Advances the loops around the innermost one. Returns the separator of the loop that begins a new
/// round, or `None` at the end of the product.
fn carry(outer: &[Loop], rounds: &mut [u64], values: &mut [i64]) -> Option<u8> {
    for (l, round) in outer.iter().zip(rounds) {
        if *round + 1 < l.count {
            *round += 1;
            advance(values, &l.moves, 1);
            return Some(l.separator);
        }
        advance(values, &l.moves, -signed(*round));
        *round = 0;
    }
    None
}

fn advance(values: &mut [i64], moves: &[Move], rounds: i64) {
    for (column, step) in moves {
        // The bounds of the whole product are checked before. So the multiplication can wrap only
        // for more than 2^63 rounds of a column that does not move.
        values[*column] = values[*column].wrapping_add(step.wrapping_mul(rounds));
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Passes the separator and text of each record of a run to a closure.
pub(crate) fn each_record(
    run: &Run<'_>,
    mut f: impl FnMut(Option<u8>, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut values = run.values.to_vec();
    let mut before = run.before;
    let mut record = Vec::new();
    for left in (0..run.count).rev() {
        record.clear();
        let cut = if left == 0 { run.cut } else { 0 };
        let kept = run.template.names - cut;
        let columns = run.template.columns.iter().zip(&values);
        if let Some((_, value)) = columns.into_iter().find(|(c, v)| c.name < kept && **v < 0) {
            return Err(Error::new(
                preg_core::Status::ERR_BAD_PARAM,
                format!("a column reaches {value}, outside 0 to 10^18 - 1"),
            ));
        }
        run.template.render(&values, 0, &mut record);
        for _ in 0..cut {
            let end = record.iter().rposition(|b| matches!(b, b',' | b';'));
            record.truncate(end.unwrap_or(0));
        }
        f(before, &record)?;
        before = Some(run.between);
        advance(&mut values, run.moves, 1);
    }
    Ok(())
}

/// Splits a run with one moving column where the number of digits changes. Each part has the first
/// number, the number of records and the number of digits.
pub(crate) fn equal_widths(run: &Run<'_>, column: usize, step: i64) -> Vec<(i64, u64, usize)> {
    let width = run.template.columns[column].width;
    let (mut first, mut left) = (run.values[column], run.count);
    let mut chunks = Vec::new();
    while left > 0 {
        let len = digits(first.unsigned_abs()).max(width);
        let power = |n: usize| 10_i64.pow(u32::try_from(n.min(18)).unwrap_or(0));
        let room = if step >= 0 {
            power(len) - 1 - first
        } else if len > width {
            first - power(len - 1)
        } else {
            first
        };
        let room = room.unsigned_abs();
        let count = match room.checked_div(step.unsigned_abs()) {
            Some(more) => left.min(more + 1),
            None => left,
        };
        chunks.push((first, count, len));
        left -= count;
        first = first.saturating_add(step.saturating_mul(signed(count)));
    }
    chunks
}

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
