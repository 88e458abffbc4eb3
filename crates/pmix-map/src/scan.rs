// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inner loops over list text that builders and encoders share.
//!
//! A host name is bytes with *fields*: its maximal runs of ASCII digits. Two names that follow
//! each other in a list are *linked* when they differ within one field only and are equally
//! long; a million consecutive names are one name and a count.

use std::ops::Range;

/// The most digits a field may have to be read as a number; longer runs of digits are text, but
/// for their last `MAX_DIGITS`. 18 digits fit every integer that a real parser uses.
pub const MAX_DIGITS: usize = 18;

/// How a name follows from the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// The two names are equal.
    Same,
    /// They differ within this field only (a byte range, the same in both).
    Field(Range<usize>),
    /// Anything else.
    Break,
}

/// The fields of a name, left to right: maximal runs of digits, cut to their last
/// [`MAX_DIGITS`] where they are longer.
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

/// The field around a byte of a name, which must be a digit.
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

/// How `next` follows from `name`.
#[must_use]
pub fn link(name: &[u8], next: &[u8]) -> Link {
    if name.len() != next.len() {
        return Link::Break;
    }
    let Some(first) = name.iter().zip(next).position(|(a, b)| a != b) else {
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

/// Reads up to [`MAX_DIGITS`] ASCII digits as a number.
#[must_use]
pub fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0'))
}

/// The number that the last `len` bytes of a word, 1 to 8, are in decimal; `None` if they are not
/// all digits. The word is read little-endian: the last byte is the highest.
#[inline]
pub(crate) fn eight_digits(word: u64, len: u32) -> Option<i64> {
    let digits = (word ^ 0x3030_3030_3030_3030) >> (64 - 8 * len) << (64 - 8 * len);
    // A byte that is no digit has a high nibble, or gets one by adding six.
    let others = (digits.wrapping_add(0x0606_0606_0606_0606) | digits) & 0xf0f0_f0f0_f0f0_f0f0;
    if others != 0 {
        return None;
    }
    // Pairs, fours and eights of digits are put together at once.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let eight = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    Some(eight.cast_signed())
}

/// Adds one to a field in place; `false` (and the field unchanged) when it would need a digit more.
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

/// The end of the name that starts at `pos`: the next separator or the end of the text.
#[must_use]
pub fn name_end(text: &[u8], pos: usize, separator: u8) -> usize {
    memchr::memchr(separator, &text[pos..]).map_or(text.len(), |n| pos + n)
}

/// Counts how many names from `pos` on continue `name` by adding one to `field` each time.
///
/// `pos` is the start of the name after `name`'s separator. Returns the count and the start of
/// the first name that does not continue (one past the end of the text if all do).
#[must_use]
pub fn successors(
    text: &[u8],
    pos: usize,
    name: &[u8],
    field: Range<usize>,
    separator: u8,
) -> (usize, usize) {
    // Names are short; the long ones may cost an allocation.
    let (mut short, mut long) = ([0; 64], Vec::new());
    let len = name.len();
    let expected = match short.get_mut(..=len) {
        Some(expected) => expected,
        None => {
            long.resize(len + 1, 0);
            long.as_mut_slice()
        }
    };
    expected[..len].copy_from_slice(name);
    expected[len] = separator;
    let (mut count, mut at) = (0, pos);
    while at < text.len() && increment(&mut expected[field.clone()]) {
        let end = at + len;
        if end > text.len()
            || !equal(&text[at..end], &expected[..len])
            || text.get(end).is_some_and(|b| *b != separator)
        {
            break;
        }
        let more = same_decade(text, end + 1, expected, field.end - 1);
        count += 1 + more;
        at = end + 1 + more * (len + 1);
        expected[field.end - 1] += u8::try_from(more).unwrap_or_default();
        if count >= DECADES_PAY && expected[field.end - 1] == b'9' {
            let tens = decades(
                &text[at.min(text.len())..],
                &mut expected[..len],
                field.clone(),
                separator,
            );
            count += 10 * tens;
            at += 10 * tens * (len + 1);
        }
    }
    (count, at)
}

/// Counts the names from `pos` on that only add one to the last digit of `entry` each time.
///
/// `entry` is a name and its separator; `digit` is the place of the digit. This is the short way,
/// not the whole way: a name that ends the text is not counted, and none is where the entry does
/// not fill two words that overlap.
#[inline]
fn same_decade(text: &[u8], pos: usize, entry: &[u8], digit: usize) -> usize {
    const WORD: usize = 8;
    let stride = entry.len();
    if !(WORD..=2 * WORD).contains(&stride) {
        return 0;
    }
    // Adding one to the digit adds a constant to each word that holds it.
    let tail = stride - WORD;
    let one = |place: Option<usize>| place.filter(|p| *p < WORD).map_or(0, |p| 1_u64 << (8 * p));
    let (add_head, add_tail) = (one(Some(digit)), one(digit.checked_sub(tail)));
    let (mut head, mut last) = (word(entry, 0), word(entry, tail));
    let most = usize::from(b'9'.saturating_sub(entry[digit]));
    let entries = text.get(pos..).unwrap_or_default().chunks_exact(stride);
    entries
        .take(most)
        .take_while(|next| {
            head = head.wrapping_add(add_head);
            last = last.wrapping_add(add_tail);
            word(next, 0) == head && word(next, tail) == last
        })
        .count()
}

/// Eight bytes as a number, for comparing; zero where there are fewer.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|w| w.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// How long a row must be before it is compared by decades.
const DECADES_PAY: usize = 20;

/// Counts how many whole decades of names continue `name`, whose field ends in 9; leaves the last
/// name of them in `name`.
///
/// Ten names at once differ from the ten before in a digit or two, and are compared in one go.
fn decades(text: &[u8], name: &mut [u8], field: Range<usize>, separator: u8) -> usize {
    let (stride, last) = (name.len() + 1, field.end - 1);
    let mut block = Vec::with_capacity(10 * stride);
    for digit in b'0'..=b'9' {
        block.extend_from_slice(name);
        block.push(separator);
        let start = block.len() - stride;
        block[start + last] = digit;
    }
    let mut count = 0;
    for found in text.chunks_exact(10 * stride) {
        let before = &mut name[field.start..last];
        if !increment(before) {
            break;
        }
        // What changed: the last digit that is not 0 now, and the zeros behind it.
        let zeros = before.iter().rev().take_while(|b| **b == b'0').count();
        let changed = last.saturating_sub(zeros + 1).max(field.start)..last;
        // One byte mostly; a copy would cost a call for each name.
        for at in changed {
            for copy in block.chunks_exact_mut(stride) {
                copy[at] = name[at];
            }
        }
        if found != block {
            // Back to the last name that was there.
            decrement(&mut name[field.start..last]);
            break;
        }
        count += 1;
    }
    count
}

/// Takes one from a field in place that is not zero.
fn decrement(field: &mut [u8]) {
    for digit in field.iter_mut().rev() {
        if *digit != b'0' {
            *digit -= 1;
            return;
        }
        *digit = b'9';
    }
}

/// Byte equality for two slices of one length, by words: names are too short for a call to pay.
#[inline]
fn equal(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len < 8 {
        return a == b;
    }
    // The last word first: that is where two names of one list differ.
    if word(a, len - 8) != word(b, len - 8) {
        return false;
    }
    let mut at = 0;
    while at + 8 < len {
        if word(a, at) != word(b, at) {
            return false;
        }
        at += 8;
    }
    true
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
    fn long_runs_of_digits_are_numbers_in_their_last_18_digits() {
        let name = b"n12345678901234567890";
        assert_eq!(fields(name).next(), Some(3..21));
        assert_eq!(fields(name).count(), 1);
        assert_eq!(link(name, b"n12345678901234567891"), Link::Field(3..21));
        assert_eq!(link(name, b"n22345678901234567890"), Link::Break);
    }

    #[test]
    fn successors_of_any_number_are_counted_however_they_are_compared() {
        for (first, count, width) in [(0, 10, 2), (7, 93, 2), (95, 1000, 4), (8, 991, 3)] {
            let names: Vec<_> = (first..first + count)
                .map(|n| format!("n{n:0width$}-1"))
                .collect();
            for more in ["", ",n1", ",x", ",n", "x", ",,"] {
                let text = names.join(",") + more;
                let pos = names[0].len() + 1;
                let found = successors(
                    text.as_bytes(),
                    pos,
                    names[0].as_bytes(),
                    1..1 + width,
                    b',',
                );
                let counted = count - 1 - usize::from(more == "x");
                let at = (counted + 1) * (names[0].len() + 1);
                assert_eq!(found, (counted, at), "{first} {count} {more:?}");
            }
            for hole in 1..count {
                let text = [&names[..hole], &names[hole + 1..]].concat().join(",");
                let pos = names[0].len() + 1;
                let found = successors(
                    text.as_bytes(),
                    pos,
                    names[0].as_bytes(),
                    1..1 + width,
                    b',',
                );
                assert_eq!(found.0, hole - 1, "{first} {count} without {hole}");
            }
        }
    }

    #[test]
    fn successors_count_alike_for_names_of_every_length() {
        for (prefix, suffix) in [
            ("", ""),
            ("n", ""),
            ("node", "-ib"),
            ("node", ".example.com"),
        ] {
            for width in 1..12 {
                let top = 10_usize.pow(u32::try_from(width).unwrap().min(3));
                let names: Vec<_> = (0..top)
                    .map(|i| format!("{prefix}{i:0width$}{suffix}"))
                    .collect();
                let field = prefix.len()..prefix.len() + width;
                for break_at in [1, 2, 7, 10, 11, top / 2, top - 1] {
                    let mut list = names.clone();
                    if let Some(name) = list.get_mut(break_at) {
                        *name = name.replace('0', "x");
                    }
                    let text = list.join(",").into_bytes();
                    let pairs = list[1..].iter().zip(&names[1..]);
                    let count = pairs.take_while(|(a, b)| a == b).count();
                    let start = names[0].len() + 1;
                    let name = names[0].as_bytes();
                    let found = successors(&text, start, name, field.clone(), b',');
                    assert_eq!(found, (count, start * (count + 1)), "{}", names[0]);
                }
            }
        }
    }

    #[test]
    fn successors_stop_at_the_first_name_that_is_not_next() {
        let text = b"node008,node009,node010,node012";
        assert_eq!(successors(text, 8, b"node008", 4..7, b','), (2, 24));
        assert_eq!(successors(text, 24, b"node011", 4..7, b','), (1, 32));
        assert_eq!(successors(b"n9,n10", 3, b"n9", 1..2, b','), (0, 3));
        assert_eq!(successors(b"n1,n2x", 3, b"n1", 1..2, b','), (0, 3));
    }
}
