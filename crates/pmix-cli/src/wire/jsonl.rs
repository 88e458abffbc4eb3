// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--jsonl`: one request per line, one reply per line, in order.
//!
//! Other languages and conformance tests pack and unpack through this command. An invalid line also
//! has a reply, with `status` and `error`, and the next line is read.

use std::borrow::Cow;
use std::io::{self, Write};

use bfrops::{Decoder, Layout, Limits};
use clap::ValueEnum;
use pmix_types::{DataArray, DataType, Status};
use preg_core::Preg;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::args::{self, BufferArg, PsquashArg};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{answer_lines, longest_line};
use crate::octets;
use crate::output::{Out, json_string};

/// The memory in bytes for each datum that the request counts. The largest structures take as much.
const ROOM: usize = 256;

/// The direction of a request that permits both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// `bytes_hex` to `value`.
    Decode,
    /// `value` to `bytes_hex`.
    Encode,
}

/// A request. Records of the test vectors are requests, too, so unknown members are ignored.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    module: Option<Cow<'a, str>>,
    #[serde(borrow)]
    buffer: Option<Cow<'a, str>>,
    #[serde(borrow)]
    psquash: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    data_type: Option<TypeName<'a>>,
    /// The number of the type, used if the name is unknown, as in the test vectors.
    type_id: Option<u16>,
    count: Option<u64>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    bytes_hex: Option<Cow<'a, str>>,
}

/// A type by name or number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "the name or number of a type")]
enum TypeName<'a> {
    Number(u16),
    Name(#[serde(borrow)] Cow<'a, str>),
}

/// The id of a request, which the reply has even if the rest of the request is invalid.
#[derive(Deserialize)]
struct OnlyId<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// The reason for which a request failed.
struct Refusal {
    status: Status,
    message: String,
}

impl From<bfrops::Error> for Refusal {
    fn from(error: bfrops::Error) -> Self {
        Self {
            status: error.status(),
            message: error.to_string(),
        }
    }
}

enum Answer {
    Bytes(Vec<u8>),
    Value(String),
}

pub(super) fn run(context: &mut Context, direction: Option<Direction>) -> Result<Exit, Failure> {
    let (preg, out) = (&context.preg, &mut context.out);
    let longest = longest_line(preg.limits());
    answer_lines(out, longest, |line, out| match line {
        Some(line) => respond(preg, direction, line, out),
        None => write_refusal(
            out,
            None,
            &bad(format!("the line is longer than {longest} bytes")),
        ),
    })?;
    Ok(Exit::Ok)
}

/// Handles one request, and writes the reply.
fn respond(
    preg: &Preg,
    direction: Option<Direction>,
    line: &[u8],
    out: &mut Out,
) -> io::Result<()> {
    // serde would accept an array as the members in order.
    if line.trim_ascii_start().first() != Some(&b'{') {
        let refusal = bad("not a request: expected an object, {\"type\":…}");
        return write_refusal(out, None, &refusal);
    }
    let request: Request<'_> = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(fault) => {
            let only = serde_json::from_slice(line).ok();
            let id = only.and_then(|only: OnlyId<'_>| only.id);
            return write_refusal(out, id, &bad(format!("not a valid request: {fault}")));
        }
    };
    match answer(preg, direction, &request) {
        Ok(Answer::Bytes(bytes)) => {
            write_head(out, request.id, Status::SUCCESS)?;
            let mut digits = String::new();
            octets::push_hex(&bytes, &mut digits);
            out.write_all(b"\"bytes_hex\":\"")?;
            out.write_all(digits.as_bytes())?;
            out.write_all(b"\"}\n")
        }
        Ok(Answer::Value(list)) => {
            write_head(out, request.id, Status::SUCCESS)?;
            out.write_all(b"\"value\":")?;
            out.json_text(&list)?;
            out.write_all(b"}\n")
        }
        Err(refusal) => write_refusal(out, request.id, &refusal),
    }
}

fn answer(
    preg: &Preg,
    direction: Option<Direction>,
    request: &Request<'_>,
) -> Result<Answer, Refusal> {
    let layout = layout_of(request)?;
    let asked = match (direction, request.value, &request.bytes_hex) {
        (Some(Direction::Decode), _, Some(digits)) | (_, None, Some(digits)) => {
            return unpack(preg, layout, request, digits).map(Answer::Value);
        }
        (Some(Direction::Encode), Some(value), _) | (_, Some(value), None) => Some(value),
        // `null` counts as a missing member: records without a value have it.
        (Some(Direction::Encode), None, _) | (_, None, None) => None,
        (None, Some(_), Some(_)) => {
            return Err(bad(
                "give \"value\" or \"bytes_hex\", or use `pmix wire encode` or `pmix wire decode`",
            ));
        }
    };
    pack(preg, layout, request, asked).map(Answer::Bytes)
}

