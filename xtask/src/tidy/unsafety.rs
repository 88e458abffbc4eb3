// SPDX-License-Identifier: MIT OR Apache-2.0
//! The places of `unsafe`. Clippy checks that each use has a safety comment.

use super::tree::{Fault, File, Tree};

/// Files and folders that may contain `unsafe`, with their purpose.
const HOMES: &[(&str, &str)] = &[
    (
        "crates/pmix-plugin-abi/src/",
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
    "pmix-plugin-abi",
    "pmix-mca",
    "preg-core",
    "pmix-shm",
    "pmix-mpir",
    "pmix-capi",
];

/// Crates that may contain `unsafe` anywhere.
const WHOLE: &[&str] = &["pmix-capi"];

/// Checks every Rust file.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
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
    fn unsafe_allowed_outside_its_homes_is_found() {
        let text = "#![forbid(unsafe_code)]\n// allow(unsafe_code)\n    #[allow(unsafe_code)]\nfn f() {}\n";
        let faults = check(&Tree::of(&[("crates/preg-raw/src/lib.rs", text)]));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].line, 3);
        let home = "#![allow(unsafe_code)]\nfn f() {}\n";
        let home = ("crates/pmix-mca/src/loader.rs", home);
        assert_eq!(check(&Tree::of(&[home])).len(), 0);
    }

    #[test]
    fn a_root_without_the_attribute_is_found() {
        let faults = check(&Tree::of(&[("crates/preg-raw/src/lib.rs", "fn f() {}\n")]));
        assert_eq!(faults.len(), 1);
        let faults = check(&Tree::of(&[("crates/pmix-mca/src/lib.rs", "fn f() {}\n")]));
        assert_eq!(faults.len(), 1);
    }
}
