// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process sets that requests define. They exist until the session ends, so their number and size are bounded.

use std::collections::HashMap;

use pmix_types::{IntoOwned as _, Proc, Text};

/// The defined process sets with their sizes in bytes.
#[derive(Debug, Default)]
pub(super) struct DefinedSets {
    weights: HashMap<Text<'static>, usize>,
    sum: usize,
}

impl DefinedSets {
    /// The largest number of sets.
    const MOST: usize = 4096;
    /// The largest size of all sets together, in bytes.
    const MOST_BYTES: usize = 64 << 20;

    /// Records a set, which replaces one of the same name. Returns `false` if there is no room for it.
    pub(super) fn add(&mut self, name: &Text<'_>, of_members: usize) -> bool {
        let old = self.weights.get(name.as_bytes()).copied();
        let weight = of_members.saturating_add(name.len());
        let sum = self.sum.saturating_sub(old.unwrap_or(0));
        let sum = sum.saturating_add(weight);
        if sum > Self::MOST_BYTES || (old.is_none() && self.weights.len() >= Self::MOST) {
            return false;
        }
        self.sum = sum;
        self.weights.insert(name.clone().into_owned(), weight);
        true
    }
}

/// Returns the size of a member of a set in bytes.
pub(super) fn weight(proc: &Proc<'_>) -> usize {
    size_of::<Proc<'_>>() + proc.nspace.as_bytes().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_sets_are_bounded_in_number_and_size_and_can_be_redefined() {
        let mut sets = DefinedSets::default();
        let name = |number: usize| Text::from(number.to_string());
        for number in 0..DefinedSets::MOST {
            assert!(sets.add(&name(number), 100));
        }
        assert!(!sets.add(&name(DefinedSets::MOST), 100));
        for _ in 0..1000 {
            assert!(sets.add(&name(0), 1 << 20), "in the place of the same");
        }
        assert!(!sets.add(&name(1), DefinedSets::MOST_BYTES));
        assert!(sets.add(&name(1), 1));
    }
}
