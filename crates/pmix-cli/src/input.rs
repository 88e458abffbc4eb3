// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading of maps from arguments, files and standard input, in any form.
//!
//! Each argument becomes a [`source::Source`], which is split into encoded values and list text
//! ([`detect`]). List text is expanded into names ([`nodes`], by `pmix-hostlist`) or ranks
//! ([`procs`]). A map that is only passed on as text is not parsed, and a folded map is not
//! expanded.

mod detect;
mod expression;
mod groups;
mod nodes;
mod procs;
mod source;

use std::ffi::OsStr;

use pmix_hostlist::{Layout, Slots, lay_out};
use pmix_map::{NodeList, ProcMap};
use preg_core::Preg;

use crate::args::LayoutArgs;
use crate::failure::Failure;
use source::of_list;

pub(crate) use detect::{Segment, Value, segments, tagged_values};
pub(crate) use expression::Expressions;
pub(crate) use nodes::{
    allocation, decode_nodes, of_text as nodes_of_text, read_nodes, read_slots, text_of,
    warn_of_names_of_slurm,
};
pub(crate) use procs::{decode_procs, of_text as procs_of_text, read_procs, text_of_procs};
pub(crate) use source::{
    Form, Source, answer_lines, longest_line, read as read_sources, read_option, read_path, twice,
};

/// Reads the node map of a job, and its process map: `procs`, or the map that follows from `--ppn`
/// or from the slots of the nodes.
pub(crate) fn read_job(
    preg: &Preg,
    nodes: &OsStr,
    procs: Option<&OsStr>,
    args: &LayoutArgs,
) -> Result<(NodeList, ProcMap), Failure> {
    let limits = preg.limits();
    let mut sources = read_option("--nodes", nodes)?;
    if let Some(procs) = procs {
        if nodes == "-" && procs == "-" {
            return Err(twice());
        }
        let list = read_nodes(preg, sources)?.into_list(limits)?;
        let map = read_procs(preg, read_option("--procs", procs)?)?.into_map(limits)?;
        return Ok((list, map));
    }
    let Some(source) = sources.pop() else {
        return Ok(Default::default());
    };
    let (list, known) = read_slots(preg, source)?;
    let map = laid_out(preg, &list, known, args)?;
    Ok((list, map))
}

fn laid_out(
    preg: &Preg,
    list: &NodeList,
    known: Option<Slots>,
    args: &LayoutArgs,
) -> Result<ProcMap, Failure> {
    let num_nodes = list.len() as u64;
    let slots = match &args.ppn {
        Some(text) => ppn(text, num_nodes)?,
        None => known.ok_or_else(|| {
            Failure::usage("the ranks on the nodes are not given").cure(
                "use --procs, or --ppn with the number of ranks per node; hostfile:FILE, slurm:, pbs:, lsf: \
                and flux:FILE contain it",
            )
        })?,
    };
    let layout = args.layout.map_or(Layout::Block, |layout| layout.0);
    let source = source_of("--ppn", args.ppn.as_deref().unwrap_or_default());
    lay_out(&slots, layout, preg.limits()).map_err(|error| of_list(&error, &source))
}

/// Parses the number of ranks per node: one number for all nodes, or a list with a number for each.
fn ppn(text: &str, num_nodes: u64) -> Result<Slots, Failure> {
    if let Ok(number) = text.parse() {
        return Ok(Slots::uniform(number, num_nodes));
    }
    let source = source_of("--ppn", text);
    let misuse = |failure: Failure| failure.misuse("for example --ppn 16, or --ppn '2(x3),1'");
    let slots = Slots::parse(text.as_bytes()).map_err(|error| misuse(of_list(&error, &source)))?;
    if slots.num_nodes() != num_nodes {
        let counted = slots.num_nodes();
        let message = format!("--ppn describes {counted} nodes, but the node map has {num_nodes}");
        return Err(
            Failure::usage(message).cure("give one number for all nodes, or one for each node")
        );
    }
    Ok(slots)
}

fn source_of(origin: &str, text: &str) -> Source {
    Source {
        origin: origin.to_owned(),
        bytes: text.as_bytes().to_vec(),
        comments: false,
        form: Form::Map,
    }
}
