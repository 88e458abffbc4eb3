// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map explain`: the scheme, fields and errors of a value; `pmix map size`: a comparison of
//! the schemes.

use std::io::Write;
use std::time::{Duration, Instant};

use preg_core::{Error, Explanation, Module, Regex2Ref, Status};
use serde_json::{Value as Json, json};

use super::list::Map;
use super::{answer, read_text};
use crate::args::{Explain, FormArg, MapInput};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{
    Segment, Source, Value, nodes_of_text, procs_of_text, read_sources, segments, tagged_values,
};
use crate::octets;
use crate::style::{Progress, printable, size};

/// The maximum number of bytes of a field that are printed.
const SHOWN: usize = 24;

/// A value or list, with its explanation.
struct Report<'a> {
    origin: &'a str,
    bytes: &'a [u8],
    form: String,
    explanation: Explanation,
    /// The decoded value in words.
    result: Option<String>,
    fault: Option<Error>,
}

pub(super) fn run(context: &mut Context, args: &Explain) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    let sources = read_sources(&args.input.words)?;
    let procs = args.input.procs;
    if let Some(kind) = &args.kind {
        for value in tagged_values(kind, sources)? {
            exit = explain_value(context, &value, procs, exit)?;
        }
        return Ok(exit);
    }
    for source in sources {
        for segment in segments(&context.preg, source)? {
            exit = match segment {
                Segment::Value(value) => explain_value(context, &value, procs, exit)?,
                Segment::List(source) => explain_text(context, source, procs, exit)?,
                Segment::Exact(bytes) => {
                    let origin = "the decoded input".to_owned();
                    let value = Value {
                        kind: None,
                        bytes,
                        origin,
                    };
                    explain_value(context, &value, procs, exit)?
                }
            };
        }
    }
    Ok(exit)
}

fn explain_value(
    context: &mut Context,
    value: &Value,
    procs: bool,
    exit: Exit,
) -> Result<Exit, Failure> {
    let preg = &context.preg;
    let (form, explanation) = match &value.kind {
        None => preg.explain(&value.bytes),
        Some(kind) => preg.explain_regex(Regex2Ref {
            kind,
            bytes: &value.bytes,
        }),
    };
    let decoded = answer::decode(
        preg,
        answer::AUTO,
        value.kind.as_deref(),
        procs,
        &value.bytes,
    );
    let (result, fault) = match decoded {
        Ok(map) => (Some(describe(&map)), explanation.fault.clone()),
        // The error in the explanation has a more precise offset.
        Err(error) => (None, Some(explanation.fault.clone().unwrap_or(error))),
    };
    let report = Report {
        origin: &value.origin,
        bytes: &value.bytes,
        form: form.to_string(),
        explanation,
        result,
        fault,
    };
    show(context, &report, exit)
}

/// Explains text without a tag of a scheme.
fn explain_text(
    context: &mut Context,
    source: Source,
    procs: bool,
    exit: Exit,
) -> Result<Exit, Failure> {
    let (preg, limits) = (&context.preg, context.preg.limits());
    let (origin, bytes) = (source.origin.clone(), source.bytes.clone());
    let brackets = !procs && memchr::memchr2(b'[', b']', &bytes).is_some();
    let form = match (procs, brackets) {
        (true, _) => "process map as text",
        (false, true) => "bracket list",
        (false, false) => "list of names",
    };
    let map = match procs {
        true => procs_of_text(source).into_map(limits)?.into(),
        false => nodes_of_text(source, limits)?.into_list(limits)?.into(),
    };
    let tags = preg.tags().map(|tag| format!("`{}`", printable(tag)));
    let tags = tags.collect::<Vec<_>>().join(", ");
    let report = Report {
        origin: &origin,
        bytes: &bytes,
        form: format!("{form}: does not begin with one of the tags {tags}"),
        explanation: Explanation::default(),
        result: Some(describe(&map)),
        fault: None,
    };
    show(context, &report, exit)
}

fn describe(map: &Map) -> String {
    match map {
        Map::Procs(map) => size(map.num_nodes(), map.num_ranks()),
        Map::Nodes(list) => {
            let name = |index| list.nth(index).map(|n| printable(&n)).unwrap_or_default();
            match list.len() {
                0 => "the empty list".to_owned(),
                1 => format!("1 name: {}", name(0)),
                n => format!("{n} names: {} to {}", name(0), name(n - 1)),
            }
        }
    }
}

