// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a task reports: how many checks held and how many did not.

use std::fmt;
use std::ops::AddAssign;

/// Counts of checks; `Display` is the closing line of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Checks that held.
    pub(crate) passed: usize,
    /// Checks that did not.
    pub(crate) failed: usize,
}

impl Outcome {
    /// One check that held or did not.
    pub(crate) fn of(held: bool) -> Self {
        Self {
            passed: usize::from(held),
            failed: usize::from(!held),
        }
    }

    /// Counts one check and, if it failed, says why on stderr.
    pub(crate) fn check(&mut self, name: &str, result: Result<(), String>) {
        if let Err(why) = &result {
            eprintln!("FAILED {name}: {why}");
        }
        *self += Self::of(result.is_ok());
    }
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_plain() {
        let mut outcome = Outcome::of(true);
        outcome += Outcome::of(true);
        outcome.check(
            "a check that fails on purpose",
            Err("as planned".to_owned()),
        );
        assert_eq!(outcome.to_string(), "2 passed, 1 failed");
    }
}
