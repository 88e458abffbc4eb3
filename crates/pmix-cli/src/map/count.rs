// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map count` and `pmix map nth`: answered from the folded map.

use std::io::Write;

use serde_json::json;

use super::list::Map;
use super::read_map;
use crate::args::{MapInput, Nth};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::octets;
use crate::words::size;

pub(super) fn count(context: &mut Context, input: &MapInput) -> Result<Exit, Failure> {
    let map = read_map(context, input)?;
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
