// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix attr` and `pmix status`: lookups of PMIx names and numbers in this program's tables.

use std::cmp::Reverse;
use std::io::Write;

use pmix_types::{Attribute, Constant, Pattern, Release, Releases, Standing, Status};
use serde_json::{Map, Value as Json, json};

use crate::args::{Attr, Global, StatusArgs};
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::style::Style;

/// The number of names that a failed lookup suggests.
const SUGGESTED: usize = 3;

/// Runs `pmix attr`.
pub(crate) fn attr(global: &Global, args: &Attr) -> Result<Exit, Failure> {
    answer(global, &find_attributes(args.what.as_deref())?)
}

/// Runs `pmix status`.
pub(crate) fn status(global: &Global, args: &StatusArgs) -> Result<Exit, Failure> {
    answer(global, &find_statuses(args.what.as_deref())?)
}

/// An entry of a dictionary.
trait Entry {
    /// Returns the columns of a list.
    fn columns(&self) -> Vec<String>;
    /// Returns the first line of the whole entry.
    fn title(&self) -> String;
    /// Returns the facts about the entry: pairs of a label and a text.
    fn facts(&self) -> Vec<(&'static str, String)>;
    /// Returns `true` for a deprecated entry.
    fn is_deprecated(&self) -> bool;
    /// Returns the entry as JSON.
    fn to_json(&self) -> Json;
}

/// The found entries.
struct Found<E> {
    entries: Vec<E>,
    /// `true` to print one line for each entry, `false` to print all facts.
    is_list: bool,
}

fn answer<E: Entry>(global: &Global, found: &Found<E>) -> Result<Exit, Failure> {
    let mut out = Out::new();
    if global.json {
        for entry in &found.entries {
            out.json(&entry.to_json())?;
        }
    } else {
        let style = Style::new(global.color, &std::io::stdout());
        if found.is_list {
            list(&mut out, style, &found.entries)?;
        } else {
            whole(&mut out, style, &found.entries)?;
        }
    }
    out.flush()?;
    Ok(Exit::Ok)
}

/// Prints one line for each entry, in columns.
fn list<E: Entry>(out: &mut Out, style: Style, entries: &[E]) -> Result<(), Failure> {
    let rows: Vec<_> = entries.iter().map(Entry::columns).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(String::len).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    for (row, entry) in rows.iter().zip(entries) {
        let cells = row.iter().zip(&widths);
        let line: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let line = line.join("  ");
        match entry.is_deprecated() {
            true => writeln!(out, "{}", style.dim(&format!("{line}  deprecated")))?,
            false => writeln!(out, "{}", line.trim_end())?,
        }
    }
    Ok(())
}

/// Prints every fact of each entry.
fn whole<E: Entry>(out: &mut Out, style: Style, entries: &[E]) -> Result<(), Failure> {
    for entry in entries {
        writeln!(out, "{}", style.bold(&entry.title()))?;
        for (word, fact) in entry.facts() {
            writeln!(out, "    {} {fact}", style.dim(&format!("{word:<11}")))?;
        }
    }
    Ok(())
}

/// Returns the facts from the releases, the Standard and the headers.
fn history(
    releases: Releases,
    standing: Standing,
    deprecated: bool,
) -> Vec<(&'static str, String)> {
    let mut facts = vec![("releases", span(releases))];
    if deprecated {
        facts.push(("deprecated", "yes".to_owned()));
    }
    let standing = match standing {
        Standing::Extension => "not in the Standard".to_owned(),
        standing => standing.as_str().to_owned(),
    };
    facts.push(("standing", standing));
    facts
}

/// Returns a range of releases as text: `4.2.2 and later`, `4.2.2 to 5.0.11`, `master alone`.
fn span(releases: Releases) -> String {
    match (releases.since(), releases.until()) {
        (None, _) => "in no release".to_owned(),
        (Some(since), None) => format!("{since} and later"),
        (Some(since), Some(until)) if since == until => format!("{since} alone"),
        (Some(since), Some(until)) => format!("{since} to {until}"),
    }
}

/// Adds the members of JSON entries that both dictionaries have.
fn history_json(entry: &mut Json, releases: Releases, standing: Standing, deprecated: bool) {
    let all: Vec<_> = releases.iter().map(|release| release.as_str()).collect();
    entry["since"] = json!(releases.since().map(|release| release.as_str()));
    entry["releases"] = json!(all);
    entry["deprecated"] = json!(deprecated);
    entry["standing"] = json!(standing.as_str());
}

/// Returns the failure for an unknown name, with the most similar names. `names` have no prefix.
fn no_name(what: &str, kind: &str, names: impl Iterator<Item = &'static str>) -> Failure {
    nothing(what, kind, &near_names(what, names))
}

/// Returns the most similar names with their prefix; `names` have none.
fn near_names(what: &str, names: impl Iterator<Item = &'static str>) -> Vec<String> {
    let word = what.to_ascii_uppercase();
    let word = word.strip_prefix("PMIX_").unwrap_or(&word);
    let near = nearest(word, names).into_iter();
    near.map(|name| format!("PMIX_{name}")).collect()
}

/// Returns the failure of a lookup, with suggestions.
fn nothing(what: &str, kind: &str, near: &[impl AsRef<str>]) -> Failure {
    let message = format!("no {kind} matches {what:?}");
    let failure = Failure::new(Exit::Negative, Status::ERR_NOT_FOUND, message);
    match near {
        [] => {
            failure.cure("part of a name is enough; `*` matches any characters, `?` one character")
        }
        near => {
            let near: Vec<_> = near.iter().map(AsRef::as_ref).collect();
            failure.cure(format!("did you mean {}?", near.join(" or ")))
        }
    }
}

/// Returns the most similar words, best first.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut candidates: Vec<_> = candidates.collect();
    let mut near = Vec::new();
    while near.len() < SUGGESTED {
        let Some(name) = pmix_mca::nearest(word, candidates.iter().copied()) else {
            break;
        };
        candidates.retain(|other| *other != name);
        near.push(name);
    }
    near
}

