// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a parsed value, and the text of a record.

use std::borrow::Cow;
use std::ops::Range;

use crate::format::Move;

/// A column of a template: its number in the first record, and its minimum width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) value: i64,
    pub(crate) width: usize,
    /// The index in the template of the name that contains the column.
    pub(crate) name: usize,
}

/// A template: literals, with a column between each two. Separators are part of the literals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    /// The literals: one more than columns.
    pub(crate) literals: Vec<Vec<u8>>,
    pub(crate) columns: Vec<Column>,
    pub(crate) names: usize,
}

/// A loop of a piece. The first one is the innermost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) separator: u8,
    pub(crate) count: u64,
    pub(crate) moves: Vec<Move>,
}

/// A product of loops, and the window of it that is in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: usize,
    /// The joint to the previous piece: the separator, and the moves from the last record of the
    /// previous piece.
    pub(crate) joint: Option<(u8, Vec<Move>)>,
    pub(crate) loops: Vec<Loop>,
    /// The number of names in the product before the window.
    pub(crate) skip: u64,
    /// The number of names in the window; `None` for all up to the end of the product.
    pub(crate) take: Option<u64>,
}

/// The content between two separators of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    Plain(Cow<'a, [u8]>),
    Folded(Template, Vec<Piece>),
}

/// An item, its offset and the separator before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) offset: usize,
    pub(crate) separator: Option<u8>,
    pub(crate) content: Content<'a>,
}

impl Template {
    /// Returns the literal after the last column.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        if self.literals.is_empty() {
            self.literals.push(Vec::new());
        }
        let last = self.literals.len() - 1;
        &mut self.literals[last]
    }

    /// Appends the record with these numbers in its columns. Returns the range of the digits of
    /// column `marked`.
    pub(crate) fn render(&self, values: &[i64], marked: usize, out: &mut Vec<u8>) -> Range<usize> {
        let mut place = out.len()..out.len();
        for (index, literal) in self.literals.iter().enumerate() {
            out.extend_from_slice(literal);
            if let (Some(column), Some(value)) = (self.columns.get(index), values.get(index)) {
                let start = out.len();
                push_number(out, *value, column.width);
                if index == marked {
                    place = start..out.len();
                }
            }
        }
        place
    }

    /// Returns the minimum length of a record in bytes.
    pub(crate) fn min_len(&self) -> usize {
        let literals: usize = self.literals.iter().map(Vec::len).sum();
        let columns: usize = self.columns.iter().map(|c| c.width).sum();
        literals + columns
    }
}

/// Appends a number with at least `width` digits.
pub(crate) fn push_number(out: &mut Vec<u8>, value: i64, width: usize) {
    let mut buffer = [b'0'; 20];
    let mut rest = value.unsigned_abs();
    let mut at = buffer.len();
    while rest > 0 || at == buffer.len() {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    at = at.min(buffer.len().saturating_sub(width));
    out.extend_from_slice(&buffer[at..]);
}
