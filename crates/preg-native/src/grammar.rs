// SPDX-License-Identifier: MIT OR Apache-2.0
//! The grammar of a value, as iterators over byte ranges.
//!
//! The parser and the explanation share these iterators, so they agree on every byte.

use std::ops::Range;

use memchr::{memchr, memchr2};
use pmix_map::scan::MAX_DIGITS;
use pmix_types::Status;
use preg_core::Error;

/// The prefix of every value.
pub(crate) const TAG: &[u8] = b"pmix[";

/// Returns the range of the bytes between the outer brackets, or `None` if the value does not have
/// the tag.
///
/// # Errors
/// The closing bracket is missing, or the value contains a NUL.
pub(crate) fn body(value: &[u8]) -> Result<Option<Range<usize>>, Error> {
    if !value.starts_with(TAG) {
        return Ok(None);
    }
    if let Some(nul) = memchr(0, value) {
        return Err(Error::damaged(nul, "a NUL inside the map, which is text"));
    }
    // DEVIATION: OpenPMIx drops the last byte without a check, so a truncated map loses the end of
    // its last name; here it is an error; truncated_maps_are_errors_at_their_end
    match value {
        [rest @ .., b']'] if rest.len() >= TAG.len() => Ok(Some(TAG.len()..rest.len())),
        _ => Err(Error::damaged(
            value.len(),
            "expected `]`, which ends the map; the value is cut short",
        )),
    }
}

/// An element of a node map, as byte ranges of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// A verbatim name, possibly empty.
    Name(Range<usize>),
    /// A group of names that differ in one number.
    Group(Group),
}

/// The parts of `prefix[width:ranges]suffix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The text before the number.
    pub(crate) prefix: Range<usize>,
    /// The digits of the width.
    pub(crate) width: Range<usize>,
    /// The ranges, separated by commas.
    pub(crate) ranges: Range<usize>,
    /// The text after the number.
    pub(crate) suffix: Range<usize>,
}

impl Group {
    /// Returns the width as a number.
    ///
    /// # Errors
    /// The width is zero or too large for a name.
    pub(crate) fn width(&self, value: &[u8]) -> Result<usize, Error> {
        let digits = value.get(self.width.clone()).unwrap_or_default();
        match number(digits).map(usize::try_from) {
            Some(Ok(0)) => Err(Error::damaged(
                self.width.start,
                "the width is 0; expected the number of digits",
            )),
            Some(Ok(width)) if width <= i32::MAX as usize => Ok(width),
            _ => Err(Error::damaged(
                self.width.start,
                "the width is not a valid length of a host name",
            )),
        }
    }

    /// Returns the suffix, or an error if its brackets are not matched.
    ///
    /// A second group in an element is text, as in OpenPMIx's parsers. An unmatched bracket means
    /// that the value is damaged.
    ///
    /// # Errors
    /// A bracket is unmatched.
    // DEVIATION: OpenPMIx creates names such as `n01]` from it, which no generator intends;
    // brackets_without_a_partner_are_errors
    pub(crate) fn suffix<'a>(&self, value: &'a [u8]) -> Result<&'a [u8], Error> {
        let text = value.get(self.suffix.clone()).unwrap_or_default();
        let alone = |at: usize| Error::damaged(at, "an unmatched bracket");
        let mut open = None;
        for (at, byte) in self.suffix.clone().zip(text) {
            match (byte, open) {
                (b'[', None) => open = Some(at),
                (b']', Some(_)) => open = None,
                (b'[' | b']', _) => return Err(alone(at)),
                _ => {}
            }
        }
        open.map_or(Ok(text), |at| Err(alone(at)))
    }
}

/// An iterator over the elements of a node map. It ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    value: &'a [u8],
    /// The remaining bytes; `None` after the last element.
    rest: Option<Range<usize>>,
}

