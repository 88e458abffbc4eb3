// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--explain`: every field with its place, its bytes and what they say.

use std::io::Write;

use bfrops::{BufferKind, Error, Layout, Note};
use serde_json::{Value as Json, json};

use crate::failure::{Exit, Failure};
use crate::octets;
use crate::output::Out;
use crate::printable::{columns, printable};
use crate::style::Style;

/// The most bytes that are explained: each field takes far more memory than its bytes.
const MOST: usize = 4 << 20;

/// Bytes of a field that are shown.
const SHOWN: usize = 8;

/// Columns of the bytes, and of the name of a field.
const BYTES: usize = SHOWN * 3;
const NAME: usize = 20;

/// Bytes with everything that is known of them.
pub(super) struct Report<'a> {
    pub(super) origin: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) layout: Layout,
    /// Where each call begins, and what to call it.
    pub(super) calls: &'a [(usize, String)],
    pub(super) notes: &'a [Note],
    pub(super) fault: Option<&'a Error>,
}

/// Refuses what is too long to be explained.
pub(super) fn check_len(bytes: &[u8]) -> Result<(), Failure> {
    if bytes.len() <= MOST {
        return Ok(());
    }
    let message = format!(
        "{} bytes are too many to explain; {MOST} are not",
        bytes.len()
    );
    Err(Failure::data(message).cure("without --explain there is no such limit"))
}

/// Shows a report; where the bytes could not be read to their end the answer is negative.
pub(super) fn show(
    out: &mut Out,
    style: Style,
    as_json: bool,
    report: &Report<'_>,
) -> Result<Exit, Failure> {
    if as_json {
        out.json(&to_json(report))?;
    } else {
        print(out, style, report)?;
    }
    match report.fault {
        Some(_) => Ok(Exit::Negative),
        None => Ok(Exit::Ok),
    }
}

fn print(out: &mut Out, style: Style, report: &Report<'_>) -> Result<(), Failure> {
    let (origin, len) = (printable(report.origin.as_bytes()), report.bytes.len());
    let layout = describe(report.layout);
    writeln!(
        out,
        "{}",
        style.bold(&format!("{origin}: {len} bytes, {layout}"))
    )?;
    let head = row("offset", "bytes", "field", "meaning");
    writeln!(out, "{}", style.dim(&head))?;
    let mut calls = report.calls.iter().peekable();
    for note in report.notes {
        while let Some((_, title)) = calls.next_if(|(offset, _)| *offset <= note.range.start) {
            writeln!(out, "{}", style.dim(&format!("{:>8}  {title}", "")))?;
        }
        writeln!(out, "{}", line(report.bytes, note))?;
    }
    for (_, title) in calls {
        writeln!(out, "{}", style.dim(&format!("{:>8}  {title}", "")))?;
    }
    if let Some(fault) = report.fault {
        let message = printable(fault.message().as_bytes());
        let offset = fault.offset().unwrap_or_default();
        writeln!(out, "{} {offset}: {message}", style.red("stops at byte"))?;
        let rest = report.bytes.get(offset..).unwrap_or_default();
        let what = format!("{} bytes from here", rest.len());
        writeln!(
            out,
            "{}",
            row(&offset.to_string(), &digits(rest), "", &what)
        )?;
    }
    Ok(())
}

/// One field on one line.
pub(super) fn line(bytes: &[u8], note: &Note) -> String {
    let field = bytes.get(note.range.clone()).unwrap_or_default();
    let name = printable(note.path.as_bytes());
    let meaning = printable(note.meaning.as_bytes());
    row(
        &note.range.start.to_string(),
        &digits(field),
        &name,
        &meaning,
    )
}

fn row(offset: &str, bytes: &str, name: &str, meaning: &str) -> String {
    let pad = " ".repeat(NAME.saturating_sub(columns(name)));
    format!("{offset:>8}  {bytes:<BYTES$} {name}{pad}  {meaning}")
}

/// The first bytes of a field, apart from each other.
fn digits(bytes: &[u8]) -> String {
    let all = bytes.len() <= SHOWN;
    let shown = bytes.iter().take(if all { SHOWN } else { SHOWN - 1 });
    let mut text: Vec<String> = shown.map(|byte| octets::hex(&[*byte])).collect();
    if !all {
        text.push("…".to_owned());
    }
    text.join(" ")
}

fn describe(layout: Layout) -> String {
    let buffer = match layout.buffer {
        BufferKind::Described => "described",
        BufferKind::NonDescribed => "non-described",
    };
    format!("module {}, {buffer}", layout.module)
}

fn to_json(report: &Report<'_>) -> Json {
    let fields = report.notes.iter().map(|note| {
        let bytes = report.bytes.get(note.range.clone()).unwrap_or_default();
        json!({
            "offset": note.range.start,
            "len": note.range.len(),
            "field": note.path,
            "meaning": note.meaning,
            "bytes_hex": octets::hex(bytes.get(..64).unwrap_or(bytes)),
        })
    });
    json!({
        "origin": report.origin,
        "len": report.bytes.len(),
        "module": report.layout.module.name(),
        "calls": report.calls.iter().map(|(offset, title)| json!({
            "offset": offset,
            "title": title,
        })).collect::<Vec<_>>(),
        "fields": fields.collect::<Vec<_>>(),
        "fault": report.fault.map(|fault| json!({
            "status": fault.status().as_raw(),
            "error": fault.message(),
            "offset": fault.offset(),
        })),
    })
}
