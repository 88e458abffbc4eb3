// SPDX-License-Identifier: MIT OR Apache-2.0
//! Intended deviations: `testdata/bfrops/deviations.toml`.

use serde::Deserialize;
use serde_json::Value as Json;

use super::{Call, folder};
use crate::records::unhex;

/// This project's result for a record.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    Bytes(Vec<u8>),
    Value(Json),
    Status(i32),
}

/// The direction of a test: packing or unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    Pack,
    Unpack,
}

/// The content of `deviations.toml`.
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
    way: Way,
    /// The files to which the deviation applies. A `*` matches any text.
    files: Vec<String>,
    /// The types to which it applies; all if omitted.
    #[serde(default)]
    types: Vec<String>,
    /// The values to which it applies, as JSON; all if omitted.
    #[serde(default)]
    values: Vec<String>,
    /// The releases to whose bytes it applies; all if omitted.
    #[serde(default)]
    producers: Vec<String>,
    answer: Stated,
    /// The files and types that have used the deviation so far.
    #[serde(skip)]
    needed: Vec<String>,
}

/// The result of this project, as the file states it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Stated {
    /// An error with this status.
    Status(i32),
    /// Exactly these bytes.
    Bytes(String),
    /// The first bytes of the library's result, then these.
    Then(String),
    /// Exactly this value, as JSON.
    Value(String),
    /// Any value that is packed to the library's bytes.
    Again,
    /// The count, then these bytes, then each number of the value in 32 bits.
    Words(String),
    /// Not tested, because only the library can interpret its bytes.
    NotAsked,
}

impl Deviations {
    /// Reads the file.
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(folder().join("deviations.toml"))
            .expect("testdata/bfrops/deviations.toml is there");
        let file: Self = toml::from_str(&text).unwrap_or_else(|e| panic!("{e}"));
        for deviation in &file.deviation {
            assert!(
                !deviation.reason.trim().is_empty(),
                "a deviation needs a reason"
            );
        }
        file
    }

    /// Returns an error message if this project's result is neither the library's nor a stated
    /// deviation.
    pub(crate) fn judge(
        &mut self,
        call: &Call,
        way: Way,
        theirs: &Outcome,
        ours: &Outcome,
    ) -> Option<String> {
        if theirs == ours {
            return None;
        }
        let told = format!(
            "{} {way:?}\n    theirs: {theirs:x?}\n    ours:   {ours:x?}",
            call.name()
        );
        match self.find(call, way) {
            None => Some(told),
            Some(stated) if stated.is(call, theirs, ours) => None,
            Some(_) => Some(format!("not what deviations.toml states: {told}")),
        }
    }

    /// Returns the stated result for a record from the first deviation that covers it.
    fn find(&mut self, call: &Call, way: Way) -> Option<&Stated> {
        let listed = |list: &[String], item: &str| {
            list.is_empty() || list.iter().any(|pattern| matches(pattern, item))
        };
        let deviation = self.deviation.iter_mut().find(|deviation| {
            deviation.way == way
                && listed(&deviation.files, call.file)
                && listed(&deviation.types, &call.type_name)
                && listed(&deviation.values, &call.value)
                && listed(&deviation.producers, &call.producer)
        })?;
        let items = [call.file, &call.type_name, &call.value, &call.producer];
        deviation.needed.extend(items.map(str::to_owned));
        Some(&deviation.answer)
    }

    /// Returns the patterns that matched no record.
    pub(crate) fn unneeded(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for deviation in &self.deviation {
            let lists = [
                &deviation.files,
                &deviation.types,
                &deviation.values,
                &deviation.producers,
            ];
            for pattern in lists.into_iter().flatten() {
                if !deviation.needed.iter().any(|item| matches(pattern, item)) {
                    let reason = &deviation.reason;
                    faults.push(format!(
                        "deviations.toml: {pattern:?} of {reason:?} is not needed"
                    ));
                }
            }
        }
        faults
    }
}

impl Stated {
    fn is(&self, call: &Call, theirs: &Outcome, ours: &Outcome) -> bool {
        match (self, ours) {
            (Self::NotAsked, _) => true,
            (Self::Status(status), Outcome::Status(found)) => status == found,
            (Self::Bytes(hex), Outcome::Bytes(found)) => unhex(hex) == *found,
            (Self::Then(hex), Outcome::Bytes(found)) => match theirs {
                Outcome::Bytes(theirs) => {
                    let first = found.strip_suffix(&unhex(hex)[..]);
                    first.is_some_and(|first| theirs.starts_with(first))
                }
                _ => false,
            },
            (Self::Value(text), Outcome::Value(found)) => {
                serde_json::from_str::<Json>(text).is_ok_and(|value| value == *found)
            }
            (Self::Again, Outcome::Value(found)) => {
                let again = super::pack(call, &super::value(call, &found.to_string()));
                matches!((again, &call.bytes), (Outcome::Bytes(a), Some(b)) if a == *b)
            }
            (Self::Words(front), Outcome::Bytes(found)) => words(call, front) == *found,
            _ => false,
        }
    }
}

/// Returns the count, then `front`, then each number of the value in 32 bits.
fn words(call: &Call, front: &str) -> Vec<u8> {
    let numbers: Vec<u32> = serde_json::from_str(&call.value).unwrap();
    let mut bytes = u32::try_from(numbers.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(unhex(front));
    bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    bytes
}

/// Returns `true` if a text matches a pattern in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}
