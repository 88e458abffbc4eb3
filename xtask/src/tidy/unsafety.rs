// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where `unsafe` may live, and that each use says why it is sound.

use super::source::Source;
use super::tree::{Fault, File, Tree};

/// Files and folders that may hold `unsafe`.
const HOMES: &[&str] = &[
    "crates/pmix-plugin-abi/src/",
    "crates/pmix-mca/src/loader.rs",
    "crates/pmix-mca/src/loader/",
    "crates/preg-core/src/dynamic.rs",
    "crates/preg-core/src/dynamic/",
    "crates/pmix-capi/src/",
];

/// Crates with such a home: their root denies `unsafe` rather than forbidding it.
const CRATES_WITH_HOMES: &[&str] = &["pmix-plugin-abi", "pmix-mca", "preg-core", "pmix-capi"];

/// How far above its line a `SAFETY:` comment may begin.
const REACH: usize = 12;

/// Checks every Rust file.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (file, source) in tree.rust() {
        let home = HOMES.iter().any(|home| file.path.starts_with(home));
        for (index, line) in source.code.iter().enumerate() {
            let number = index + 1;
            if !has_word(line, "unsafe") || line.contains("unsafe_") {
                continue;
            }
            if !home && !file.is_test() {
                faults.push(file.fault(number, "`unsafe` outside its homes"));
            }
            if explains_itself(line) && !explained(file, source, number) {
                faults.push(file.fault(number, "`unsafe` without a `// SAFETY:` comment"));
            }
        }
        check_root(file, &mut faults);
    }
    faults
}

/// A crate root forbids `unsafe`, or denies it where one file is allowed to have it.
fn check_root(file: &File, faults: &mut Vec<Fault>) {
    let root = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
    if !root || file.is_test() {
        return;
    }
    let with_home = CRATES_WITH_HOMES.contains(&file.package());
    let has = |attribute: &str| file.text.lines().any(|line| line == attribute);
    if !with_home && !has("#![forbid(unsafe_code)]") {
        faults.push(file.fault(0, "lacks `#![forbid(unsafe_code)]`"));
    }
    if with_home && file.package() != "pmix-plugin-abi" && !has("#![deny(unsafe_code)]") {
        faults.push(file.fault(0, "lacks `#![deny(unsafe_code)]`"));
    }
}

/// Whether a line has a block or an implementation, rather than a type or a declaration.
fn explains_itself(line: &str) -> bool {
    line.contains("unsafe {") || line.contains("unsafe impl")
}

/// Whether a `SAFETY:` comment stands on the line or above it, in the same paragraph.
fn explained(file: &File, source: &Source, line: usize) -> bool {
    let safety = |number: usize| {
        source
            .comments
            .iter()
            .any(|c| c.line == number && c.text.contains("SAFETY:"))
    };
    let blank = |number: usize| {
        file.text
            .lines()
            .nth(number - 1)
            .is_none_or(|text| text.trim().is_empty())
    };
    (line.saturating_sub(REACH).max(1)..=line)
        .rev()
        .take_while(|number| !blank(*number))
        .any(safety)
}

/// Whether a line has a word as a whole word.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_outside_its_homes_is_found_in_code_only() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nfn f() { unsafe { g() } }\n";
        let faults = check(&Tree::of(&[("crates/preg-raw/src/lib.rs", text)]));
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults.iter().all(|fault| fault.line == 3));
    }

    #[test]
    fn a_home_must_say_why_it_is_sound() {
        let path = "crates/pmix-mca/src/loader.rs";
        let bare = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(check(&Tree::of(&[(path, bare)])).len(), 1);
        let told = "fn f() {\n    // SAFETY: g has no conditions.\n    unsafe { g() }\n}\n";
        assert_eq!(check(&Tree::of(&[(path, told)])).len(), 0);
    }

    #[test]
    fn a_root_without_the_attribute_is_found() {
        let faults = check(&Tree::of(&[("crates/preg-raw/src/lib.rs", "fn f() {}\n")]));
        assert_eq!(faults.len(), 1);
        let faults = check(&Tree::of(&[("crates/pmix-mca/src/lib.rs", "fn f() {}\n")]));
        assert_eq!(faults.len(), 1);
    }
}
