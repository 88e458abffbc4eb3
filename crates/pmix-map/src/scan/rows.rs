// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of names that count up by one. They are compared without parsing, by words and by ten names
//! at a time.
//!
//! Source: this project.

use std::ops::Range;

use super::{equal, increment, word};

/// Counts the names from `pos` on that continue `name`: each adds one to `field`.
///
/// `pos` is the offset after the separator of `name`. Returns the count and the start of the first
/// name that does not continue (one past the end of the text if all do).
#[must_use]
pub fn successors(
    text: &[u8],
    pos: usize,
    name: &[u8],
    field: Range<usize>,
    separator: u8,
) -> (usize, usize) {
    // Names are short. Only long ones need an allocation.
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

/// Counts the names from `pos` on that continue `entry`: each adds one to its last digit.
///
/// `entry` is a name with its separator, and `digit` the offset of the digit. The count may be too
/// low. It excludes a name at the end of the text, and is 0 unless the entry has 8 to 16 bytes.
#[inline]
fn same_decade(text: &[u8], pos: usize, entry: &[u8], digit: usize) -> usize {
    const WORD: usize = 8;
    let stride = entry.len();
    if !(WORD..=2 * WORD).contains(&stride) {
        return 0;
    }
    // Adding one to the digit adds a constant to each word that contains the digit.
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

/// The minimum length of a row that is compared ten names at a time.
const DECADES_PAY: usize = 20;

/// Counts the names that continue `name`, ten at a time. The field of `name` must end in 9. Sets
/// `name` to the last counted name.
///
/// Ten names differ from the previous ten in the same digits, usually one, so they are compared at
/// once.
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
        // The changed digits: the last one that is not 0 now, and the zeros after it.
        let zeros = before.iter().rev().take_while(|b| **b == b'0').count();
        let changed = last.saturating_sub(zeros + 1).max(field.start)..last;
        // A loop, because usually one byte changes: a copy would be a call for each name.
        for at in changed {
            for copy in block.chunks_exact_mut(stride) {
                copy[at] = name[at];
            }
        }
        if found != block {
            // Restores the last name that is in the text.
            decrement(&mut name[field.start..last]);
            break;
        }
        count += 1;
    }
    count
}

/// Subtracts one from a field in place. The field must not be zero.
fn decrement(field: &mut [u8]) {
    for digit in field.iter_mut().rev() {
        if *digit != b'0' {
            *digit -= 1;
            return;
        }
        *digit = b'9';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_comparisons_count_the_same_successors() {
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
    fn counts_successors_for_names_of_every_length() {
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
