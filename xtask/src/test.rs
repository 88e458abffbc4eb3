// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test`: format, lints, every test and tidy; it needs Rust, a C compiler, gdb, MUNGE,
//! shells, and the programs with lists of nodes whose results tests compare.
//!
//! A test with further requirements is marked `#[ignore = "needs PROGRAM"]` or `#[ignore = "needs root"]`. This task
//! runs it if the requirement is met, and counts it as skipped otherwise.

use std::path::Path;
use std::process::Command;

use xtask::process::{self, cargo};
use xtask::{Outcome, install};

use crate::tidy;

/// The Debian packages that the tests need.
const PACKAGES: &[&str] = &[
    "clustershell",
    "fish",
    "gcc",
    "gdb",
    "genders",
    "libc6-dev",
    "munge",
    "pdsh",
    "slurm-client",
    "zsh",
];

/// Runs every check. A failed check does not stop the run.
pub(crate) fn run() -> Outcome {
    install::packages(PACKAGES);
    let mut outcome = Outcome::default();
    let format = process::run(&mut cargo(["fmt", "--all", "--check"]));
    outcome.check("format", format);
    outcome.check("lints", lints(&["--workspace", "--all-targets"]));
    outcome += workspace();
    outcome += tidy::run(false);
    outcome
}

/// Runs clippy. A warning is a failure.
pub(crate) fn lints(of: &[&str]) -> Result<(), String> {
    let mut command = cargo(["clippy", "--locked"]);
    process::run(command.args(of).args(["--", "-D", "warnings"]))
}

/// Runs every seed below `count` of the simulation of servers, processes and a host.
pub(crate) fn seeds(count: u32) -> Outcome {
    let mut command = cargo(["test", "--locked", "--package", "pmix-engine"]);
    command.args(["--test", "simulation", "--", "--nocapture"]);
    tests(command.env("PMIX_SEEDS", count.to_string())).0
}

/// A test that `cargo test` ignored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    name: String,
    reason: String,
}

/// Runs the tests of the workspace, then the ignored tests that this machine supports.
fn workspace() -> Outcome {
    let test = ["test", "--workspace", "--locked", "--no-fail-fast"];
    let (mut outcome, ignored) = tests(&mut cargo(test));
    let (able, unable): (Vec<_>, Vec<_>) = ignored
        .into_iter()
        .partition(|test| need(&test.reason).is_some_and(is_met));
    for test in unable {
        // CI installs all requirements, so none may be missing there.
        if process::in_ci() && need(&test.reason).is_some() {
            outcome.check(
                &test.name,
                Err(format!("{} and it is missing", test.reason)),
            );
        } else {
            outcome.skip(&test.name, &test.reason);
        }
    }
    if able.is_empty() {
        return outcome;
    }
    let mut command = cargo(test);
    command.args(["--tests", "--", "--ignored", "--exact"]);
    let (run, _) = tests(command.args(able.iter().map(|test| &test.name)));
    let ran = run.passed + run.failed;
    let all = match able.len() {
        wanted if ran < wanted => Err(format!("{ran} of {wanted} ran")),
        _ => Ok(()),
    };
    outcome += run;
    outcome.check("ignored tests that can run here", all);
    outcome
}

/// Returns the requirement of an ignored test, if its reason names one.
fn need(reason: &str) -> Option<&str> {
    reason.strip_prefix("needs ")
}

/// Returns `true` if a requirement is met: `root`, or a program on the path or in a system directory.
fn is_met(need: &str) -> bool {
    if need == "root" {
        return install::is_root();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(|dir| Path::new(dir).to_owned());
    let mut folders = std::env::split_paths(&path).chain(system);
    folders.any(|folder| folder.join(need).is_file())
}

/// Runs a `cargo test`. Returns the sum of its suites, and the ignored tests.
pub(crate) fn tests(command: &mut Command) -> (Outcome, Vec<Ignored>) {
    let mut outcome = Outcome::default();
    let mut ignored = Vec::new();
    let mut unnamed = 0;
    let result = process::run_lines(command, |line| {
        if let Some(suite) = suite_counts(line) {
            outcome.passed += suite.passed;
            outcome.failed += suite.failed;
            unnamed += suite.ignored;
        }
        ignored.extend(ignored_test(line));
    });
    // A failed suite is counted already, but a suite that did not build is not.
    if outcome.failed == 0 {
        outcome.check("tests", result);
    }
    if ignored.len() != unnamed {
        let why = format!("{unnamed} tests were ignored, {} by name", ignored.len());
        outcome.check("ignored tests", Err(why));
    }
    (outcome, ignored)
}

/// The counts of a suite.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    passed: usize,
    failed: usize,
    ignored: usize,
}

