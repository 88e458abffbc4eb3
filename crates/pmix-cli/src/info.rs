// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix info`: every parameter with its value and source; `pmix --version -v`: the build and its formats.

use std::fmt::Write as _;
use std::io::Write;

use bfrops::Module;
use pmix_mca::{Catalog, ParamInfo, Params, Source};
use pmix_types::{Pattern, Status};
use serde_json::json;

use crate::args::{Global, Info};
use crate::context::params;
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::style::{Style, printable};

/// The word for all frameworks.
const ALL: &str = "all";

/// Prints parameters. If the framework cannot be opened with them, the error is printed last.
pub(crate) fn run(global: &Global, args: &Info) -> Result<Exit, Failure> {
    let params = params(global)?;
    let server = server_catalogs();
    let (catalog, opened) = match pmix_builtin::open_preg(&params) {
        Ok(preg) => {
            let checked = server.iter().try_for_each(|catalog| catalog.check(&params));
            let checked = checked.map_err(|error| Failure::settings(&error.into()));
            (preg.catalog().clone(), checked.map(|()| Exit::Ok))
        }
        Err(error) => {
            let catalog = preg_core::parameters(&pmix_builtin::preg_components());
            (catalog, Err(Failure::settings(&error)))
        }
    };
    let mut infos = catalog.describe(&params);
    infos.extend(server.iter().flat_map(|c| c.describe(&params)));
    let frameworks = frameworks(&infos);
    if args.param != ALL && !frameworks.contains(&args.param.as_str()) {
        let message = format!("unknown framework {:?}", args.param);
        let cure = format!("known frameworks: {}, {ALL}", frameworks.join(", "));
        return Err(Failure::usage(message).cure(cure));
    }
    let wanted = args.param.clone();
    infos.retain(|info| wanted == ALL || framework_of(&info.name) == wanted);
    let patterns: Vec<_> = args.patterns.iter().map(|word| pattern(word)).collect();
    // As in `pmix_info --param all all`.
    let is_all = patterns.is_empty() || args.all || args.patterns.iter().any(|word| word == ALL);
    infos.retain(|info| is_all || patterns.iter().any(|one| finds(one, info)));
    if infos.is_empty() {
        let message = format!("no parameter matches {}", args.patterns.join(", "));
        return Err(Failure::new(Exit::Negative, Status::ERR_NOT_FOUND, message)
            .cure("`pmix info` without a pattern shows all parameters"));
    }
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

/// Returns the parameters of a server, without those of schemes.
pub(crate) fn server_catalogs() -> [Catalog; 2] {
    [
        pmix_server::psec_parameters(),
        pmix_server::gds_parameters(),
    ]
}

/// Returns the pattern for a word of the user. The name of an environment variable selects its
/// parameter.
fn pattern(word: &str) -> Pattern {
    Pattern::new(word.strip_prefix("PMIX_MCA_").unwrap_or(word))
}

/// Returns `true` if a pattern matches the name or the help of a parameter.
fn finds(pattern: &Pattern, info: &ParamInfo) -> bool {
    pattern.matches(&info.name) || pattern.matches(&info.help)
}

/// Returns the first word of a parameter's name.
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

/// Returns the effective value. An empty value of any source means the default.
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

/// Returns `true` if the command line requests details with the version.
pub(crate) fn is_asked_for_in_full() -> bool {
    std::env::args_os().skip(1).any(|word| {
        let word = word.to_string_lossy();
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        word == "--verbose" || short.is_some_and(|letters| letters.contains('v'))
    })
}

/// Returns a line each for the features, the schemes, the bfrops modules, the compiler, its target,
/// and the loading of libraries.
pub(crate) fn details() -> String {
    let features = pmix_builtin::FEATURES.iter();
    let features =
        features.map(|(name, is_on)| format!("{}{name}", if *is_on { "+" } else { "-" }));
    let features: Vec<_> = features.collect();
    let encoders = pmix_builtin::preg_components();
    let encoders: Vec<_> = encoders.iter().map(|component| component.name).collect();
    let modules = Module::ALL.map(|module| module.name());
    // A static musl program cannot load libraries.
    let libraries = match cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        true => "not loaded: no plugin files, no MUNGE",
        false => "loaded at run time: plugin files, MUNGE",
    };
    let mut text = String::new();
    for (what, said) in [
        ("features", features.join(" ")),
        ("encoders", encoders.join(" ")),
        ("packed data", modules.join(" ")),
        ("compiler", env!("PMIX_COMPILER").to_owned()),
        ("target", env!("PMIX_TARGET").to_owned()),
        ("libraries", libraries.to_owned()),
    ] {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{what:<12} {said}");
    }
    text
}
