// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map convert`.

use std::ffi::OsString;
use std::io::Write;

use pmix_hostlist::Notation;
use pmix_map::NodeList;
use preg_core::{Preg, Status};

use super::answer;
use super::decode::{check, write_object};
use super::list::Map;
use super::read_map;
use crate::args::{Convert, FormArg, Target, Writer};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{
    Form, Segment, Source, read_nodes, read_sources, segments, text_of, text_of_procs,
};
use crate::printable::printable;

/// The name of the range notation of every PMIx release.
const RANGES: &str = "pmix";

pub(super) fn run(context: &mut Context, args: &Convert) -> Result<Exit, Failure> {
    let map = match args.from {
        Some(Writer::Slurm) => of_slurm(context, &args.input.words)?,
        Some(Writer::Clustershell) | None => read_map(context, &args.input)?,
    };
    write(context, &map, args.to)?;
    Ok(Exit::Ok)
}

/// Reads lists in Slurm's order, and nothing that is none.
fn of_slurm(context: &Context, words: &[OsString]) -> Result<Map, Failure> {
    let mut sources = read_sources(words)?;
    for source in &mut sources {
        if source.form == Form::Map {
            source.form = Form::Slurm(None);
        }
    }
    let list = read_nodes(&context.preg, sources)?.into_list(context.limits())?;
    Ok(list.into())
}

/// Writes a map in a format, with a line end.
pub(super) fn write(context: &mut Context, map: &Map, to: Target) -> Result<(), Failure> {
    if let Some(text) = text_in(context, map, to)? {
        if context.json {
            let text = String::from_utf8_lossy(&text);
            context.out.json(&serde_json::json!({ "text": text }))?;
        } else {
            context.out.foreign(&text)?;
            context.out.write_all(b"\n")?;
        }
        return Ok(());
    }
    let out = &mut context.out;
    match to {
        _ if context.json => write_object(out, map)?,
        Target::Json => {
            map.write_array(out)?;
            out.write_all(b"\n")?;
        }
        _ => {
            map.write_list(out)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Returns the text of a map, in a format that must be in memory as a whole.
fn text_in(context: &Context, map: &Map, to: Target) -> Result<Option<Vec<u8>>, Failure> {
    match to {
        Target::Slurm => brackets(context, Notation::Slurm, map).map(Some),
        Target::Clustershell => brackets(context, Notation::ClusterShell, map).map(Some),
        Target::Pmix => ranges(&context.preg, map).map(Some),
        Target::List | Target::Json => Ok(None),
    }
}

fn brackets(context: &Context, notation: Notation, map: &Map) -> Result<Vec<u8>, Failure> {
    match map {
        Map::Nodes(list) => {
            // A folded list may have to be written name by name.
            check(context, map)?;
            bracket_list(list, notation, &context.preg)
        }
        Map::Procs(map) => Ok(pmix_hostlist::write_procs(map)),
    }
}

/// Writes a list of names that this command reads back as one: a first name that it takes for something
/// else cannot be written.
fn bracket_list(list: &NodeList, notation: Notation, preg: &Preg) -> Result<Vec<u8>, Failure> {
    let out = match pmix_hostlist::write(list, notation) {
        Ok(out) => out,
        Err(error) => {
            let failure = error.name().map(unwritable);
            return Err(failure.unwrap_or_else(|| Failure::data(error.to_string())));
        }
    };
    let source = Source {
        origin: String::new(),
        bytes: out.clone(),
        comments: true,
        form: Form::Map,
    };
    let odd = matches!(out.first(), Some(b'@' | b'{')) || out == b"-";
    match segments(preg, source) {
        Ok(found) if !odd && matches!(found[..], [Segment::List(_)]) => Ok(out),
        _ => Err(unwritable(&list.nth(0).unwrap_or_default())),
    }
}

fn unwritable(name: &[u8]) -> Failure {
    let message = format!(
        "the name `{}` cannot be written in a bracket list",
        printable(name)
    );
    Failure::new(Exit::Negative, Status::ERR_NOT_SUPPORTED, message)
        .cure("use --to list, --to json or --to pmix")
}

/// Returns the range notation, or the framework's encoding if the scheme declines.
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

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_map::Limits;
    use pmix_mca::Params;

    #[test]
    fn names_that_do_not_round_trip_are_rejected() {
        let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
        let written = |names: &str| {
            let list = NodeList::parse_text(names.as_bytes(), &Limits::default()).unwrap();
            bracket_list(&list, Notation::Slurm, &preg)
        };
        for names in ["raw:a,b", "#a", "@a,b", "-", "n[1]", "a b", "pmix[a", "{"] {
            assert!(written(names).is_err(), "{names:?}");
        }
        assert_eq!(written("n1,n2,-").unwrap(), b"n[1-2],-");
        assert_eq!(written("").unwrap(), b"");
    }
}
