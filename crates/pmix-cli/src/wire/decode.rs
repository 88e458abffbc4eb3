// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix wire decode`.

use std::io::Write;

use bfrops::{BufferKind, Decoder, Error, FieldTrace, Layout};
use pmix_types::{DataArray, DataType, Status};

use super::{bytes, explain, failure, json, message};
use crate::args::{CallType, WireDecode};
use crate::context::Context;
use crate::failure::{Exit, Failure};

pub(super) fn run(context: &mut Context, args: &WireDecode) -> Result<Exit, Failure> {
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
            let list = json::print(data).map_err(std::io::Error::from)?;
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

/// Reads call after call, with `begin` before and `each` after each; the outer error is of `each`, the inner one of the bytes.
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