fn show(context: &mut Context, report: &Report<'_>, exit: Exit) -> Result<Exit, Failure> {
    if context.json {
        context.out.json(&to_json(report))?;
    } else {
        print(context, report)?;
    }
    if report.fault.is_some() {
        return Ok(Exit::Data);
    }
    Ok(exit)
}

fn print(context: &mut Context, report: &Report<'_>) -> Result<(), Failure> {
    let style = context.style;
    let out = &mut context.out;
    let title = format!(
        "{}: {} bytes, {}",
        report.origin,
        report.bytes.len(),
        report.form
    );
    writeln!(out, "{}", style.bold(&title))?;
    let fields = &report.explanation.fields;
    if !fields.is_empty() {
        let head = format!("{:>8}  {:<24}  {:<12}  meaning", "offset", "bytes", "field");
        writeln!(out, "{}", style.dim(&head))?;
    }
    for field in fields {
        let bytes = report.bytes.get(field.range.clone()).unwrap_or_default();
        let (start, text) = (field.range.start, excerpt(bytes));
        let pad = " ".repeat(SHOWN.saturating_sub(text.chars().count()));
        writeln!(
            out,
            "{start:>8}  {text}{pad}  {:<12}  {}",
            field.name, field.meaning
        )?;
    }
    if let Some(result) = &report.result {
        writeln!(out, "{} {result}", style.green("denotes"))?;
    }
    out.flush()?;
    if let Some(fault) = &report.fault {
        let failure = Failure::of(fault, report.origin, report.bytes);
        out.write_all(failure.render(style).as_bytes())?;
    }
    Ok(())
}

/// Formats bytes for a column: as text if they are text, otherwise in hexadecimal.
fn excerpt(bytes: &[u8]) -> String {
    let binary = bytes.iter().any(|b| b.is_ascii_control() || !b.is_ascii());
    let text = match binary {
        true => octets::hex(&bytes[..bytes.len().min(SHOWN / 2)]),
        false => printable(&bytes[..bytes.len().min(SHOWN)]),
    };
    let kept = if binary { SHOWN / 2 } else { SHOWN };
    if bytes.len() <= kept {
        return text;
    }
    text.chars().take(SHOWN - 1).chain(['…']).collect()
}

fn to_json(report: &Report<'_>) -> Json {
    let fields = report.explanation.fields.iter().map(|field| {
        let bytes = report.bytes.get(field.range.clone()).unwrap_or_default();
        json!({
            "offset": field.range.start,
            "len": field.range.len(),
            "name": field.name,
            "meaning": field.meaning,
            "bytes_hex": octets::hex(&bytes[..bytes.len().min(64)]),
        })
    });
    json!({
        "origin": report.origin,
        "len": report.bytes.len(),
        "form": report.form,
        "fields": fields.collect::<Vec<_>>(),
        "result": report.result,
        "fault": report.fault.as_ref().map(|f| json!({
            "status": f.status().as_raw(),
            "error": f.to_string(),
            "offset": f.offset(),
        })),
    })
}

/// The size and the times of an encoding.
struct Measurement {
    bytes: usize,
    time: Duration,
}

/// The results of one scheme; `None` if it declines.
struct Row {
    scheme: String,
    priority: i32,
    active: bool,
    string: Option<Measurement>,
    regex2: Option<Measurement>,
}

pub(super) fn run_size(context: &mut Context, input: &MapInput) -> Result<Exit, Failure> {
    let text = read_text(context, input)?;
    let progress = Progress::start("encoding");
    let mut rows = Vec::new();
    for module in context.preg.modules() {
        let ask = |form| measure(module, form, input.procs, &text);
        rows.push(Row {
            scheme: module.scheme.name().to_owned(),
            priority: module.decision.priority,
            active: module.decision.excluded.is_none(),
            string: ask(FormArg::String)?,
            regex2: ask(FormArg::Regex2)?,
        });
    }
    drop(progress);
    let winners = winners(&rows);
    if context.json {
        print_json(context, &text, &rows, winners)?;
    } else {
        print_table(context, &text, &rows, winners)?;
    }
    Ok(Exit::Ok)
}

