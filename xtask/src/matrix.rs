// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask matrix`: the real command in every relevant build and configuration.
//!
//! Each cell encodes and decodes every list of the vectors in both forms. It also decodes the
//! values of every other cell. The result must be the list if the cell supports the value, and an
//! error otherwise.

mod batch;
mod build;
mod cell;
mod check;
mod lists;

use std::collections::BTreeMap;

use build::Builds;
use cell::CELLS;
use check::Report;

use xtask::Outcome;

/// Runs every cell and prints the table.
pub(crate) fn run() -> Outcome {
    let mut outcome = Outcome::default();
    let lists = match lists::read() {
        Ok(lists) => lists,
        Err(why) => {
            outcome.check("reading the vectors", Err(why));
            return outcome;
        }
    };
    let mut builds = Builds::default();
    let mut reports = Vec::new();
    let mut values = BTreeMap::new();
    for cell in CELLS {
        let mut report = Report::new(cell);
        match builds.command(cell) {
            Ok(pmix) => report.round_trips(&pmix, &lists, &mut values),
            Err(why) => report.fail(why),
        }
        reports.push(report);
    }
    // Cells can decode each other's values only after every cell has encoded.
    for (cell, report) in CELLS.iter().zip(&mut reports) {
        match builds.command(cell) {
            Ok(pmix) => report.foreign(&pmix, &lists, &values),
            Err(why) => report.fail(why),
        }
    }
    println!("{}", Report::HEADING);
    for report in &reports {
        println!("{report}");
        outcome += report.outcome();
    }
    outcome
}

/// Returns the cell with this name, for tests.
#[cfg(test)]
fn cell(name: &str) -> &'static cell::Cell {
    CELLS.iter().find(|cell| cell.name == name).expect("a cell")
}
