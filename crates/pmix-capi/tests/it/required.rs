// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls with each attribute of the headers marked as required. A function must reject all attributes that the
//! documents do not list as supported.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use pmix_types::Attribute;

use crate::build::{must, root};
use crate::programs::{each, serve_first};

/// Returns the functions that support each attribute, by its key, from the tables of the documents. Attributes that
/// no function supports are included.
fn documented() -> BTreeMap<&'static str, BTreeSet<String>> {
    let attributes = fs::read_to_string(root().join("data/attributes.tsv")).expect("attributes");
    let names = attributes.lines().skip(1);
    let names = names.map(|line| line.split('\t').next().expect("a name"));
    let key = |name: &str| Attribute::by_name(name).map(Attribute::key);
    let mut functions: BTreeMap<_, BTreeSet<_>> = names
        .map(|name| (key(name).expect("a known attribute"), BTreeSet::new()))
        .collect();
    for page in ["capi.md", "cli.md", "directives.md"] {
        let text = fs::read_to_string(root().join("docs").join(page)).expect("a page");
        for table in text.split("<!-- man: ").skip(1) {
            let (marked, rows) = table.split_once("-->").expect("the end of a mark");
            let rows = rows
                .lines()
                .skip(1)
                .take_while(|line| line.starts_with('|'));
            let first_columns = rows.filter_map(|row| row.split('|').nth(1));
            let listed: Vec<_> = first_columns
                .flat_map(|column| column.split('`'))
                .filter_map(key)
                .collect();
            for key in listed {
                let obey = marked.split_whitespace().map(str::to_owned);
                functions.entry(key).or_default().extend(obey);
            }
        }
    }
    functions
}

#[test]
fn what_is_required_and_not_documented_is_refused() {
    let mut lines = String::new();
    for (key, functions) in documented() {
        let functions: Vec<_> = functions.into_iter().collect();
        writeln!(lines, "{key} {}", functions.join(" ")).expect("a text grows");
    }
    assert!(lines.lines().count() > 500, "{lines}");
    each("required.c", |program, folder| {
        let list = folder.join("attributes");
        fs::write(&list, &lines).expect("a file");
        let (server, environment) = serve_first(1, folder);
        for (role, least) in [("client", 10_000), ("tool", 10_000), ("server", 5_000)] {
            let mut command = Command::new(program);
            command.arg(&list).arg(role).env("LD_LIBRARY_PATH", folder);
            if role != "server" {
                command.envs(environment.clone());
            }
            let said = must(&mut command);
            let refused = said.strip_prefix("required: ");
            let refused = refused.and_then(|said| said.split(' ').next());
            let refused: usize = refused.expect("a number").parse().expect("a number");
            assert!(refused > least, "{role}: {refused}");
        }
        server.finalize().expect("the server ends");
    });
}
