// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of the content of brackets: numbers and ranges with padding and step.

use pmix_map::scan::MAX_DIGITS;

use crate::Error;

/// Numbers of one width in arithmetic progression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The number of zeros before the digits of `width`.
    pub(crate) zeros: usize,
    /// The digits of each number, including leading zeros; at most [`MAX_DIGITS`].
    pub(crate) width: usize,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) step: u64,
}

impl Span {
    /// Appends the number at an index.
    pub(crate) fn write(&self, index: u64, out: &mut Vec<u8>) {
        let number = self.first + index * self.step;
        let width = self.width + self.zeros;
        out.extend_from_slice(format!("{number:0width$}").as_bytes());
    }
}

const EXAMPLE: &str = "brackets hold numbers and ranges: n[1-4,7], n[001-128], n[0-10/2]";

#[cold]
fn fault(at: usize, message: impl Into<String>, hint: &'static str) -> Error {
    Error::syntax(at, message, hint)
}

/// Parses the content of a pair of brackets.
pub(crate) fn parse(inside: &[u8]) -> Result<Vec<Span>, Error> {
    if inside.trim_ascii().is_empty() {
        return Err(fault(0, "the brackets are empty", EXAMPLE));
    }
    let mut spans = Vec::new();
    let mut at = 0;
    for entry in inside.split(|b| *b == b',') {
        let shown = entry.trim_ascii();
        let start = at + (entry.len() - entry.trim_ascii_start().len());
        at += entry.len() + 1;
        if shown.is_empty() {
            return Err(fault(
                start,
                "a number is missing next to this comma",
                EXAMPLE,
            ));
        }
        range(shown, start, &mut spans)?;
    }
    Ok(spans)
}

/// Parses `first`, `first-last` or `first-last/step`.
fn range(entry: &[u8], at: usize, spans: &mut Vec<Span>) -> Result<(), Error> {
    let (bounds, step) = match memchr::memchr(b'/', entry) {
        Some(slash) => {
            let step = number(&entry[slash + 1..], at + slash + 1)?;
            if step.value == 0 {
                return Err(fault(at + slash + 1, "a step of 0 never ends", EXAMPLE));
            }
            (&entry[..slash], step.value)
        }
        None => (entry, 1),
    };
    let (first, last) = match memchr::memchr(b'-', bounds) {
        Some(dash) => (
            number(&bounds[..dash], at)?,
            number(&bounds[dash + 1..], at + dash + 1)?,
        ),
        None => (number(bounds, at)?, number(bounds, at)?),
    };
    if first.value > last.value {
        let hint = "put the smaller number first; for descending order, list the names one by one";
        return Err(fault(at, "the range runs backwards", hint));
    }
    if last.padded && !(first.padded || last.digits == first.digits) {
        let hint = "write n[001-010] for three digits, n[1-10] for as many as needed";
        return Err(fault(
            at,
            "only the end of the range has leading zeros",
            hint,
        ));
    }
    spread(&first, last.value, step, spans);
    Ok(())
}

/// Splits a range where the number of digits increases.
fn spread(first: &Number, last: u64, step: u64, spans: &mut Vec<Span>) {
    let padding = if first.padded { first.digits } else { 1 };
    let mut next = Some(first.value);
    while let Some(from) = next.filter(|n| *n <= last) {
        let digits = from.max(1).ilog10() + 1;
        let all = usize::try_from(digits).map_or(padding, |d| d.max(padding));
        let width = all.min(MAX_DIGITS);
        let end = u32::try_from(width).map_or(u64::MAX, |w| 10u64.saturating_pow(w) - 1);
        let count = (last.min(end) - from) / step + 1;
        spans.push(Span {
            zeros: all - width,
            width,
            first: from,
            count,
            step,
        });
        next = from.checked_add(count.saturating_mul(step));
    }
}

struct Number {
    value: u64,
    digits: usize,
    padded: bool,
}

fn number(text: &[u8], at: usize) -> Result<Number, Error> {
    let shown = text.trim_ascii();
    let at = at + (text.len() - text.trim_ascii_start().len());
    if let Some(wrong) = shown.iter().position(|b| !b.is_ascii_digit()) {
        if shown.get(wrong) == Some(&b':') {
            let hint = "a width before a colon belongs to an encoded value; give the whole value, \
                        or leave the width out";
            return Err(fault(at + wrong, "a colon in a bracket list", hint));
        }
        return Err(fault(at + wrong, "this is not a number", EXAMPLE));
    }
    if shown.is_empty() {
        return Err(fault(at, "a number is missing", EXAMPLE));
    }
    let zeros = shown.iter().take_while(|b| **b == b'0').count();
    if shown.len() - zeros > MAX_DIGITS {
        let hint = "move the leading digits in front of the bracket: n123[4-5]";
        return Err(fault(at, "the number has more than 18 digits", hint));
    }
    Ok(Number {
        value: pmix_map::scan::number(&shown[zeros..]),
        digits: shown.len(),
        padded: zeros > 0 && shown.len() > 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(inside: &str) -> String {
        let mut out = Vec::new();
        for span in parse(inside.as_bytes()).unwrap() {
            for index in 0..span.count {
                if !out.is_empty() {
                    out.push(b' ');
                }
                span.write(index, &mut out);
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_first_number_determines_the_padding() {
        assert_eq!(names("8-12"), "8 9 10 11 12");
        assert_eq!(names("08-12"), "08 09 10 11 12");
        assert_eq!(names("098-101"), "098 099 100 101");
        assert_eq!(names("01-100/33"), "01 34 67 100");
        assert_eq!(names("0-10/5"), "0 5 10");
        assert_eq!(names("00-01"), "00 01");
        assert_eq!(names("001-3"), "001 002 003");
        assert_eq!(names("3,1,1"), "3 1 1");
        assert_eq!(names(" 1 , 2 - 3 "), "1 2 3");
        assert_eq!(
            names("00000000000000000000009-10"),
            "00000000000000000000009 00000000000000000000010"
        );
    }

    #[test]
    fn huge_ranges_stay_small() {
        let spans = parse(b"0-999999999999999999").unwrap();
        assert_eq!(spans.len(), 18);
        let total: u64 = spans.iter().map(|s| s.count).sum();
        assert_eq!(total, 1_000_000_000_000_000_000);
    }

    #[test]
    fn errors_have_an_offset() {
        let at = |text: &str| parse(text.as_bytes()).unwrap_err().offset().unwrap();
        assert_eq!(at("1-3,a"), 4);
        assert_eq!(at("1,,2"), 2);
        assert_eq!(at(""), 0);
        assert_eq!(at("5-3"), 0);
        assert_eq!(at("1-3/0"), 4);
        assert_eq!(at("1-"), 2);
        assert_eq!(at("-3"), 0);
        assert_eq!(at("1-010"), 0);
        assert_eq!(at("1:1-3"), 1);
        assert_eq!(at("1234567890123456789"), 0);
    }
}
