// SPDX-License-Identifier: MIT OR Apache-2.0
//! The elements of a solved block as text.

use std::ops::Range;

use pmix_map::scan;

use crate::decimal;
use crate::fold::{self, Field};
use crate::nodes::Block;
use crate::track::Step;

/// Appends the elements of a block, separated by commas; they end with these steps, the last
/// element first.
pub(crate) fn write(block: &Block<'_>, ends: &[usize], out: &mut Vec<u8>) {
    for (index, last) in ends.iter().rev().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let Step { begin, field, .. } = block.steps[*last];
        let names = block.steps[begin].first..block.first_after(*last);
        match field {
            Some(field) => write_group(block, begin..*last + 1, field, out),
            None => {
                for (index, name) in names.map(|n| block.name(n)).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_alone(name, out);
                }
            }
        }
    }
}

fn write_alone(name: &[u8], out: &mut Vec<u8>) {
    match fold::alone(name).1 {
        Some(field) => {
            open(name, field, out);
            out.extend_from_slice(decimal::significant(field.digits(name)));
            close(name, field, out);
        }
        None => out.extend_from_slice(name),
    }
}

fn open(name: &[u8], field: Field, out: &mut Vec<u8>) {
    let start = field.padded_start(name);
    out.extend_from_slice(&name[..start]);
    out.push(b'[');
    decimal::push((field.end - start) as u64, out);
    out.push(b':');
}

fn close(name: &[u8], field: Field, out: &mut Vec<u8>) {
    out.push(b']');
    out.extend_from_slice(&name[field.end..]);
}

/// Writes the names of some steps as one group.
fn write_group(block: &Block<'_>, steps: Range<usize>, field: Field, out: &mut Vec<u8>) {
    let name = block.name(block.steps[steps.start].first);
    open(name, field, out);
    let mut ranges = Ranges { open: None, out };
    for index in steps {
        let step = &block.steps[index];
        let names = step.first..block.first_after(index);
        let digits = |name| field.digits(block.name(name));
        if step.is_run {
            ranges.push(digits(names.start), digits(names.end - 1));
        } else {
            names.for_each(|name| ranges.push(digits(name), digits(name)));
        }
    }
    ranges.end();
    close(name, field, out);
}

/// The ranges under way.
struct Ranges<'a, 'o> {
    /// The ends, as digits, of the range that may still be continued, and its last number.
    open: Option<(&'a [u8], &'a [u8], u64)>,
    out: &'o mut Vec<u8>,
}

impl<'a> Ranges<'a, '_> {
    /// Adds the numbers from one to another, both included.
    fn push(&mut self, low: &'a [u8], high: &'a [u8]) {
        let first = scan::number(low);
        let last = if low == high {
            first
        } else {
            scan::number(high)
        };
        match &mut self.open {
            Some((_, end, number)) if first == *number + 1 => (*end, *number) = (high, last),
            Some(_) => {
                self.end();
                self.out.push(b',');
                self.open = Some((low, high, last));
            }
            None => self.open = Some((low, high, last)),
        }
    }

    fn end(&mut self) {
        if let Some((low, high, _)) = self.open.take() {
            self.out.extend_from_slice(decimal::significant(low));
            if low != high {
                self.out.push(b'-');
                self.out.extend_from_slice(decimal::significant(high));
            }
        }
    }
}
