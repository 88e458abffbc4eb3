// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inner loops over list text, shared by builders and encoders.
//!
//! The *fields* of a host name are its longest sequences of ASCII digits. Two consecutive names of
//! a list are *linked* if they are equally long and differ within one field only.
//!
//! Source: this project.

mod rows;

use std::ops::Range;

pub use rows::successors;

/// The maximum number of digits of a field. Of more consecutive digits, only the last `MAX_DIGITS`
/// are the field, and the others are text. 18 digits fit every integer type of OpenPMIx's parsers.
pub const MAX_DIGITS: usize = 18;

/// The relation of a name to the previous one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// The two names are equal.
    Same,
    /// The names differ within this field only (a byte range, the same in both).
    Field(Range<usize>),
    /// Anything else.
    Break,
}

/// Returns the fields of a name, left to right. Each has at most [`MAX_DIGITS`] digits.
pub fn fields(name: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + name.get(at..)?.iter().position(u8::is_ascii_digit)?;
        let digits = name[start..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        at = start + digits;
        Some(start.max(at.saturating_sub(MAX_DIGITS))..at)
    })
}

/// Returns the field around a byte of a name, which must be a digit.
#[must_use]
pub fn field_around(name: &[u8], at: usize) -> Range<usize> {
    let start = at
        - name[..at]
            .iter()
            .rev()
            .take_while(|b| b.is_ascii_digit())
            .count();
    let end = at + name[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    start.max(end.saturating_sub(MAX_DIGITS))..end
}

/// Returns the relation of `next` to `name`.
#[must_use]
pub fn link(name: &[u8], next: &[u8]) -> Link {
    if name.len() != next.len() {
        return Link::Break;
    }
    let Some(first) = first_difference(name, next) else {
        return Link::Same;
    };
    if !name[first].is_ascii_digit() {
        return Link::Break;
    }
    let field = field_around(name, first);
    let same_text = field.contains(&first)
        && name[field.end..] == next[field.end..]
        && next[first..field.end].iter().all(u8::is_ascii_digit);
    if same_text {
        Link::Field(field)
    } else {
        Link::Break
    }
}

/// Parses up to [`MAX_DIGITS`] ASCII digits as a number.
#[must_use]
pub fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0'))
}

/// Returns the decimal number in the last `len` bytes (1 to 8) of a word, or `None` if one of them
/// is not a digit. The word is little-endian: its last byte is the highest.
#[inline]
pub(crate) fn eight_digits(word: u64, len: u32) -> Option<i64> {
    let digits = (word ^ 0x3030_3030_3030_3030) >> (64 - 8 * len) << (64 - 8 * len);
    // A byte that is not a digit has another high nibble, before or after the addition of six.
    let others = (digits.wrapping_add(0x0606_0606_0606_0606) | digits) & 0xf0f0_f0f0_f0f0_f0f0;
    if others != 0 {
        return None;
    }
    // Combines digits to pairs, pairs to groups of four, and these to eight.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let eight = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    Some(eight.cast_signed())
}

/// Works like [`eight_digits`], but is faster for a single digit.
#[inline]
pub(crate) fn last_digits(word: u64, len: u32) -> Option<i64> {
    if len == 1 {
        let digit = (word >> 56) ^ 0x30;
        return (digit < 10).then_some(digit.cast_signed());
    }
    eight_digits(word, len)
}

/// Returns the decimal number in the `len` bytes before an offset, or `None` if one of them is not
/// a digit. `len` is at most [`MAX_DIGITS`].
///
/// This is meant for loops over many names: it reads whole words, including bytes before the
/// digits.
#[must_use]
#[inline]
pub fn number_before(text: &[u8], end: usize, len: usize) -> Option<u64> {
    match (end.checked_sub(8), u32::try_from(len)) {
        (Some(start), Ok(len @ 1..=8)) => {
            eight_digits(word(text, start), len).map(i64::cast_unsigned)
        }
        _ => long_number_before(text, end, len),
    }
}

/// Works like [`number_before`], for numbers of more than eight digits and near the start of a
/// text.
fn long_number_before(text: &[u8], end: usize, len: usize) -> Option<u64> {
    if (9..=MAX_DIGITS).contains(&len) {
        let high = number_before(text, end.checked_sub(8)?, len - 8)?;
        return Some(high * 100_000_000 + number_before(text, end, 8)?);
    }
    let digits = text.get(end.checked_sub(len)?..end)?;
    let is_number = (1..=MAX_DIGITS).contains(&len) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| number(digits))
}

