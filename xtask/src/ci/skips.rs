// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed list of expected skips, and its comparison with the skips of a run.

use std::fs;

use toml::{Table, Value};

use super::Form;
use xtask::Skip;
use xtask::install;
use xtask::process::root;

/// The path of the list.
const LIST: &str = "testdata/expected-skips.toml";

/// The condition of a skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occurs {
    /// In every run.
    Always,
    /// In every run by a user other than root, and in none by root.
    WithoutRoot,
    /// In some runs, depending on the machine, so a missing skip is no fault.
    Sometimes,
}

/// An entry of the list. Its texts match completely. A `*` in them matches any text.
#[derive(Debug)]
struct Entry {
    task: String,
    name: String,
    reason: String,
    occurs: Occurs,
    /// `true` if the short form does not run the check.
    only_in_all: bool,
}

/// The list of expected skips.
#[derive(Debug)]
pub(super) struct Expected {
    entries: Vec<Entry>,
}

impl Expected {
    /// Reads the committed list.
    ///
    /// # Errors
    /// Returns a message if the file cannot be read or parsed.
    pub(super) fn read() -> Result<Self, String> {
        let fault = |e: &dyn std::fmt::Display| format!("{LIST}: {e}");
        let text = fs::read_to_string(root().join(LIST)).map_err(|e| fault(&e))?;
        Self::parse(&text).map_err(|e| fault(&e))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut table: Table = text.parse().map_err(|e| format!("{e}"))?;
        let Some(Value::Array(skips)) = table.remove("skip") else {
            return Err("expected an array of tables [[skip]]".to_owned());
        };
        let entries = skips.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// Returns the differences from the list: unexpected skips, and entries without a skipped check.
    pub(super) fn faults(&self, form: Form, skips: &[(&str, Skip)]) -> Vec<String> {
        self.faults_as(form, skips, install::is_root())
    }

    fn faults_as(&self, form: Form, skips: &[(&str, Skip)], as_root: bool) -> Vec<String> {
        let mut faults = Vec::new();
        let may_occur = |entry: &&Entry| entry.occurs != Occurs::WithoutRoot || !as_root;
        for (task, skip) in skips {
            let mut entries = self.entries.iter().filter(may_occur);
            if !entries.any(|entry| entry.matches(task, skip)) {
                let Skip { name, reason, .. } = skip;
                faults.push(format!(
                    "{task}: {name} was skipped ({reason}), not in {LIST}"
                ));
            }
        }
        let must_occur = |entry: &&Entry| match entry.occurs {
            _ if entry.only_in_all && form == Form::Short => false,
            Occurs::Always => true,
            Occurs::WithoutRoot => !as_root,
            Occurs::Sometimes => false,
        };
        for entry in self.entries.iter().filter(must_occur) {
            if !skips.iter().any(|(task, skip)| entry.matches(task, skip)) {
                let Entry { task, name, .. } = entry;
                faults.push(format!(
                    "{task}: {name} was not skipped: remove it from {LIST}"
                ));
            }
        }
        faults
    }
}

impl Entry {
    fn matches(&self, task: &str, skip: &Skip) -> bool {
        self.task == task && like(&self.name, &skip.name) && like(&self.reason, &skip.reason)
    }
}

fn entry(value: &Value) -> Result<Entry, String> {
    let table = value.as_table().ok_or("a skip is a table")?;
    let text = |key: &str| {
        let text = table.get(key).and_then(Value::as_str);
        text.map(str::to_owned)
            .ok_or_else(|| format!("`{key}` is missing or no text in: {table}"))
    };
    let occurs = match table.get("occurs").map(|value| value.as_str()) {
        None => Occurs::Always,
        Some(Some("without root")) => Occurs::WithoutRoot,
        Some(Some("sometimes")) => Occurs::Sometimes,
        Some(_) => {
            return Err(format!(
                "`occurs` is `without root` or `sometimes`: {table}"
            ));
        }
    };
    let only_in_all = match table.get("form").map(|value| value.as_str()) {
        None => false,
        Some(Some("all")) => true,
        Some(_) => return Err(format!("`form` is `all` or is left out: {table}")),
    };
    let known = ["task", "name", "reason", "occurs", "form"];
    if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("unknown key `{key}`: expected one of {known:?}"));
    }
    Ok(Entry {
        task: text("task")?,
        name: text("name")?,
        reason: text("reason")?,
        occurs,
        only_in_all,
    })
}

