// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where things are, and compilers.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder where cargo put the library, beside this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("a test is in a folder").to_owned()
}

/// The shared library.
pub(crate) fn shared() -> PathBuf {
    built().join("libpmix_capi.so")
}

/// The static library.
pub(crate) fn archive() -> PathBuf {
    built().join("libpmix_capi.a")
}

/// The rows of a table: those of the columns that are named.
pub(crate) fn column(table: &str, name: &str) -> Vec<String> {
    let path = root().join("data").join(format!("{table}.tsv"));
    let text = std::fs::read_to_string(&path).expect("the tables are there");
    let mut lines = text.lines();
    let head = lines.next().expect("a table has a head");
    let place = head
        .split('\t')
        .position(|column| column == name)
        .expect("a column");
    lines
        .map(|line| line.split('\t').nth(place).unwrap_or_default().to_owned())
        .collect()
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed, and returns what it printed.
pub(crate) fn must(command: &mut Command) -> String {
    let output = run(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}: {said}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The C compilers of this machine; one must be there, others are tried if they are.
pub(crate) fn compilers(names: &[&'static str]) -> Vec<&'static str> {
    let there = |name: &&&'static str| Command::new(name).arg("--version").output().is_ok();
    let found: Vec<_> = names.iter().filter(there).copied().collect();
    assert!(!found.is_empty(), "none of {names:?} is installed");
    found
}

/// A folder with the library under the name by which programs look for it.
pub(crate) fn library(folder: &Path) -> &Path {
    for name in ["libpmix.so.2", "libpmix.so"] {
        std::os::unix::fs::symlink(shared(), folder.join(name)).expect("a link");
    }
    folder
}
