// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix plugins list`: the state of the framework; `pmix plugins check`: a check of one plugin
//! file with samples.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use pmix_mca::Source;
use preg_core::{ComponentStatus, Counts, Error, Limits, Outcome, PluginReport, Sample};
use serde_json::{Value as Json, json};

use crate::args::Global;
use crate::context::{Context, params};
use crate::failure::{Exit, Failure};
use crate::input::{nodes_of_text, read_option};
use crate::output::Out;
use crate::style::{Progress, Style, counted, printable};

/// Prints every component, and the files that were rejected.
pub(crate) fn list(context: &mut Context) -> Result<Exit, Failure> {
    let preg = &context.preg;
    let kind = |name: &str| {
        let module = preg.module(name)?;
        module.scheme.kind().map(str::to_owned)
    };
    if context.json {
        let all: Vec<_> = preg
            .components()
            .iter()
            .map(|c| to_json(c, kind(&c.name)))
            .collect();
        let refused = preg.refused().iter().map(|refusal| {
            let (file, fault) = (refusal.path.display(), &refusal.fault);
            json!({ "file": file.to_string(), "fault": fault.to_string() })
        });
        let answer = json!({
            "framework": "preg",
            "components": all,
            "refused": refused.collect::<Vec<_>>(),
        });
        context.out.json(&answer)?;
        return Ok(Exit::Ok);
    }
    let style = context.style;
    let out = &mut context.out;
    let head = format!(
        "{:<12} {:>8}  {:<11}  {:<8}  {:<8}  about",
        "component", "priority", "state", "tag", "type"
    );
    writeln!(out, "{}", style.bold(&head))?;
    for component in preg.components() {
        let state = format!("{:<11}", state(component));
        let state = match component.decision.excluded {
            None => style.green(&state),
            Some(_) => style.yellow(&state),
        };
        writeln!(
            out,
            "{:<12} {:>8}  {state}  {:<8}  {:<8}  {}",
            component.name,
            component.decision.priority,
            printable(&component.tag),
            kind(&component.name).unwrap_or_else(|| "-".to_owned()),
            component.about,
        )?;
        for reason in reasons(component) {
            writeln!(out, "{:<12} {:>8}  {}", "", "", style.dim(&reason))?;
        }
    }
    for refusal in preg.refused() {
        writeln!(out, "{} {refusal}", style.red("refused"))?;
    }
    Ok(Exit::Ok)
}

/// Returns the state of a component in a word or two.
fn state(component: &ComponentStatus) -> &'static str {
    let decision = &component.decision;
    match (&decision.excluded, decision.parse) {
        (None, true) => "active",
        (None, false) => "encode only",
        (Some(_), true) => "decode only",
        (Some(_), false) => "off",
    }
}

/// Returns the settings that determine the state of a component.
fn reasons(component: &ComponentStatus) -> Vec<String> {
    let decision = &component.decision;
    let mut reasons = Vec::new();
    if let Some(file) = &component.file {
        reasons.push(format!("loaded from {}", file.display()));
    }
    if let Some((why, source)) = &decision.excluded {
        reasons.push(match source {
            Source::Default => why.clone(),
            source => format!("{why} ({source})"),
        });
    }
    if decision.priority_source != Source::Default {
        reasons.push(format!("priority from {}", decision.priority_source));
    }
    if decision.parse_source != Source::Default {
        reasons.push(format!(
            "parse = {} ({})",
            decision.parse, decision.parse_source
        ));
    }
    reasons
}

fn to_json(component: &ComponentStatus, kind: Option<String>) -> Json {
    let decision = &component.decision;
    let excluded = decision.excluded.as_ref();
    json!({
        "name": component.name,
        "about": component.about,
        "tag": String::from_utf8_lossy(&component.tag),
        "type": kind,
        "file": component.file.as_ref().map(|file| file.display().to_string()),
        "state": state(component),
        "priority": decision.priority,
        "priority_source": decision.priority_source.to_string(),
        "encodes": excluded.is_none(),
        "reads": decision.parse,
        "excluded": excluded.map(|(why, source)| json!({ "why": why, "source": source.to_string() })),
    })
}

pub(crate) fn check(global: &Global, file: &Path, lists: &[OsString]) -> Result<Exit, Failure> {
    let params = params(global)?;
    let lists = read(lists)?;
    let progress = Progress::start("trying the plugin");
    let report = pmix_builtin::check_plugin(file, &params, &lists);
    drop(progress);
    let mut out = Out::new();
    let report = match report {
        Ok(report) => report,
        Err(error) => return refused(global, &mut out, file, &error),
    };
    let sound = report.is_sound();
    if global.json {
        out.json(&report_json(&report, sound))?;
    } else {
        let style = Style::new(global.color, &std::io::stdout());
        print_report(&mut out, style, &report)?;
    }
    out.flush()?;
    Ok(if sound { Exit::Ok } else { Exit::Negative })
}

/// Returns the given lists as text in the library's form.
fn read(words: &[OsString]) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    if words.iter().filter(|word| *word == "-").count() > 1 {
        return Err(crate::input::twice());
    }
    let limits = Limits::default();
    let mut lists = Vec::with_capacity(words.len());
    for (index, word) in words.iter().enumerate() {
        for source in read_option(&format!("list {}", index + 1), word)? {
            let name = source.origin.clone();
            lists.push((name, nodes_of_text(source, &limits)?.into_text(&limits)?));
        }
    }
    Ok(lists)
}

/// Reports a file that is not a valid plugin, with a negative result.
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
        .cure("see pmix_plugin.h for the symbols that a plugin must export"))
}

fn print_report(out: &mut Out, style: Style, report: &PluginReport) -> Result<(), Failure> {
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
    if let Some(params) = &report.params {
        let params = params
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        let params = params.collect::<Vec<_>>().join(", ");
        let params = if params.is_empty() { "none" } else { &params };
        writeln!(out, "  parameters: {}", printable(params.as_bytes()))?;
    }
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
    let verdict = match report.faults().count() {
        0 if report.is_sound() => style.green("ok:"),
        0 => style.red("nothing was encoded:"),
        faults => style.red(&format!("{}:", counted(faults as u64, "fault"))),
    };
    let Counts {
        tried,
        encoded,
        kept,
        declined,
    } = report.counts();
    writeln!(
        out,
        "{verdict} {tried} lists tried, {encoded} encoded, {kept} kept, {declined} declined"
    )?;
    if !report.is_sound() && report.faults().next().is_none() {
        writeln!(
            out,
            "  pass a list that the plugin supports: pmix plugins check FILE LIST"
        )?;
    }
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

fn report_json(report: &PluginReport, sound: bool) -> Json {
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
    let counts = report.counts();
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
        "params": report.params.as_ref().map(|params| {
            let params = params.iter();
            params.map(|(name, value)| json!({ "name": name, "default": value })).collect::<Vec<_>>()
        }),
        "counts": {
            "tried": counts.tried,
            "encoded": counts.encoded,
            "kept": counts.kept,
            "declined": counts.declined,
        },
        "samples": samples.collect::<Vec<_>>(),
    })
}
