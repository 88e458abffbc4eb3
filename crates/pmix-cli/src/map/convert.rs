// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map convert`, `pmix map encode` and `pmix map decode`.

use std::ffi::OsString;
use std::io::Write;

use super::answer::{self, Encoded};
use super::list::Map;
use super::notation::{encode_refusal, write_object};
use super::{hostfile, read_map, read_text, shape};
use crate::args::{Convert, Decode, DecodeOut, Encode, EncodeOut, FormArg, Target, Writer};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{
    Form, Source, decode_nodes, decode_procs, read_nodes, read_sources, tagged_values,
    warn_of_names_of_slurm,
};
use crate::octets;
use crate::output::Out;
use crate::style::{Progress, is_printable};

pub(super) fn run(context: &mut Context, args: &Convert) -> Result<Exit, Failure> {
    if args.to == Target::Hostfile && !args.input.procs {
        let sources = read_with_order(args.from, &args.input.words)?;
        hostfile::write(context, sources, &args.shape)?;
        return Ok(Exit::Ok);
    }
    let map = match args.from {
        Some(Writer::Slurm) => of_slurm(context, &args.input.words)?,
        Some(Writer::Clustershell) | None => read_map(context, &args.input)?,
    };
    shape::write(context, &map, args.to, &args.shape)?;
    Ok(Exit::Ok)
}

/// Reads lists in Slurm's notation and order. Rejects other input.
fn of_slurm(context: &Context, words: &[OsString]) -> Result<Map, Failure> {
    let sources = read_with_order(Some(Writer::Slurm), words)?;
    let list = read_nodes(&context.preg, sources)?.into_list(context.limits())?;
    Ok(list.into())
}

/// Reads sources, whose lists are in the order of this writer.
fn read_with_order(from: Option<Writer>, words: &[OsString]) -> Result<Vec<Source>, Failure> {
    let mut sources = read_sources(words)?;
    for source in &mut sources {
        if from == Some(Writer::Slurm) && source.form == Form::Map {
            warn_of_names_of_slurm(source);
            source.form = Form::Slurm(None);
        }
    }
    Ok(sources)
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
            map.write_list(out, None)?;
            out.write_all(b"\n")?;
        }
        DecodeOut::Json => {
            map.write_array(out)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(Exit::Ok)
}
