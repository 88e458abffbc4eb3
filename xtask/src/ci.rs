// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask ci`: everything that must hold before a change lands.
//!
//! The last line sums the tasks. A check that was not made fails the run unless
//! `testdata/expected-skips.toml` says that it is not made, and why.

mod skips;

use std::time::Instant;

use crate::Outcome;
use skips::Expected;

/// What is run, in this order: the name of a task and its arguments.
const RUNS: &[(&str, &[&str])] = &[
    ("test", &[]),
    ("matrix", &[]),
    ("fuzz", &["30"]),
    ("faults", &["--short"]),
    ("interop", &[]),
];

/// Runs every task, later ones even if earlier ones failed.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        eprintln!("`cargo xtask ci` takes `--install` alone, not {unknown:?}");
        return Outcome::of(false);
    }
    let mut sum = Outcome::default();
    let mut skips = Vec::new();
    for (name, arguments) in RUNS {
        let call = [&[*name], *arguments].concat().join(" ");
        println!("== cargo xtask {call}");
        let begun = Instant::now();
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let outcome = match crate::task(name) {
            Some(task) => (task.run)(&arguments),
            None => Outcome::of(false),
        };
        println!("{outcome}");
        let took = begun.elapsed().as_secs();
        println!("== cargo xtask {call} took {took} s");
        skips.extend(outcome.skips.iter().map(|skip| (*name, skip.clone())));
        sum += outcome;
    }
    match Expected::read() {
        Ok(expected) => {
            for fault in expected.faults(&skips) {
                sum.check("skips", Err(fault));
            }
        }
        Err(why) => sum.check("skips", Err(why)),
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_a_task() {
        for (name, _) in RUNS {
            assert!(crate::task(name).is_some(), "{name}");
        }
    }
}
