// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map batch`: one JSON request per line, one reply per line, in order.
//!
//! Other languages and conformance tests use the library through this command. An invalid line also
//! has a reply, with `status` and `error`, and the next line is read.

use std::borrow::Cow;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use preg_core::{Error, Preg, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{self, AUTO, Encoded};
use super::convert::write_members;
use super::list::Map;
use crate::args::FormArg;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{answer_lines, longest_line};
use crate::octets;
use crate::output::json_string;

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    op: Option<Cow<'a, str>>,
    #[serde(default)]
    procs: Option<bool>,
    #[serde(borrow)]
    scheme: Option<Cow<'a, str>>,
    #[serde(borrow)]
    form: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input_hex: Option<Cow<'a, str>>,
    #[serde(borrow)]
    bytes_hex: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

/// The id of a request, which the reply has even if the rest of the request is invalid.
#[derive(Deserialize)]
struct OnlyId<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

enum Answer {
    Encoded(Encoded),
    Decoded(Map),
}

pub(super) fn run(context: &mut Context) -> Result<Exit, Failure> {
    let (preg, out) = (&context.preg, &mut context.out);
    let longest = longest_line(preg.limits());
    answer_lines(out, longest, |line, out| match line {
        Some(line) => respond(preg, line, out),
        None => {
            let error = bad(format!("the line is longer than {longest} bytes"));
            write_error(out, None, &error)
        }
    })?;
    Ok(Exit::Ok)
}

/// Handles one request, and writes the reply.
fn respond(preg: &Preg, line: &[u8], out: &mut impl Write) -> io::Result<()> {
    // serde would accept an array as the members in order.
    if line.trim_ascii_start().first() != Some(&b'{') {
        let error = bad("not a request: expected an object, {\"op\":…}");
        return write_error(out, None, &error);
    }
    let request: Request<'_> = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(fault) => {
            let id = serde_json::from_slice(line)
                .ok()
                .and_then(|only: OnlyId<'_>| only.id);
            return write_error(out, id, &bad(format!("not a valid request: {fault}")));
        }
    };
    match guarded(preg, &request) {
        Ok(Answer::Encoded(value)) => {
            write_head(out, request.id, Status::SUCCESS)?;
            write_members(out, &value)?;
        }
        Ok(Answer::Decoded(map)) => {
            write_head(out, request.id, Status::SUCCESS)?;
            map.write_members(out)?;
        }
        Err(error) => return write_error(out, request.id, &error),
    }
    out.write_all(b"}\n")
}

/// Handles a request. A panic of a scheme fails only this request.
fn guarded(preg: &Preg, request: &Request<'_>) -> Result<Answer, Error> {
    // A panic leaves no inconsistent state: the framework is immutable, and the request is only
    // read.
    let asked = AssertUnwindSafe(|| answer(preg, request));
    catch_unwind(asked).unwrap_or_else(|_| {
        let message = "a scheme panicked; please report the request as a bug";
        Err(Error::new(Status::ERROR, message))
    })
}

fn answer(preg: &Preg, request: &Request<'_>) -> Result<Answer, Error> {
    let scheme = request.scheme.as_deref().unwrap_or(AUTO);
    let procs = request.procs.unwrap_or(false);
    let form = match request.form.as_deref() {
        None => None,
        Some("string") => Some(FormArg::String),
        Some("regex2") => Some(FormArg::Regex2),
        Some(other) => {
            return Err(bad(format!(
                "unknown form {other:?}, expected string or regex2"
            )));
        }
    };
    match request.op.as_deref() {
        Some("encode") => {
            let form = form.unwrap_or(FormArg::String);
            let list = list_of(request)?;
            let value = answer::encode(preg, scheme, form, procs, &list)?;
            // A value that cannot be decoded again must not be returned.
            let kind = (form == FormArg::Regex2).then_some(value.kind.as_str());
            let map = answer::decode(preg, AUTO, kind, procs, &value.bytes)?;
            map.check(preg.limits())?;
            Ok(Answer::Encoded(value))
        }
        Some("decode") => {
            let digits = request.bytes_hex.as_deref();
            let digits = digits.ok_or_else(|| bad("decode needs \"bytes_hex\""))?;
            let bytes = unhex(digits, "bytes_hex")?;
            let kind = match (form, request.kind.as_deref()) {
                (Some(FormArg::String), _) => None,
                (Some(FormArg::Regex2), None) => {
                    return Err(bad("decode of form \"regex2\" needs \"type\""));
                }
                (_, kind) => kind,
            };
            let map = answer::decode(preg, scheme, kind, procs, &bytes)?;
            map.check(preg.limits())?;
            Ok(Answer::Decoded(map))
        }
        Some(other) => Err(bad(format!(
            "unknown op {other:?}, expected encode or decode"
        ))),
        None => Err(bad("the request has no \"op\", expected encode or decode")),
    }
}

fn list_of<'a>(request: &'a Request<'_>) -> Result<Cow<'a, [u8]>, Error> {
    match (&request.input, &request.input_hex) {
        (Some(text), None) => Ok(Cow::Borrowed(text.as_bytes())),
        (None, Some(digits)) => unhex(digits, "input_hex").map(Cow::Owned),
        (None, None) => Err(bad("encode needs \"input\" or \"input_hex\"")),
        (Some(_), Some(_)) => Err(bad("give \"input\" or \"input_hex\", not both")),
    }
}

fn unhex(digits: &str, key: &str) -> Result<Vec<u8>, Error> {
    octets::unhex(digits.as_bytes()).map_err(|at| {
        bad(format!(
            "\"{key}\" has an invalid hexadecimal digit at position {at}"
        ))
    })
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(Status::ERR_BAD_PARAM, message)
}

/// Writes `{"id":…,"status":…,`.
fn write_head(out: &mut impl Write, id: Option<&RawValue>, status: Status) -> io::Result<()> {
    let id = id.map_or("null", RawValue::get);
    write!(out, "{{\"id\":{id},\"status\":{},", status.as_raw())
}

fn write_error(out: &mut impl Write, id: Option<&RawValue>, error: &Error) -> io::Result<()> {
    write_head(out, id, error.status())?;
    out.write_all(b"\"error\":")?;
    json_string(error.to_string().as_bytes(), out)?;
    out.write_all(b"}\n")
}
