// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map where` and `pmix map who`: from ranks to nodes and back; `pmix map count` and `pmix map nth`.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use pmix_map::NodeList;
use preg_core::Status;
use serde_json::json;

use super::list::Map;
use super::{paired, read_map};
use crate::args::{MapInput, Nth, Where, Who};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{Form, Source, procs_of_text, read_nodes, read_sources};
use crate::octets;
use crate::style::size;

/// The number of names up to which repeated names are searched. A longer list stays folded.
const MOST_COMPARED: usize = 1 << 16;

/// Warns if names are repeated, because nodeset counts each name once, and scontrol counts repetitions.
fn warn_of_repetition(list: &NodeList) {
    if list.len() > MOST_COMPARED {
        return;
    }
    let different = list.iter().collect::<HashSet<_>>().len();
    if different < list.len() {
        tracing::warn!(
            "{} names, of which {different} are different; `pmix map fold LIST | pmix map count` counts each name once",
            list.len()
        );
    }
}

/// Runs `where RANK...`: prints one line per rank.
pub(super) fn ranks(context: &mut Context, args: &Where) -> Result<Exit, Failure> {
    let (list, map) = paired(context, &args.maps)?;
    let asked = procs_of_text(Source {
        origin: "the ranks".to_owned(),
        bytes: args.ranks.join(",").into_bytes(),
        comments: false,
        form: Form::Map,
    })
    .into_map(context.limits())
    .map_err(|f| f.misuse("a rank is a number or a range: 3, 8-15"))?;
    let (mut answers, mut absent) = (Vec::new(), Vec::new());
    for rank in (0..asked.num_nodes()).flat_map(|n| asked.ranks_of(n).into_iter().flatten()) {
        let found = map.node_of(rank);
        let name = found.and_then(|node| list.nth(node));
        if context.json {
            let name = name.map(|n| String::from_utf8_lossy(&n).into_owned());
            answers.push(json!({ "rank": rank.as_raw(), "node": found, "name": name }));
        } else if let Some(name) = name {
            write!(context.out, "{rank}\t")?;
            context.out.foreign(&name)?;
            context.out.write_all(b"\n")?;
        }
        if found.is_none() {
            absent.push(rank.to_string());
        }
    }
    if context.json {
        context.out.json(&json!({ "ranks": answers }))?;
    }
    finish(context, &absent, "rank", "is on no node")
}

/// Returns the places of each asked name in a list, in ascending order.
pub(super) fn places_of(asked: &NodeList, list: &NodeList) -> HashMap<Vec<u8>, Vec<usize>> {
    let mut places: HashMap<_, Vec<_>> = HashMap::new();
    asked.for_each(|name| {
        places.entry(name.to_vec()).or_default();
    });
    let mut index = 0;
    list.for_each(|name| {
        if let Some(found) = places.get_mut(name) {
            found.push(index);
        }
        index += 1;
    });
    places
}

/// Runs `who NODE...`: prints one line for each node with a name.
pub(super) fn nodes(context: &mut Context, args: &Who) -> Result<Exit, Failure> {
    let (list, map) = paired(context, &args.maps)?;
    let asked =
        read_nodes(&context.preg, read_sources(&args.names)?)?.into_list(context.limits())?;
    let places = places_of(&asked, &list);
    let (mut answers, mut absent) = (Vec::new(), Vec::new());
    for name in asked.iter() {
        let shown = String::from_utf8_lossy(&name).into_owned();
        let found = places.get(&name).map_or(&[][..], Vec::as_slice);
        for node in found {
            let ranks = pmix_hostlist::write_ranks(&map, *node);
            if context.json {
                let ranks = String::from_utf8_lossy(&ranks);
                answers.push(json!({ "name": shown, "node": node, "ranks": ranks }));
                continue;
            }
            context.out.foreign(&name)?;
            context.out.write_all(b"\t")?;
            context.out.write_all(&ranks)?;
            context.out.write_all(b"\n")?;
        }
        if found.is_empty() {
            answers.push(json!({ "name": shown, "node": null, "ranks": null }));
            absent.push(shown);
        }
    }
    if context.json {
        context.out.json(&json!({ "nodes": answers }))?;
    }
    finish(context, &absent, "node", "is not in the node map")
}

/// Returns a negative answer with the names that were not found.
fn finish(
    context: &mut Context,
    absent: &[String],
    what: &str,
    why: &str,
) -> Result<Exit, Failure> {
    context.out.flush()?;
    match absent {
        [] => Ok(Exit::Ok),
        [one] => {
            let message = format!("{what} {one} {why}");
            Err(Failure::answer(Status::ERR_NOT_FOUND, message).cure(SHOWN))
        }
        [first, rest @ ..] => {
            let message = format!("{what} {first} and {} more: {why}", rest.len());
            Err(Failure::answer(Status::ERR_NOT_FOUND, message).cure(SHOWN))
        }
    }
}

/// The advice about ranks and nodes that are not in the maps.
const SHOWN: &str = "`pmix map draw` with the same maps shows all ranks and nodes";

pub(super) fn count(context: &mut Context, input: &MapInput) -> Result<Exit, Failure> {
    let map = read_map(context, input)?;
    if let Map::Nodes(list) = &map {
        warn_of_repetition(list);
    }
    let out = &mut context.out;
    match (&map, context.json) {
        (Map::Nodes(list), true) => out.json(&json!({ "count": list.len() }))?,
        (Map::Nodes(list), false) => writeln!(out, "{}", list.len())?,
        (Map::Procs(map), true) => {
            out.json(&json!({ "count": map.num_nodes(), "ranks": map.num_ranks() }))?;
        }
        (Map::Procs(map), false) => {
            writeln!(out, "{}", size(map.num_nodes(), map.num_ranks()))?;
        }
    }
    Ok(Exit::Ok)
}

pub(super) fn nth(context: &mut Context, args: &Nth) -> Result<Exit, Failure> {
    let map = read_map(context, &args.input)?;
    let element = place(args.index, map.len()).and_then(|index| match &map {
        Map::Nodes(list) => list.nth(index),
        Map::Procs(map) => {
            let mut text = Vec::new();
            map.write_node(index, &mut text);
            Some(text)
        }
    });
    let out = &mut context.out;
    let Some(element) = element else {
        let message = format!("no element {}: the list has {}", args.index, map.len());
        if context.json {
            out.json(&json!({ "index": args.index, "name": null, "count": map.len() }))?;
        }
        out.flush()?;
        let status = preg_core::Status::ERR_NOT_FOUND;
        return Err(Failure::answer(status, message));
    };
    if context.json {
        let name = String::from_utf8_lossy(&element);
        let mut answer = json!({ "index": args.index, "name": name, "count": map.len() });
        if name.as_bytes() != element {
            answer["name_hex"] = octets::hex(&element).into();
        }
        out.json(&answer)?;
    } else {
        out.foreign(&element)?;
        out.write_all(b"\n")?;
    }
    Ok(Exit::Ok)
}

/// Returns the index from the front, for an index from the end if it is negative.
fn place(index: i64, len: usize) -> Option<usize> {
    let place = match usize::try_from(index) {
        Ok(place) => place,
        Err(_) => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (place < len).then_some(place)
}
