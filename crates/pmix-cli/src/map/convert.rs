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
use crate::failure::{Exit, Failure};
use crate::input::text_of;
use crate::session::Session;

/// What the range notation of every PMIx release is called.
const RANGES: &str = "pmix";

pub(super) fn run(session: &mut Session, args: &Convert) -> Result<Exit, Failure> {
    let map = read_map(session, &args.input)?;
    let mut text = Vec::new();
    match args.to {
        Target::Slurm => brackets(session, Notation::Slurm, &map, &mut text)?,
        Target::Clustershell => brackets(session, Notation::ClusterShell, &map, &mut text)?,
        Target::Pmix => text = ranges(&session.preg, &map)?,
        Target::List | Target::Json => {
            check(session, &map)?;
            let out = &mut session.out;
            match args.to {
                _ if session.json => write_object(out, &map)?,
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
    if session.json {
        let text = String::from_utf8_lossy(&text);
        session.out.json(&serde_json::json!({ "text": text }))?;
    } else {
        session.out.foreign(&text)?;
        session.out.write_all(b"\n")?;
    }
    Ok(Exit::Ok)
}

fn brackets(
    session: &Session,
    notation: Notation,
    map: &Map,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    match map {
        Map::Nodes(list) => {
            // A folded list may have to be written name by name.
            check(session, map)?;
            fold::nodes(list, notation, &session.preg, out)
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
        Map::Procs(map) => {
            let mut text = Vec::new();
            map.write_text(&mut text);
            (text, true)
        }
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
