// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix status`: status codes by number, name or pattern.

use std::cmp::Reverse;

use pmix_types::{Constant, Pattern, Release, Status};
use serde_json::{Map, Value as Json, json};

use super::{Entry, Found, history, history_json, no_name};
use crate::failure::{Exit, Failure};

type Row = &'static Constant<i32>;

/// Finds codes: a number or a name means just that, anything else is a pattern.
pub(super) fn find(what: Option<&str>) -> Result<Found<Row>, Failure> {
    let Some(what) = what else {
        let entries = in_order();
        return Ok(Found {
            entries,
            is_list: true,
        });
    };
    if let Ok(status) = what.parse::<Status>() {
        // The name that was asked for; of a number the canonical one.
        let row = Status::constant_of(what).or_else(|| status.constant());
        let row = row.ok_or_else(|| unnamed(what, status))?;
        return Ok(Found {
            entries: vec![row],
            is_list: false,
        });
    }
    let pattern = Pattern::new(what);
    let mut entries = in_order();
    entries.retain(|row| pattern.matches_name(row.name()));
    match entries.len() {
        0 => Err(unknown(what)),
        len => Ok(Found {
            entries,
            is_list: len > 1,
        }),
    }
}

/// Returns every code, success first; of names with the same number the canonical one first.
fn in_order() -> Vec<Row> {
    let mut rows: Vec<_> = Status::all().iter().collect();
    rows.sort_by_key(|row| Reverse(row.number()));
    rows
}

/// Returns the failure for a number without a name, with a suggestion for a missing sign.
fn unnamed(what: &str, status: Status) -> Failure {
    let message = format!("no status has the number {what}");
    let failure = Failure::new(Exit::Negative, Status::ERR_NOT_FOUND, message);
    let negative = status.as_raw().checked_neg().map(Status::from_raw);
    match negative.filter(|other| other.name().is_some()) {
        Some(other) => failure.cure(format!("did you mean {other}?")),
        None => {
            failure.cure("any number can be used; this one has no name in PMIx 4.2.2 to 7.0.0a1")
        }
    }
}

fn unknown(what: &str) -> Failure {
    no_name(what, "status", Status::all().iter().map(Constant::name))
}

impl Entry for Row {
    fn columns(&self) -> Vec<String> {
        let text = Status::from_raw(self.number()).text();
        vec![
            format!("{:>5}", self.number()),
            self.full_name().to_owned(),
            text.to_owned(),
        ]
    }

    fn title(&self) -> String {
        format!("{} ({})", self.full_name(), self.number())
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let text = Status::from_raw(self.number()).text();
        let mut facts = vec![("text", text.to_owned())];
        facts.extend(history(
            self.releases(),
            self.standing(),
            Constant::is_deprecated(self),
        ));
        for (release, number) in self.other_numbers() {
            facts.push(("number", format!("{number} ({release})")));
        }
        for other in aliases(self) {
            let note = if other.is_deprecated() {
                " (deprecated)"
            } else {
                ""
            };
            facts.push(("also", format!("{}{note}", other.full_name())));
        }
        for (release, other) in taken_in(self.number()) {
            facts.push(("also", format!("{} ({release})", other.full_name())));
        }
        facts
    }

    fn is_deprecated(&self) -> bool {
        Constant::is_deprecated(self)
    }

    fn to_json(&self) -> Json {
        let mut entry = json!({
            "name": self.full_name(),
            "number": self.number(),
            "text": Status::from_raw(self.number()).text(),
        });
        let deprecated = Constant::is_deprecated(self);
        history_json(&mut entry, self.releases(), self.standing(), deprecated);
        let numbers = self.other_numbers().iter();
        let numbers = numbers.map(|(release, number)| (release.to_string(), json!(number)));
        entry["other_numbers"] = Json::Object(numbers.collect::<Map<_, _>>());
        let alias = |other: Row| json!({ "name": other.full_name(), "deprecated": Constant::is_deprecated(other) });
        entry["aliases"] = aliases(self).map(alias).collect();
        entry
    }
}

/// Returns the other names of the same number.
fn aliases(row: Row) -> impl Iterator<Item = Row> {
    let names = Status::from_raw(row.number()).names().iter();
    names.filter(move |other| other.name() != row.name())
}

/// Returns the names that have this number in some release alone.
fn taken_in(number: i32) -> impl Iterator<Item = (Release, Row)> {
    Status::all().iter().flat_map(move |row| {
        let numbers = row.other_numbers().iter();
        let same = numbers.filter(move |(_, other)| *other == number);
        same.map(move |(release, _)| (*release, row))
    })
}
