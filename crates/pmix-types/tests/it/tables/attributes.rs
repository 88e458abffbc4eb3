// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes by name, by key, and by pattern.

use std::collections::HashMap;

use pmix_types::{Attribute, DataType, Release, Releases, keys};

#[test]
fn every_attribute_is_found_by_name_and_by_key() {
    let rows = rows("attributes");
    assert_eq!(rows.len(), 682);
    assert_eq!(Attribute::all().len(), rows.len());
    for row in &rows {
        let name = &row["name"];
        let attribute = Attribute::by_name(name).expect("the name is known");
        let short = name.strip_prefix("PMIX_").expect("a prefix");
        assert_eq!(attribute.name(), short);
        assert_eq!(Attribute::by_name(short), Some(attribute));
        assert_eq!(Attribute::by_name(&name.to_lowercase()), Some(attribute));
        assert_eq!(
            (attribute.key(), attribute.c_type()),
            (row["key"].as_str(), row["type"].as_str())
        );
        assert!(
            Attribute::sharing(&row["key"]).any(|other| other == attribute),
            "{name}"
        );
        assert!(has_releases(row, attribute.releases()), "{name}");
        assert_eq!(
            attribute.is_deprecated(),
            row["deprecated"] == "1",
            "{name}"
        );
    }
}

#[test]
fn a_key_shared_by_several_names_one_that_is_not_deprecated() {
    let mut by_key: HashMap<String, Vec<_>> = HashMap::new();
    for row in rows("attributes") {
        by_key.entry(row["key"].clone()).or_default().push(row);
    }
    for (key, rows) in &by_key {
        let found = Attribute::by_key(key).expect("the key is known");
        let full = format!("PMIX_{}", found.name());
        let chosen = rows
            .iter()
            .find(|row| row["name"] == full)
            .expect("an attribute of the key");
        if rows.iter().any(|row| row["deprecated"] == "0") {
            assert_eq!(chosen["deprecated"], "0", "{key}");
        }
    }
    let shared = by_key.values().filter(|rows| rows.len() > 1).count();
    assert_eq!(shared, 14);
    for (key, name) in [
        ("pmix.alloc.net", "ALLOC_FABRIC"),
        ("pmix.evname", "EVENT_HDLR_NAME"),
        ("pmix.fab.coord", "FABRIC_COORDINATES"),
        ("pmix.jctrl.ckptsig", "JOB_CTRL_CHECKPOINT_SIGNAL"),
        ("pmix.pdata", "PROC_INFO_ARRAY"),
        ("pmix.qry.quals", "QUERY_QUALIFIERS"),
    ] {
        assert_eq!(Attribute::by_key(key).map(Attribute::name), Some(name));
    }
}

#[test]
fn keys_and_types_of_other_releases_are_known() {
    let mut moved = 0;
    for row in rows("attributes") {
        let attribute = Attribute::by_name(&row["name"]).expect("known");
        for release in attribute.releases().iter() {
            let key = differs(&row, "key_differs_in", release);
            assert_eq!(attribute.key_in(release), Some(key.unwrap_or(&row["key"])));
            let c_type = differs(&row, "type_differs_in", release);
            assert_eq!(
                attribute.c_type_in(release),
                Some(c_type.unwrap_or(&row["type"]))
            );
            if let Some(key) = key {
                moved += 1;
                assert_eq!(Attribute::by_key_in(release, key), Some(attribute));
                assert_eq!(Attribute::by_key(key), Some(attribute));
            }
        }
        let standard = row["std_key_if_other"].as_str();
        assert_eq!(attribute.standard_key().unwrap_or("-"), standard);
        assert!(standard == "-" || Attribute::sharing(standard).any(|a| a == attribute));
    }
    assert_eq!(moved, 8);
    let found = Attribute::by_key_in(Release::Master, "pmix.evname").map(Attribute::name);
    assert_eq!(found, Some("EVENT_HDLR_NAME"));
    assert_eq!(Attribute::by_key_in(Release::V4_2_2, "pmix.pthrdnm"), None);
}

#[test]
fn unknown_names_are_not_found() {
    for text in [
        "",
        "PMIX_",
        "pmix.job",
        "PMIX_JOB_SIZE ",
        "pmix.job.sizes",
        "\u{df}\u{e9}\u{df}",
    ] {
        assert_eq!(Attribute::by_name(text), None, "{text:?}");
        assert_eq!(Attribute::by_key(text), None, "{text:?}");
    }
    assert_eq!(Attribute::search("no such attribute").count(), 0);
}

#[test]
fn patterns_find_names_and_keys() {
    let names =
        |pattern: &str| -> Vec<_> { Attribute::search(pattern).map(Attribute::name).collect() };
    assert_eq!(names("PMIX_JOB_SIZE"), ["JOB_SIZE"]);
    assert_eq!(names("pmix.job.si*"), ["JOB_SIZE"]);
    assert_eq!(names("job_siz?"), ["JOB_SIZE"]);
    assert!(names("pthrdnm").contains(&"PROGRESS_THREAD_NAME"));
    assert_eq!(names("").len(), 682);
    assert_eq!(names("*").len(), 682);
}

#[test]
fn constants_are_the_keys() {
    assert_eq!(keys::JOB_SIZE, "pmix.job.size");
    let job_size = Attribute::by_key(keys::JOB_SIZE).expect("known");
    assert_eq!(job_size.data_type(), Some(DataType::UINT32));
    let node_map = Attribute::by_name("NODE_MAP").expect("known");
    assert_eq!(node_map.key(), keys::NODE_MAP);
}

#[test]
fn a_c_type_with_one_data_type_gives_it() {
    let open = [
        "varies",
        "type",
        "pointer",
        "NULL",
        "hwloc_topology_t",
        "struct event_base*",
    ];
    for attribute in Attribute::all() {
        let known = attribute.data_type().is_some();
        assert_eq!(
            known,
            !open.contains(&attribute.c_type()),
            "{}",
            attribute.name()
        );
    }
}

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
