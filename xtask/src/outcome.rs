// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a task reports: how many checks held, how many did not, and how many were not made.

use std::fmt;
use std::ops::AddAssign;

/// Checks of one name that were not made for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    /// The test, scenario or row.
    pub(crate) name: String,
    /// Why it was not made: what it needs, or why there is nothing to compare.
    pub(crate) reason: String,
    /// How many checks that are, at least one.
    pub(crate) count: usize,
}

/// Counts of checks; `Display` is the closing line of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Checks that held.
    pub(crate) passed: usize,
    /// Checks that did not.
    pub(crate) failed: usize,
    /// Checks that were not made, and why.
    pub(crate) skips: Vec<Skip>,
}

impl Outcome {
    /// One check that held or did not.
    pub(crate) fn of(held: bool) -> Self {
        Self {
            passed: usize::from(held),
            failed: usize::from(!held),
            skips: Vec::new(),
        }
    }

    /// Counts one check and, if it failed, says why on stderr.
    pub(crate) fn check(&mut self, name: &str, result: Result<(), String>) {
        if let Err(why) = &result {
            eprintln!("FAILED {name}: {why}");
        }
        *self += Self::of(result.is_ok());
    }

    /// Counts and shows one check that cannot be made here.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("SKIPPED {name}: {reason}");
        self.leave_out(name, reason, 1);
    }

    /// Counts checks that are not made, without a line for each.
    pub(crate) fn leave_out(&mut self, name: &str, reason: &str, count: usize) {
        self.skips.push(Skip {
            name: name.to_owned(),
            reason: reason.to_owned(),
            count,
        });
    }

    /// How many checks were not made.
    pub(crate) fn skipped(&self) -> usize {
        self.skips.iter().map(|skip| skip.count).sum()
    }
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skips.extend(other.skips);
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.skipped();
        let Self { passed, failed, .. } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_plain_and_has_every_check() {
        let mut outcome = Outcome::of(true);
        outcome += Outcome::of(true);
        outcome.check(
            "a check that fails on purpose",
            Err("as planned".to_owned()),
        );
        outcome.skip("a check that is skipped on purpose", "as planned");
        let mut other = Outcome::default();
        other.leave_out("a row", "nothing to compare", 3);
        outcome += other;
        assert_eq!(outcome.to_string(), "2 passed, 1 failed, 4 skipped");
    }
}
