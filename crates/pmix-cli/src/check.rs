// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix plugins check`: one plugin file, tried on sample lists.

use std::io::Write;
use std::path::Path;

use preg_core::{Error, Outcome, PluginReport, Sample};
use serde_json::{Value as Json, json};

use crate::args::Global;
use crate::context::params;
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::printable::printable;
use crate::progress::Progress;
use crate::style::Style;

pub(crate) fn run(global: &Global, file: &Path) -> Result<Exit, Failure> {
    let params = params(global)?;
    let progress = Progress::start("trying the plugin");
    let report = preg_core::check_plugin(file, &params);
    drop(progress);
    let mut out = Out::new();
    let report = match report {
        Ok(report) => report,
        Err(error) => return refused(global, &mut out, file, &error),
    };
    let sound = report.faults().next().is_none();
    if global.json {
        out.json(&to_json(&report, sound))?;
    } else {
        let style = Style::new(global.color, &std::io::stdout());
        print(&mut out, style, &report)?;
    }
    out.flush()?;
    Ok(if sound { Exit::Ok } else { Exit::Negative })
}

/// A file that is no plugin for us is an answer, too.
fn refused(global: &Global, out: &mut Out, file: &Path, error: &Error) -> Result<Exit, Failure> {
    if global.json {
        out.json(&json!({
            "ok": false,
            "file": file.display().to_string(),
            "status": error.status().as_raw(),
            "error": error.to_string(),
        }))?;
        out.flush()?;
    }
    Err(Failure::answer(error.status(), error.to_string())
        .cure("docs/plugins.md says what a plugin has to export"))
}

fn print(out: &mut Out, style: Style, report: &PluginReport) -> Result<(), Failure> {
    let title = format!("{}: component {}", report.path.display(), report.name);
    writeln!(out, "{}: {}", style.bold(&title), report.about)?;
    writeln!(
        out,
        "  abi {}.{}, interface {}, priority {}, {} by default, tag `{}`, type {}",
        report.abi.0,
        report.abi.1,
        report.interface,
        report.priority,
        if report.enabled { "on" } else { "off" },
        printable(&report.tag),
        report.kind.as_deref().unwrap_or("-"),
    )?;
    writeln!(out, "  operations: {}", report.operations.join(", "))?;
    for sample in &report.samples {
        let (word, detail) = words(sample);
        let word = format!("{word:<9}");
        let word = match &sample.outcome {
            Outcome::Fault(_) => style.red(&word),
            Outcome::Kept(_) => style.green(&word),
            Outcome::Declined | Outcome::Handled => style.dim(&word),
        };
        let line = format!(
            "  {word} {:<20} {}  {detail}",
            sample.operation, sample.what
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    let faults = report.faults().count();
    let verdict = match faults {
        0 => style.green("ok:"),
        _ => style.red(&format!("{faults} faults:")),
    };
    writeln!(out, "{verdict} {} samples", report.samples.len())?;
    Ok(())
}

fn words(sample: &Sample) -> (&'static str, String) {
    match &sample.outcome {
        Outcome::Kept(len) => ("kept", format!("({len} bytes)")),
        Outcome::Declined => ("declined", String::new()),
        Outcome::Handled => ("handled", String::new()),
        Outcome::Fault(fault) => ("fault", fault.clone()),
    }
}

fn to_json(report: &PluginReport, sound: bool) -> Json {
    let samples = report.samples.iter().map(|sample| {
        let (len, fault) = match &sample.outcome {
            Outcome::Kept(len) => (Some(*len), None),
            Outcome::Fault(fault) => (None, Some(fault.clone())),
            Outcome::Declined | Outcome::Handled => (None, None),
        };
        json!({
            "operation": sample.operation,
            "sample": sample.what,
            "outcome": words(sample).0,
            "len": len,
            "fault": fault,
        })
    });
    json!({
        "ok": sound,
        "file": report.path.display().to_string(),
        "name": report.name,
        "about": report.about,
        "abi": [report.abi.0, report.abi.1],
        "interface": report.interface,
        "priority": report.priority,
        "enabled": report.enabled,
        "tag": String::from_utf8_lossy(&report.tag),
        "type": report.kind,
        "operations": report.operations,
        "samples": samples.collect::<Vec<_>>(),
    })
}
