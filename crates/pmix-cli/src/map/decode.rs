// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map decode`.

use std::io::Write;

use super::list::Map;
use super::read_map;
use crate::args::{Decode, DecodeOut};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{decode_nodes, decode_procs, read_sources, tagged_values};

pub(super) fn run(context: &mut Context, args: &Decode) -> Result<Exit, Failure> {
    let map = match &args.kind {
        None => read_map(context, &args.input)?,
        Some(kind) => {
            let values = tagged_values(kind, read_sources(&args.input.words)?)?;
            let limits = context.limits();
            if args.input.procs {
                decode_procs(&context.preg, &values)?
                    .into_map(limits)?
                    .into()
            } else {
                decode_nodes(&context.preg, &values)?
                    .into_list(limits)?
                    .into()
            }
        }
    };
    // The output is written piece by piece, so its length is not limited by memory.
    let out = &mut context.out;
    match args.out {
        _ if context.json => write_object(out, &map)?,
        DecodeOut::Lines => map.write_lines(out)?,
        DecodeOut::List => {
            map.write_list(out)?;
            out.write_all(b"\n")?;
        }
        DecodeOut::Json => {
            map.write_array(out)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(Exit::Ok)
}

/// Refuses to print a list that exceeds the limits.
pub(super) fn check(context: &Context, map: &Map) -> Result<(), Failure> {
    map.check(context.limits())
        .map_err(|e| Failure::of(&e, "the list", b""))
}

/// Writes `{"procs":…,"count":…,"list":[…]}`.
pub(super) fn write_object(out: &mut impl Write, map: &Map) -> Result<(), Failure> {
    let procs = matches!(map, Map::Procs(_));
    write!(out, "{{\"procs\":{procs},\"count\":{},", map.len())?;
    map.write_members(out)?;
    out.write_all(b"}\n")?;
    Ok(())
}
