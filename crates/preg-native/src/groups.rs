// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of the elements of a solved block.

use std::ops::Range;

use pmix_map::scan;

use crate::block::{Block, Step};
use crate::fold::{self, Field};
use crate::grammar;

/// Appends the elements of a block, separated by commas. `ends` has the last step of each element,
/// the last element first.
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
            out.extend_from_slice(grammar::significant_digits(field.digits(name)));
            close(name, field, out);
        }
        None => out.extend_from_slice(name),
    }
}

fn open(name: &[u8], field: Field, out: &mut Vec<u8>) {
    let start = field.padded_start(name);
    out.extend_from_slice(&name[..start]);
    out.push(b'[');
    grammar::push_decimal((field.end - start) as u64, out);
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
    let mut ranges = Ranges {
        text: block.text,
        open: None,
        out,
    };
    let number = |index| {
        let end = block.base + index * (block.len + 1) + field.end;
        // All names of the group have digits at this offset.
        let value = scan::number_before(block.text, end, field.end - field.start);
        Number {
            value: value.unwrap_or_default(),
            end,
        }
    };
    for index in steps {
        let step = &block.steps[index];
        let names = step.first..block.first_after(index);
        if step.is_run {
            ranges.push(number(names.start), number(names.end - 1));
        } else {
            for name in names {
                let number = number(name);
                ranges.push(number, number);
            }
        }
    }
    ranges.end();
    close(name, field, out);
}

/// A number of the list.
#[derive(Clone, Copy)]
struct Number {
    value: u64,
    /// The offset in the text of the end of the number's digits.
    end: usize,
}

/// A writer of the ranges of a group.
struct Ranges<'a, 'o> {
    text: &'a [u8],
    /// The first and last number of the range to write next, which the next number may continue.
    open: Option<(Number, Number)>,
    out: &'o mut Vec<u8>,
}

impl Ranges<'_, '_> {
    /// Adds the numbers from `low` to `high`, both included.
    #[inline]
    fn push(&mut self, low: Number, high: Number) {
        match &mut self.open {
            Some((_, last)) if low.value == last.value + 1 => *last = high,
            Some(_) => {
                self.end();
                self.out.push(b',');
                self.open = Some((low, high));
            }
            None => self.open = Some((low, high)),
        }
    }

    #[inline]
    fn end(&mut self) {
        if let Some((low, high)) = self.open.take() {
            self.write(low);
            if low.value != high.value {
                self.out.push(b'-');
                self.write(high);
            }
        }
    }

    /// Copies the digits of a number without leading zeros.
    #[inline]
    fn write(&mut self, number: Number) {
        let digits = grammar::decimal_len(number.value);
        let text = &self.text[number.end - digits..];
        match text.first_chunk::<{ scan::MAX_DIGITS }>() {
            // A copy of constant size avoids a call to `memcpy`.
            Some(chunk) => {
                let len = self.out.len() + digits;
                self.out.extend_from_slice(chunk);
                self.out.truncate(len);
            }
            None => self.out.extend_from_slice(&text[..digits]),
        }
    }
}
