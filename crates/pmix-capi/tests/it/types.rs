// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every data type in every function that takes data of any type. `cargo xtask interop types` makes the same calls
//! with OpenPMIx libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::build::{column, must, root};
use crate::programs::each_with;

/// The operations of `tests/capi/types.c`, and the words of a correct cell. `HEX` and `NUMBER` match any of
/// these, and `MADE` matches one of two words.
const OPERATIONS: &[(&str, &str)] = &[
    ("pack", "0 HEX"),
    ("unpack", "0 0 2 same"),
    ("copy", "0 same"),
    ("print", "0 prefix"),
    ("compare", "equal, not equal"),
    ("load", "loaded 0 HEX 0 1 same"),
    ("unload", "0 NUMBER MADE"),
    ("xfer", "0 same"),
    ("info", "0 0 HEX 0 1 same"),
    ("array", "0 HEX 0 1 same 0 same"),
    ("free", "array value 0"),
];

/// The output for a type without a C type in the headers.
const UNTYPED: &str = "no C type";

/// A row of `testdata/capi/cells.tsv`.
struct Entry {
    operations: Vec<String>,
    types: Vec<String>,
    seen: String,
}

impl Entry {
    fn is_of(&self, (data_type, operation): (&str, &str)) -> bool {
        let has = |all: &[String], one: &str| all.iter().any(|other| other == "*" || other == one);
        has(&self.types, data_type) && has(&self.operations, operation)
    }
}

/// Returns the rows about this library.
fn entries() -> Vec<Entry> {
    let path = root().join("testdata/capi/cells.tsv");
    let text = std::fs::read_to_string(path).expect("the cells are there");
    let rows = text.lines().skip(1).map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        let [library, operations, types, seen, reason] = columns[..] else {
            panic!("a row has five columns: {line}");
        };
        assert!(!reason.is_empty(), "a row has a reason: {line}");
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        let entry = Entry {
            operations: words(operations),
            types: words(types),
            seen: seen.to_owned(),
        };
        (library == "ours").then_some(entry)
    });
    rows.flatten().collect()
}

/// Writes the rows of the program. Returns all types, and those that have a C type.
fn header(folder: &Path) -> (Vec<String>, BTreeSet<String>) {
    let names = column("data_types", "name");
    let (c_types, sizes) = (
        column("data_types", "c_type"),
        column("data_types", "c_size"),
    );
    let members = column("data_types", "value_union_member(*=pointer)");
    let mut text = String::new();
    let mut typed = BTreeSet::new();
    for (place, name) in names.iter().enumerate() {
        if sizes[place] == "-" {
            continue;
        }
        // The table describes the member of a value: a map is a pointer elsewhere, and an attribute is stored behind
        // a pointer.
        let c_type = match name.as_str() {
            "PMIX_REGEX" => "char *",
            _ => &c_types[place],
        };
        let behind = members[place].ends_with('*') || name == "PMIX_REGATTR";
        text += &format!("ROW({name}, {c_type}, {behind})\n");
        typed.insert(name.clone());
    }
    std::fs::write(folder.join("types.h"), text).expect("the rows are written");
    (names, typed)
}

fn is_right(expected: &str, seen: &str) -> bool {
    let (expected, seen) = (expected.split(' '), seen.split(' '));
    expected.clone().count() == seen.clone().count()
        && expected.zip(seen).all(|(expected, seen)| match expected {
            "HEX" => !seen.is_empty() && seen.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "NUMBER" => seen.parse().is_ok_and(|size: usize| size > 0),
            "MADE" => ["made", "copied"].contains(&seen),
            _ => expected == seen,
        })
}

#[test]
fn every_type_works_in_every_function_or_has_a_reason() {
    let entries = entries();
    let types = std::cell::RefCell::new((Vec::new(), BTreeSet::new()));
    let before = |folder: &Path| types.replace(header(folder));
    each_with(
        "types.c",
        |folder| drop(before(folder)),
        |program, folder| {
            let mut command = Command::new(program);
            let said = must(command.arg("together").env("LD_LIBRARY_PATH", folder));
            let cells: BTreeMap<_, _> = said
                .lines()
                .filter_map(|line| {
                    let (data_type, rest) = line.split_once('\t')?;
                    let (operation, seen) = rest.split_once('\t')?;
                    Some(((data_type, operation), seen.trim_end()))
                })
                .collect();
            let (names, typed) = &*types.borrow();
            let (mut faults, mut used) = (Vec::new(), BTreeSet::new());
            for name in names {
                for (operation, expected) in OPERATIONS {
                    let cell = (name.as_str(), *operation);
                    let seen = match typed.contains(name) {
                        true => cells.get(&cell).copied().unwrap_or("missing"),
                        false => UNTYPED,
                    };
                    let entry = entries
                        .iter()
                        .position(|entry| entry.is_of(cell) && entry.seen == seen);
                    match (is_right(expected, seen), entry) {
                        (true, None) => {}
                        (false, Some(entry)) => drop(used.insert(entry)),
                        (true, Some(_)) => faults.push(format!("{cell:?} is right and has a row")),
                        (false, None) => faults.push(format!("{cell:?}: {seen}, not {expected}")),
                    }
                }
            }
            let unused = (0..entries.len()).filter(|place| !used.contains(place));
            faults.extend(unused.map(|place| {
                let Entry {
                    operations, types, ..
                } = &entries[place];
                format!("no cell needs the row of {operations:?} {types:?}")
            }));
            assert!(faults.is_empty(), "{}", faults.join("\n"));
        },
    );
}
