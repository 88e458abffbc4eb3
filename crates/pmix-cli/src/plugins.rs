// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix plugins list`: the state of the framework.

use std::io::Write;

use pmix_mca::Source;
use preg_core::ComponentStatus;
use serde_json::{Value as Json, json};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printable::printable;

/// Shows every component, and the files that were refused.
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
        "{:<12} {:>8}  {:<10}  {:<8}  {:<8}  about",
        "component", "priority", "state", "tag", "type"
    );
    writeln!(out, "{}", style.bold(&head))?;
    for component in preg.components() {
        let state = format!("{:<10}", state(component));
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
        (None, false) => "write only",
        (Some(_), true) => "reads only",
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
