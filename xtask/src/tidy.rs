// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask tidy`: rules that the compiler does not check.

mod circles;
mod deviations;
mod files;
mod language;
mod layers;
mod licenses;
mod pages;
mod source;
mod tree;

use tree::{Fault, Tree};

use crate::tables;
use xtask::Outcome;

/// A rule that only needs the files.
type Rule = fn(&Tree) -> Vec<Fault>;

const RULES: &[(&str, Rule)] = &[
    ("layers", layers::check),
    ("circles of files", circles::check),
    ("homes of unsafe", files::check_unsafe),
    ("names of schemes", layers::check_names),
    ("license lines", files::spdx),
    ("file sizes", files::sizes),
    ("machine paths", files::machine_paths),
    ("deviations", deviations::check),
    ("plain language", language::check),
    ("named places of pages", pages::check),
];

/// Checks every rule, and lists the deviations from OpenPMIx if requested.
pub(crate) fn run(list: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let tree = match Tree::read() {
        Ok(tree) => tree,
        Err(why) => {
            outcome.check("reading the files", Err(why));
            return outcome;
        }
    };
    for (name, rule) in RULES {
        outcome.check(name, report(rule(&tree)));
    }
    outcome.check("licenses", licenses::check().and_then(report));
    outcome.check("generated tables", tables::check());
    for (lines, path) in files::long_files(&tree) {
        println!("long file: {path}, {lines} lines");
    }
    for (lines, path) in files::short_files(&tree) {
        println!("short file: {path}, {lines} lines");
    }
    if list {
        print_deviations(&tree);
    }
    outcome
}

/// Prints the faults, and returns an error if there are any.
fn report(faults: Vec<Fault>) -> Result<(), String> {
    for fault in &faults {
        eprintln!("{fault}");
    }
    match faults.len() {
        0 => Ok(()),
        n => Err(format!("{n} faults")),
    }
}

fn print_deviations(tree: &Tree) {
    for deviation in deviations::list(tree) {
        println!("{}:{}", deviation.path, deviation.line);
        println!("    {}", deviation.text);
    }
}
