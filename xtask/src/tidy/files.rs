// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about files: the license line, the size, forbidden paths, and the places of `unsafe`.

use super::tree::{Fault, File, Tree};

const SPDX: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";

/// The size above which a file is listed. A file above the ceiling is a fault.
const LISTED: usize = 400;

const SHORT: usize = 60;

const CEILING: usize = 600;

/// Paths whose files may exceed the ceiling, with the reasons.
const LONG: &[(&str, &str)] = &[
    (
        "crates/pmix-types/src/tables/",
        "written by `cargo xtask tables`, a line for each constant",
    ),
    (
        "crates/pmix-capi/src/abi/",
        "written by `cargo xtask tables`, a line for each member and function",
    ),
];

/// Paths of a developer's machine.
const MACHINE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// Checks that every source file begins with the license.
pub(crate) fn spdx(tree: &Tree) -> Vec<Fault> {
    let source = |file: &&File| {
        let ends = [".rs", ".c", ".h"];
        ends.iter().any(|end| file.path.ends_with(end))
    };
    let lacks = |file: &&File| !file.text.lines().next().is_some_and(|l| l.contains(SPDX));
    let files = tree.files.iter().filter(source).filter(lacks);
    files
        .map(|file| file.fault(1, format!("the first line lacks `{SPDX}`")))
        .collect()
}

/// Returns the number of lines of a Rust file outside of tests.
fn length(file: &File) -> usize {
    let lines = file.text.lines().count();
    let tests = |source: &super::source::Source| source.is_test.iter().filter(|t| **t).count();
    lines - file.source.as_ref().map_or(0, tests).min(lines)
}

/// Returns `true` if a file is exempt from the ceiling.
fn may_be_long(file: &File) -> bool {
    LONG.iter().any(|(place, _)| file.path.starts_with(place))
}

/// Checks that no module exceeds the ceiling.
pub(crate) fn sizes(tree: &Tree) -> Vec<Fault> {
    let long = |file: &&File| length(file) > CEILING && !may_be_long(file);
    let files = tree.rust().map(|(file, _)| file).filter(long);
    files
        .map(|file| {
            let message = format!("{} lines, more than {CEILING}: split it", length(file));
            file.fault(0, message)
        })
        .collect()
}

/// Returns the files above the listed size, longest first.
pub(crate) fn long_files(tree: &Tree) -> Vec<(usize, &str)> {
    let mut found: Vec<_> = tree
        .rust()
        .filter(|(file, _)| !may_be_long(file))
        .map(|(file, _)| (length(file), file.path.as_str()))
        .filter(|(lines, _)| *lines > LISTED)
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// Returns the files that may be too short to justify a file, shortest first. Crate roots and programs may be short.
pub(crate) fn short_files(tree: &Tree) -> Vec<(usize, &str)> {
    let whole = |file: &&File| {
        let path = file.path.as_str();
        let is_root = ["lib.rs", "main.rs", "build.rs"]
            .iter()
            .any(|root| path.ends_with(root));
        let of_its_own = ["examples/", "benches/", "bin/"]
            .iter()
            .any(|of| path.contains(of));
        !is_root && !of_its_own && !file.is_test()
    };
    let files = tree.rust().map(|(file, _)| file).filter(whole);
    let lines = files.map(|file| (file.text.lines().count(), file.path.as_str()));
    let mut found: Vec<_> = lines.filter(|(lines, _)| *lines < SHORT).collect();
    found.sort_unstable();
    found
}

/// Checks that no path of a developer's machine is committed.
pub(crate) fn machine_paths(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(path) = MACHINE.iter().find(|path| line.contains(*path)) {
                faults.push(file.fault(index + 1, format!("{path} is a path of one machine")));
            }
        }
    }
    faults
}

/// Files and folders that may contain `unsafe`, with their purpose.
const HOMES: &[(&str, &str)] = &[
    (
        "crates/pmix-mca/src/abi.rs",
        "the structs of the plugin boundary",
    ),
    ("crates/pmix-mca/src/loader.rs", "opening plugin files"),
    ("crates/pmix-mca/src/loader/", "opening plugin files"),
    (
        "crates/preg-core/src/dynamic.rs",
        "calling what a plugin file has",
    ),
    (
        "crates/preg-core/src/dynamic/",
        "calling what a plugin file has",
    ),
    (
        "crates/pmix-shm/src/mapping.rs",
        "memory that processes share",
    ),
    (
        "crates/pmix-mpir/src/symbols.rs",
        "the symbols that debuggers read",
    ),
    ("crates/pmix-capi/src/", "the interface for C"),
];

