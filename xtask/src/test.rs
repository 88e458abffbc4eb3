// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test`: everything that needs nothing but Rust and a C compiler.

use std::process::Command;

use crate::process::{self, cargo};
use crate::{Outcome, tidy};

/// Runs every check; later ones run even if earlier ones failed.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        eprintln!("`cargo xtask test` takes no arguments, not {unknown:?}");
        return Outcome::of(false);
    }
    let mut outcome = Outcome::default();
    let format = process::run(&mut cargo(["fmt", "--all", "--check"]));
    outcome.check("format", format);
    outcome.check("lints", lints(&["--workspace", "--all-targets"]));
    let bare = ["--package", "pmix-cli", "--no-default-features"];
    outcome.check("lints without features", lints(&bare));
    outcome += tests(&mut cargo([
        "test",
        "--workspace",
        "--locked",
        "--no-fail-fast",
    ]));
    // The second compression back end, which no default build has.
    let zstd = ["--package", "preg-compress", "--features", "zstd"];
    let mut command = cargo(["test", "--locked", "--no-fail-fast"]);
    outcome += tests(command.args(zstd));
    outcome.check("documentation", documentation());
    outcome += tidy::run(&[]);
    outcome
}

/// Runs clippy; a warning is a failure.
fn lints(of: &[&str]) -> Result<(), String> {
    let mut command = cargo(["clippy", "--locked"]);
    process::run(command.args(of).args(["--", "-D", "warnings"]))
}

/// Runs a `cargo test` and sums what its suites report.
fn tests(command: &mut Command) -> Outcome {
    let mut outcome = Outcome::default();
    let result = process::run_lines(command, |line| {
        if let Some(suite) = suite_counts(line) {
            outcome += suite;
        }
    });
    // A suite that failed is counted already; one that did not even build is not.
    if outcome.failed == 0 {
        outcome.check("tests", result);
    }
    outcome
}

/// The counts of a line such as `test result: ok. 12 passed; 0 failed; ...`.
fn suite_counts(line: &str) -> Option<Outcome> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| -> Option<usize> {
        let part = counts.split("; ").find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse().ok()
    };
    Some(Outcome {
        passed: count("passed")?,
        failed: count("failed")?,
    })
}

/// Builds the documentation; a warning is a failure.
fn documentation() -> Result<(), String> {
    let mut command = cargo(["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_summed_from_their_closing_lines() {
        let line =
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out";
        let counts = suite_counts(line).expect("a closing line");
        assert_eq!((counts.passed, counts.failed), (12, 3));
        assert_eq!(suite_counts("test a_test ... ok"), None);
    }

    #[test]
    fn a_run_that_does_not_start_is_a_failure() {
        let outcome = tests(&mut Command::new("no-such-program-anywhere"));
        assert_eq!((outcome.passed, outcome.failed), (0, 1));
    }
}
