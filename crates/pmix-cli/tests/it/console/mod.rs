// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `console` blocks of a page: commands after `$ `, each followed by its output.
//!
//! A comment before a block, `<!-- console: varies WORD...; any order -->`, names the parts of the output that vary
//! between runs. docs/testing.md describes it.

mod session;
mod shown;

use std::path::Path;

pub(crate) use session::Session;
pub(crate) use shown::Marks;

/// Returns the page with the output of every `console` block regenerated where it differs.
pub(crate) fn rerun(page: &str, dir: &Path) -> String {
    let lines: Vec<_> = page.lines().collect();
    let mut made = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        made.push((*line).to_owned());
        at += 1;
        if *line == "```console" {
            let marks = Marks::of(at.checked_sub(2).and_then(|before| lines.get(before)));
            let rest = lines.get(at..).unwrap_or_default();
            let len = rest.iter().position(|line| *line == "```");
            let block = rest.get(..len.expect("the block ends")).unwrap_or(rest);
            marks.assert_used(block);
            made.extend(rerun_block(block, &marks, dir));
            made.push("```".to_owned());
            at += block.len() + 1;
        }
    }
    made.push(String::new());
    made.join("\n")
}

fn rerun_block(block: &[&str], marks: &Marks, dir: &Path) -> Vec<String> {
    let mut session = Session::new(dir);
    let mut made = Vec::new();
    let mut at = 0;
    while let Some(line) = block.get(at) {
        if line.starts_with("$ cargo ") {
            // Set-up commands show no output, and need not be repeated.
            made.extend(block.iter().skip(at).map(|line| (*line).to_owned()));
            break;
        }
        made.push((*line).to_owned());
        at += 1;
        if let Some(command) = line.strip_prefix("$ ") {
            let rest = block.get(at..).unwrap_or_default();
            let len = rest.iter().position(|line| line.starts_with("$ "));
            let shown = rest.get(..len.unwrap_or(rest.len())).unwrap_or(rest);
            made.extend(session.run(command, shown, marks));
            at += shown.len();
        }
    }
    session.end();
    made
}
