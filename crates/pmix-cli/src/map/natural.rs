// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which people list names: numbers in them by value.

use std::cmp::Ordering;

/// Compares two names part by part, digits by their value and all else byte by byte. Equal numbers stand
/// with the fewer leading zeros first, so that different names are never equal.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (Some(x), Some(y)) = (left.first(), right.first()) else {
            // At its end a name is before all that go on; those of one value go by their zeros.
            let ends = left.len().cmp(&right.len());
            return ends
                .then_with(|| a.len().cmp(&b.len()))
                .then_with(|| a.cmp(b));
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (number, rest) = digits(left);
            let (other, other_rest) = digits(right);
            let order = number
                .len()
                .cmp(&other.len())
                .then_with(|| number.cmp(other));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (rest, other_rest);
        } else {
            if x != y {
                return x.cmp(y);
            }
            (left, right) = (&left[1..], &right[1..]);
        }
    }
}

/// Returns the number at the front without leading zeros, and what follows it.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let zeros = number.iter().take_while(|b| **b == b'0').count();
    (&number[zeros..], rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_count_by_value() {
        let sorted = [
            "",
            "a",
            "a1",
            "a01",
            "a2",
            "a2b",
            "a10",
            "a010",
            "a10b2",
            "a10b10",
            "b",
            "b123456789012345678901",
            "b123456789012345678902",
        ];
        let mut names = sorted.map(str::as_bytes);
        names.reverse();
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, sorted.map(str::as_bytes));
    }

    proptest! {
        #[test]
        fn it_is_an_order(a in "[ab0-2]{0,5}", b in "[ab0-2]{0,5}", c in "[ab0-2]{0,5}") {
            let (a, b, c) = (a.as_bytes(), b.as_bytes(), c.as_bytes());
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            prop_assert_eq!(compare(a, b) == Ordering::Equal, a == b);
            if compare(a, b) != Ordering::Greater && compare(b, c) != Ordering::Greater {
                prop_assert_ne!(compare(a, c), Ordering::Greater);
            }
        }
    }
}
