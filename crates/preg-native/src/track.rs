// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the dynamic programming: the shortest texts so far.

use crate::fold::Field;

/// A step of the dynamic programming: a name, or several names that are in the same group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The index in the block of the first name.
    pub(crate) first: usize,
    /// The length of the shortest text up to here, with one separator for each element. It may lack
    /// bytes that all texts from here on have in common.
    pub(crate) cost: usize,
    /// The first step of the last element of the shortest text.
    pub(crate) begin: usize,
    /// The field of the last element, if it is a group.
    pub(crate) field: Option<Field>,
    /// `true` if the names of the step have consecutive numbers.
    pub(crate) is_run: bool,
}

impl Step {
    /// Returns `true` if the shortest texts of both steps end in the same group.
    pub(crate) fn same_group(&self, other: &Self) -> bool {
        self.field.is_some() && self.field == other.field && self.begin == other.begin
    }
}

/// The shortest text that ends in an open group on one field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    /// The field of the open group.
    pub(crate) field: Field,
    /// The length of the text, counted as in `Step::cost`.
    pub(crate) cost: usize,
    /// The first step of the group.
    pub(crate) begin: usize,
    /// The number of names in the last range.
    pub(crate) run: usize,
    /// The last number of the group, and its number of digits.
    pub(crate) number: u64,
    pub(crate) digits: usize,
    /// The length of the group without its ranges.
    pub(crate) frame: usize,
}

impl Track {
    /// Returns the track with one more name, which has this number.
    pub(crate) fn then(mut self, number: u64, digits: usize) -> Self {
        let consecutive = number == self.number + 1;
        self.cost += match (consecutive, self.run > 1) {
            (true, true) => digits - self.digits,
            _ => 1 + digits,
        };
        self.run = if consecutive { self.run + 1 } else { 1 };
        self.number = number;
        self.digits = digits;
        self
    }
}
