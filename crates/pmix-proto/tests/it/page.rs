// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the tables of docs/protocol.md with the declarations of messages.
//!
//! `PMIX_DOCS=write cargo test -p pmix-proto --test it page` writes them into the page.
#![allow(clippy::disallowed_methods, reason = "the page is written when asked")]

use std::fmt::Write as _;
use std::path::Path;

use pmix_proto::outline::{self, Part};
use pmix_proto::{Command, Tag};

/// The releases in which messages changed, with the text that introduces the change.
const RELEASES: [(u32, &str); 3] = [(4, ""), (5, "since 5.0: "), (6, "since 6.0: ")];

fn words(parts: &[Part]) -> String {
    let words: Vec<String> = parts.iter().map(word).collect();
    match words.is_empty() {
        true => "-".to_owned(),
        false => words.join(", "),
    }
}

fn word(part: &Part) -> String {
    let named = |name: &str, kind: &pmix_types::DataType| {
        let kind = kind.to_string().replace("PMIX_", "").to_lowercase();
        let name = name.replace('_', " ");
        match name == kind.replace('_', " ") {
            true => format!("*{kind}*"),
            false => format!("{name} *{kind}*"),
        }
    };
    match part {
        Part::One(name, kind) => named(name, kind),
        Part::Many(name, kind) => format!("{}…", named(name, kind)),
        Part::Each(name, kind) => format!("{} each…", named(name, kind)),
        Part::Packed(name, kind, parts) => format!("{} of ({})", named(name, kind), words(parts)),
        Part::If(parts) => format!("if so {}", words(parts)),
        Part::Maybe(parts) => format!("[{}]", words(parts)),
        Part::Rest(parts) => format!("({}) up to the end", words(parts)),
    }
}

/// Returns the fields of a message, and the changes of later releases.
fn by_release(parts: impl Fn(u32) -> Vec<Part>) -> String {
    let mut said: Vec<(String, &str)> = Vec::new();
    for (major, since) in RELEASES {
        let words = words(&parts(major));
        if said.last().is_none_or(|(last, _)| *last != words) {
            said.push((words, since));
        }
    }
    let said = said.iter().map(|(words, since)| format!("{since}{words}"));
    said.collect::<Vec<_>>().join("; ")
}

fn requests() -> String {
    let mut table =
        "| number | command | request | reply |\n| --- | --- | --- | --- |\n".to_owned();
    for command in Command::ALL {
        let Some(_) = outline::request(*command, 0) else {
            continue;
        };
        let request = by_release(|major| outline::request(*command, major).unwrap());
        let reply = match command.is_answered() {
            true => by_release(|major| outline::reply(*command, major).unwrap()),
            false => "none".to_owned(),
        };
        writeln!(table, "| {} | {command} | {request} | {reply} |", command.0).unwrap();
    }
    table
}

fn unsolicited() -> String {
    let mut table = "| tag | message | payload |\n| --- | --- | --- |\n".to_owned();
    for tag in [Tag::EVENT, Tag::OUTPUT, Tag::FLOW, Tag::DELETED] {
        let payload = by_release(|major| outline::unsolicited(tag, major).unwrap());
        writeln!(table, "| {} | {tag} | {payload} |", tag.0).unwrap();
    }
    table
}

/// Returns the page with this table after the mark.
fn renewed(page: &str, mark: &str, table: &str) -> String {
    let mark = format!("<!-- {mark} -->\n");
    let (before, after) = page.split_once(&mark).expect("the mark is there");
    let end = after.find("\n\n").expect("a blank line ends the table") + 1;
    format!("{before}{mark}{table}{}", &after[end..])
}

#[test]
fn the_page_agrees_with_the_declarations() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let made = renewed(&page, "requests", &requests());
    let made = renewed(&made, "unsolicited", &unsolicited());
    if std::env::var_os("PMIX_DOCS").is_some_and(|how| how == "write") {
        std::fs::write(&path, made).unwrap();
    } else {
        assert!(
            made == page,
            "docs/protocol.md is out of date: run this test with `PMIX_DOCS=write`"
        );
    }
}