/// Adds one to a field in place. Returns `false` and leaves the field unchanged if the sum needs
/// one more digit.
pub fn increment(field: &mut [u8]) -> bool {
    for at in (0..field.len()).rev() {
        if field[at] != b'9' {
            field[at] += 1;
            field[at + 1..].fill(b'0');
            return true;
        }
    }
    false
}

/// Returns the end of the name that starts at an offset: the offset of the next separator, or the
/// length of the text.
#[must_use]
pub fn name_end(text: &[u8], pos: usize, separator: u8) -> usize {
    let rest = text.get(pos..).unwrap_or_default();
    memchr::memchr(separator, rest).map_or(text.len(), |n| pos + n)
}

/// Returns the offset of the first difference between two slices of equal length, comparing by
/// words.
#[inline]
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let len = a.len();
    if len < 8 {
        return a.iter().zip(b).position(|(a, b)| a != b);
    }
    let mut at = 0;
    loop {
        // If the length is not a multiple of eight, the last word overlaps the previous one.
        at = at.min(len - 8);
        let differs = word(a, at) ^ word(b, at);
        if differs != 0 {
            return Some(at + differs.trailing_zeros() as usize / 8);
        }
        at += 8;
        if at == len {
            return None;
        }
    }
}

/// Compares two slices of equal length by words. For names, this is faster than a call to `memcmp`.
#[inline]
fn equal(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len < 8 {
        return a == b;
    }
    // The last word is compared first, because names of a list differ there.
    if word(a, len - 8) != word(b, len - 8) {
        return false;
    }
    (0..len - 8).step_by(8).all(|at| word(a, at) == word(b, at))
}

/// Returns the eight bytes at an offset, the first one as the lowest byte, or 0 if fewer remain.
#[must_use]
#[inline]
pub fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|w| w.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_the_one_field_that_differs() {
        assert_eq!(link(b"x10c0s1", b"x10c0s2"), Link::Field(6..7));
        assert_eq!(link(b"x10c0s1", b"x11c0s1"), Link::Field(1..3));
        assert_eq!(link(b"x10c0s1", b"x11c0s2"), Link::Break);
        assert_eq!(link(b"n09", b"n10"), Link::Field(1..3));
        assert_eq!(link(b"n9", b"n10"), Link::Break);
        assert_eq!(link(b"n1a", b"n1b"), Link::Break);
        assert_eq!(link(b"n1", b"n1"), Link::Same);
        assert_eq!(link(b"n1a", b"nba"), Link::Break);
    }

    #[test]
    fn links_are_found_at_every_offset() {
        for len in 1..40 {
            let name = vec![b'3'; len];
            assert_eq!(link(&name, &name), Link::Same);
            for at in 0..len {
                let mut next = name.clone();
                next[at] = b'7';
                let expected = match len - at <= MAX_DIGITS {
                    true => Link::Field(len.saturating_sub(MAX_DIGITS)..len),
                    false => Link::Break,
                };
                assert_eq!(link(&name, &next), expected, "{at} of {len}");
                next[at] = b'x';
                assert_eq!(link(&name, &next), Link::Break);
            }
        }
    }

    #[test]
    fn numbers_are_read_before_every_offset() {
        let text = b"7,node0123456789876543210,x09";
        for end in 0..=text.len() {
            for len in 0..=text.len() {
                let digits = end.checked_sub(len).map(|start| &text[start..end]);
                let expected = digits
                    .filter(|d| (1..=MAX_DIGITS).contains(&d.len()))
                    .and_then(|d| std::str::from_utf8(d).ok()?.parse().ok());
                assert_eq!(
                    number_before(text, end, len),
                    expected,
                    "{len} before {end}"
                );
            }
            assert_eq!(number_before(text, text.len() + 1 + end, 2), None);
        }
    }

    #[test]
    fn long_runs_of_digits_are_numbers_in_their_last_18_digits() {
        let name = b"n12345678901234567890";
        assert_eq!(fields(name).next(), Some(3..21));
        assert_eq!(fields(name).count(), 1);
        assert_eq!(link(name, b"n12345678901234567891"), Link::Field(3..21));
        assert_eq!(link(name, b"n22345678901234567890"), Link::Break);
    }
}
