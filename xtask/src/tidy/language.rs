// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rule of plain language: phrases that technical English does not use, in comments, documents, messages and names of
//! tests.
//!
//! `docs/style.md` has the rules with examples. A phrase of this list is a sign of a sentence that
//! needs two readings. Other sentences may also need two. [`ALLOWED`] has the number of phrases
//! that remain in each place. A place with fewer phrases than its number is a fault as well, so
//! that the numbers only decrease.

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde::Deserialize;

use super::tree::{Fault, File, Tree};

/// The numbers of phrases that are left.
const ALLOWED: &str = include_str!("language.toml");

/// The path of [`ALLOWED`] from the top of the repository.
const ALLOWED_PATH: &str = "xtask/src/tidy/language.toml";

/// A group of phrases: its name, the pattern, and the continuation after which a match is no fault.
type Group = (&'static str, &'static str, Option<&'static str>);

const GROUPS: &[Group] = &[
    (
        "stand for be",
        r"\bst(?:and|ands|ood) (?:in|at|behind|before|for|there|here|under|above|with|on|as)\b",
        None,
    ),
    (
        "behind for after",
        r"\bbehind (?:it|them|its|the|a|each|that|these|those|what)\b",
        None,
    ),
    (
        "so many for count",
        r"\bso (?:many|much) (?:of|as|bytes|at)\b|\bSo many\b",
        None,
    ),
    (
        "told for notified",
        r"\b(?:is|are|was|were|be|been) told\b",
        None,
    ),
    (
        "gone for exited or closed",
        r"\b(?:is|are|was|be|been) gone\b",
        None,
    ),
    ("hear for be notified", r"\bhears?\b", Some(" from")),
    (
        "whoever for the peer that",
        r"\b(?:[Ww]hoever|[Ww]hom(?:ever)?|[Ss]omebody|[Nn]obody)\b",
        None,
    ),
    (
        "who as the subject",
        r"(?:^|[.;:] )Who(?:se)? [a-z]+",
        Some("?"),
    ),
    (
        "what as the subject",
        r"(?:^|[.;] )What (?:is|was|are|were|has|a|the|it|they|each|this|one|follows|comes|stands|nobody|is not)\b[^?]*\.",
        None,
    ),
    (
        "one that as the subject",
        r"(?:^|[.;:] )(?:One|Those|That) (?:that|who|whose|which)\b",
        None,
    ),
    (
        "of a at the start",
        r"(?:^|[.;:] )Of (?:a|an|the|each|what|whom|this)\b",
        None,
    ),
    (
        "words taken one by one",
        r"\b(?:anew|by now|any longer|no longer than that|come on|comes on|came on|do without|does without|done without|as is|likewise)\b",
        None,
    ),
    ("it is so", r"\b(?:it is so|not so)\b", None),
];

/// The kind of text that holds a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Comments of Rust and C, and documents.
    Prose,
    /// String literals with at least two words.
    Message,
    /// Names of tests.
    TestName,
}

/// The numbers of phrases that are left, by place and kind.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    #[serde(default)]
    prose: BTreeMap<String, usize>,
    #[serde(default)]
    messages: BTreeMap<String, usize>,
    #[serde(default)]
    test_names: BTreeMap<String, usize>,
}

impl Allowed {
    fn of(&mut self, kind: Kind) -> &mut BTreeMap<String, usize> {
        match kind {
            Kind::Prose => &mut self.prose,
            Kind::Message => &mut self.messages,
            Kind::TestName => &mut self.test_names,
        }
    }
}

/// A phrase in a text.
struct Phrase {
    line: usize,
    kind: Kind,
    group: &'static str,
    text: String,
}

/// The compiled patterns.
struct Reader {
    groups: Vec<(&'static str, Regex, Option<&'static str>)>,
    literal: Regex,
    function: Regex,
    code_span: Regex,
}

impl Reader {
    fn new() -> Self {
        let compile = |pattern: &str| Regex::new(pattern).expect("a valid pattern");
        let groups = GROUPS.iter();
        Self {
            groups: groups
                .map(|(name, pattern, except)| (*name, compile(pattern), *except))
                .collect(),
            literal: compile(r#""((?:\\.|[^"\\])* (?:\\.|[^"\\])*)""#),
            function: compile(r"\bfn ([a-z0-9_]+)"),
            code_span: compile("`[^`]*`"),
        }
    }

    /// Returns the groups that a text has, one for each phrase.
    fn groups_in(&self, text: &str) -> Vec<&'static str> {
        let mut found = Vec::new();
        for (name, pattern, except) in &self.groups {
            for hit in pattern.find_iter(text) {
                let rest = text.get(hit.end()..).unwrap_or_default();
                let is_excepted = match except {
                    // A question may have this form.
                    Some("?") => rest
                        .split('.')
                        .next()
                        .is_some_and(|rest| rest.contains('?')),
                    Some(except) => rest.starts_with(except),
                    None => false,
                };
                if !is_excepted {
                    found.push(*name);
                }
            }
        }
        found
    }

