// SPDX-License-Identifier: MIT OR Apache-2.0
//! The symbols that the library exports and needs.

use std::collections::BTreeSet;
use std::process::Command;

use crate::build::{archive, column, must, shared};

/// Returns the functions of the table, and the array that Open MPI 5 looks up.
fn expected() -> BTreeSet<String> {
    let mut names: BTreeSet<_> = column("functions", "function").into_iter().collect();
    assert_eq!(names.len(), 340);
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
