// SPDX-License-Identifier: MIT OR Apache-2.0
//! Positions in a list, as numbers and ranges with steps: `0-3,8`, `0-99/3`.

use crate::Error;
use crate::range::{self, Span};

/// Positions in the given order, as ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions {
    spans: Vec<Span>,
}

/// Parses positions. Leading zeros have no meaning.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM` with the offset of text that is no number or range, or of a step of 0.
pub fn parse_positions(text: &[u8]) -> Result<Positions, Error> {
    range::parse(text).map(|spans| Positions { spans })
}

impl Positions {
    /// Returns the positions below `len`, in order.
    pub fn below(&self, len: u64) -> impl Iterator<Item = u64> + '_ {
        self.spans.iter().flat_map(move |span| {
            // `step` is at least 1 ([`range::parse`]), and positions ascend within a range.
            let fit = len.saturating_sub(span.first).div_ceil(span.step);
            (0..span.count.min(fit)).map(move |index| span.first + index * span.step)
        })
    }

    /// Returns the first position, in the given order, that is not below `len`.
    #[must_use]
    pub fn first_beyond(&self, len: u64) -> Option<u64> {
        self.spans.iter().find_map(|span| {
            let fit = len.saturating_sub(span.first).div_ceil(span.step);
            (fit < span.count).then(|| span.first + fit * span.step)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_keep_their_order_and_stop_at_the_end() {
        let all = |text: &str, len| {
            let parsed = parse_positions(text.as_bytes()).unwrap();
            (
                parsed.below(len).collect::<Vec<_>>(),
                parsed.first_beyond(len),
            )
        };
        assert_eq!(all("0,4-6,2", 9), (vec![0, 4, 5, 6, 2], None));
        assert_eq!(all("0-99/3", 9), (vec![0, 3, 6], Some(9)));
        assert_eq!(all("8-12", 11), (vec![8, 9, 10], Some(11)));
        assert_eq!(all("9,1", 2), (vec![1], Some(9)));
        assert_eq!(all("0-999999999999999999/2", 3), (vec![0, 2], Some(4)));
        assert_eq!(all("0", 0), (vec![], Some(0)));
        assert_eq!(parse_positions(b"1-3/0").unwrap_err().offset(), Some(4));
        assert_eq!(parse_positions(b"-2").unwrap_err().offset(), Some(0));
    }
}