/// Times a scheme: the shortest of up to five calls, fewer if a call is slow.
fn measure(
    module: &Module,
    form: FormArg,
    procs: bool,
    text: &[u8],
) -> Result<Option<Measurement>, Failure> {
    let mut best: Option<Measurement> = None;
    for _ in 0..5 {
        let start = Instant::now();
        let value = match answer::encode_by(&*module.scheme, form, procs, text) {
            Ok(value) => value,
            Err(e) if e.status() == Status::ERR_TAKE_NEXT_OPTION => return Ok(None),
            Err(e) => return Err(Failure::of(&e, "the list", text)),
        };
        let time = start.elapsed();
        let bytes = value.bytes.len();
        if best.as_ref().is_none_or(|b| time < b.time) {
            best = Some(Measurement { bytes, time });
        }
        if time > Duration::from_millis(20) {
            break;
        }
    }
    Ok(best)
}

/// Returns the rows that the framework selects: the first for the string form, the shortest for
/// regex2.
fn winners(rows: &[Row]) -> [Option<usize>; 2] {
    let active = |(_, row): &(usize, &Row)| row.active;
    let string = rows
        .iter()
        .enumerate()
        .filter(active)
        .find(|(_, row)| row.string.is_some());
    let regex2 = rows
        .iter()
        .enumerate()
        .filter(active)
        .filter_map(|(index, row)| Some((index, row.regex2.as_ref()?.bytes)))
        .min_by_key(|(_, bytes)| *bytes);
    [
        string.map(|(index, _)| index),
        regex2.map(|(index, _)| index),
    ]
}

fn print_json(
    context: &mut Context,
    text: &[u8],
    rows: &[Row],
    winners: [Option<usize>; 2],
) -> Result<(), Failure> {
    let form = |taken: &Option<Measurement>, wins: bool| match taken {
        None => json!(null),
        Some(t) => json!({
            "len": t.bytes,
            "ratio": ratio(t, text),
            "seconds": t.time.as_secs_f64(),
            "wins": wins,
        }),
    };
    let schemes: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            json!({
                "scheme": row.scheme,
                "priority": row.priority,
                "active": row.active,
                "string": form(&row.string, winners[0] == Some(index)),
                "regex2": form(&row.regex2, winners[1] == Some(index)),
            })
        })
        .collect();
    context
        .out
        .json(&json!({ "text_len": text.len(), "schemes": schemes }))
}

fn print_table(
    context: &mut Context,
    text: &[u8],
    rows: &[Row],
    winners: [Option<usize>; 2],
) -> Result<(), Failure> {
    let style = context.style;
    let out = &mut context.out;
    writeln!(
        out,
        "{} bytes of text; * marks the scheme that the framework selects",
        text.len()
    )?;
    let head = format!(
        "{:<12} {:>8}  {:^27}  {:^27}",
        "scheme", "priority", "string", "regex2"
    );
    writeln!(out, "{}", style.bold(head.trim_end()))?;
    for (index, row) in rows.iter().enumerate() {
        let priority = match row.active {
            true => row.priority.to_string(),
            false => "off".to_owned(),
        };
        let forms = [&row.string, &row.regex2].into_iter().zip(winners);
        let mut line = format!("{:<12} {priority:>8}", row.scheme);
        for (taken, winner) in forms {
            let wins = winner == Some(index);
            let cell = cell(taken.as_ref(), text, wins);
            line.push_str("  ");
            line.push_str(&if wins { style.green(&cell) } else { cell });
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn cell(taken: Option<&Measurement>, text: &[u8], wins: bool) -> String {
    let Some(taken) = taken else {
        return format!("{:>27}", "declines");
    };
    let mark = if wins { '*' } else { ' ' };
    let ratio = format!("{:.4}", ratio(taken, text));
    format!(
        "{:>9}{mark} {ratio:>7} {:>8}",
        taken.bytes,
        brief(taken.time)
    )
}

/// Returns the number of encoded bytes per byte of text.
fn ratio(taken: &Measurement, text: &[u8]) -> f64 {
    taken.bytes as f64 / text.len().max(1) as f64
}

/// Returns a duration in at most eight characters.
fn brief(time: Duration) -> String {
    let nanos = time.as_nanos();
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", time.as_secs_f64() * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}
