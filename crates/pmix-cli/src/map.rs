// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix map`.

mod answer;
mod batch;
mod convert;
mod diff;
mod draw;
mod explain;
mod groups;
mod hostfile;
mod list;
mod matrix;
mod notation;
mod pattern;
mod places;
mod sets;
mod shape;
mod svg;
mod verify;

use std::ffi::OsString;

use pmix_map::{NodeList, ProcMap};

use crate::args::{MapCommand, MapInput, Pair};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{read_job, read_nodes, read_option, read_procs, read_sources};
use crate::style::counted;
use list::Map;

/// Runs one of the commands.
pub(crate) fn run(context: &mut Context, command: MapCommand) -> Result<Exit, Failure> {
    match command {
        MapCommand::Encode(args) => convert::encode(context, &args),
        MapCommand::Decode(args) => convert::decode(context, &args),
        MapCommand::Convert(args) => convert::run(context, &args),
        MapCommand::Count(input) => places::count(context, &input),
        MapCommand::Nth(args) => places::nth(context, &args),
        MapCommand::Sort(lists) => sets::sort(context, &lists),
        MapCommand::Unique(lists) | MapCommand::Union(lists) => {
            sets::chosen(context, &lists, sets::Rule::Any)
        }
        MapCommand::Minus(lists) => sets::chosen(context, &lists, sets::Rule::FirstAlone),
        MapCommand::Intersection(lists) => sets::chosen(context, &lists, sets::Rule::All),
        MapCommand::Xor(lists) => sets::chosen(context, &lists, sets::Rule::Odd),
        MapCommand::Slice(args) => sets::slice(context, &args),
        MapCommand::Split(args) => sets::split(context, &args),
        MapCommand::Chop(args) => sets::chop(context, &args),
        MapCommand::Pick(args) => sets::pick(context, &args),
        MapCommand::Fold(lists) => sets::fold(context, &lists),
        MapCommand::Groups(args) => groups::list(context, &args),
        MapCommand::Regroup(args) => groups::regroup(context, &args),
        MapCommand::Position(args) => sets::position(context, &args),
        MapCommand::Diff(args) => diff::run(context, &args),
        MapCommand::Explain(args) => explain::run(context, &args),
        MapCommand::Size(input) => explain::run_size(context, &input),
        MapCommand::Verify(maps) => verify::run(context, &maps),
        MapCommand::Where(args) => places::ranks(context, &args),
        MapCommand::Who(args) => places::nodes(context, &args),
        MapCommand::Draw(args) => draw::run(context, &args),
        MapCommand::Batch => batch::run(context),
    }
}

/// Reads a node map or, with `--procs`, a process map, and returns it in folded form.
fn read_map(context: &Context, input: &MapInput) -> Result<Map, Failure> {
    let preg = &context.preg;
    if input.procs {
        let map = read_procs(preg, read_sources(&input.words)?)?.into_map(context.limits())?;
        return Ok(map.into());
    }
    let list = read_nodes(preg, read_sources(&input.words)?)?.into_list(context.limits())?;
    Ok(list.into())
}

/// Reads a list from each argument, or, without arguments, from standard input.
fn read_lists(context: &Context, words: &[OsString]) -> Result<Vec<NodeList>, Failure> {
    let (preg, limits) = (&context.preg, context.limits());
    if words.is_empty() {
        return Ok(vec![
            read_nodes(preg, read_sources(words)?)?.into_list(limits)?,
        ]);
    }
    if words.iter().filter(|word| *word == "-").count() > 1 {
        return Err(crate::input::twice());
    }
    let list = |(index, word): (usize, &OsString)| {
        let sources = read_option(&format!("list {}", index + 1), word)?;
        read_nodes(preg, sources)?.into_list(limits)
    };
    words.iter().enumerate().map(list).collect()
}

/// Reads a node map and its process map.
fn read_pair(context: &Context, maps: &Pair) -> Result<(NodeList, ProcMap), Failure> {
    let procs = maps.procs.as_deref();
    read_job(&context.preg, &maps.nodes, procs, &maps.layout)
}

/// Reads a node map and its process map, and checks that they have the same number of nodes.
fn paired(context: &Context, maps: &Pair) -> Result<(NodeList, ProcMap), Failure> {
    let (list, map) = read_pair(context, maps)?;
    check_pair(list, map)
}

/// Checks that two maps have the same number of nodes.
fn check_pair(list: NodeList, map: ProcMap) -> Result<(NodeList, ProcMap), Failure> {
    if list.len() == map.num_nodes() {
        return Ok((list, map));
    }
    let message = format!(
        "the node map has {}, the process map {}",
        counted(list.len() as u64, "node"),
        map.num_nodes()
    );
    Err(Failure::data(message).cure("`pmix map verify` lists the errors of two maps"))
}

/// Reads a map of either kind as text in the library's form.
fn read_text(context: &Context, input: &MapInput) -> Result<Vec<u8>, Failure> {
    let preg = &context.preg;
    if input.procs {
        return read_procs(preg, read_sources(&input.words)?)?.into_text(context.limits());
    }
    read_nodes(preg, read_sources(&input.words)?)?.into_text(context.limits())
}
