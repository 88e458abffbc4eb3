// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix wire encode`.

use std::ffi::OsStr;
use std::io::Write;

use bfrops::{Encoder, Layout};
use pmix_types::DataArray;
use preg_core::Preg;

use crate::args::WireEncode;
use crate::context::Context;
use crate::excerpt::Excerpt;
use crate::failure::{Exit, Failure};
use crate::input::{read_option, read_path};
use crate::octets;

use super::json;

pub(super) fn run(context: &mut Context, args: &WireEncode) -> Result<Exit, Failure> {
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
    let data = json::read(data_type, text).map_err(|error| {
        let failure = Failure::data(error.to_string()).cure("pmix-json(7) describes every type");
        match error.line() {
            0 => failure,
            _ => failure.at(place(&source.origin, text, &error)),
        }
    })?;
    let bytes = call(&context.preg, args.peer.layout(), &data)
        .map_err(|error| super::failure(&error, &source.origin, b""))?;
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
pub(super) fn call(
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
