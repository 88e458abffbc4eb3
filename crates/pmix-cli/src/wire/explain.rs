// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--explain`: every field with its offset, bytes and meaning.

use std::io::Write;

use bfrops::{Error, TracedField};
use pmix_types::Status;
use serde_json::{Map, Value as Json, json};

use crate::failure::{Exit, Failure};
use crate::octets;
use crate::output::Out;
use crate::style::{Style, columns, printable};

/// The maximum number of bytes that are explained, because the explanation of a field takes far
/// more memory than its bytes.
const MOST: usize = 4 << 20;

/// The number of bytes of a field that are printed.
const SHOWN: usize = 8;

/// The number of columns for the bytes.
const BYTES: usize = SHOWN * 3;

/// The minimum and maximum number of columns for the names of fields.
const NAME: (usize, usize) = (16, 36);

/// Bytes with their explanation.
pub(super) struct Report<'a> {
    pub(super) title: String,
    /// The leading members in JSON.
    pub(super) head: Vec<(&'static str, Json)>,
    pub(super) bytes: &'a [u8],
    pub(super) calls: &'a [Title],
    pub(super) notes: &'a [TracedField],
    pub(super) fault: Option<&'a Fault>,
}

/// The start and the label of a call.
#[derive(Debug)]
pub(super) struct Title {
    pub(super) offset: usize,
    /// The number of fields before the call.
    pub(super) notes: usize,
    pub(super) text: String,
}

/// The position and cause of a decoding error.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) status: Status,
    pub(super) offset: usize,
    pub(super) message: String,
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        Self {
            status: error.status(),
            offset: error.offset().unwrap_or_default(),
            message: error.message().to_owned(),
        }
    }
}

impl Fault {
    pub(super) fn to_json(&self) -> Json {
        json!({
            "status": self.status.as_raw(),
            "error": self.message,
            "offset": self.offset,
        })
    }
}

/// Checks that the bytes are not too long to be explained.
pub(super) fn check_len(bytes: &[u8]) -> Result<(), Failure> {
    if bytes.len() <= MOST {
        return Ok(());
    }
    let message = format!("cannot explain {} bytes: the limit is {MOST}", bytes.len());
    Err(Failure::data(message).cure("omit --explain to decode without this limit"))
}

/// Prints a report. The result is negative if the bytes cannot be unpacked completely.
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
    let title = printable(report.title.as_bytes());
    writeln!(out, "{}", style.bold(&title))?;
    if report.notes.is_empty() && report.fault.is_none() {
        return Ok(());
    }
    let names = report
        .notes
        .iter()
        .map(|note| columns(&printable(note.path.as_bytes())));
    let width = names.max().unwrap_or_default().clamp(NAME.0, NAME.1);
    let head = row(width, "offset", "bytes", "field", "meaning");
    writeln!(out, "{}", style.dim(&head))?;
    let mut calls = report.calls.iter().peekable();
    for (index, note) in report.notes.iter().enumerate() {
        while let Some(title) = calls.next_if(|title| title.notes <= index) {
            print_title(out, style, title)?;
        }
        writeln!(out, "{}", line(width, report.bytes, note))?;
    }
    for title in calls {
        print_title(out, style, title)?;
    }
    if let Some(fault) = report.fault {
        let (offset, message) = (fault.offset, printable(fault.message.as_bytes()));
        writeln!(out, "{} {offset}: {message}", style.red("stops at byte"))?;
        let rest = report.bytes.get(offset..).unwrap_or_default();
        let what = format!("{} bytes from here", rest.len());
        writeln!(
            out,
            "{}",
            row(width, &offset.to_string(), &digits(rest), "", &what)
        )?;
    }
    Ok(())
}

fn print_title(out: &mut Out, style: Style, title: &Title) -> Result<(), Failure> {
    let text = printable(title.text.as_bytes());
    writeln!(out, "{}", style.dim(&format!("{:>8}  {text}", "")))?;
    Ok(())
}

/// Returns the line of a field.
fn line(width: usize, bytes: &[u8], note: &TracedField) -> String {
    let field = bytes.get(note.range.clone()).unwrap_or_default();
    let name = printable(note.path.as_bytes());
    let meaning = printable(note.meaning.as_bytes());
    let offset = note.range.start.to_string();
    row(width, &offset, &digits(field), &name, &meaning)
}

fn row(width: usize, offset: &str, bytes: &str, name: &str, meaning: &str) -> String {
    let pad = " ".repeat(width.saturating_sub(columns(name)));
    format!("{offset:>8}  {bytes:<BYTES$} {name}{pad}  {meaning}")
}

/// Returns the first bytes of a field as separate digits.
fn digits(bytes: &[u8]) -> String {
    let all = bytes.len() <= SHOWN;
    let shown = bytes.iter().take(if all { SHOWN } else { SHOWN - 1 });
    let mut text: Vec<String> = shown.map(|byte| octets::hex(&[*byte])).collect();
    if !all {
        text.push("…".to_owned());
    }
    text.join(" ")
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
    let calls = report
        .calls
        .iter()
        .map(|title| json!({ "offset": title.offset, "title": title.text }));
    let mut object: Map<_, _> = report
        .head
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    object.insert("calls".to_owned(), calls.collect());
    object.insert("fields".to_owned(), fields.collect());
    object.insert(
        "fault".to_owned(),
        report.fault.map_or(Json::Null, Fault::to_json),
    );
    Json::Object(object)
}
