// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the library exports and needs.

use std::collections::BTreeSet;
use std::process::Command;

use crate::build::{archive, column, must, root, shared};

/// Every function of the table, and the array that Open MPI 5 looks for.
fn expected() -> BTreeSet<String> {
    let mut names: BTreeSet<_> = column("functions", "function").into_iter().collect();
    assert_eq!(names.len(), 324);
    names.insert(String::from("pmix_framework_names"));
    names
}

#[test]
fn the_library_exports_the_interface_and_nothing_else() {
    let text = must(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(shared()),
    );
    let exported: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.split(' ').nth(2).map(str::to_owned))
        .collect();
    assert_eq!(exported, expected());
}

#[test]
fn the_archive_has_the_interface() {
    let text = must(
        Command::new("nm")
            .args(["-g", "--defined-only"])
            .arg(archive()),
    );
    let has: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    let missing: Vec<_> = expected()
        .into_iter()
        .filter(|name| !has.contains(name.as_str()))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_library_needs_only_what_every_program_has() {
    let text = must(Command::new("readelf").arg("-d").arg(shared()));
    assert!(text.contains("soname: [libpmix.so.2]"), "{text}");
    let ours = [
        "libc.so",
        "libm.so",
        "libgcc_s.so",
        "ld-linux",
        "libdl.so",
        "libpthread.so",
    ];
    for line in text.lines().filter(|line| line.contains("(NEEDED)")) {
        assert!(ours.iter().any(|name| line.contains(name)), "{line}");
    }
}

#[test]
fn the_functions_that_are_not_supported_are_those_of_the_document() {
    let text = std::fs::read_to_string(root().join("docs/capi.md")).expect("the document is there");
    let (_, list) = text
        .split_once("## Not supported")
        .expect("the document has the list");
    let told: BTreeSet<_> = list
        .lines()
        .filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`'))
        .collect();
    let known: BTreeSet<_> = pmix_capi::UNSUPPORTED.iter().copied().collect();
    assert_eq!(told, known);
}
