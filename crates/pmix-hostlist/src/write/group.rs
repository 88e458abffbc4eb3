// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that differ in one number only, and their form with brackets.

use std::io::Write;
use std::ops::Range;

use pmix_map::scan::MAX_DIGITS;

/// The minimum number of numbers in a range with a step. Fewer numbers are shorter one by one.
const SHORTEST_STRIDE: usize = 4;

/// A prefix, numbers in order, and a suffix.
pub(super) struct Group {
    pub(super) prefix: Vec<u8>,
    pub(super) suffix: Vec<u8>,
    pub(super) ranges: Vec<Numbers>,
}

/// Consecutive numbers, as written between brackets.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) first: u64,
    pub(super) last: u64,
    /// The number of digits of the first number. If it has leading zeros, all numbers have this
    /// width.
    pub(super) width: usize,
}

impl Numbers {
    pub(super) fn of(digits: &[u8]) -> Self {
        let number = pmix_map::scan::number(digits);
        Self {
            first: number,
            last: number,
            width: digits.len(),
        }
    }

    fn digits(number: u64) -> usize {
        usize::try_from(number.max(1).ilog10() + 1).unwrap_or(MAX_DIGITS)
    }

    fn padded(&self) -> bool {
        self.width > Self::digits(self.first)
    }

    /// Returns `true` if `next` continues this range, so that parsing the joined range gives the
    /// same numbers.
    fn takes(&self, next: &Self) -> bool {
        let width = if self.padded() {
            self.width.max(Self::digits(next.first))
        } else {
            Self::digits(next.first)
        };
        self.last.checked_add(1) == Some(next.first) && next.width == width
    }

    /// Returns `true` if `next` is one step after this range, so that parsing a range with this
    /// step gives the same numbers.
    fn steps_to(&self, next: &Self, step: u64) -> bool {
        let padded = self.width > Self::digits(self.first);
        let width = if padded {
            self.width.max(Self::digits(next.first))
        } else {
            Self::digits(next.first)
        };
        next.first == next.last
            && self.last.checked_add(step) == Some(next.first)
            && next.width == width
    }

    fn write(&self, out: &mut Vec<u8>) {
        let width = self.width;
        let _ = write!(out, "{:0width$}", self.first);
        if self.last > self.first {
            let _ = write!(out, "-{:0width$}", self.last);
        }
    }
}

/// Returns how many of the first numbers form a range with a step, and the step. Returns 1 and 1 if
/// there is no such range.
fn stride(numbers: &[Numbers]) -> (usize, u64) {
    const NONE: (usize, u64) = (1, 1);
    let [first, second, ..] = numbers else {
        return NONE;
    };
    let step = match second.first.checked_sub(first.first) {
        Some(step) if step > 1 && first.first == first.last => step,
        _ => return NONE,
    };
    let mut range = *first;
    let mut count = 1;
    for next in &numbers[1..] {
        if !range.steps_to(next, step) {
            break;
        }
        range.last = next.last;
        count += 1;
    }
    match count >= SHORTEST_STRIDE {
        true => (count, step),
        false => NONE,
    }
}

impl Group {
    pub(super) fn add(&mut self, numbers: Numbers) {
        match self.ranges.last_mut() {
            Some(last) if last.takes(&numbers) => last.last = numbers.last,
            _ => self.ranges.push(numbers),
        }
    }

    /// Writes the text before the bracket to `head`, and the rest to `tail`. Without a bracket, all
    /// text goes to `head`.
    pub(super) fn write(&self, steps: bool, head: &mut Vec<u8>, tail: &mut Vec<u8>) {
        head.extend_from_slice(&self.prefix);
        if let [one] = self.ranges[..]
            && one.first == one.last
        {
            one.write(head);
            head.extend_from_slice(&self.suffix);
            return;
        }
        let mut at = 0;
        while let Some(range) = self.ranges.get(at) {
            tail.push(if at > 0 { b',' } else { b'[' });
            let (count, step) = match steps {
                true => stride(&self.ranges[at..]),
                false => (1, 1),
            };
            let last = self.ranges[at + count - 1].last;
            Numbers { last, ..*range }.write(tail);
            if count > 1 {
                let _ = write!(tail, "/{step}");
            }
            at += count;
        }
        tail.push(b']');
        tail.extend_from_slice(&self.suffix);
    }
}

/// Returns the range of the number between a prefix and a suffix, or `None` if there is other text.
pub(super) fn number_between(name: &[u8], prefix: &[u8], suffix: &[u8]) -> Option<Range<usize>> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    is_number(digits).then(|| prefix.len()..name.len() - suffix.len())
}

fn is_number(digits: &[u8]) -> bool {
    (1..=MAX_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// Returns the ranges, in both names, of the only number in which they differ. The numbers may have
/// different lengths.
pub(super) fn field(a: &[u8], b: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    if common == a.len() && common == b.len() {
        // Equal names are folded on their last number.
        let end = a.iter().rposition(u8::is_ascii_digit)? + 1;
        let start = a[..end]
            .iter()
            .rposition(|x| !x.is_ascii_digit())
            .map_or(0, |n| n + 1);
        return is_number(&a[start..end]).then_some((start..end, start..end));
    }
    let start = a[..common]
        .iter()
        .rposition(|x| !x.is_ascii_digit())
        .map_or(0, |n| n + 1);
    let digits = |name: &[u8]| {
        start
            + name[start..]
                .iter()
                .take_while(|x| x.is_ascii_digit())
                .count()
    };
    let (end_a, end_b) = (digits(a), digits(b));
    let fits =
        a[end_a..] == b[end_b..] && is_number(&a[start..end_a]) && is_number(&b[start..end_b]);
    fits.then_some((start..end_a, start..end_b))
}