/// Returns `true` if a text matches a pattern, in which each `*` matches any text.
fn like(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match text.split_once(part) {
            Some((_, rest)) => text = rest,
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [[skip]]
        task = "test"
        name = "actors::actor"
        reason = "a process of other tests"
        [[skip]]
        task = "faults"
        name = "identity-foreign"
        reason = "only root *"
        occurs = "without root"
        [[skip]]
        task = "faults"
        name = "shortage-*"
        reason = "*"
        occurs = "sometimes"
    "#;

    fn skip(task: &'static str, name: &str, reason: &str) -> (&'static str, Skip) {
        let skip = Skip {
            name: name.to_owned(),
            reason: reason.to_owned(),
            count: 1,
        };
        (task, skip)
    }

    #[test]
    fn listed_skips_are_no_faults() {
        let expected = Expected::parse(TEXT).expect("a list");
        let actor = skip("test", "actors::actor", "a process of other tests");
        let foreign = skip(
            "faults",
            "identity-foreign",
            "only root can be another user",
        );
        let disk = skip("faults", "shortage-disk", "no mounts here");
        let all = [actor.clone(), foreign, disk];
        assert_eq!(
            expected.faults_as(Form::All, &all, false),
            Vec::<String>::new()
        );
        assert_eq!(
            expected.faults_as(Form::All, &[actor], true),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_skip_without_an_entry_and_an_entry_without_a_skip_are_faults() {
        let expected = Expected::parse(TEXT).expect("a list");
        let munge = skip("test", "munge::once", "needs munged");
        let faults = expected.faults_as(Form::All, &[munge], false);
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].starts_with("test: munge::once was skipped (needs munged)"));
        assert!(faults[1].starts_with("test: actors::actor was not skipped"));
        assert!(faults[2].starts_with("faults: identity-foreign was not skipped"));
        // A skip with another reason, in another task, or by root does not match.
        let actor = skip("test", "actors::actor", "flaky");
        assert_eq!(expected.faults_as(Form::All, &[actor], true).len(), 2);
        let actor = skip("fuzz", "actors::actor", "a process of other tests");
        assert_eq!(expected.faults_as(Form::All, &[actor], true).len(), 2);
        let foreign = skip("faults", "identity-foreign", "only root can");
        assert_eq!(expected.faults_as(Form::All, &[foreign], true).len(), 2);
    }

    #[test]
    fn an_entry_of_the_form_all_is_not_required_in_the_short_form() {
        let entry =
            "[[skip]]\ntask = \"interop\"\nname = \"gds\"\nreason = \"r\"\nform = \"all\"\n";
        let expected = Expected::parse(entry).expect("a list");
        let faults = |form| expected.faults_as(form, &[], true).len();
        assert_eq!((faults(Form::Short), faults(Form::All)), (0, 1));
        let made = [skip("interop", "gds", "r")];
        assert_eq!(expected.faults_as(Form::Short, &made, true).len(), 0);
        assert!(Expected::parse(&entry.replace("all", "short")).is_err());
    }

    #[test]
    fn the_committed_list_can_be_read_and_a_bad_one_is_refused() {
        assert!(!Expected::read().expect("the list").entries.is_empty());
        for bad in ["", "skip = 1", "[[skip]]\ntask = \"test\"\nname = \"a\""] {
            assert!(Expected::parse(bad).is_err(), "{bad}");
        }
        let whole = "[[skip]]\ntask = \"t\"\nname = \"n\"\nreason = \"r\"\n";
        assert!(Expected::parse(whole).is_ok());
        assert!(Expected::parse(&format!("{whole}occurs = \"never\"")).is_err());
        assert!(Expected::parse(&format!("{whole}occur = \"sometimes\"")).is_err());
    }

    #[test]
    fn a_star_matches_any_text() {
        assert!(like("gds: * as the model", "gds: 4.2.2 as the model"));
        assert!(like("*", "") && like("*", "a") && like("a*b*c", "a-b-b-c"));
        assert!(!like("a", "ab") && !like("a*", "b") && !like("*a", "b") && !like("a*b*c", "ac"));
    }
}
