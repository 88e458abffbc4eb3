// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix info`: every parameter, its value, and where the value comes from.

use std::io::Write;

use pmix_mca::{ParamInfo, Params, Source};
use serde_json::json;

use crate::args::{Global, Info};
use crate::context::params;
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::printable::printable;
use crate::style::Style;

/// The word that asks for every framework.
const ALL: &str = "all";

/// Shows parameters, even where the framework cannot be opened with them: the fault comes last.
pub(crate) fn run(global: &Global, args: &Info) -> Result<Exit, Failure> {
    let params = params(global)?;
    let (catalog, opened) = match pmix_builtin::open_preg(&params) {
        Ok(preg) => (preg.catalog().clone(), Ok(Exit::Ok)),
        Err(error) => {
            let catalog = preg_core::parameters(&pmix_builtin::preg_components());
            (catalog, Err(Failure::settings(&error)))
        }
    };
    let mut infos = catalog.describe(&params);
    let frameworks = frameworks(&infos);
    if args.param != ALL && !frameworks.contains(&args.param.as_str()) {
        let message = format!("no framework {:?} has parameters", args.param);
        let cure = format!("there are {}, {ALL}", frameworks.join(", "));
        return Err(Failure::usage(message).cure(cure));
    }
    let wanted = args.param.clone();
    infos.retain(|info| wanted == ALL || framework_of(&info.name) == wanted);
    let mut out = Out::new();
    if global.json {
        print_json(&mut out, &params, &infos)?;
    } else {
        let style = Style::new(global.color, &std::io::stdout());
        print(&mut out, style, &params, &infos)?;
    }
    out.flush()?;
    opened
}

/// The first word of a parameter's name.
fn framework_of(name: &str) -> &str {
    name.split('_').next().unwrap_or(name)
}

fn frameworks(infos: &[ParamInfo]) -> Vec<&str> {
    let mut all: Vec<_> = infos.iter().map(|info| framework_of(&info.name)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn print(out: &mut Out, style: Style, params: &Params, infos: &[ParamInfo]) -> Result<(), Failure> {
    for file in params.files() {
        writeln!(out, "{} {}", style.dim("read"), file.display())?;
    }
    for info in infos {
        let (value, source) = in_force(info);
        let name = style.bold(&info.name);
        match source {
            Source::Default => writeln!(out, "{name} = {value}")?,
            source => writeln!(
                out,
                "{name} = {value}  {}",
                style.green(&format!("({source})"))
            )?,
        }
        writeln!(out, "    {}", info.help)?;
        if *source != Source::Default {
            writeln!(
                out,
                "    {}",
                style.dim(&format!("built in: {}", shown(&info.default)))
            )?;
        }
        for below in &info.overridden {
            let line = format!("overrides {} ({})", shown(&below.value), below.source);
            writeln!(out, "    {}", style.dim(&line))?;
        }
    }
    Ok(())
}

/// An empty value stands for the default, whoever set it.
fn in_force(info: &ParamInfo) -> (String, &Source) {
    let value = match info.setting.value.trim() {
        "" => &info.default,
        _ => &info.setting.value,
    };
    (shown(value), &info.setting.source)
}

fn shown(value: &str) -> String {
    match value {
        "" => "(empty)".to_owned(),
        value => printable(value.as_bytes()),
    }
}

fn print_json(out: &mut Out, params: &Params, infos: &[ParamInfo]) -> Result<(), Failure> {
    let files: Vec<_> = params
        .files()
        .iter()
        .map(|f| f.display().to_string())
        .collect();
    let all = infos.iter().map(|info| {
        let overridden = info
            .overridden
            .iter()
            .map(|below| json!({ "value": below.value, "source": below.source.to_string() }));
        json!({
            "name": info.name,
            "framework": framework_of(&info.name),
            "component": info.component,
            "value": info.setting.value,
            "default": info.default,
            "source": info.setting.source.to_string(),
            "help": info.help,
            "overridden": overridden.collect::<Vec<_>>(),
        })
    });
    out.json(&json!({ "files": files, "params": all.collect::<Vec<_>>() }))
}