/// Crates with such a file: their root denies `unsafe` instead of forbidding it.
const CRATES_WITH_HOMES: &[&str] = &[
    "pmix-mca",
    "preg-core",
    "pmix-shm",
    "pmix-mpir",
    "pmix-capi",
];

/// Crates that may contain `unsafe` anywhere.
const WHOLE: &[&str] = &["pmix-capi"];

/// Checks every Rust file.
pub(crate) fn check_unsafe(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (file, _) in tree.rust().filter(|(file, _)| !file.is_test()) {
        let home = HOMES.iter().any(|(home, _)| file.path.starts_with(home));
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            // An attribute can allow a lint that the root denies.
            let allows = line.starts_with('#')
                && (line.contains("allow(unsafe_code") || line.contains("expect(unsafe_code"));
            if allows && !home {
                faults.push(file.fault(index + 1, "`unsafe` outside its homes"));
            }
        }
        check_root(file, &mut faults);
    }
    faults
}

/// Checks that a crate root forbids `unsafe`, or denies it if one of its files may contain it.
fn check_root(file: &File, faults: &mut Vec<Fault>) {
    let root = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
    if !root || WHOLE.contains(&file.package()) {
        return;
    }
    let with_home = CRATES_WITH_HOMES.contains(&file.package());
    let has = |attribute: &str| file.text.lines().any(|line| line == attribute);
    if !with_home && !has("#![forbid(unsafe_code)]") {
        faults.push(file.fault(0, "lacks `#![forbid(unsafe_code)]`"));
    }
    if with_home && !has("#![deny(unsafe_code)]") {
        faults.push(file.fault(0, "lacks `#![deny(unsafe_code)]`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_license_is_found() {
        let good = (
            "include/a.h",
            "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n",
        );
        let bad = ("examples/b.c", "int main;\n");
        assert_eq!(spdx(&Tree::of(&[good, bad])).len(), 1);
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let long = "fn f() {}\n".repeat(601);
        assert_eq!(sizes(&Tree::of(&[("crates/a/src/a.rs", &long)])).len(), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{long}}}\n");
        let tree = [("crates/a/src/a.rs", tests.as_str())];
        let tree = Tree::of(&tree);
        assert_eq!(sizes(&tree).len(), 0);
        assert!(long_files(&tree).is_empty());
    }

    #[test]
    fn a_short_file_is_found_unless_it_is_a_root() {
        let tree = [
            ("crates/a/src/a.rs", "fn f() {}\n"),
            ("crates/a/src/lib.rs", "mod a;\n"),
        ];
        assert_eq!(short_files(&Tree::of(&tree)), [(1, "crates/a/src/a.rs")]);
    }

    #[test]
    fn a_machine_path_is_found() {
        let text = format!("see {}somewhere\n", MACHINE[0]);
        assert_eq!(machine_paths(&Tree::of(&[("README.md", &text)])).len(), 1);
    }

    #[test]
    fn unsafe_allowed_outside_its_homes_is_found() {
        let text = "#![forbid(unsafe_code)]\n// allow(unsafe_code)\n    #[allow(unsafe_code)]\nfn f() {}\n";
        let faults = check_unsafe(&Tree::of(&[("crates/preg-raw/src/lib.rs", text)]));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].line, 3);
        let home = "#![allow(unsafe_code)]\nfn f() {}\n";
        let home = ("crates/pmix-mca/src/loader.rs", home);
        assert_eq!(check_unsafe(&Tree::of(&[home])).len(), 0);
    }

    #[test]
    fn a_root_without_the_attribute_is_found() {
        let faults = check_unsafe(&Tree::of(&[("crates/preg-raw/src/lib.rs", "fn f() {}\n")]));
        assert_eq!(faults.len(), 1);
        let faults = check_unsafe(&Tree::of(&[("crates/pmix-mca/src/lib.rs", "fn f() {}\n")]));
        assert_eq!(faults.len(), 1);
    }
}
