// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask matrix`: the real command in every relevant build and configuration.
//!
//! Each cell encodes and decodes every list of the vectors in both forms. It also decodes the
//! values of every other cell. The result must be the list if the cell supports the value, and an
//! error otherwise.

mod build;
mod cell;
mod lists;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};
use xtask::Outcome;

use build::{Builds, Pmix};
use cell::{CELLS, Cell, Payload};
use lists::List;

/// Runs every cell and prints the table.
pub(crate) fn run() -> Outcome {
    let mut outcome = Outcome::default();
    let lists = match lists::read() {
        Ok(lists) => lists,
        Err(why) => {
            outcome.check("reading the vectors", Err(why));
            return outcome;
        }
    };
    let mut builds = Builds::default();
    let mut reports = Vec::new();
    let mut values = BTreeMap::new();
    for cell in CELLS {
        let mut report = Report::new(cell);
        match builds.command(cell) {
            Ok(pmix) => report.round_trips(&pmix, &lists, &mut values),
            Err(why) => report.fail(why),
        }
        reports.push(report);
    }
    // Cells can decode each other's values only after every cell has encoded.
    for (cell, report) in CELLS.iter().zip(&mut reports) {
        match builds.command(cell) {
            Ok(pmix) => report.foreign(&pmix, &lists, &values),
            Err(why) => report.fail(why),
        }
    }
    println!("{}", Report::HEADING);
    for report in &reports {
        println!("{report}");
        outcome += report.outcome();
    }
    outcome
}

/// Returns the cell with this name, for tests.
#[cfg(test)]
fn cell(name: &str) -> &'static cell::Cell {
    CELLS.iter().find(|cell| cell.name == name).expect("a cell")
}

/// A value that a cell encoded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    /// The type of a regex2 value, or `None` for the string form.
    kind: Option<String>,
    hex: String,
    payload: Payload,
}

/// Every encoded value with the index of its list.
type Values = BTreeMap<Written, usize>;

const FORMS: [&str; 2] = ["string", "regex2"];

/// The number of faults of a cell that are printed.
const SHOWN: usize = 5;

/// The results of a cell.
struct Report {
    cell: &'static Cell,
    own: Outcome,
    foreign: Outcome,
    kinds: [BTreeSet<String>; 2],
}

impl Report {
    pub(crate) const HEADING: &'static str = "\
cell                               writes                       as regex2            own   others";

