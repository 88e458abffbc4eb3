// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask ci`: everything that must hold before a change lands.
//!
//! The last line sums the tasks. A check that was not made fails the run unless
//! `testdata/expected-skips.toml` says that it is not made, and why.

mod skips;

use std::time::Instant;

use clap::Parser;
use xtask::Outcome;

use crate::Cli;
use skips::Expected;

/// What is run, in this order.
const RUNS: &[&str] = &[
    "test",
    "matrix",
    "fuzz 20",
    "faults --short",
    "interop --profile dev",
    "consumers --profile dev",
    "sanitize --only abi --profile dev",
    // The library and the tests are built by then.
    "sanitize --only memcheck --short --profile dev",
    "dist target/dist --profile dev",
    "dist target/dist-musl --musl --profile dev",
    "deb target/deb --profile dev",
    "book target/site",
    "crates",
];

/// Runs every task, later ones even if earlier ones failed.
pub(crate) fn run() -> Outcome {
    let mut sum = Outcome::default();
    let mut skips = Vec::new();
    for call in RUNS {
        println!("== cargo xtask {call}");
        let begun = Instant::now();
        let outcome = match parse(call) {
            Ok(cli) => crate::run(cli.task),
            Err(_) => Outcome::of(false),
        };
        println!("{outcome}");
        let took = begun.elapsed().as_secs();
        println!("== cargo xtask {call} took {took} s");
        let name = call.split(' ').next().unwrap_or(call);
        skips.extend(outcome.skips.iter().map(|skip| (name, skip.clone())));
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

fn parse(call: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("xtask").chain(call.split(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_a_task() {
        for call in RUNS {
            assert!(parse(call).is_ok(), "{call}");
        }
    }
}
