// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench bfrops`: measures packing and unpacking, beside the real libraries on the
//! same bytes in the same run.

mod inputs;
mod programs;

use std::fmt::Write as _;

use xtask::install;

use super::tools::Effort;
use super::{Race, Report, beside, machine, table};
use inputs::Input;
use programs::{Job, Program};

/// One figure: an operation of ours beside the same of a peer.
struct Figure {
    /// The input.
    input: &'static str,
    /// The name in the table.
    name: &'static str,
    ours: &'static str,
    theirs: &'static str,
    /// The promised ratio.
    bound: f64,
}

const fn figure(
    input: &'static str,
    name: &'static str,
    ours: &'static str,
    theirs: &'static str,
    bound: f64,
) -> Figure {
    Figure {
        input,
        name,
        ours,
        theirs,
        bound,
    }
}

const FIGURES: [Figure; 28] = [
    figure("uint32", "pack", "pack", "pack", 3.0),
    figure("uint32", "unpack", "bulk", "unpack", 3.0),
    figure("int64", "pack", "pack", "pack", 3.0),
    figure("int64", "unpack", "bulk", "unpack", 3.0),
    figure("string", "pack", "pack", "pack", 3.0),
    figure("string", "unpack borrowed", "borrow", "unpack", 5.0),
    figure("string", "unpack owned", "own", "unpack", 1.5),
    figure("proc", "pack", "pack", "pack", 2.5),
    figure("proc", "unpack borrowed", "borrow", "unpack", 2.5),
    figure("value", "pack", "pack", "pack", 2.0),
    figure("value", "unpack borrowed", "borrow", "unpack", 2.0),
    figure("value", "unpack owned", "own", "unpack", 2.0),
    figure("info", "pack", "pack", "pack", 3.0),
    figure("info", "unpack borrowed", "borrow", "unpack", 5.0),
    figure("info", "unpack owned", "own", "unpack", 2.0),
    figure("nested", "pack", "pack", "pack", 3.0),
    figure("nested", "unpack borrowed", "borrow", "unpack", 3.0),
    figure("nested", "unpack owned", "own", "unpack", 3.0),
    figure("uint32", "pack singly", "pack-one", "pack-one", 2.0),
    figure("uint32", "unpack singly", "borrow-one", "unpack-one", 2.0),
    figure("string", "pack singly", "pack-one", "pack-one", 2.0),
    figure(
        "string",
        "unpack singly, borrowed",
        "borrow-one",
        "unpack-one",
        2.0,
    ),
    figure(
        "string",
        "unpack singly, owned",
        "own-one",
        "unpack-one",
        2.0,
    ),
    figure("proc", "pack singly", "pack-one", "pack-one", 2.0),
    figure(
        "proc",
        "unpack singly, borrowed",
        "borrow-one",
        "unpack-one",
        2.0,
    ),
    figure("info", "pack singly", "pack-one", "pack-one", 2.0),
    figure(
        "info",
        "unpack singly, borrowed",
        "borrow-one",
        "unpack-one",
        2.0,
    ),
    figure("info", "unpack singly, owned", "own-one", "unpack-one", 2.0),
];

impl Figure {
    fn is_single(&self) -> bool {
        self.ours.ends_with("-one")
    }

    fn row(&self, input: &Input, ours: &Program, peer: &Program) -> Result<table::Row, String> {
        let (file, count) = if self.is_single() {
            (input.singles_file(), input.singles)
        } else {
            (input.bulk_file(), input.bulk)
        };
        let job = |operation| Job {
            operation,
            data_type: input.data_type,
            file: &file,
            count,
        };
        let (mut mine, theirs) = beside(
            || ours.time(job(self.ours), Effort::USUAL),
            || peer.time(job(self.theirs), Effort::USUAL),
        )?;
        let theirs = theirs.map(|timing| timing.for_each(count));
        mine = mine.for_each(count);
        let calls = if self.is_single() { "calls" } else { "data" };
        let race = Race {
            figure: &format!("{} {}", input.name, self.name),
            input: format!("{count} {calls}"),
            peer: &peer.name,
            bound: Some(self.bound),
            judged: true,
        };
        Ok(race.row(&mine, theirs))
    }
}

/// The options of the command line.
pub(super) struct Options {
    /// `true` to count the allocations of the peers, which takes minutes.
    pub(super) full: bool,
    /// The name of the only input to measure, if given.
    pub(super) only: Option<String>,
}

/// Measures, prints and writes the tables.
///
/// # Errors
/// Returns an error if our program cannot be built or the inputs cannot be written.
pub(super) fn measure(options: &Options, call: &str, report: &mut Report) -> Result<(), String> {
    let peers = programs::theirs();
    let ours = programs::ours()?;
    let mut inputs = inputs::write(&install::scratch("bench/bfrops")?)?;
    inputs.retain(|i| options.only.as_ref().is_none_or(|only| i.name == only));
    for figure in &FIGURES {
        for input in inputs.iter().filter(|i| i.name == figure.input) {
            for peer in &peers {
                report.add(figure.name, figure.row(input, &ours, peer));
            }
        }
    }
    let counted = counts_table(&inputs, &ours, &peers, options.full);
    let releases: Vec<_> = peers.iter().map(|p| p.name.as_str()).collect();
    let text = format!(
        "`{call}`, on {}; libpmix {}. Times are nanoseconds for one datum, the least of several \
         runs; a ratio is the other's time over ours.\n\n{}\n{counted}",
        machine(),
        releases.join(" and "),
        table::markdown(&report.rows)
    );
    let path = install::scratch("bench")?.join("bfrops.md");
    std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("\n{text}");
    Ok(())
}

/// The counts of our operations and of the peers' operations.
const OPERATIONS: [(&str, &str); 4] = [
    ("pack", "pack"),
    ("bulk", "unpack"),
    ("borrow", "unpack"),
    ("own", "unpack"),
];

/// Returns the table in Markdown.
fn counts_table(inputs: &[Input], ours: &Program, peers: &[Program], full: bool) -> String {
    let mut text = String::from("| for each datum | instructions, ours |");
    let mut rule = String::from("| --- | --- |");
    for peer in peers {
        // Writing to a string cannot fail.
        let _ = write!(text, " {} |", peer.name);
        rule.push_str(" --- |");
    }
    text.push_str(" allocations, ours |");
    rule.push_str(" --- |");
    for peer in peers.iter().filter(|_| full) {
        let _ = write!(text, " {} |", peer.name);
        rule.push_str(" --- |");
    }
    let _ = write!(text, "\n{rule}\n");
    for input in inputs {
        for (mine, theirs) in OPERATIONS {
            let file = input.counted_file();
            let job = |operation| Job {
                operation,
                data_type: input.data_type,
                file: &file,
                count: input.counted(),
            };
            let _ = write!(text, "| {} {mine} |", input.name);
            cell(&mut text, ours.instructions(job(mine)), 0);
            for peer in peers {
                cell(&mut text, peer.instructions(job(theirs)), 0);
            }
            cell(&mut text, ours.allocations(job(mine)), 3);
            for peer in peers.iter().filter(|_| full) {
                cell(&mut text, peer.allocations(job(theirs)), 3);
            }
            text.push('\n');
        }
    }
    text
}

fn cell(text: &mut String, figure: Result<f64, String>, digits: usize) {
    let _ = match figure {
        Ok(figure) => write!(text, " {figure:.digits$} |"),
        Err(why) => write!(text, " {why:.60} |"),
    };
}
