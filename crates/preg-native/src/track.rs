// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the dynamic programming: the best texts so far.

use crate::fold::Field;

/// A step of the dynamic programming: a name, or names that stay together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The index in the block of the first name.
    pub(crate) first: usize,
    /// The length of the best text up to here, with one separator for each element. A part that all
    /// texts from here on share may be missing.
    pub(crate) cost: usize,
    /// The first step of the last element of that text.
    pub(crate) begin: usize,
    /// The field of that element, if it is a group.
    pub(crate) field: Option<Field>,
    /// `true` if the names of the step have consecutive numbers.
    pub(crate) is_run: bool,
}

impl Step {
    /// Returns `true` if the best texts of two steps end in the same group.
    pub(crate) fn same_group(&self, other: &Self) -> bool {
        self.field.is_some() && self.field == other.field && self.begin == other.begin
    }
}

/// The best text that ends in an open group on one field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    /// The field of the open group.
    pub(crate) field: Field,
    /// The length of the text, counted like that of the steps.
    pub(crate) cost: usize,
    /// The first step of the group.
    pub(crate) begin: usize,
    /// The number of names in the last range.
    pub(crate) run: usize,
    /// The last number and its number of digits.
    pub(crate) number: u64,
    pub(crate) digits: usize,
    /// The length of the group without its ranges.
    pub(crate) frame: usize,
}

impl Track {
    /// Returns the track after one more name with this number.
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