/// Parses the counts of a line such as `test result: ok. 12 passed; 0 failed; ...`.
fn suite_counts(line: &str) -> Option<Suite> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| -> Option<usize> {
        let part = counts.split("; ").find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse().ok()
    };
    Some(Suite {
        passed: count("passed")?,
        failed: count("failed")?,
        ignored: count("ignored")?,
    })
}

/// Parses the test of a line such as `test module::name ... ignored, needs munged`.
fn ignored_test(line: &str) -> Option<Ignored> {
    let (name, rest) = line.strip_prefix("test ")?.rsplit_once(" ... ignored")?;
    let reason = rest.strip_prefix(", ").unwrap_or("no reason is stated");
    Some(Ignored {
        name: name.to_owned(),
        reason: reason.to_owned(),
    })
}

// `cargo xtask variants`: builds with other features.
//
// Each recompiles crates, which takes too long for `cargo xtask test`.

/// Lints the builds without optional features, tests the second compression back end, and runs the tests of the
/// datastore with loom.
pub(crate) fn run_variants() -> Outcome {
    let mut outcome = Outcome::default();
    // All encoders are optional, also compress. Hosts and clients are not optional.
    let bare = ["pmix-cli", "pmix-capi", "pmix"].map(|name| ["--package", name]);
    let bare = [
        bare.as_flattened(),
        &[
            "--no-default-features",
            "--features",
            "pmix/client,pmix/server",
        ],
    ];
    outcome.check("lints without features", lints(&bare.concat()));
    // Built alone, the client has none of the features that other crates request from its dependencies.
    let client = ["--package", "pmix-client"];
    outcome.check("lints of the client alone", lints(&client));
    // The orders of readers and the writer of the datastore.
    let mut command = cargo(["test", "--locked", "--package", "gds-hash", "--lib"]);
    command.env("RUSTFLAGS", "--cfg schedules");
    outcome += tests(command.args(["--", "schedules"])).0;
    let zstd = ["--package", "preg-compress", "--features", "zstd"];
    let mut command = cargo(["test", "--locked", "--no-fail-fast"]);
    outcome += tests(command.args(zstd)).0;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_summed_from_their_closing_lines() {
        let line =
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out";
        let counts = suite_counts(line).expect("a closing line");
        assert_eq!((counts.passed, counts.failed, counts.ignored), (12, 3, 1));
        assert_eq!(suite_counts("test a_test ... ok"), None);
    }

    #[test]
    fn ignored_tests_are_named_with_their_reason() {
        let told = ignored_test("test munge::once ... ignored, needs munged").expect("a test");
        assert_eq!(
            (&*told.name, &*told.reason),
            ("munge::once", "needs munged")
        );
        let doc = ignored_test("test src/lib.rs - a (line 7) ... ignored").expect("a test");
        assert_eq!(doc.reason, "no reason is stated");
        assert_eq!(ignored_test("test a_test ... ok"), None);
    }

    #[test]
    fn a_need_is_a_program_or_root() {
        assert!(is_met("sh"));
        assert!(!is_met("no-such-program-anywhere"));
        assert_eq!(need("needs munged"), Some("munged"));
        assert_eq!(need("a process of other tests"), None);
    }

    #[test]
    fn a_run_that_does_not_start_is_a_failure() {
        let (outcome, _) = tests(&mut Command::new("no-such-program-anywhere"));
        assert_eq!((outcome.passed, outcome.failed), (0, 1));
    }
}
