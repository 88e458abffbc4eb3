// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of a table as maps from column to field.

use std::collections::HashMap;

use pmix_types::{Release, Releases};

pub(crate) type Row = HashMap<String, String>;

/// Reads `data/NAME.tsv`.
pub(crate) fn rows(name: &str) -> Vec<Row> {
    let path = format!("{}/../../data/{name}.tsv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the table is there");
    let mut lines = text.lines();
    let columns: Vec<_> = lines.next().expect("a header").split('\t').collect();
    let row = |line: &str| {
        let fields = line.split('\t').map(str::to_owned);
        columns
            .iter()
            .map(|c| (*c).to_owned())
            .zip(fields)
            .collect()
    };
    lines.map(row).collect()
}

/// Returns the number in a column.
pub(crate) fn number(row: &Row, column: &str) -> i64 {
    row[column].parse().expect("a number")
}

/// Returns the value for a release in a column of the form `release=value;...`.
pub(crate) fn differs<'a>(row: &'a Row, column: &str, release: Release) -> Option<&'a str> {
    let mut parts = row[column]
        .split(';')
        .filter_map(|part| part.split_once('='));
    parts
        .find(|(name, _)| *name == release.as_str())
        .map(|(_, value)| value)
}

/// Returns `true` if the releases are those of the columns `in_*`.
pub(crate) fn has_releases(row: &Row, releases: Releases) -> bool {
    let fits =
        |release: Release| (row[&format!("in_{release}")] == "1") == releases.contains(release);
    Release::ALL.into_iter().all(fits)
}
