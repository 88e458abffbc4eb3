// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the instructions of a server for the registration and the loss of many groups, which must be linear.

use std::process::Command;

use super::runs::Field;
use crate::Report;
use crate::table::{Row, Verdict, factor};
use crate::tools::bench_program;

/// The numbers of groups.
const SIZES: [u32; 3] = [1_000, 10_000, 100_000];

/// The limit of the instructions per group, as a multiple of those in the smallest run. Tables grow and trees get
/// deeper, so the ratio exceeds 1.
const MOST: f64 = 1.5;

/// Counts the instructions for each number of groups.
pub(super) fn many_groups(_: &Field, report: &mut Report) -> Result<(), String> {
    let program = bench_program("pmix-engine", "groups")?;
    // The end of the processes costs instructions without any group, too.
    let base = instructions(&program, 0)?;
    let mut first = None;
    for size in SIZES {
        let row = instructions(&program, size).map(|total| {
            let each = (total - base) / f64::from(size);
            let least = *first.get_or_insert(each);
            Row {
                figure: "instructions of the server for a group that is registered and lost"
                    .to_owned(),
                input: format!("{size} groups of 32 processes"),
                ours: format!("{each:.0}"),
                peer: format!("one of {}: {least:.0}", SIZES[0]),
                ratio: factor(least / each),
                bound: format!("{:.2}", 1.0 / MOST),
                verdict: Verdict::of(each <= MOST * least),
            }
        });
        report.add("many groups", row);
    }
    Ok(())
}

/// Returns the instructions of the counted part of a run.
fn instructions(program: &std::path::Path, size: u32) -> Result<f64, String> {
    let mut command = Command::new("valgrind");
    command.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*counted_part*",
    ]);
    let done = command.arg(program).arg(size.to_string()).output();
    let done = done.map_err(|e| format!("valgrind: {e}"))?;
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    let counted = text
        .lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    match counted.filter(|_| done.status.success()) {
        Some(counted) => Ok(counted),
        None => Err(format!("valgrind counted nothing: {:.500}", text.trim())),
    }
}
