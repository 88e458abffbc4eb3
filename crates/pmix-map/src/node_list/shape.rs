// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shapes: names without the values of their digits.
//!
//! A name is split into its digits, as one decimal number, and the name with these digits set to
//! `0`: `x1000c0s2b1n0` is the shape `x0000c0s0b0n0` and the number 10000210. So names of one
//! naming scheme are numbers, whichever field varies.
//!
//! The digits that form the number are the *window*: the last [`MAX_DIGITS`] digits of the name.
//! Digits before it are part of the text. For a progression of a field further left, the window is
//! moved left by [`Shape::tail`] digits.

use pmix_types::memory;

use crate::Error;
use crate::scan::MAX_DIGITS;

/// Consecutive digits of the window, as a byte range of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u8,
}

impl Span {
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) fn end(self) -> usize {
        self.start() + usize::from(self.len)
    }
}

/// The stored shape: the positions of its text and its spans, and the number of digits after its
/// window.
#[derive(Clone, Copy, Debug)]
struct Entry {
    text: usize,
    len: u32,
    tail: u32,
    spans: u32,
    num_spans: u8,
}

/// A borrowed shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'a> {
    /// The name with the digits of the window set to `0`.
    pub(crate) text: &'a [u8],
    /// The spans of the window, left to right.
    pub(crate) spans: &'a [Span],
    /// The number of digits to the right of the window.
    pub(crate) tail: u32,
}

impl Shape<'_> {
    /// Returns `true` if two shapes give equal names for equal numbers.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.tail == other.tail && self.text == other.text
    }

    /// Writes a number into a name of this shape.
    pub(crate) fn write(&self, name: &mut [u8], mut number: i64) {
        for span in self.spans.iter().rev() {
            for digit in name[span.start()..span.end()].iter_mut().rev() {
                *digit = ascii(number % 10);
                number /= 10;
            }
        }
    }

    /// Changes the name for the number `from` into the name for `to`. Writes only the digits that
    /// differ.
    #[inline]
    pub(crate) fn rewrite(&self, name: &mut [u8], mut from: i64, mut to: i64) {
        for span in self.spans.iter().rev() {
            for digit in name[span.start()..span.end()].iter_mut().rev() {
                if from == to {
                    return;
                }
                *digit = ascii(to % 10);
                (from, to) = (from / 10, to / 10);
            }
        }
    }

    /// Returns the place value of the last digit of a span: a power of ten.
    pub(crate) fn unit(&self, span: usize) -> i64 {
        let digits: u32 = self.spans[span + 1..]
            .iter()
            .map(|s| u32::from(s.len))
            .sum();
        10i64.pow(digits)
    }
}

fn ascii(digit: i64) -> u8 {
    u8::try_from(digit).map_or(b'?', |d| b'0' + d)
}

/// All shapes of a list. Their texts share one allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    text: Vec<u8>,
    spans: Vec<Span>,
    entries: Vec<Entry>,
}

impl Shapes {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, id: u32) -> Shape<'_> {
        let entry = &self.entries[id as usize];
        let spans = entry.spans as usize;
        Shape {
            text: &self.text[entry.text..entry.text + entry.len as usize],
            spans: &self.spans[spans..spans + usize::from(entry.num_spans)],
            tail: entry.tail,
        }
    }

    /// Adds the shape of a name. Returns the id of the shape and the number of the name.
    ///
    /// # Errors
    /// The number of shapes or the length of the name exceeds 32 bits, or there is no memory.
    pub(crate) fn add(&mut self, name: &[u8], tail: u32) -> Result<(u32, i64), Error> {
        let too_many = |_| Error::limit("bytes or shapes of names", u64::from(u32::MAX));
        let id = u32::try_from(self.entries.len()).map_err(too_many)?;
        let spans = u32::try_from(self.spans.len()).map_err(too_many)?;
        let len = u32::try_from(name.len()).map_err(too_many)?;
        let text = self.text.len();
        memory::reserve(&mut self.text, name.len())?;
        memory::reserve(&mut self.spans, MAX_DIGITS)?;
        memory::reserve(&mut self.entries, 1)?;
        self.text.extend_from_slice(name);
        let (window, number) = blank(&mut self.text[text..], tail);
        self.spans.extend(window.as_slice());
        self.entries.push(Entry {
            text,
            len,
            tail,
            spans,
            num_spans: window.num_spans,
        });
        Ok((id, number))
    }

    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.spans.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.text.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.entries.capacity() * size_of::<Entry>()
    }
}

/// The spans of a window, at most one for each digit.
pub(crate) struct Window {
    spans: [Span; MAX_DIGITS],
    num_spans: u8,
}

impl Window {
    pub(crate) fn as_slice(&self) -> &[Span] {
        &self.spans[..usize::from(self.num_spans)]
    }

    /// Adds the digit at `start`, which is left of all others. The spans are stored right to left.
    fn push_front(&mut self, start: u32) {
        let count = usize::from(self.num_spans);
        if let Some(span) = self.spans[..count].last_mut()
            && span.start == start + 1
        {
            *span = Span {
                start,
                len: span.len + 1,
            };
        } else {
            self.spans[count] = Span { start, len: 1 };
            self.num_spans += 1;
        }
    }
}

/// Sets the digits in the window of a name to `0`. Returns the window and its number.
///
/// The window is the last [`MAX_DIGITS`] digits before the last `tail` ones.
pub(crate) fn blank(name: &mut [u8], tail: u32) -> (Window, i64) {
    let mut window = Window {
        spans: [Span { start: 0, len: 0 }; MAX_DIGITS],
        num_spans: 0,
    };
    let (mut skip, mut number, mut unit) = (tail, 0i64, 1i64);
    let mut digits = 0;
    for (at, byte) in name.iter_mut().enumerate().rev() {
        if !byte.is_ascii_digit() {
            continue;
        }
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let Ok(start) = u32::try_from(at) else { break };
        window.push_front(start);
        number += i64::from(*byte - b'0') * unit;
        *byte = b'0';
        digits += 1;
        if digits == MAX_DIGITS {
            break;
        }
        unit *= 10;
    }
    window.spans[..usize::from(window.num_spans)].reverse();
    (window, number)
}
