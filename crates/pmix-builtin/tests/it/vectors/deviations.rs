// SPDX-License-Identifier: MIT OR Apache-2.0
//! Intended deviations: `testdata/preg/deviations.toml`.

use serde::Deserialize;

use super::ask::{self, Answer};
use super::record::{Library, Question, Record, folder};

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deviations {
    deviation: Vec<Deviation>,
}

/// A reason for a deviation, the records to which it applies, and this project's result for each.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deviation {
    /// The reason.
    reason: String,
    /// The cases; a `*` matches any text.
    cases: Vec<String>,
    /// The calls; all if omitted.
    #[serde(default)]
    apis: Vec<String>,
    /// The configurations; all if omitted.
    #[serde(default)]
    configs: Vec<String>,
    /// The libraries that the records name first; all if omitted.
    #[serde(default)]
    producers: Vec<String>,
    answer: Stated,
    /// The number of times that each case was needed.
    #[serde(skip)]
    needed: Vec<usize>,
}

/// The stated result of this project.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Stated {
    /// An error with this status, or -1366 if a component declines.
    Status(i32),
    /// A value of this form that decodes to the input, with every element in its place.
    Keeps(String),
    /// The same, and shorter than the library's value.
    Shorter(String),
    /// The input after this tag, whatever it may mean.
    Verbatim(String),
    /// Exactly these elements.
    List(Vec<String>),
    /// This number of elements.
    Count(usize),
    /// Exactly this text.
    Text(String),
    /// The elements of the encoded list, with expanded ranges of ranks.
    Input,
    /// A vector that is not tested, because it has only a digest of the input.
    NotAsked,
}

impl Deviations {
    /// Reads the file.
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(folder().join("deviations.toml"))
            .expect("testdata/preg/deviations.toml is there");
        let mut file: Self = toml::from_str(&text).unwrap_or_else(|e| panic!("{e}"));
        for deviation in &mut file.deviation {
            assert!(
                !deviation.reason.trim().is_empty(),
                "a deviation needs a reason"
            );
            deviation.needed = vec![0; deviation.cases.len()];
        }
        file
    }

    /// Returns `true` if a record cannot be tested.
    pub(crate) fn excuses(&mut self, record: &Record) -> bool {
        record.input.is_none()
            && self
                .find(record)
                .is_some_and(|stated| matches!(stated, Stated::NotAsked))
    }

    /// Returns `true` if the file states this result for the record.
    pub(crate) fn judge(
        &mut self,
        record: &Record,
        library: Library,
        ours: &Answer,
    ) -> Result<(), String> {
        let name = record.name();
        let theirs = &record.expected;
        let Some(stated) = self.find(record) else {
            return Err(format!(
                "{name} ({library:?})\n    theirs: {theirs:?}\n    ours:   {ours:?}"
            ));
        };
        if stated.is(record, library, ours) {
            return Ok(());
        }
        Err(format!(
            "{name} ({library:?}): not what deviations.toml states\n    theirs: {theirs:?}\n    \
             ours:   {ours:?}"
        ))
    }

    /// Returns the stated result for a record from the first deviation that covers it.
    fn find(&mut self, record: &Record) -> Option<&Stated> {
        let listed = |list: &[String], item: &str| {
            list.is_empty() || list.iter().any(|pattern| matches(pattern, item))
        };
        for deviation in &mut self.deviation {
            let covered = listed(&deviation.apis, &record.api)
                && listed(&deviation.configs, &record.config)
                && listed(&deviation.producers, &record.producer);
            if !covered {
                continue;
            }
            let case = |pattern: &String| matches(pattern, &record.case);
            if let Some(index) = deviation.cases.iter().position(case) {
                deviation.needed[index] += 1;
                return Some(&deviation.answer);
            }
        }
        None
    }

    /// Returns every pattern that no record needed.
    pub(crate) fn unneeded(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for deviation in &self.deviation {
            for (case, _) in deviation
                .cases
                .iter()
                .zip(&deviation.needed)
                .filter(|(_, needed)| **needed == 0)
            {
                faults.push(format!(
                    "deviations.toml: {case:?} of {:?} is not needed",
                    deviation.reason
                ));
            }
        }
        faults
    }
}

impl Stated {
    fn is(&self, record: &Record, library: Library, ours: &Answer) -> bool {
        match (self, ours) {
            (Self::Status(status), Answer::Status(ours)) => status == ours,
            (Self::Keeps(form), Answer::Value { form: ours, bytes }) => {
                form == ours && decodes_to_input(record, library, ours, bytes)
            }
            (Self::Shorter(form), Answer::Value { form: ours, bytes }) => {
                let shorter = match &record.expected {
                    Answer::Value { bytes: theirs, .. } => bytes.len() < theirs.len(),
                    _ => false,
                };
                shorter && form == ours && decodes_to_input(record, library, ours, bytes)
            }
            (Self::Verbatim(tag), Answer::Value { bytes, .. }) => {
                let input = record.input.as_deref();
                bytes.strip_prefix(tag.as_bytes()) == input
            }
            (Self::List(list), Answer::List(ours)) => {
                let stated: Vec<_> = list.iter().map(|e| e.as_bytes().to_vec()).collect();
                stated == *ours
            }
            (Self::Count(count), Answer::List(ours)) => *count == ours.len(),
            (Self::Text(text), Answer::Text(ours)) => text.as_bytes() == ours,
            (Self::Input, Answer::List(ours)) => {
                let list = record.list.as_deref().unwrap_or_default();
                *ours == elements(record, list)
            }
            _ => false,
        }
    }
}

fn decodes_to_input(record: &Record, library: Library, form: &str, bytes: &[u8]) -> bool {
    let input = record.input.as_deref().unwrap_or_default();
    let expected = match record.question {
        Question::GenerateRegex2 => vec![input.to_vec()],
        _ => elements(record, input),
    };
    ask::decode(record, library, form, bytes) == Ok(expected)
}

/// Returns the elements of a list text, parsed without the code under test.
fn elements(record: &Record, list: &[u8]) -> Vec<Vec<u8>> {
    if list.is_empty() {
        return Vec::new();
    }
    let parts = list.split(|b| *b == record.separator());
    if record.separator() == b',' {
        return parts.map(<[u8]>::to_vec).collect();
    }
    parts.map(ranks).collect()
}

/// Returns the ranks of a node in text: ranges expanded, blanks and empty entries omitted.
fn ranks(node: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(node).expect("ranks are text");
    let mut ranks = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
        let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
        let number = |text: &str| text.parse::<u32>().expect("a rank");
        ranks.extend((number(first)..=number(last)).map(|rank| rank.to_string()));
    }
    ranks.join(",").into_bytes()
}

/// Returns `true` if a text matches a pattern with `*`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[test]
fn a_star_matches_any_text() {
    assert!(matches("gn/*-two", "gn/prefix8191-two"));
    assert!(matches("*", ""));
    assert!(!matches("gn/*-two", "gn/two"));
}
