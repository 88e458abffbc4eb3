// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix wire`: packed data to JSON and back.

mod bytes;
mod explain;
mod jsonl;
mod message;

use std::ffi::OsStr;
use std::io::Write;

use bfrops::{BufferKind, Decoder, Encoder, Error, FieldTrace, Layout};
use pmix_types::json::{List, ListOf};
use pmix_types::{DataArray, DataType, Status};
use preg_core::Preg;
use serde::de::DeserializeSeed;

use crate::args::{CallType, Wire, WireCommand, WireDecode, WireEncode};
use crate::context::Context;
use crate::excerpt::Excerpt;
use crate::failure::{Exit, Failure};
use crate::input::{read_option, read_path};
use crate::octets;

pub(crate) use message::{Side, Trace};

/// Runs one of the commands.
pub(crate) fn run(context: &mut Context, args: &Wire) -> Result<Exit, Failure> {
    let direction = match &args.command {
        None => None,
        Some(WireCommand::Decode(_)) => Some(jsonl::Direction::Decode),
        Some(WireCommand::Encode(_)) => Some(jsonl::Direction::Encode),
    };
    match &args.command {
        _ if args.jsonl => jsonl::run(context, direction),
        Some(WireCommand::Decode(args)) => decode(context, args),
        Some(WireCommand::Encode(args)) => encode(context, args),
        None => Err(Failure::usage("missing command").cure("use decode, encode, or --jsonl")),
    }
}

/// Converts an error of bfrops, with its position.
fn failure(error: &bfrops::Error, origin: &str, bytes: &[u8]) -> Failure {
    let failure = Failure::new(Exit::Data, error.status(), error.message());
    match error.offset() {
        Some(offset) => failure.at(crate::excerpt::Excerpt::new(origin, bytes, offset)),
        None => failure,
    }
}

fn encode(context: &mut Context, args: &WireEncode) -> Result<Exit, Failure> {
    let Some(data_type) = args.data_type else {
        let cure = "for example --type PMIX_UINT32, or use --jsonl with a type in each request";
        return Err(Failure::usage("missing type of the data").cure(cure));
    };
    let source = match args.value.as_deref() {
        Some(word) => read_option("the JSON", word)?.remove(0),
        None => read_path(None::<&OsStr>)?,
    };
    let Ok(text) = std::str::from_utf8(&source.bytes) else {
        return Err(Failure::data(format!(
            "{} is not valid UTF-8",
            source.origin
        )));
    };
    let data = read_json(data_type, text).map_err(|error| {
        let failure = Failure::data(error.to_string()).cure("pmix-json(7) describes every type");
        match error.line() {
            0 => failure,
            _ => failure.at(place(&source.origin, text, &error)),
        }
    })?;
    let bytes = encode_call(&context.preg, args.peer.layout(), &data)
        .map_err(|error| failure(&error, &source.origin, b""))?;
    let out = &mut context.out;
    if context.json {
        writeln!(
            out,
            "{{\"len\":{},\"bytes_hex\":\"{}\"}}",
            bytes.len(),
            octets::hex(&bytes)
        )?;
    } else if !args.raw {
        writeln!(out, "{}", octets::hex(&bytes))?;
    } else if out.is_terminal() {
        let message = format!("the call is {} bytes of binary data", bytes.len());
        return Err(Failure::usage(message).cure("omit --raw, or redirect the output to a file"));
    } else {
        out.write_all(&bytes)?;
    }
    Ok(Exit::Ok)
}

/// Packs data in one call.
fn encode_call(
    preg: &Preg,
    layout: Layout,
    data: &DataArray<'_>,
) -> Result<Vec<u8>, bfrops::Error> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(layout, &mut bytes).with_framer(preg);
    encoder.array(data)?;
    Ok(bytes)
}

/// Returns the position of an error in the JSON.
fn place(origin: &str, text: &str, error: &serde_json::Error) -> Excerpt {
    let before = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1));
    let start: usize = before.map(str::len).sum();
    let offset = start.saturating_add(error.column().saturating_sub(1));
    Excerpt::new(origin, text.as_bytes(), offset.min(text.len()))
}