/// Finds attributes by name or key. Any other text is a pattern.
fn find_attributes(what: Option<&str>) -> Result<Found<&'static Attribute>, Failure> {
    let Some(what) = what else {
        let entries = Attribute::all().iter().collect();
        return Ok(Found {
            entries,
            is_list: true,
        });
    };
    let mut entries: Vec<_> = Attribute::by_name(what).into_iter().collect();
    if entries.is_empty() {
        entries = Attribute::sharing(&what.to_ascii_lowercase()).collect();
    }
    if !entries.is_empty() {
        return Ok(Found {
            entries,
            is_list: false,
        });
    }
    entries = Attribute::search(what).collect();
    match entries.len() {
        0 => Err(unknown_attribute(what)),
        len => Ok(Found {
            entries,
            is_list: len > 1,
        }),
    }
}

fn unknown_attribute(what: &str) -> Failure {
    nothing(what, "attribute", &near_attributes(what))
}

/// Returns the names that are most similar to an unknown name, or the keys that are most similar to
/// an unknown key.
pub(crate) fn near_attributes(what: &str) -> Vec<String> {
    let all = Attribute::all().iter();
    if what.contains('.') {
        let word = what.to_ascii_lowercase();
        let near = nearest(&word, all.map(Attribute::key)).into_iter();
        return near.map(str::to_owned).collect();
    }
    near_names(what, all.map(Attribute::name))
}

impl Entry for &'static Attribute {
    fn columns(&self) -> Vec<String> {
        [self.full_name(), self.key(), self.c_type()]
            .map(str::to_owned)
            .into()
    }

    fn title(&self) -> String {
        self.full_name().to_owned()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("key", self.key().to_owned())];
        for (release, key) in self.other_keys() {
            facts.push(("key", format!("{key} ({release})")));
        }
        if let Some(key) = self.standard_key() {
            facts.push(("key", format!("{key} (Standard)")));
        }
        let data_type = self.data_type().map(|kind| format!(", {kind}"));
        let c_type = format!("{}{}", self.c_type(), data_type.unwrap_or_default());
        facts.push(("type", c_type));
        for (release, c_type) in self.other_c_types() {
            facts.push(("type", format!("{c_type} ({release})")));
        }
        if let Some(c_type) = self.standard_type() {
            facts.push(("type", format!("{c_type} (Standard)")));
        }
        facts.extend(history(
            self.releases(),
            self.standing(),
            Attribute::is_deprecated(self),
        ));
        for other in same_key(self) {
            let note = if other.is_deprecated() {
                " (deprecated)"
            } else {
                ""
            };
            facts.push(("same key", format!("{}{note}", other.full_name())));
        }
        facts
    }

    fn is_deprecated(&self) -> bool {
        Attribute::is_deprecated(self)
    }

    fn to_json(&self) -> Json {
        let mut entry = json!({
            "name": self.full_name(),
            "key": self.key(),
            "type": self.c_type(),
            "data_type": self.data_type().map(|kind| kind.to_string()),
        });
        let deprecated = Attribute::is_deprecated(self);
        history_json(&mut entry, self.releases(), self.standing(), deprecated);
        entry["other_keys"] = by_release(self.other_keys());
        entry["other_types"] = by_release(self.other_c_types());
        entry["standard_key"] = json!(self.standard_key());
        entry["standard_type"] = json!(self.standard_type());
        let same: Vec<_> = same_key(self).map(Attribute::full_name).collect();
        entry["same_key"] = json!(same);
        entry
    }
}

/// Returns the other attributes with the key that this one has in the described releases.
fn same_key(attribute: &'static Attribute) -> impl Iterator<Item = &'static Attribute> {
    let key = attribute.key();
    Attribute::sharing(key).filter(move |other| *other != attribute && other.key() == key)
}

fn by_release(list: &[(Release, &str)]) -> Json {
    let member = |(release, text): &(Release, &str)| (release.to_string(), json!(text));
    Json::Object(list.iter().map(member).collect::<Map<_, _>>())
}

type Row = &'static Constant<i32>;

/// Finds status codes by number or name. Any other text is a pattern.
fn find_statuses(what: Option<&str>) -> Result<Found<Row>, Failure> {
    let Some(what) = what else {
        let entries = in_order();
        return Ok(Found {
            entries,
            is_list: true,
        });
    };
    if let Ok(status) = what.parse::<Status>() {
        // The requested name, or the canonical name of a requested number.
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
        0 => Err(unknown_status(what)),
        len => Ok(Found {
            entries,
            is_list: len > 1,
        }),
    }
}

/// Returns every status code, success first. Of names with the same number, the canonical one is
/// first.
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
            failure.cure("any number can be used; this one has no name in PMIx 4.2.2 to 7.0.0rc1")
        }
    }
}

fn unknown_status(what: &str) -> Failure {
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

/// Returns the names that have this number only in another release.
fn taken_in(number: i32) -> impl Iterator<Item = (Release, Row)> {
    Status::all().iter().flat_map(move |row| {
        let numbers = row.other_numbers().iter();
        let same = numbers.filter(move |(_, other)| *other == number);
        same.map(move |(release, _)| (*release, row))
    })
}