impl<'a> Elements<'a> {
    /// Creates an iterator over the elements between the outer brackets. Empty text is the empty
    /// list. Otherwise each comma separates two elements, which may be empty.
    // DEVIATION: OpenPMIx's parser rejects the empty elements that its own generator writes for
    // empty names; here they are empty names; empty_elements_are_empty_names
    pub(crate) fn new(value: &'a [u8], body: Range<usize>) -> Self {
        let rest = (!body.is_empty()).then_some(body);
        Self { value, rest }
    }

    fn find_byte(&self, at: usize, end: usize, wanted: u8) -> Option<usize> {
        memchr(wanted, self.value.get(at..end)?).map(|n| at + n)
    }

    /// Consumes the bytes up to `end`, which is the offset of a comma or the end of the body.
    fn advance(&mut self, end: usize, body_end: usize) {
        self.rest = (end < body_end).then(|| end + 1..body_end);
    }

    fn group(&mut self, prefix: Range<usize>, end: usize) -> Result<Element, Error> {
        let start = prefix.end + 1;
        let text = self.value.get(start..end).unwrap_or_default();
        let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
        let colon = start + digits;
        if digits == 0 {
            return Err(Error::damaged(start, "expected the width after `[`"));
        }
        if text.get(digits) != Some(&b':') {
            return Err(Error::damaged(colon, "expected `:` after the width"));
        }
        let Some(close) = self.find_byte(colon + 1, end, b']') else {
            return Err(Error::damaged(end, "expected `]` to end the ranges"));
        };
        let suffix = close + 1..self.find_byte(close + 1, end, b',').unwrap_or(end);
        self.advance(suffix.end, end);
        Ok(Element::Group(Group {
            prefix,
            width: start..colon,
            ranges: colon + 1..close,
            suffix,
        }))
    }
}

impl Iterator for Elements<'_> {
    type Item = Result<Element, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let Range { start, end } = self.rest.take()?;
        let text = self.value.get(start..end)?;
        let stop = memchr2(b',', b'[', text);
        Some(match stop.and_then(|n| text.get(n)) {
            Some(b'[') => self.group(start..stop.map_or(end, |n| start + n), end),
            _ => {
                let name = start..stop.map_or(end, |n| start + n);
                self.advance(name.end, end);
                Ok(Element::Name(name))
            }
        })
    }
}

/// A range of a group: its bytes and its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberRange {
    /// The bytes, without surrounding blanks.
    pub(crate) span: Range<usize>,
    /// The numbers of the range.
    pub(crate) numbers: Numbers,
}

/// The numbers of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// The numbers from the first to the second, both included.
    Range(u64, u64),
    /// The digits of a single number that is too large for an integer.
    Long(Range<usize>),
}

/// An iterator over the ranges of a group. It ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct NumberRanges<'a> {
    value: &'a [u8],
    rest: Option<Range<usize>>,
    width: usize,
    first: bool,
}

impl<'a> NumberRanges<'a> {
    pub(crate) fn new(value: &'a [u8], group: &Group, width: usize) -> Self {
        Self {
            value,
            rest: Some(group.ranges.clone()),
            width,
            first: true,
        }
    }

    fn range(&self, span: Range<usize>) -> Result<NumberRange, Error> {
        let text = self.value.get(span.clone()).unwrap_or_default();
        let numbers = match memchr(b'-', text).map(|n| span.start + n) {
            None => match self.number(span.clone())? {
                Number::Small(n) => Numbers::Range(n, n),
                Number::Long(digits) => Numbers::Long(digits),
            },
            Some(dash) => {
                let first = self.small(span.start..dash)?;
                let last = match text.get(dash + 1 - span.start) {
                    Some(b'-') => wrapped(first, self.small(dash + 2..span.end)?)
                        .filter(|last| decimal_len(*last) <= self.width)
                        .ok_or_else(|| Error::damaged(dash + 1, "expected a number"))?,
                    _ => self.small(dash + 1..span.end)?,
                };
                if first > last {
                    // DEVIATION: OpenPMIx expands a reversed range to nothing and succeeds,
                    // which loses names; ranges_that_no_generator_writes_are_errors
                    return Err(Error::damaged(
                        span.start,
                        format!("the range {first}-{last} is reversed"),
                    ));
                }
                Numbers::Range(first, last)
            }
        };
        Ok(NumberRange { span, numbers })
    }