fn decode(context: &mut Context, args: &WireDecode) -> Result<Exit, Failure> {
    if args.message {
        return message::run(context, args);
    }
    let layout = args.peer.layout();
    if args.types.is_empty() && layout.buffer == BufferKind::NonDescribed {
        let cure =
            "use --type for each call in order, or --buffer described if the buffer has type codes";
        let message = "missing type of the data: a buffer of this kind has no type codes";
        return Err(Failure::usage(message).cure(cure));
    }
    let repeated = |t: &CallType| t.repeated;
    if (args.types.iter().rev().skip(1)).any(repeated) {
        return Err(Failure::usage("only the last --type can have `...`"));
    }
    let source = bytes::read(args)?;
    let mut decoder = Decoder::new(layout, &source.bytes)
        .with_limits(args.limits())
        .with_framer(&*context.preg);
    if args.explain {
        explain::check_len(&source.bytes)?;
        decoder = decoder.with_trace();
        let mut calls = Vec::new();
        let titled = |decoder: &Decoder<'_>, data_type: Option<DataType>| {
            let what = data_type.map(|t| format!(" of {t}")).unwrap_or_default();
            calls.push(explain::Title {
                offset: decoder.offset(),
                notes: decoder.trace().map_or(0, |notes| notes.as_slice().len()),
                text: format!("call {}{what}", calls.len() + 1),
            });
        };
        let result = read_all(&mut decoder, &args.types, titled, |_, _| Ok(()))?;
        let fault = result.err().map(|error| explain::Fault::from(&error));
        let notes = decoder
            .trace()
            .map(FieldTrace::as_slice)
            .unwrap_or_default();
        let report = explain::Report {
            title: title(&source.origin, source.bytes.len(), layout),
            head: vec![
                ("origin", source.origin.as_str().into()),
                ("len", source.bytes.len().into()),
                ("module", layout.module.name().into()),
            ],
            bytes: &source.bytes,
            calls: &calls,
            notes,
            fault: fault.as_ref(),
        };
        return explain::show(&mut context.out, context.style, context.json, &report);
    }
    let (out, as_object) = (&mut context.out, context.json);
    let result = read_all(
        &mut decoder,
        &args.types,
        |_, _| (),
        |offset, data| {
            let list = print_json(data).map_err(std::io::Error::from)?;
            if as_object {
                let count = data.len();
                write!(
                    out,
                    "{{\"offset\":{offset},\"type\":\"{}\",",
                    data.data_type()
                )?;
                write!(out, "\"count\":{count},\"value\":")?;
                out.json_text(&list)?;
                out.write_all(b"}\n")?;
            } else {
                out.json_text(&list)?;
                out.write_all(b"\n")?;
            }
            Ok(())
        },
    )?;
    if let Err(error) = result {
        // The decoded part is printed before the error.
        context.out.flush()?;
        let failure = failure(&error, &source.origin, &source.bytes);
        return Err(match error.status() {
            Status::ERR_OUT_OF_RESOURCE => failure.cure("use --memory to raise the memory limit"),
            _ => failure,
        });
    }
    Ok(Exit::Ok)
}

/// Unpacks all calls. Runs `begin` before each call and `each` after it. The outer error is that of
/// `each`, the inner one that of unpacking.
fn read_all<'a>(
    decoder: &mut Decoder<'a>,
    types: &[CallType],
    mut begin: impl FnMut(&Decoder<'a>, Option<DataType>),
    mut each: impl FnMut(usize, &DataArray<'a>) -> Result<(), Failure>,
) -> Result<Result<(), Error>, Failure> {
    let mut types = types.iter();
    let mut next = types.next();
    loop {
        let offset = decoder.offset();
        begin(decoder, next.map(|call| call.data_type));
        let data = match next {
            Some(call) => decoder.array(call.data_type),
            None => decoder.described(),
        };
        match data {
            Ok(data) => each(offset, &data)?,
            Err(error) => return Ok(Err(error)),
        }
        let goes_on = match next {
            Some(call) if !call.repeated => {
                next = types.next();
                next.is_some()
            }
            _ => !decoder.is_empty(),
        };
        if !goes_on {
            return Ok(decoder.finish());
        }
    }
}

fn title(origin: &str, len: usize, layout: Layout) -> String {
    let buffer = match layout.buffer {
        BufferKind::Described => "described",
        BufferKind::NonDescribed => "non-described",
    };
    format!("{origin}: {len} bytes, module {}, {buffer}", layout.module)
}

/// Prints the data of a call.
fn print_json(data: &DataArray<'_>) -> Result<String, serde_json::Error> {
    serde_json::to_string(&List(data))
}

/// Reads the data of a call. A single datum is read as a list of one.
fn read_json(data_type: DataType, json: &str) -> Result<DataArray<'static>, serde_json::Error> {
    // No single datum has the form of a JSON list, so the forms cannot be confused.
    let single = !matches!(json.trim_start().as_bytes().first(), Some(b'[') | None);
    let known = !matches!(DataArray::empty(data_type), DataArray::Untyped { .. });
    let list = match single && known {
        true => format!("[{json}\n]"),
        false => json.to_owned(),
    };
    let mut text = serde_json::Deserializer::from_str(&list);
    let data = ListOf::new(data_type)
        .named("value")
        .deserialize(&mut text)?;
    text.end()?;
    Ok(data)
}
