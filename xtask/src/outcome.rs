// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a task (passed, failed and skipped checks), and tasks that are programs of their own.

use std::ffi::OsStr;
use std::ops::AddAssign;
use std::process::{Command, ExitCode};
use std::{fmt, fs};

use serde::{Deserialize, Serialize};

use crate::install;
use crate::process::{self, cargo};

/// Checks of one name that were skipped for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// The test, scenario or row.
    pub name: String,
    /// The reason: a missing dependency, or nothing to compare with.
    pub reason: String,
    /// The number of checks, at least one.
    pub count: usize,
}

/// Counts of checks; `Display` formats the closing line of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Passed checks.
    pub passed: usize,
    /// Failed checks.
    pub failed: usize,
    /// Skipped checks with reasons.
    pub skips: Vec<Skip>,
}

impl Outcome {
    /// Creates the outcome of one check.
    pub fn of(held: bool) -> Self {
        Self {
            passed: usize::from(held),
            failed: usize::from(!held),
            skips: Vec::new(),
        }
    }

    /// Counts one check and prints the reason of a failure on stderr.
    pub fn check(&mut self, name: &str, result: Result<(), String>) {
        if let Err(why) = &result {
            eprintln!("FAILED {name}: {why}");
        }
        *self += Self::of(result.is_ok());
    }

    /// Counts and prints a check that cannot run here.
    pub fn skip(&mut self, name: &str, reason: &str) {
        println!("SKIPPED {name}: {reason}");
        self.leave_out(name, reason, 1);
    }

    /// Counts skipped checks without printing them.
    pub fn leave_out(&mut self, name: &str, reason: &str, count: usize) {
        self.skips.push(Skip {
            name: name.to_owned(),
            reason: reason.to_owned(),
            count,
        });
    }

    /// Formats the counts for another process.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the text of [`Outcome::to_json`].
    ///
    /// # Errors
    /// Returns a message if the text has another form.
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| format!("counts of a task: {e}"))
    }

    /// Returns the number of skipped checks.
    pub fn skipped(&self) -> usize {
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

/// The variable that names the file for the counts.
const FILE: &str = "XTASK_OUTCOME";

/// Runs the program of a package, built with a cargo profile, with these arguments and returns its counts.
///
/// A program that does not build, or exits before it has written its counts, is one failed check.
pub fn delegate<S: AsRef<OsStr>>(package: &str, profile: &str, arguments: &[S]) -> Outcome {
    match try_delegate(package, profile, arguments) {
        Ok(outcome) => outcome,
        Err(why) => {
            let mut outcome = Outcome::default();
            outcome.check(package, Err(why));
            outcome
        }
    }
}

fn try_delegate<S: AsRef<OsStr>>(
    package: &str,
    profile: &str,
    arguments: &[S],
) -> Result<Outcome, String> {
    let name = format!("{package}-{}", std::process::id());
    let file = install::scratch("outcomes")?.join(name);
    let selection = process::selection(profile, package);
    process::run(cargo(["build", "--bin", package]).args(selection))?;
    let mut command = Command::new(install::built(profile).join(package));
    command.args(arguments).env(FILE, &file);
    command.current_dir(process::root());
    let asked = arguments.iter().any(|word| word.as_ref() == "--install");
    if install::may_install() && !asked {
        command.arg("--install");
    }
    // A failed check also fails the program, whose counts say more than its exit status.
    let ended = process::run(&mut command);
    let Ok(text) = fs::read_to_string(&file) else {
        ended?;
        // A program that only printed its help has no counts.
        let for_help = arguments.iter().any(|word| {
            let word = word.as_ref();
            word == "--help" || word == "-h"
        });
        return match for_help {
            true => Ok(Outcome::default()),
            false => Err(format!(
                "{package} ended without writing its counts of checks"
            )),
        };
    };
    let _ = fs::remove_file(&file);
    let outcome = Outcome::from_json(&text)?;
    match ended {
        Err(why) if outcome.failed == 0 => Err(why),
        _ => Ok(outcome),
    }
}

/// Reports the counts of a task's program to `cargo xtask`, or prints them as the closing line if the program was
/// started directly.
pub fn close(outcome: &Outcome) -> ExitCode {
    match std::env::var_os(FILE) {
        None => println!("{outcome}"),
        Some(file) => {
            if let Err(why) = fs::write(&file, outcome.to_json()) {
                eprintln!("{}: {why}", file.display());
                return ExitCode::FAILURE;
            }
        }
    }
    match outcome.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
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
        assert_eq!(Outcome::from_json(&outcome.to_json()), Ok(outcome));
    }
}
