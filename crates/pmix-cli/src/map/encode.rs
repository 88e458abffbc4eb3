// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map encode`.

use std::io::Write;

use preg_core::{Error, Status};

use super::answer::{self, Encoded};
use super::read_text;
use crate::args::{Encode, EncodeOut, FormArg};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::octets;
use crate::output::Out;
use crate::printable::is_printable;
use crate::progress::Progress;

pub(super) fn run(context: &mut Context, args: &Encode) -> Result<Exit, Failure> {
    let text = read_text(context, &args.input)?;
    let progress = Progress::start("encoding");
    let value = answer::encode(
        &context.preg,
        &args.scheme,
        args.form,
        args.input.procs,
        &text,
    )
    .map_err(|e| refusal(&e, &text))?;
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
    print(&mut context.out, &value, out)?;
    Ok(Exit::Ok)
}

/// Converts an error of an encoder: a scheme that declines gives a negative answer, an invalid list is bad
/// data.
pub(super) fn refusal(error: &Error, list: &[u8]) -> Failure {
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

fn print(out: &mut Out, value: &Encoded, how: EncodeOut) -> Result<(), Failure> {
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
