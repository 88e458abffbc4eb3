// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts instructions and allocations per datum, which do not depend on other load on the machine.

use std::fmt::Write as _;

use super::inputs::Input;
use super::programs::{Job, Program};

/// The counts of our operations and of the peers' operations.
const OPERATIONS: [(&str, &str); 4] = [
    ("pack", "pack"),
    ("bulk", "unpack"),
    ("borrow", "unpack"),
    ("own", "unpack"),
];

/// Returns the table in Markdown.
pub(super) fn table(inputs: &[Input], ours: &Program, peers: &[Program], full: bool) -> String {
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
