// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix map`.

mod answer;
mod batch;
mod convert;
mod count;
mod decode;
mod draw;
mod encode;
mod explain;
mod faults;
mod fold;
mod list;
mod matrix;
mod pattern;
mod places;
mod size;
mod svg;
mod verify;

use pmix_map::{NodeList, ProcMap};

use crate::args::{MapCommand, MapInput, Pair};
use crate::failure::{Exit, Failure};
use crate::input::{read_nodes, read_option, read_procs, read_sources};
use crate::session::Session;
use list::Map;

/// Runs one of the commands.
pub(crate) fn run(session: &mut Session, command: MapCommand) -> Result<Exit, Failure> {
    match command {
        MapCommand::Encode(args) => encode::run(session, &args),
        MapCommand::Decode(args) => decode::run(session, &args),
        MapCommand::Convert(args) => convert::run(session, &args),
        MapCommand::Count(input) => count::count(session, &input),
        MapCommand::Nth(args) => count::nth(session, &args),
        MapCommand::Explain(args) => explain::run(session, &args),
        MapCommand::Size(input) => size::run(session, &input),
        MapCommand::Verify(maps) => verify::run(session, &maps),
        MapCommand::Where(args) => places::ranks(session, &args),
        MapCommand::Who(args) => places::nodes(session, &args),
        MapCommand::Draw(args) => draw::run(session, &args),
        MapCommand::Batch => batch::run(session),
    }
}

/// Reads a map of either kind, folded.
fn read_map(session: &Session, input: &MapInput) -> Result<Map, Failure> {
    let preg = &session.preg;
    if input.procs {
        let map = read_procs(preg, read_sources(&input.words)?)?.into_map(session.limits())?;
        return Ok(map.into());
    }
    let list = read_nodes(preg, read_sources(&input.words)?)?.into_list(session.limits())?;
    Ok(list.into())
}

/// Reads two maps that belong together.
fn read_pair(session: &Session, maps: &Pair) -> Result<(NodeList, ProcMap), Failure> {
    if maps.nodes == "-" && maps.procs == "-" {
        return Err(Failure::usage("standard input can be read only once"));
    }
    let (preg, limits) = (&session.preg, session.limits());
    let list = read_nodes(preg, read_option("--nodes", &maps.nodes)?)?.into_list(limits)?;
    let map = read_procs(preg, read_option("--procs", &maps.procs)?)?.into_map(limits)?;
    Ok((list, map))
}

/// Reads a map of either kind as the library's text.
fn read_text(session: &Session, input: &MapInput) -> Result<Vec<u8>, Failure> {
    let preg = &session.preg;
    if input.procs {
        return read_procs(preg, read_sources(&input.words)?)?.into_text(session.limits());
    }
    read_nodes(preg, read_sources(&input.words)?)?.into_text(session.limits())
}
