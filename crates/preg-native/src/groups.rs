// SPDX-License-Identifier: MIT OR Apache-2.0
//! The elements of a solved block as text.

use crate::fold::{self, Field};
use crate::nodes::{Block, Step};

/// Appends the elements of a block, separated by commas.
pub(crate) fn write(block: &Block<'_>, out: &mut Vec<u8>) {
    let mut ends = Vec::new();
    let mut end = block.steps.len();
    while let Some(last) = end.checked_sub(1) {
        ends.push(last);
        end = block.steps[last].begin;
    }
    for (index, last) in ends.iter().rev().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let Step { begin, field, .. } = block.steps[*last];
        let name = block.name(block.steps[begin].first);
        match field {
            Some(field) => write_group(block, begin, *last, field, out),
            None => write_alone(name, out),
        }
    }
}

fn write_alone(name: &[u8], out: &mut Vec<u8>) {
    match fold::alone(name).1 {
        Some(field) => {
            open(name, field, out);
            out.extend_from_slice(fold::significant(field.digits(name)));
            close(name, field, out);
        }
        None => out.extend_from_slice(name),
    }
}

fn open(name: &[u8], field: Field, out: &mut Vec<u8>) {
    let start = field.padded_start(name);
    out.extend_from_slice(&name[..start]);
    out.push(b'[');
    out.extend_from_slice((field.end - start).to_string().as_bytes());
    out.push(b':');
}

fn close(name: &[u8], field: Field, out: &mut Vec<u8>) {
    out.push(b']');
    out.extend_from_slice(&name[field.end..]);
}

/// Writes the names of the steps `begin` to `last` as one group.
fn write_group(block: &Block<'_>, begin: usize, last: usize, field: Field, out: &mut Vec<u8>) {
    let name = block.name(block.steps[begin].first);
    open(name, field, out);
    let mut range: Option<Ends<'_>> = None;
    for step in begin..=last {
        let digits = |index| field.digits(block.name(index));
        let (low, high) = (digits(block.steps[step].first), digits(block.last_of(step)));
        let first = pmix_map::scan::number(low);
        match &mut range {
            Some(ends) if first == ends.number + 1 => ends.high = high,
            _ => {
                if let Some(ends) = range.take() {
                    ends.write(out);
                    out.push(b',');
                }
                range = Some(Ends {
                    low,
                    high,
                    number: 0,
                });
            }
        }
        if let Some(ends) = &mut range {
            ends.number = pmix_map::scan::number(high);
        }
    }
    if let Some(ends) = range {
        ends.write(out);
    }
    close(name, field, out);
}

/// The two ends of a range as digits, and the number of the last.
struct Ends<'a> {
    low: &'a [u8],
    high: &'a [u8],
    number: u64,
}

impl Ends<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(fold::significant(self.low));
        if self.low != self.high {
            out.push(b'-');
            out.extend_from_slice(fold::significant(self.high));
        }
    }
}
