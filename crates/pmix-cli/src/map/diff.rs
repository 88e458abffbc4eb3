// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map diff`: the changes of a job's nodes and ranks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::io::Write as _;

use pmix_map::{Limits, NodeList, ProcMap};
use serde_json::{Value as Json, json};

use super::{read_lists, read_pair};
use crate::args::{Diff, Pair};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::style::printable;

/// Names that only one of two lists has.
type Names = Vec<Vec<u8>>;

/// The differences. Ranks are ranges, by the names of their nodes.
#[derive(Debug, Default)]
struct Changes {
    added: Names,
    lost: Names,
    moved: Vec<(String, Vec<u8>, Vec<u8>)>,
    started: Vec<(String, Vec<u8>)>,
    ended: Vec<(String, Vec<u8>)>,
}

/// Runs the command. Exits with 1 if the maps differ, like `diff`.
pub(super) fn run(context: &mut Context, args: &Diff) -> Result<Exit, Failure> {
    let words = [&args.nodes, &args.new_nodes].map(Clone::clone);
    let inputs = [
        Some(&args.nodes),
        Some(&args.new_nodes),
        args.procs.as_ref(),
        args.new_procs.as_ref(),
    ];
    if inputs.iter().flatten().filter(|word| **word == "-").count() > 1 {
        return Err(crate::input::twice());
    }
    let changes = match (&args.procs, &args.new_procs) {
        (procs, new_procs) if procs.is_some() || args.layout.is_asked() => {
            let pair = |nodes: &OsString, procs: &Option<OsString>| {
                let pair = Pair {
                    nodes: nodes.clone(),
                    procs: procs.clone(),
                    layout: args.layout.clone(),
                };
                read_pair(context, &pair)
            };
            let (before, after) = (pair(&args.nodes, procs)?, pair(&args.new_nodes, new_procs)?);
            let mut changes = nodes(&before.0, &after.0);
            ranks(&before, &after, context.limits(), &mut changes)?;
            changes
        }
        _ => {
            let lists = read_lists(context, &words)?;
            nodes(&lists[0], &lists[1])
        }
    };
    if context.json {
        context.out.json(&changes.json())?;
    } else {
        changes.write(context)?;
    }
    let same = changes.lines() == 0;
    Ok(if same { Exit::Ok } else { Exit::Negative })
}

fn nodes(before: &NodeList, after: &NodeList) -> Changes {
    let only = |list: &NodeList, other: &NodeList| -> Names {
        let known: HashSet<Vec<u8>> = other.iter().collect();
        let mut told = HashSet::new();
        let new = |name: &Vec<u8>| !known.contains(name) && told.insert(name.clone());
        list.iter().filter(new).collect()
    };
    Changes {
        added: only(after, before),
        lost: only(before, after),
        ..Changes::default()
    }
}

/// Returns the node of each rank, as the index of a name.
fn places(
    (list, map): &(NodeList, ProcMap),
    names: &mut HashMap<Vec<u8>, usize>,
    limits: &Limits,
) -> Result<BTreeMap<u32, usize>, Failure> {
    if map.num_ranks() > limits.max_ranks {
        let error = pmix_map::Error::limit("ranks", limits.max_ranks);
        return Err(Failure::of(
            &preg_core::Error::from(error),
            "the process map",
            b"",
        ));
    }
    let mut found = BTreeMap::new();
    for node in 0..map.num_nodes() {
        let name = list
            .nth(node)
            .unwrap_or_else(|| format!("node {node}").into_bytes());
        let next = names.len();
        let name = *names.entry(name).or_insert(next);
        for rank in map.ranks_of(node).into_iter().flatten() {
            found.entry(rank.as_raw()).or_insert(name);
        }
    }
    Ok(found)
}

/// A move of consecutive ranks: the old node and the new node.
type Move = (Option<usize>, Option<usize>);

fn ranks(
    before: &(NodeList, ProcMap),
    after: &(NodeList, ProcMap),
    limits: &Limits,
    changes: &mut Changes,
) -> Result<(), Failure> {
    let mut names = HashMap::new();
    let old = places(before, &mut names, limits)?;
    let new = places(after, &mut names, limits)?;
    let mut by_index = vec![Vec::new(); names.len()];
    for (name, index) in names {
        by_index[index] = name;
    }
    let mut moves: Vec<(Move, u32, u32)> = Vec::new();
    let ended = old
        .iter()
        .map(|(rank, from)| (*rank, (Some(*from), new.get(rank).copied())));
    let started = new.iter().filter(|(rank, _)| !old.contains_key(rank));
    let started = started.map(|(rank, to)| (*rank, (None, Some(*to))));
    for (rank, change) in ended.chain(started).filter(|(_, (from, to))| from != to) {
        match moves.last_mut() {
            Some((last, _, end)) if *last == change && end.checked_add(1) == Some(rank) => {
                *end = rank
            }
            _ => moves.push((change, rank, rank)),
        }
    }
    for ((from, to), first, last) in moves {
        let ranks = match first == last {
            true => format!("rank {first}"),
            false => format!("ranks {first}-{last}"),
        };
        let name = |index: usize| by_index[index].clone();
        match (from, to) {
            (Some(from), Some(to)) => changes.moved.push((ranks, name(from), name(to))),
            (Some(from), None) => changes.ended.push((ranks, name(from))),
            (None, Some(to)) => changes.started.push((ranks, name(to))),
            (None, None) => {}
        }
    }
    Ok(())
}

impl Changes {
    /// Returns the number of lines.
    fn lines(&self) -> usize {
        let ranks = self.moved.len() + self.started.len() + self.ended.len();
        self.added.len() + self.lost.len() + ranks
    }

    fn write(&self, context: &mut Context) -> Result<(), Failure> {
        let out = &mut context.out;
        for (what, names) in [("lost", &self.lost), ("added", &self.added)] {
            for name in names {
                writeln!(out, "node {what}: {}", printable(name))?;
            }
        }
        for (ranks, from, to) in &self.moved {
            writeln!(
                out,
                "{ranks} moved from {} to {}",
                printable(from),
                printable(to)
            )?;
        }
        for (ranks, node) in &self.ended {
            writeln!(out, "{ranks} lost, previously on {}", printable(node))?;
        }
        for (ranks, node) in &self.started {
            writeln!(out, "{ranks} added on {}", printable(node))?;
        }
        Ok(())
    }

    fn json(&self) -> Json {
        let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
        let names = |names: &Names| names.iter().map(text).collect::<Vec<_>>();
        let range = |ranks: &str| ranks.rsplit(' ').next().unwrap_or_default().to_owned();
        let on = |ranks: &[(String, Vec<u8>)]| -> Vec<Json> {
            let each = ranks.iter();
            each.map(|(ranks, node)| json!({"ranks": range(ranks), "node": text(node)}))
                .collect()
        };
        let moved = self.moved.iter().map(
            |(ranks, from, to)| json!({"ranks": range(ranks), "from": text(from), "to": text(to)}),
        );
        json!({
            "same": self.lines() == 0,
            "nodes_added": names(&self.added),
            "nodes_lost": names(&self.lost),
            "moved": moved.collect::<Vec<_>>(),
            "ranks_lost": on(&self.ended),
            "ranks_added": on(&self.started),
        })
    }
}
