// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map verify`: checks of a node map and a process map.

use std::io::Write;

use pmix_map::{DuplicateName, NodeList, ProcMap, RankFault, RankPlace, RankSpan};
use serde_json::{Value as Json, json};

use super::read_pair;
use crate::args::Pair;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::style::{Progress, counted, printable, size};

/// The maximum number of printed lines of one kind. JSON has all.
const SHOWN: usize = 100;

/// A finding: a sentence for users, and a JSON object for programs.
struct Finding {
    text: String,
    json: Json,
}

pub(super) fn run(context: &mut Context, maps: &Pair) -> Result<Exit, Failure> {
    let (list, map) = read_pair(context, maps)?;
    let progress = Progress::start("verifying");
    let mut found = vec![counts(&list, &map)];
    found.push(rank_faults(&list, &map));
    found.push(hosts(&list));
    let notes = empty(&list, &map);
    drop(progress);
    let faults: usize = found.iter().map(Vec::len).sum();
    if context.json {
        let json = |group: Vec<Finding>| group.into_iter().map(|f| f.json).collect::<Vec<_>>();
        let answer = json!({
            "ok": faults == 0,
            "nodes": list.len(),
            "ranks": map.num_ranks(),
            "faults": found.into_iter().flat_map(json).collect::<Vec<_>>(),
            "notes": json(notes),
        });
        context.out.json(&answer)?;
    } else {
        let fault = context.style.red("fault:");
        for group in &found {
            print(context, &fault, group)?;
        }
        let note = context.style.yellow("note:");
        print(context, &note, &notes)?;
        let verdict = match faults {
            0 => context.style.green("ok:"),
            1 => "1 fault:".to_owned(),
            n => format!("{n} faults:"),
        };
        writeln!(
            context.out,
            "{verdict} {}",
            size(list.len(), map.num_ranks())
        )?;
    }
    Ok(if faults == 0 {
        Exit::Ok
    } else {
        Exit::Negative
    })
}

fn print(context: &mut Context, label: &str, group: &[Finding]) -> Result<(), Failure> {
    for finding in group.iter().take(SHOWN) {
        writeln!(context.out, "{label} {}", finding.text)?;
    }
    if let Some(more @ 1..) = group.len().checked_sub(SHOWN) {
        writeln!(
            context.out,
            "{label} and {more} more of this kind; --json lists all"
        )?;
    }
    Ok(())
}

/// Returns the label of a node: `node 3 (n04)`.
fn node(list: &NodeList, index: usize) -> String {
    match list.nth(index) {
        Some(name) => format!("node {index} ({})", printable(&name)),
        None => format!("node {index} (no name)"),
    }
}

fn node_json(list: &NodeList, index: usize) -> Json {
    let name = list.nth(index);
    json!({ "node": index, "name": name.map(|n| String::from_utf8_lossy(&n).into_owned()) })
}

fn counts(list: &NodeList, map: &ProcMap) -> Vec<Finding> {
    let (names, nodes) = (list.len(), map.num_nodes());
    if names == nodes {
        return Vec::new();
    }
    vec![Finding {
        text: format!(
            "the node map has {}, the process map {nodes}",
            counted(names as u64, "node")
        ),
        json: json!({ "kind": "count", "nodes": names, "procs": nodes }),
    }]
}

fn rank_faults(list: &NodeList, map: &ProcMap) -> Vec<Finding> {
    let faults = pmix_map::rank_faults(map).into_iter();
    faults.map(|fault| rank_fault(list, fault)).collect()
}

fn rank_fault(list: &NodeList, fault: RankFault) -> Finding {
    match fault {
        RankFault::Missing {
            ranks,
            before,
            after,
        } => {
            let place =
                |at: RankPlace| format!("rank {} is on {}", at.rank.as_raw(), node(list, at.node));
            let before_text = before
                .map(|b| format!("{}, ", place(b)))
                .unwrap_or_default();
            let place_json = |at: RankPlace| {
                let mut json = node_json(list, at.node);
                json["rank"] = at.rank.as_raw().into();
                json
            };
            Finding {
                text: format!("{} missing: {before_text}{}", some(ranks), place(after)),
                json: json!({
                    "kind": "missing",
                    "first": ranks.first,
                    "last": ranks.last,
                    "before": before.map(place_json),
                    "after": place_json(after),
                }),
            }
        }
        RankFault::Doubled {
            ranks,
            node: first,
            again,
        } => Finding {
            text: format!(
                "{} on {} and again on {}",
                some(ranks),
                node(list, first),
                node(list, again)
            ),
            json: json!({
                "kind": "doubled",
                "first": ranks.first,
                "last": ranks.last,
                "on": node_json(list, first),
                "again": node_json(list, again),
            }),
        },
    }
}

fn some(ranks: RankSpan) -> String {
    match ranks.first == ranks.last {
        true => format!("rank {} is", ranks.first),
        false => format!("ranks {}-{} are", ranks.first, ranks.last),
    }
}

fn hosts(list: &NodeList) -> Vec<Finding> {
    let duplicates = pmix_map::duplicate_names(list).into_iter();
    duplicates
        .map(|DuplicateName { node: first, again }| {
            let name = list.nth(first).unwrap_or_default();
            Finding {
                text: format!(
                    "host {} is both node {first} and node {again}",
                    printable(&name)
                ),
                json: json!({
                    "kind": "host",
                    "name": String::from_utf8_lossy(&name),
                    "node": first,
                    "again": again,
                }),
            }
        })
        .collect()
}

/// Returns the nodes without ranks, which are allowed in a job.
fn empty(list: &NodeList, map: &ProcMap) -> Vec<Finding> {
    let nodes =
        (0..map.num_nodes()).filter(|n| map.ranks_of(*n).is_some_and(|mut r| r.next().is_none()));
    nodes
        .map(|index| {
            let mut json = node_json(list, index);
            json["kind"] = "empty".into();
            Finding {
                text: format!("{} has no ranks", node(list, index)),
                json,
            }
        })
        .collect()
}
