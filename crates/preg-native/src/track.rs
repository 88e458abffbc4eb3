// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the generator's programme remembers: the best texts so far.

use crate::fold::Field;

/// One step of the programme: a name, or names that are not taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The index in the block of the first name.
    pub(crate) first: usize,
    /// The bytes of the best text up to here, with one separator for each element; what all texts
    /// from here on have in common may be left out.
    pub(crate) cost: usize,
    /// The step with which the last element of that text begins.
    pub(crate) begin: usize,
    /// The field of that element if it is a group.
    pub(crate) field: Option<Field>,
    /// Whether the names of the step are known to have consecutive numbers.
    pub(crate) is_run: bool,
}

impl Step {
    /// Whether the best texts of two steps end in the same group.
    pub(crate) fn same_group(&self, other: &Self) -> bool {
        self.field.is_some() && self.field == other.field && self.begin == other.begin
    }
}

/// The best text that ends in an open group on one field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    /// The field of the open group.
    pub(crate) field: Field,
    /// The bytes of the text, counted as those of the steps are.
    pub(crate) cost: usize,
    /// The step with which the group begins.
    pub(crate) begin: usize,
    /// How many names the last range covers.
    pub(crate) run: usize,
    /// The last number and how many digits it has.
    pub(crate) number: u64,
    pub(crate) digits: usize,
    /// The bytes of the group without its ranges.
    pub(crate) frame: usize,
}

impl Track {
    /// The track after one more name with this number.
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