    fn small(&self, span: Range<usize>) -> Result<u64, Error> {
        match self.number(span)? {
            Number::Small(n) => Ok(n),
            Number::Long(digits) => Err(Error::damaged(
                digits.start,
                format!("a range ends at a number of more than {MAX_DIGITS} digits"),
            )),
        }
    }

    /// Parses one number; blanks may surround it.
    fn number(&self, span: Range<usize>) -> Result<Number, Error> {
        let span = trimmed(self.value, span);
        let digits = self.value.get(span.clone()).unwrap_or_default();
        if !digits.first().is_some_and(u8::is_ascii_digit) {
            return Err(
                Error::damaged(span.start, "expected a number").with_status(Status::ERR_NOT_FOUND)
            );
        }
        if let Some(bad) = digits.iter().position(|b| !b.is_ascii_digit()) {
            return Err(Error::damaged(
                span.start + bad,
                "expected `,`, `-` or `]` after the number",
            ));
        }
        let zeros = digits.iter().take_while(|b| **b == b'0').count();
        let significant = digits.get(zeros..).unwrap_or_default();
        if significant.len() > self.width {
            // DEVIATION: OpenPMIx lets such a number overwrite the end of the prefix, which gives
            // names that no list contains; a_number_wider_than_its_width_is_an_error
            return Err(Error::damaged(
                span.start,
                format!(
                    "the number has {} digits, the width is {}",
                    significant.len(),
                    self.width
                ),
            ));
        }
        match number(significant) {
            Some(number) if significant.len() <= MAX_DIGITS => Ok(Number::Small(number)),
            Some(number) if i64::try_from(number).is_ok() => {
                Ok(Number::Long(span.start + zeros..span.end))
            }
            _ => Err(Error::damaged(
                span.start,
                format!("the number exceeds {}, the limit of peers", i64::MAX),
            )),
        }
    }
}

/// Returns the end of a range whose second number is negative, because OpenPMIx's counter
/// overflowed.
///
/// OpenPMIx counts with a signed 32-bit integer, so it writes consecutive names across 2^31 as
/// `2147483646--2147483648`. This function undoes the overflow.
fn wrapped(first: u64, negated: u64) -> Option<u64> {
    let last = (1_u64 << 32).checked_sub(negated)?;
    (first < 1 << 31 && last >= 1 << 31).then_some(last)
}

enum Number {
    Small(u64),
    Long(Range<usize>),
}

impl Iterator for NumberRanges<'_> {
    type Item = Result<NumberRange, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let Range { start, end } = self.rest.take()?;
        let text = self.value.get(start..end)?;
        let stop = memchr(b',', text).map(|n| start + n);
        let span = trimmed(self.value, start..stop.unwrap_or(end));
        if span.is_empty() && stop.is_none() && !self.first {
            // A comma may follow the last range, as in OpenPMIx's parsers.
            return None;
        }
        self.first = false;
        let range = self.range(span);
        if range.is_ok() {
            self.rest = stop.map(|comma| comma + 1..end);
        }
        Some(range)
    }
}

/// Returns the range without surrounding blanks.
fn trimmed(value: &[u8], range: Range<usize>) -> Range<usize> {
    let text = value.get(range.clone()).unwrap_or_default();
    let start = range.start + (text.len() - text.trim_ascii_start().len());
    start..start + text.trim_ascii().len()
}

/// Parses decimal digits, or returns `None` if the number does not fit.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |n, b| {
        n.checked_mul(10)?
            .checked_add(u64::from(b.wrapping_sub(b'0')))
    })
}

/// Returns the number of digits of a number.
pub(crate) fn decimal_len(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Returns the digits without leading zeros, but at least the last digit.
pub(crate) fn significant_digits(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|b| **b == b'0').count();
    &digits[zeros.min(digits.len().saturating_sub(1))..]
}

/// Appends a number.
pub(crate) fn push_decimal(mut number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + decimal_len(number), b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
}
