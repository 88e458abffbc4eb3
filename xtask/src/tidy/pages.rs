// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that name files and types must name existing ones.
//!
//! In `docs`, README and CONTRIBUTING, a code span that looks like a path of the repository must name a file or folder
//! in it. In a table with the columns `type` (or `type or function`) and `file`, each name of the first must occur in
//! the second.

use super::tree::{Fault, File, Tree};

/// The top-level folders whose names mark a code span as a path.
const TOP: &[&str] = &[
    "benches", "crates", "data", "docs", "examples", "fuzz", "include", "testdata", "tests",
    "xtask",
];

/// Checks every page.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let is_page = |file: &&File| {
        let known = ["README.md", "CONTRIBUTING.md", "SECURITY.md"];
        let in_docs = file.path.starts_with("docs/") && file.path.ends_with(".md");
        // A decision describes the files that existed when it was made.
        let is_record = file.path.starts_with("docs/decisions/");
        (in_docs && !is_record) || known.contains(&file.path.as_str())
    };
    let pages = tree.files.iter().filter(is_page);
    pages.flat_map(|page| check_page(tree, page)).collect()
}

fn check_page(tree: &Tree, page: &File) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut columns = None;
    for (number, line) in (1..).zip(page.text.lines()) {
        for path in spans(line).filter(|span| is_path(span)) {
            if !exists(tree, path) {
                faults.push(page.fault(number, format!("there is no {path}")));
            }
        }
        let Some(cells) = cells(line) else {
            columns = None;
            continue;
        };
        let Some((types, file)) = columns else {
            let column = |names: &[&str]| cells.iter().position(|cell| names.contains(cell));
            // A table without these columns is skipped.
            let types = column(&["type", "type or function"]);
            columns = Some((types, column(&["file"])));
            continue;
        };
        let (Some(types), Some(file)) = (types, file) else {
            continue;
        };
        let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
        let Some(path) = spans(cell(file)).next() else {
            continue;
        };
        let Some(source) = tree.files.iter().find(|file| file.path == path) else {
            continue;
        };
        let names = spans(cell(types)).flat_map(|name| name.split("::"));
        for name in names.filter(|name| !has_word(&source.text, name)) {
            faults.push(page.fault(number, format!("{path} does not have {name}")));
        }
    }
    faults
}

/// Returns the code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the cells of a table row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(row.split('|').map(str::trim).collect())
}

/// Returns `true` if a code span is a path of the repository. A pattern for several files is not a
/// path.
fn is_path(span: &str) -> bool {
    let first = span.split('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    span.contains('/') && TOP.contains(&first) && span.chars().all(plain)
}

fn exists(tree: &Tree, path: &str) -> bool {
    let folder = format!("{}/", path.trim_end_matches('/'));
    let mut files = tree.files.iter();
    files.any(|file| file.path == path || file.path.starts_with(&folder))
}

/// Returns `true` if a text contains a name as a whole word.
fn has_word(text: &str, name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(inside) && !after.is_some_and(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: (&str, &str) = ("crates/a/src/x.rs", "struct Job; impl Job { fn get() {} }");

    fn faults(page: &str) -> Vec<String> {
        let tree = Tree::of(&[SOURCE, ("docs/page.md", page)]);
        let faults = check(&tree);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_that_are_not_there_are_faults() {
        assert!(
            faults("See `crates/a/src/x.rs`, `crates/a/src/`, `crates/*/y.rs`, `a/b`.").is_empty()
        );
        let found = faults("fine\nSee `crates/a/src/y.rs`.");
        assert_eq!(found, ["docs/page.md:2: there is no crates/a/src/y.rs"]);
    }

    #[test]
    fn types_of_a_table_are_in_their_files() {
        let table = |row: &str| format!("| word | type | file |\n| --- | --- | --- |\n{row}\n");
        assert!(faults(&table("| job | `Job::get` | `crates/a/src/x.rs` |")).is_empty());
        let found = faults(&table("| job | `Jo`, `Job::put` | `crates/a/src/x.rs` |"));
        assert_eq!(
            found,
            [
                "docs/page.md:3: crates/a/src/x.rs does not have Jo",
                "docs/page.md:3: crates/a/src/x.rs does not have put",
            ]
        );
    }

    #[test]
    fn another_table_has_columns_of_its_own() {
        let page = "| type | file |\n| --- | --- |\n\n| word | of |\n| --- | --- |\n| `No` | `crates/a/src/x.rs` |\n";
        assert!(faults(page).is_empty());
    }
}
