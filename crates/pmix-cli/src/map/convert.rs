// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map convert`.

use std::io::Write;

use preg_core::{Preg, Status};

use super::answer;
use super::decode::{check, write_object};
use super::fold::{self, Notation};
use super::list::Map;
use super::read_map;
use crate::args::{Convert, FormArg, Target};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{text_of, text_of_procs};

/// What the range notation of every PMIx release is called.
const RANGES: &str = "pmix";

pub(super) fn run(context: &mut Context, args: &Convert) -> Result<Exit, Failure> {
    let map = read_map(context, &args.input)?;
    let mut text = Vec::new();
    match args.to {
        Target::Slurm => brackets(context, Notation::Slurm, &map, &mut text)?,
        Target::Clustershell => brackets(context, Notation::ClusterShell, &map, &mut text)?,
        Target::Pmix => text = ranges(&context.preg, &map)?,
        Target::List | Target::Json => {
            let out = &mut context.out;
            match args.to {
                _ if context.json => write_object(out, &map)?,
                Target::Json => {
                    map.write_array(out)?;
                    out.write_all(b"\n")?;
                }
                _ => {
                    map.write_list(out)?;
                    out.write_all(b"\n")?;
                }
            }
            return Ok(Exit::Ok);
        }
    }
    if context.json {
        let text = String::from_utf8_lossy(&text);
        context.out.json(&serde_json::json!({ "text": text }))?;
    } else {
        context.out.foreign(&text)?;
        context.out.write_all(b"\n")?;
    }
    Ok(Exit::Ok)
}

fn brackets(
    context: &Context,
    notation: Notation,
    map: &Map,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    match map {
        Map::Nodes(list) => {
            // A folded list may have to be written name by name.
            check(context, map)?;
            fold::nodes(list, notation, &context.preg, out)
        }
        Map::Procs(map) => {
            fold::procs(map, out);
            Ok(())
        }
    }
}

/// The range notation; where its scheme declines, what the framework would ship.
fn ranges(preg: &Preg, map: &Map) -> Result<Vec<u8>, Failure> {
    let (text, procs) = match map {
        Map::Nodes(list) => (text_of(list, preg.limits())?, false),
        Map::Procs(map) => (text_of_procs(map, preg.limits())?, true),
    };
    let scheme = preg.modules().iter().find(|m| m.scheme.framing() == RANGES);
    let own = scheme.map(|m| answer::encode_by(&*m.scheme, FormArg::String, procs, &text));
    let value = match own {
        Some(Err(e)) if e.status() != Status::ERR_TAKE_NEXT_OPTION => Err(e),
        Some(Ok(value)) => Ok(value),
        _ => answer::encode(preg, answer::AUTO, FormArg::String, procs, &text),
    };
    value
        .map(|v| v.bytes)
        .map_err(|e| super::encode::refusal(&e, &text))
}
