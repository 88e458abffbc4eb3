// SPDX-License-Identifier: MIT OR Apache-2.0
//! The constants of the format, and the rule for the default columns of a loop. Encoder and decoder
//! share them.
//!
//! The grammar itself is in the crate documentation.

/// The first byte of a value with a verbatim list.
pub(crate) const STORED: u8 = b'0';
/// The first byte of a value in the grammar of version 1.
pub(crate) const FOLDED: u8 = b'1';
/// The bytes that a template must escape with a backslash.
pub(crate) const SPECIAL: &[u8] = b"*/^~%()\\";
/// The maximum number of columns of a template: each has a letter.
pub(crate) const MAX_COLUMNS: usize = 52;
/// The maximum number of loops of a piece.
pub(crate) const MAX_LOOPS: usize = 32;
/// The exclusive upper bound of numbers in columns: they have at most 18 digits.
pub(crate) const VALUE_END: i64 = 1_000_000_000_000_000_000;

/// A column (counted from the left) and its increment.
pub(crate) type Move = (usize, i64);

/// Returns the mark of a loop with `separator` between its rounds.
pub(crate) fn loop_mark(separator: u8) -> u8 {
    if separator == b';' { b'/' } else { b'*' }
}

/// Returns the mark of a joint with `separator`.
pub(crate) fn joint_mark(separator: u8) -> u8 {
    if separator == b';' { b'~' } else { b'^' }
}

/// Returns the letter of a column counted from the right: `a` to `z`, then `A` to `Z`.
pub(crate) fn letter(from_right: usize) -> Option<u8> {
    let letters = (b'a'..=b'z').chain(b'A'..=b'Z');
    letters.into_iter().nth(from_right)
}

/// Returns the column, counted from the right, that a letter names.
pub(crate) fn letter_index(letter: u8) -> Option<usize> {
    match letter {
        b'a'..=b'z' => Some(usize::from(letter - b'a')),
        b'A'..=b'Z' => Some(usize::from(letter - b'A') + 26),
        _ => None,
    }
}

/// Returns the number of decimal digits of a number.
pub(crate) fn digits(number: u64) -> usize {
    number
        .checked_ilog10()
        .map_or(1, |n| usize::try_from(n).unwrap_or(0) + 1)
}

/// The columns that the loops of a piece have moved so far. They determine the default columns of
/// the next loop.
///
/// For each name of the template the default is the rightmost column that has not moved, or the
/// leftmost one if all have moved.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    /// The index of the name that contains each column, ascending.
    names: Vec<usize>,
    /// The total increment of each column by the previous loops; `None` if they did not move it.
    spans: Vec<Option<i64>>,
}

impl Cursor {
    /// Creates a cursor for columns. `names` has the index of the name that contains each column.
    pub(crate) fn new(names: Vec<usize>) -> Self {
        let spans = vec![None; names.len()];
        Self { names, spans }
    }

    /// Returns the number of columns.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Forgets the moves, for the next piece.
    pub(crate) fn reset(&mut self) {
        self.spans.fill(None);
    }

    /// Returns the default columns of a loop, one for each name with columns.
    fn next(&self) -> impl Iterator<Item = usize> + '_ {
        let mut end = self.names.len();
        std::iter::from_fn(move || {
            let name = *self.names.get(end.checked_sub(1)?)?;
            let start = self.names[..end].partition_point(|n| *n < name);
            let free = (start..end).rev().find(|c| self.spans[*c].is_none());
            end = start;
            Some(free.unwrap_or(start))
        })
    }

    /// Returns the moves of a loop without columns and step. The step is 1, or the total increment
    /// of the column if previous loops moved it.
    pub(crate) fn default_moves(&self) -> Vec<Move> {
        self.next()
            .map(|c| (c, self.spans[c].unwrap_or(1)))
            .filter(|m| m.1 != 0)
            .collect()
    }

    /// Returns the moves of a loop with a step but no columns.
    pub(crate) fn step_moves(&self, step: i64) -> Vec<Move> {
        if step == 0 {
            return Vec::new();
        }
        self.next().map(|c| (c, step)).collect()
    }

    /// Records the moves of a loop.
    pub(crate) fn apply(&mut self, moves: &[Move], count: u64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        for (column, step) in moves {
            self.spans[*column] = Some(step.saturating_mul(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_move_columns_from_the_right_and_then_continue() {
        let mut cursor = Cursor::new(vec![0, 0]);
        assert_eq!(cursor.default_moves(), [(1, 1)]);
        cursor.apply(&[(1, 1)], 4);
        assert_eq!(cursor.default_moves(), [(0, 1)]);
        cursor.apply(&[(0, 2)], 5);
        assert_eq!(cursor.default_moves(), [(0, 10)]);
        assert_eq!(cursor.step_moves(-3), [(0, -3)]);
        assert_eq!(cursor.step_moves(0), []);
    }

    #[test]
    fn each_name_of_a_group_has_its_own_next_column() {
        let mut cursor = Cursor::new(vec![0, 0, 2]);
        assert_eq!(cursor.default_moves(), [(2, 1), (1, 1)]);
        cursor.apply(&[(1, 1)], 2);
        assert_eq!(cursor.default_moves(), [(2, 1), (0, 1)]);
    }

    #[test]
    fn letters_and_indices_convert_both_ways() {
        for index in 0..MAX_COLUMNS {
            assert_eq!(letter(index).and_then(letter_index), Some(index));
        }
        assert_eq!(letter(MAX_COLUMNS), None);
        assert_eq!(letter_index(b'1'), None);
    }
}
