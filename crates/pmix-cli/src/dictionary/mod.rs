// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix attr` and `pmix status`: the names and numbers of PMIx, looked up without any library.

pub(crate) mod attr;
mod status;

use std::io::Write;

use pmix_types::{Releases, Standing};
use preg_core::Status;
use serde_json::{Value as Json, json};

use crate::args::{Attr, Global, StatusArgs};
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::style::Style;

/// Number of names that a failed lookup suggests.
const SUGGESTED: usize = 3;

/// Answers `pmix attr`.
pub(crate) fn attr(global: &Global, args: &Attr) -> Result<Exit, Failure> {
    answer(global, &attr::find(args.what.as_deref())?)
}

/// Answers `pmix status`.
pub(crate) fn status(global: &Global, args: &StatusArgs) -> Result<Exit, Failure> {
    answer(global, &status::find(args.what.as_deref())?)
}

/// An entry of a dictionary.
trait Entry {
    /// Returns the columns of a list.
    fn columns(&self) -> Vec<String>;
    /// Returns the first line of the whole entry.
    fn title(&self) -> String;
    /// Returns the facts about the entry: a label and its text.
    fn facts(&self) -> Vec<(&'static str, String)>;
    /// Returns `true` for a deprecated entry.
    fn is_deprecated(&self) -> bool;
    /// Returns the entry as JSON.
    fn to_json(&self) -> Json;
}

/// The entries found, and if they are shown as a list.
struct Found<E> {
    entries: Vec<E>,
    /// Show a line each instead of every fact.
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

/// Returns the failure of a lookup by name, with the most similar names, without their prefix.
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
