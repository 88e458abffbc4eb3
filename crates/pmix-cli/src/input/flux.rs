// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes and cores of a Flux job, from its resource set R.
//!
//! Source: Flux RFC 20 (resource set, version 1), RFC 22 (sets of numbers) and RFC 29 (lists of hosts). The
//! hosts of `nodelist` belong to the ranks in ascending order, whatever their order in `R_lite`.

use pmix_hostlist::{Allocation, Slots};
use pmix_map::Limits;
use serde::Deserialize;

use super::source::{Source, of_limits, of_list};
use crate::excerpt::Excerpt;
use crate::failure::Failure;

/// A resource set, as far as it says which nodes and cores a job has.
#[derive(Deserialize)]
struct ResourceSet {
    version: u32,
    execution: Execution,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(rename = "R_lite")]
    entries: Vec<Entry>,
    nodelist: Vec<String>,
}

/// The resources of some brokers of the instance, each of which is a node.
#[derive(Deserialize)]
struct Entry {
    rank: String,
    children: Children,
}

#[derive(Deserialize)]
struct Children {
    core: String,
}

/// Reads a resource set: its nodes in the order of their ranks, with a slot for each core.
pub(super) fn read(source: &Source, limits: &Limits) -> Result<Allocation, Failure> {
    let text = &source.bytes;
    let set: ResourceSet = serde_json::from_slice(text).map_err(|error| {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let before: usize = lines
            .take(error.line().saturating_sub(1))
            .map(<[u8]>::len)
            .sum();
        let at = (before + error.column().saturating_sub(1)).min(text.len());
        Failure::data(format!("not a Flux resource set: {error}"))
            .at(Excerpt::new(&source.origin, text, at))
            .cure("`flux job info JOBID R` and `flux kvs get resource.R` print one")
    })?;
    let Execution { entries, nodelist } = set.execution;
    let fault = |why: String| {
        let origin = &source.origin;
        Failure::data(format!("the resource set in {origin} {why}"))
    };
    if set.version != 1 {
        let version = set.version;
        return Err(fault(format!(
            "has version {version}; only version 1 is supported"
        )));
    }
    let mut runs = Vec::new();
    for entry in &entries {
        let cores = numbers(&entry.children.core);
        let cores = cores.map(|runs| runs.iter().map(|(first, last)| last - first + 1).sum());
        let cores: u64 = cores.ok_or_else(|| fault(no_set(&entry.children.core)))?;
        let slots = u32::try_from(cores).map_err(|_| fault(no_set(&entry.children.core)))?;
        let ranks = numbers(&entry.rank).ok_or_else(|| fault(no_set(&entry.rank)))?;
        runs.extend(ranks.into_iter().map(|(first, last)| (first, last, slots)));
    }
    runs.sort_unstable();
    if let Some(pair) = runs.windows(2).find(|pair| pair[0].1 >= pair[1].0) {
        return Err(fault(format!("has rank {} twice", pair[1].0)));
    }
    let nodelist = Source {
        origin: format!("nodelist in {}", source.origin),
        bytes: nodelist.join(",").into_bytes(),
        ..source.clone()
    };
    limits.check_text(nodelist.bytes.len()).map_err(of_limits)?;
    let nodes = pmix_hostlist::parse(&nodelist.bytes, limits);
    let nodes = nodes.map_err(|error| of_list(&error, &nodelist))?;
    let slots: Slots = (runs.iter())
        .map(|(first, last, slots)| (*slots, last - first + 1))
        .collect();
    if slots.num_nodes() != nodes.len() as u64 {
        let (hosts, ranks) = (nodes.len(), slots.num_nodes());
        return Err(fault(format!("names {hosts} hosts for {ranks} ranks")));
    }
    Ok(Allocation {
        nodes,
        slots: Some(slots),
    })
}

fn no_set(text: &str) -> String {
    format!("has {text:?}, expected numbers and ranges like 0-3,8")
}

/// Parses a set of numbers, `0-3,8` or `[0-3,8]`, into ranges with both ends included. Returns `None` for
/// other text, and for numbers that are not in ascending order.
fn numbers(text: &str) -> Option<Vec<(u64, u64)>> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for range in inner.unwrap_or(text).split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
        let (first, last) = (number(first)?, number(last)?);
        if first > last || runs.last().is_some_and(|(_, before)| *before >= first) {
            return None;
        }
        runs.push((first, last));
    }
    Some(runs)
}
