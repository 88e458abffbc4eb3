// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask ci`: the checks that must pass before a change lands; with `--all` every check.
//!
//! The last line sums all tasks. A skipped check fails the run unless `testdata/expected-skips.toml` lists it with a
//! reason.

mod skips;

use std::time::Instant;

use clap::Parser;
use xtask::Outcome;

use crate::Cli;
use skips::Expected;

/// The first calls of both forms, which build what later calls use.
const FIRST: &[&str] = &["test"];

/// The calls of the short form.
const SHORT: &[&str] = &[
    "fuzz 0",
    "faults --short",
    "interop bfrops --profile dev",
    "interop server --short --profile dev",
    "interop types --profile dev",
    "interop mpirun --profile dev",
    "consumers programs --profile dev",
    "consumers suite --profile dev",
    "consumers nvshmem --profile dev",
    "consumers mpich --profile dev",
    // The library and the tests are built by the earlier calls.
    "sanitize --only memcheck --short --profile dev",
    "book target/site --no-browser",
];

/// The complete forms of the calls in `SHORT`, and the tasks that only `--all` runs.
const WHOLE: &[&str] = &[
    "variants",
    "seeds 10000",
    "matrix",
    "fuzz 20",
    "faults",
    "interop --profile dev",
    "consumers --profile dev",
    "consumers slurm --release 24.11 --profile dev",
    "consumers suite --long --profile dev",
    "consumers mpich --long --profile dev",
    "consumers nodes --long --profile dev",
    "sanitize --only memcheck --profile dev",
    "sanitize --only address --profile dev",
    "sanitize --only thread --profile dev",
    "dist target/installed-musl --musl --profile dev",
    "deb target/deb --profile dev",
    "crates",
    "dist target/installed --profile dev",
    "book target/site",
];

/// The last calls of both forms.
const LAST: &[&str] = &["sanitize --only abi --profile dev"];

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The checks of each landing.
    Short,
    /// Every check.
    All,
}

impl Form {
    /// Returns the calls of this form in order.
    fn calls(self) -> impl Iterator<Item = &'static str> {
        let middle = match self {
            Self::Short => SHORT,
            Self::All => WHOLE,
        };
        [FIRST, middle, LAST].into_iter().flatten().copied()
    }
}

/// Runs every task of a form. A failed task does not stop the run.
pub(crate) fn run(form: Form) -> Outcome {
    let mut sum = Outcome::default();
    let mut skips = Vec::new();
    for call in form.calls() {
        println!("== cargo xtask {call}");
        let begun = Instant::now();
        let outcome = match parse(call) {
            Ok(cli) => crate::run(cli.task),
            Err(_) => Outcome::of(false),
        };
        println!("{outcome}");
        let took = begun.elapsed().as_secs();
        println!("== cargo xtask {call} took {took} s");
        let name = task(call);
        skips.extend(outcome.skips.iter().map(|skip| (name, skip.clone())));
        sum += outcome;
    }
    match Expected::read() {
        Ok(expected) => {
            for fault in expected.faults(form, &skips) {
                sum.check("skips", Err(fault));
            }
        }
        Err(why) => sum.check("skips", Err(why)),
    }
    sum
}

fn parse(call: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("xtask").chain(call.split(' ')))
}

/// Returns the name of the task that a call runs.
fn task(call: &str) -> &str {
    call.split(' ').next().unwrap_or(call)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;

    /// The tasks that no form runs: `bench` measures and its figures depend on the machine, `check` and `tidy` are
    /// parts of `test`, a unit test compares the tables, and `ci` is the form itself.
    const NEVER: &[&str] = &["bench", "check", "ci", "tables", "tidy"];

    #[test]
    fn every_call_is_a_task() {
        for call in Form::Short.calls().chain(Form::All.calls()) {
            assert!(parse(call).is_ok(), "{call}");
        }
    }

    #[test]
    fn every_task_is_in_the_form_of_all() {
        let made: BTreeSet<_> = Form::All.calls().map(task).collect();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert_ne!(made.contains(name), NEVER.contains(&name), "{name}");
        }
    }

    #[test]
    fn the_short_form_selects_from_what_the_other_makes_whole() {
        let is_selection = |call: &str| {
            let parts = [
                "bfrops",
                "server",
                "types",
                "mpirun",
                "programs",
                "nvshmem",
                "hosts",
                "--short",
                "--no-browser",
            ];
            call.split(' ').any(|word| parts.contains(&word))
        };
        for call in SHORT {
            let whole = WHOLE.iter().filter(|whole| task(whole) == task(call));
            assert!(whole.clone().count() > 0, "{call}");
            assert!(whole.clone().all(|whole| !is_selection(whole)), "{call}");
        }
        let sanitizers = ["memcheck", "address", "thread", "abi"];
        for name in sanitizers {
            let word = format!("--only {name}");
            assert!(Form::All.calls().any(|call| call.contains(&word)), "{name}");
        }
    }
}
