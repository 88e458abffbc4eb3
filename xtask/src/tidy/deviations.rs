// SPDX-License-Identifier: MIT OR Apache-2.0
//! `DEVIATION:` comments, which document intended differences from OpenPMIx with the test that pins each: `DEVIATION:
//! what, why; test_name`.

use std::collections::BTreeSet;

use super::source::Source;
use super::tree::{Fault, File, Tree};

/// A deviation comment.
pub(crate) struct Deviation {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The tests that it names.
    pub(crate) tests: Vec<String>,
}

const MARK: &str = "DEVIATION:";

/// Returns every deviation outside tests, in the order of the files.
pub(crate) fn list(tree: &Tree) -> Vec<Deviation> {
    let mut found = Vec::new();
    let product = |file: &File| file.package() != "xtask" && !file.is_test();
    for (file, source) in tree.rust().filter(|(file, _)| product(file)) {
        for (index, comment) in source.comments.iter().enumerate() {
            if comment.text.contains(MARK) && !source.in_test(comment.line) {
                found.push(deviation(file, source, index));
            }
        }
    }
    found
}

/// Reads to the end of the paragraph.
fn deviation(file: &File, source: &Source, start: usize) -> Deviation {
    let first = &source.comments[start];
    let mut words: Vec<&str> = Vec::new();
    for (offset, comment) in source.comments[start..].iter().enumerate() {
        let text = comment.text.trim_start_matches(['/', '!', '*']).trim();
        let another = offset > 0 && (comment.line != first.line + offset || text.contains(MARK));
        if another || text.is_empty() || (offset > 0 && text.starts_with('#')) {
            break;
        }
        words.extend(text.split_whitespace());
    }
    let text = words.join(" ");
    let text = text
        .split_once(MARK)
        .map_or("", |(_, rest)| rest.trim())
        .to_owned();
    let tests = text.rsplit_once(';').map_or("", |(_, tests)| tests);
    let tests = tests
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.contains('_'))
        .map(str::to_owned)
        .collect();
    Deviation {
        path: file.path.clone(),
        line: first.line,
        text,
        tests,
    }
}

/// Checks that every deviation names an existing test.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let known = test_names(tree);
    let mut faults = Vec::new();
    for deviation in list(tree) {
        let mut report = |message: String| {
            faults.push(Fault {
                path: deviation.path.clone(),
                line: deviation.line,
                message,
            });
        };
        if deviation.tests.is_empty() {
            report("a deviation must end in `; name_of_its_test`".to_owned());
        }
        for test in deviation.tests.iter().filter(|test| !known.contains(*test)) {
            report(format!(
                "a deviation names a test {test} that does not exist"
            ));
        }
    }
    faults
}

/// Returns the names of test functions.
fn test_names(tree: &Tree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (file, source) in tree.rust() {
        let in_test = |line| file.is_test() || source.in_test(line);
        let tests = source.functions.iter().filter(|f| in_test(f.line));
        names.extend(tests.map(|function| function.text.clone()));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTED: &str = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn order_is_kept() {}\n}\n";

    #[test]
    fn a_deviation_needs_a_test_that_exists() {
        let text = format!(
            "/// Encodes.\n///\n/// DEVIATION: keeps the order, which upstream\n\
             /// loses; `order_is_kept`.\n///\n/// # Errors\nfn f() {{}}\n\
             // DEVIATION: keeps all; all_is_kept\nfn g() {{}}\n\
             // DEVIATION: keeps nothing, without a test\nfn h() {{}}\n{TESTED}"
        );
        let tree = [("crates/a/src/a.rs", text.as_str())];
        let tree = Tree::of(&tree);
        let lines: Vec<_> = check(&tree).iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [8, 10]);
        let listed = list(&tree);
        let first = "keeps the order, which upstream loses; `order_is_kept`.";
        assert_eq!(listed[0].text, first);
        assert_eq!(listed[0].tests, ["order_is_kept"]);
    }
}