    pub(crate) fn new(cell: &'static Cell) -> Self {
        Self {
            cell,
            own: Outcome::default(),
            foreign: Outcome::default(),
            kinds: Default::default(),
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let mut sum = self.own.clone();
        sum += self.foreign.clone();
        sum
    }

    /// Records a cell that could not run.
    pub(crate) fn fail(&mut self, why: String) {
        self.own.check(self.cell.name, Err(why));
    }

    /// Encodes and decodes every list in both forms, and keeps the encoded values.
    pub(crate) fn round_trips(&mut self, pmix: &Pmix, lists: &[List], values: &mut Values) {
        let mut requests = Vec::new();
        for form in FORMS {
            requests.extend(lists.iter().map(|list| {
                json!({"op": "encode", "procs": list.procs, "form": form, "input": list.text})
            }));
        }
        let mut written = Values::new();
        let mut faults = Vec::new();
        let asked = build::run_batch(pmix, &requests, |index, answer| {
            let (form, at) = (index / lists.len(), index % lists.len());
            match self.encoded(form, &lists[at], answer) {
                Ok(Some(value)) => {
                    written.insert(value, at);
                }
                Ok(None) => self.own += Outcome::of(true),
                Err(why) => faults.push(why),
            }
        });
        faults.extend(asked.err());
        self.decode(pmix, lists, &written, &mut faults);
        for (form, expected) in [self.cell.string, self.cell.regex2].iter().enumerate() {
            for kind in expected
                .iter()
                .filter(|kind| !self.kinds[form].contains(**kind))
            {
                faults.push(format!("no list was written as {kind}"));
            }
        }
        self.own += self.told(faults);
        values.append(&mut written);
    }

    /// Checks the answer to an encode request. Returns `None` if the list was rightly refused.
    fn encoded(
        &mut self,
        form: usize,
        list: &List,
        answer: &Value,
    ) -> Result<Option<Written>, String> {
        let expected = [self.cell.string, self.cell.regex2][form];
        let status = answer["status"].as_i64();
        let shown = || format!("{} of {:?}: {answer}", FORMS[form], cut(&list.text));
        let refuses = expected.is_empty() && status == Some(-47);
        // A process map with an invalid rank is refused here, not by its reader.
        if list.procs && list.meaning.is_none() {
            return match status {
                Some(-27) => Ok(None),
                _ if refuses => Ok(None),
                _ => Err(shown()),
            };
        }
        if status != Some(0) {
            // If such a list were sent as plain text, the reader would decode it as an encoded
            // value.
            let ambiguous = list.looks_encoded() && expected.contains(&"plain");
            return if refuses || ambiguous {
                Ok(None)
            } else {
                Err(shown())
            };
        }
        let (Some(kind), Some(hex)) = (answer["type"].as_str(), answer["bytes_hex"].as_str())
        else {
            return Err(shown());
        };
        if !expected.contains(&kind) {
            return Err(shown());
        }
        self.kinds[form].insert(kind.to_owned());
        Ok(Some(Written {
            kind: (form == 1).then(|| kind.to_owned()),
            hex: hex.to_owned(),
            payload: self.cell.payload(kind),
        }))
    }

    /// Decodes the values of every cell.
    pub(crate) fn foreign(&mut self, pmix: &Pmix, lists: &[List], values: &Values) {
        let before = std::mem::take(&mut self.own);
        let mut faults = Vec::new();
        self.decode(pmix, lists, values, &mut faults);
        self.foreign = std::mem::replace(&mut self.own, before);
        self.foreign += self.told(faults);
    }

    fn decode(&mut self, pmix: &Pmix, lists: &[List], values: &Values, faults: &mut Vec<String>) {
        // Skip text whose tag belongs to no component of this cell, because it cannot be
        // distinguished from a list.
        let known = |(value, _): &(&Written, &usize)| {
            value.kind.is_some() || !self.cell.unknown.contains(&value.payload)
        };
        let asked: Vec<_> = values.iter().filter(known).collect();
        let request = |(value, at): &(&Written, &usize)| {
            let mut request = json!({
                "op": "decode", "procs": lists[**at].procs, "bytes_hex": value.hex
            });
            if let Some(kind) = &value.kind {
                request["type"] = json!(kind);
            }
            request
        };
        let requests: Vec<_> = asked.iter().map(request).collect();
        let mut held = 0;
        let result = build::run_batch(pmix, &requests, |index, answer| {
            let (value, at) = asked[index];
            match decoded(self.cell, value, &lists[*at], answer) {
                Ok(()) => held += 1,
                Err(why) => faults.push(why),
            }
        });
        self.own.passed += held;
        faults.extend(result.err());
    }

    /// Counts the faults and prints the first ones.
    fn told(&self, faults: Vec<String>) -> Outcome {
        for fault in faults.iter().take(SHOWN) {
            eprintln!("FAILED {}: {fault}", self.cell.name);
        }
        Outcome {
            failed: faults.len(),
            ..Outcome::default()
        }
    }
}

/// Checks the answer to a decode request.
fn decoded(cell: &Cell, value: &Written, list: &List, answer: &Value) -> Result<(), String> {
    let shown = |why: &str| {
        let (hex, answer) = (cut(&value.hex), answer.to_string());
        Err(format!("{why}: {:?} {hex}: {}", value.kind, cut(&answer)))
    };
    let refused = answer["status"].as_i64().is_some_and(|status| status != 0);
    if refused && !answer["list"].is_null() {
        return shown("an error with a list");
    }
    if !cell.reads(value.payload) {
        return match refused {
            true => Ok(()),
            false => shown("read what it cannot know"),
        };
    }
    // The typed form of such a list is decoded twice, as every datastore does.
    if value.kind.is_some() && list.looks_encoded() {
        return Ok(());
    }
    match &list.meaning {
        None if refused => Ok(()),
        None => shown("read words as ranks"),
        Some(meaning) if answer["list"] == json!(meaning) => Ok(()),
        Some(_) => shown("another list"),
    }
}

/// Returns the beginning of a long text.
fn cut(text: &str) -> &str {
    let end = text
        .char_indices()
        .nth(120)
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = |form: usize| match self.kinds[form].is_empty() {
            true => "refused".to_owned(),
            false => self.kinds[form]
                .iter()
                .cloned()
                .collect::<Vec<_>>()
                .join(" "),
        };
        let count = |outcome: &Outcome| match outcome.failed {
            0 => format!("{} ok", outcome.passed),
            n => format!("{n} of {} FAILED", outcome.passed + n),
        };
        write!(
            f,
            "{:<34} {:<20} {:<20} {:>10} {:>8}",
            self.cell.name,
            kinds(0),
            kinds(1),
            count(&self.own),
            count(&self.foreign),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(payload: Payload) -> Written {
        Written {
            kind: None,
            hex: "00".to_owned(),
            payload,
        }
    }

    #[test]
    fn a_value_that_cannot_be_read_must_be_refused_without_a_list() {
        let list = List::new(false, "n1");
        let cell = cell("compress may not parse");
        let judge = |answer: &Value| decoded(cell, &value(Payload::Zlib), &list, answer);
        assert!(judge(&json!({"status": -47})).is_ok());
        assert!(judge(&json!({"status": 0, "list": ["blob:"]})).is_err());
        assert!(judge(&json!({"status": -47, "list": ["n1"]})).is_err());
    }

    #[test]
    fn a_value_that_can_be_read_must_be_the_list() {
        let list = List::new(false, "n1,n2");
        let judge = |answer: &Value| decoded(cell("default"), &value(Payload::Zlib), &list, answer);
        assert!(judge(&json!({"status": 0, "list": ["n1", "n2"]})).is_ok());
        assert!(judge(&json!({"status": 0, "list": ["n2", "n1"]})).is_err());
        assert!(judge(&json!({"status": -27})).is_err());
    }
}
