// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map size`: what each scheme makes of a list.

use std::io::Write;
use std::time::{Duration, Instant};

use preg_core::{Module, Status};
use serde_json::json;

use super::{answer, read_text};
use crate::args::{FormArg, MapInput};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::progress::Progress;

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

pub(super) fn run(context: &mut Context, input: &MapInput) -> Result<Exit, Failure> {
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

/// Asks a scheme, and asks again while that is quick, for the best time of five.
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

/// Returns the rows that the framework selects: the first one for the string form, the smallest for the other
/// form.
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
