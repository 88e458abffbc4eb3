// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map convert`, `pmix map encode` and `pmix map decode`.

use std::ffi::OsString;
use std::io::Write;

use pmix_hostlist::Notation;
use pmix_map::NodeList;
use preg_core::{Error, Preg, Status};

use super::answer::{self, Encoded};
use super::list::Map;
use super::{read_map, read_text};
use crate::args::{Convert, Decode, DecodeOut, Encode, EncodeOut, FormArg, Target, Writer};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{
    Form, Segment, Source, decode_nodes, decode_procs, read_nodes, read_sources, segments,
    tagged_values, text_of, text_of_procs,
};
use crate::octets;
use crate::output::Out;
use crate::style::{Progress, is_printable, printable};

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

/// Reads lists in Slurm's notation and order. Rejects other input.
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

/// Writes a map in a format, with a final newline.
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

/// Returns the text of a map for a format that needs the whole text in memory, or `None` for other
/// formats.
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

pub(super) fn encode(context: &mut Context, args: &Encode) -> Result<Exit, Failure> {
    let text = read_text(context, &args.input)?;
    let progress = Progress::start("encoding");
    let value = answer::encode(
        &context.preg,
        &args.scheme,
        args.form,
        args.input.procs,
        &text,
    )
    .map_err(|e| encode_refusal(&e, &text))?;
    drop(progress);
    tracing::info!(
        "encoded a list of {} bytes as {} bytes with {}",
        text.len(),
        value.bytes.len(),
        value.kind
    );
    let out = if context.json {
        EncodeOut::Json
    } else {
        args.out
    };
    print_encoded(&mut context.out, &value, out)?;
    Ok(Exit::Ok)
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

fn print_encoded(out: &mut Out, value: &Encoded, how: EncodeOut) -> Result<(), Failure> {
    match how {
        EncodeOut::Hex => writeln!(out, "{}", octets::hex(&value.bytes))?,
        EncodeOut::Base64 => writeln!(out, "{}", octets::base64(&value.bytes))?,
        EncodeOut::Json => {
            let form = match value.form {
                FormArg::String => "string",
                FormArg::Regex2 => "regex2",
            };
            write!(out, "{{\"form\":\"{form}\",")?;
            write_members(out, value)?;
            writeln!(out, "}}")?;
        }
        EncodeOut::Text => return print_text(out, &value.bytes),
    }
    Ok(())
}

/// Writes `"type":…,"len":…,"bytes_hex":…`.
pub(super) fn write_members(out: &mut impl Write, value: &Encoded) -> std::io::Result<()> {
    out.write_all(b"\"type\":")?;
    crate::output::json_string(value.kind.as_bytes(), out)?;
    write!(out, ",\"len\":{},\"bytes_hex\":\"", value.bytes.len())?;
    let mut digits = String::new();
    for chunk in value.bytes.chunks(1 << 15) {
        digits.clear();
        octets::push_hex(chunk, &mut digits);
        out.write_all(digits.as_bytes())?;
    }
    out.write_all(b"\"")
}

/// Prints the bytes unchanged, with a newline after text.
fn print_text(out: &mut Out, bytes: &[u8]) -> Result<(), Failure> {
    let is_text = !bytes.iter().any(u8::is_ascii_control);
    if out.is_terminal() && !is_printable(bytes) {
        let message = format!("the value is {} bytes of binary data", bytes.len());
        return Err(Failure::usage(message)
            .cure("use --out hex, or redirect the output to a file or a pipe"));
    }
    out.write_all(bytes)?;
    if is_text {
        out.write_all(b"\n")?;
    }
    Ok(())
}

pub(super) fn decode(context: &mut Context, args: &Decode) -> Result<Exit, Failure> {
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
    // The output is written element by element, so its length is not limited by memory.
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
