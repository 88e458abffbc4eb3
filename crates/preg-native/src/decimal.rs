// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decimal numbers as text.

/// Returns the number of digits of a number.
pub(crate) fn len(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Returns the digits without leading zeros, but at least the last digit.
pub(crate) fn significant(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|b| **b == b'0').count();
    &digits[zeros.min(digits.len().saturating_sub(1))..]
}

/// Appends a number.
pub(crate) fn push(mut number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + len(number), b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
}