fn pack(
    preg: &Preg,
    layout: Layout,
    request: &Request<'_>,
    value: Option<&RawValue>,
) -> Result<Vec<u8>, Refusal> {
    let Some(data_type) = type_of(request)? else {
        return Err(bad("the request has no \"type\""));
    };
    // A type that the module does not have is rejected with every value.
    if !layout.module.registers(data_type) {
        return Ok(super::encode_call(
            preg,
            layout,
            &DataArray::empty(data_type),
        )?);
    }
    let Some(value) = value else {
        return Err(bad("the request has neither \"value\" nor \"bytes_hex\""));
    };
    let data = super::read_json(data_type, value.get()).map_err(|e| bad(e.to_string()))?;
    let found = u64::try_from(data.len()).unwrap_or(u64::MAX);
    if request.count.is_some_and(|count| count != found) {
        let count = request.count.unwrap_or_default();
        return Err(bad(format!(
            "the count is {count}, but the value holds {found} elements"
        )));
    }
    Ok(super::encode_call(preg, layout, &data)?)
}

fn unpack(
    preg: &Preg,
    layout: Layout,
    request: &Request<'_>,
    digits: &str,
) -> Result<String, Refusal> {
    let bytes = octets::unhex(digits.as_bytes()).map_err(|at| {
        bad(format!(
            "\"bytes_hex\" has an invalid hexadecimal digit at position {at}"
        ))
    })?;
    let limits = limits(request.count, bytes.len());
    let mut decoder = Decoder::new(layout, &bytes)
        .with_limits(limits)
        .with_framer(preg);
    let data = match type_of(request)? {
        Some(data_type) => decoder.array(data_type)?,
        None => decoder.described()?,
    };
    decoder.finish()?;
    let found = u64::try_from(data.len()).unwrap_or(u64::MAX);
    if request.count.is_some_and(|count| count < found) {
        let count = request.count.unwrap_or_default();
        return Err(Refusal {
            status: Status::ERR_UNPACK_INADEQUATE_SPACE,
            message: format!("the buffer holds {found} elements, but the limit is {count}"),
        });
    }
    super::print_json(&data).map_err(|e| bad(e.to_string()))
}

/// Returns the limits of unpacking: the memory for the count in the request, in addition to the memory for
/// the bytes.
fn limits(count: Option<u64>, len: usize) -> Limits {
    let limits = Limits::default();
    let count = count.and_then(|count| usize::try_from(count).ok());
    let room = count.unwrap_or_default().min(len).saturating_mul(ROOM);
    Limits {
        memory_base: limits.memory_base.saturating_add(room),
        ..limits
    }
}

fn layout_of(request: &Request<'_>) -> Result<Layout, Refusal> {
    let module = request.module.as_deref().unwrap_or("v41");
    let buffer = request.buffer.as_deref().unwrap_or("nondescribed");
    let buffer = BufferArg::from_str(buffer, true).map_err(|_| {
        bad(format!(
            "unknown buffer {buffer:?}, expected described or nondescribed"
        ))
    })?;
    let psquash = match request.psquash.as_deref() {
        None => None,
        Some(name) => Some(PsquashArg::from_str(name, true).map_err(|_| {
            bad(format!(
                "unknown psquash {name:?}, expected flex128 or native"
            ))
        })?),
    };
    let module = args::module(module).map_err(bad)?;
    Ok(args::layout(module, buffer, psquash))
}

fn type_of(request: &Request<'_>) -> Result<Option<DataType>, Refusal> {
    match &request.data_type {
        None => Ok(None),
        Some(TypeName::Number(number)) => Ok(Some(DataType::from_raw(*number))),
        Some(TypeName::Name(name)) => match args::data_type(name) {
            Ok(data_type) => Ok(Some(data_type)),
            Err(_) if request.type_id.is_some() => Ok(request.type_id.map(DataType::from_raw)),
            Err(message) => Err(Refusal {
                status: Status::ERR_UNKNOWN_DATA_TYPE,
                message,
            }),
        },
    }
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal {
        status: Status::ERR_BAD_PARAM,
        message: message.into(),
    }
}

/// Writes `{"id":…,"status":…,`.
fn write_head(out: &mut Out, id: Option<&RawValue>, status: Status) -> io::Result<()> {
    let id = id.map_or("null", RawValue::get);
    write!(out, "{{\"id\":{id},\"status\":{},", status.as_raw())
}

fn write_refusal(out: &mut Out, id: Option<&RawValue>, refusal: &Refusal) -> io::Result<()> {
    write_head(out, id, refusal.status)?;
    out.write_all(b"\"error\":")?;
    json_string(refusal.message.as_bytes(), out)?;
    out.write_all(b"}\n")
}
