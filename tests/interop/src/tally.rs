// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of results by check.

use std::collections::BTreeMap;

use xtask::Outcome;

/// The number of failures of one check that are printed in full. The rest are only counted.
const SHOWN: usize = 5;

#[derive(Default)]
struct Row {
    passed: usize,
    failed: usize,
    declined: usize,
    /// The counts of skipped checks, by reason.
    skipped: BTreeMap<String, usize>,
}

/// The counts of passed, failed, declined and skipped checks.
#[derive(Default)]
pub(crate) struct Tally {
    rows: BTreeMap<String, Row>,
}

impl Tally {
    fn row(&mut self, what: &str) -> &mut Row {
        self.rows.entry(what.to_owned()).or_default()
    }

    /// Counts a passed check.
    pub(crate) fn pass(&mut self, what: &str) {
        self.row(what).passed += 1;
    }

    /// Counts `count` passed checks.
    pub(crate) fn passes(&mut self, what: &str, count: usize) {
        self.row(what).passed += count;
    }

    /// Counts and prints a failed check.
    pub(crate) fn fail(&mut self, what: &str, why: &str) {
        let row = self.row(what);
        row.failed += 1;
        if row.failed <= SHOWN {
            println!("FAILED {what}: {why}");
        }
    }

    /// Counts a list that one of our encoders rightly leaves to the next one.
    pub(crate) fn decline(&mut self, what: &str) {
        self.row(what).declined += 1;
    }

    /// Counts and prints a check that cannot run here.
    pub(crate) fn skip(&mut self, what: &str, why: &str) {
        println!("SKIPPED {what}: {why}");
        self.leave_out(what, why);
    }

    /// Counts a check that is omitted by design, without printing it.
    pub(crate) fn leave_out(&mut self, what: &str, why: &str) {
        *self.row(what).skipped.entry(why.to_owned()).or_default() += 1;
    }

    /// Adds the counts of another tally.
    pub(crate) fn merge(&mut self, other: Self) {
        for (what, from) in other.rows {
            let to = self.row(&what);
            to.passed += from.passed;
            to.failed += from.failed;
            to.declined += from.declined;
            for (why, count) in from.skipped {
                *to.skipped.entry(why).or_default() += count;
            }
        }
    }

    /// Prints the table and returns the counts.
    pub(crate) fn close(self) -> Outcome {
        let width = self.rows.keys().map(String::len).max().unwrap_or(0);
        println!("\n{:width$}  passed  failed  declined  left out", "check");
        for (what, row) in &self.rows {
            println!(
                "{what:width$} {:7} {:7} {:9} {:9}",
                row.passed,
                row.failed,
                row.declined,
                row.skipped.values().sum::<usize>()
            );
        }
        let mut outcome = Outcome::default();
        for (what, row) in &self.rows {
            outcome.passed += row.passed;
            outcome.failed += row.failed;
            for (why, count) in &row.skipped {
                println!("left out {count:6}: {what}: {why}");
                outcome.leave_out(what, why, *count);
            }
        }
        outcome
    }
}