    fn phrases(&self, file: &File) -> Vec<Phrase> {
        let mut found = Vec::new();
        let mut add = |line: usize, kind: Kind, text: &str| {
            for group in self.groups_in(text) {
                found.push(Phrase {
                    line: line + 1,
                    kind,
                    group,
                    text: text.trim().to_owned(),
                });
            }
        };
        if file.path.ends_with(".md") {
            let mut is_code = false;
            for (at, line) in file.text.lines().enumerate() {
                let line = line.trim();
                if line.starts_with("```") {
                    is_code = !is_code;
                } else if !is_code {
                    let line = line.trim_start_matches(['|', '-', '*', ' ']);
                    add(at, Kind::Prose, &self.code_span.replace_all(line, "X"));
                }
            }
            return found;
        }
        let mut is_test = false;
        for (at, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            if let Some(comment) = line.strip_prefix("//") {
                let comment = comment.trim_start_matches(['/', '!']);
                add(at, Kind::Prose, comment.trim_start());
                continue;
            }
            if line == "#[test]" {
                is_test = true;
            } else if let Some(name) = self.function.captures(line).filter(|_| is_test) {
                add(at, Kind::TestName, &name[1].replace('_', " "));
                is_test = false;
            }
            for literal in self.literal.captures_iter(line) {
                add(at, Kind::Message, &literal[1]);
            }
        }
        found
    }
}

/// Returns the place to which a file belongs: its crate, or its first folder.
fn place(path: &str) -> String {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

/// Returns `true` for the files that the rule reads.
fn is_read(file: &File) -> bool {
    let path = file.path.as_str();
    let is_generated = path.contains("/tables/") || path.starts_with("testdata/");
    // This file and the page of the rules name the phrases.
    let names_phrases = path.ends_with("tidy/language.rs") || path == "docs/style.md";
    (path.ends_with(".rs") || path.ends_with(".md")) && !is_generated && !names_phrases
}

/// Checks that the number of phrases in each place is the number in [`ALLOWED`].
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    match toml::from_str(ALLOWED) {
        Ok(allowed) => faults(tree, allowed),
        Err(why) => vec![number_fault(why.to_string())],
    }
}

fn number_fault(message: String) -> Fault {
    Fault {
        path: ALLOWED_PATH.to_owned(),
        line: 0,
        message,
    }
}

fn faults(tree: &Tree, mut allowed: Allowed) -> Vec<Fault> {
    let reader = Reader::new();
    let mut faults = Vec::new();
    for kind in [Kind::Prose, Kind::Message, Kind::TestName] {
        let mut found: BTreeMap<String, Vec<Fault>> = BTreeMap::new();
        for file in tree.files.iter().filter(|file| is_read(file)) {
            let phrases = reader.phrases(file).into_iter();
            for phrase in phrases.filter(|phrase| phrase.kind == kind) {
                let message = format!("{}: {}", phrase.group, phrase.text);
                let at = found.entry(place(&file.path)).or_default();
                at.push(file.fault(phrase.line, message));
            }
        }
        let allowed = allowed.of(kind);
        for (place, numbered) in &*allowed {
            let count = found.get(place).map_or(0, Vec::len);
            if count < *numbered {
                faults.push(number_fault(format!(
                    "{kind:?}: {place} has {count} phrases, write {count} in place of {numbered}"
                )));
            }
        }
        for (place, phrases) in found {
            let numbered = allowed.get(&place).copied().unwrap_or(0);
            if phrases.len() > numbered {
                let count = phrases.len();
                faults.extend(phrases);
                faults.push(number_fault(format!(
                    "{kind:?}: {place} has {count} phrases, of which {numbered} are allowed"
                )));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)], allowed: Allowed) -> Vec<String> {
        let faults = faults(&Tree::of(files), allowed);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_group_matches_in_comments_documents_messages_and_test_names() {
        let text = "/// The server is told of it.\nfn f() { g(\"the peer is gone\") }\n#[test]\nfn nobody_waits() {}\n";
        let found = messages(&[("crates/a/src/lib.rs", text)], Allowed::default());
        assert_eq!(
            found,
            [
                "crates/a/src/lib.rs:1: told for notified: The server is told of it.",
                "xtask/src/tidy/language.toml: Prose: crates/a has 1 phrases, of which 0 are allowed",
                "crates/a/src/lib.rs:2: gone for exited or closed: the peer is gone",
                "xtask/src/tidy/language.toml: Message: crates/a has 1 phrases, of which 0 are allowed",
                "crates/a/src/lib.rs:4: whoever for the peer that: nobody waits",
                "xtask/src/tidy/language.toml: TestName: crates/a has 1 phrases, of which 0 are allowed",
            ]
        );
        let page = "Text.\n```\nit is gone\n```\nThe file `is gone` is gone.\n";
        let found = messages(&[("docs/page.md", page)], Allowed::default());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/page.md:5: gone"), "{found:?}");
    }

    #[test]
    fn questions_and_verbs_with_from_are_no_phrases() {
        let text = "// Who owns it? The caller.\n// The client hears from the server.\n";
        assert!(messages(&[("xtask/src/a.rs", text)], Allowed::default()).is_empty());
        let text = "// Who owns it frees it.\n";
        assert_eq!(
            messages(&[("xtask/src/a.rs", text)], Allowed::default()).len(),
            2
        );
    }

    #[test]
    fn a_number_follows_the_phrases_that_are_left() {
        let two = "// It is gone.\n// It is gone.\n";
        let allowed = |number| Allowed {
            prose: [("xtask".to_owned(), number)].into(),
            ..Allowed::default()
        };
        assert!(messages(&[("xtask/src/a.rs", two)], allowed(2)).is_empty());
        assert_eq!(messages(&[("xtask/src/a.rs", two)], allowed(1)).len(), 3);
        let found = messages(&[("xtask/src/a.rs", two)], allowed(3));
        assert_eq!(
            found,
            ["xtask/src/tidy/language.toml: Prose: xtask has 2 phrases, write 2 in place of 3"]
        );
    }
}
