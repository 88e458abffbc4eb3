// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix map`.

mod answer;
mod batch;
mod convert;
mod count;
mod decode;
mod encode;
mod fold;
mod list;

use crate::args::{MapCommand, MapInput};
use crate::failure::{Exit, Failure};
use crate::input::{read_nodes, read_procs};
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
        MapCommand::Batch => batch::run(session),
    }
}

/// Reads a map of either kind, folded.
fn read_map(session: &Session, input: &MapInput) -> Result<Map, Failure> {
    let preg = &session.preg;
    if input.procs {
        let map = read_procs(preg, &input.words)?.into_map(session.limits())?;
        return Ok(Map::Procs(map));
    }
    let list = read_nodes(preg, &input.words)?.into_list(session.limits())?;
    Ok(Map::Nodes(list))
}

/// Reads a map of either kind as the library's text.
fn read_text(session: &Session, input: &MapInput) -> Result<Vec<u8>, Failure> {
    let preg = &session.preg;
    if input.procs {
        return read_procs(preg, &input.words)?.into_text(session.limits());
    }
    read_nodes(preg, &input.words)?.into_text(session.limits())
}
