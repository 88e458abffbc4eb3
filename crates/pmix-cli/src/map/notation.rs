// SPDX-License-Identifier: MIT OR Apache-2.0
//! The notations in which a map is written: bracket lists, the range notation, and JSON.

use std::io::Write;

use pmix_hostlist::Notation;
use pmix_map::NodeList;
use preg_core::{Error, Preg, Status};

use super::list::Map;
use super::{answer, hostfile};
use crate::args::{FormArg, Target};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{Form, Segment, Source, segments, text_of, text_of_procs};
use crate::style::printable;

/// The name of the range notation of every PMIx release.
const RANGES: &str = "pmix";

/// Returns the text of a map for a format that needs the whole text in memory, or `None` for other
/// formats.
pub(super) fn text_in(
    context: &Context,
    map: &Map,
    to: Target,
) -> Result<Option<Vec<u8>>, Failure> {
    match to {
        Target::Slurm => brackets(context, Notation::Slurm, map).map(Some),
        Target::Clustershell => brackets(context, Notation::ClusterShell, map).map(Some),
        Target::Pmix => ranges(&context.preg, map).map(Some),
        Target::Hostfile => hostfile::text(map).map(Some),
        Target::List | Target::Json | Target::Lines => Ok(None),
    }
}

fn brackets(context: &Context, notation: Notation, map: &Map) -> Result<Vec<u8>, Failure> {
    match map {
        Map::Nodes(list) => {
            // In the worst case, a folded list is written name by name.
            check(context, map)?;
            bracket_list(list, notation, &context.preg)
        }
        Map::Procs(map) => Ok(pmix_hostlist::write_procs(map)),
    }
}

/// Writes a bracket list that this command can read again. Rejects a first name that it would
/// mistake for another form.
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
        .map_err(|e| encode_refusal(&e, &text))
}

/// Converts an error of encoding. If the scheme declines, the result is negative. An invalid list
/// is a data error.
pub(super) fn encode_refusal(error: &Error, list: &[u8]) -> Failure {
    match error.status() {
        Status::ERR_TAKE_NEXT_OPTION => {
            let cure =
                "`pmix map size` shows the schemes that can encode it; --scheme auto selects one";
            Failure::new(Exit::Negative, error.status(), error.to_string()).cure(cure)
        }
        Status::ERR_NOT_FOUND => Failure::new(Exit::Usage, error.status(), error.to_string()),
        Status::ERR_NOT_SUPPORTED if error.offset().is_none() => {
            Failure::new(Exit::Negative, error.status(), error.to_string())
                .cure("`pmix plugins list` shows the active components")
        }
        _ => Failure::of(error, "the list", list),
    }
}

/// Checks that the printed list does not exceed the limits.
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

#[cfg(test)]
mod tests {
    use pmix_map::Limits;
    use pmix_mca::Params;

    use super::*;

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
