// SPDX-License-Identifier: MIT OR Apache-2.0
//! The applications of a job: what stands between one ` : ` and the next.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use pmix_launch::{App, Export};

use super::habits::{WHOLE, elsewhere, has_option, with_two_dashes};
use super::{NAME, mca, placement};
use crate::args::{AppArgs, Cli, NextApp};
use crate::failure::Failure;

/// Reads the applications, whose processes all have some variables, on the node that has these names. With maps, a
/// single application without `-n` has all their processes.
pub(super) fn read(
    mut first: AppArgs,
    placed: Option<u64>,
    all: &[Export],
    names: &[String],
) -> Result<Vec<App>, Failure> {
    let words = std::mem::take(&mut first.command);
    let mut parts = words.split(|word| word == ":");
    first.command = parts.next().unwrap_or_default().to_vec();
    let rest: Vec<&[OsString]> = parts.collect();
    if first.num_procs.is_none() && rest.is_empty() {
        let placed = placed.map(u32::try_from).transpose();
        first.num_procs = placed
            .map_err(|_| Failure::usage("the number of processes exceeds the largest rank"))?;
    }
    let mut apps = vec![app(first, all)?];
    if rest.is_empty() {
        return Ok(apps);
    }
    let mut cli = Cli::command();
    cli.build();
    let whole = cli
        .find_subcommand(NAME)
        .expect("this command is part of the program's arguments");
    for words in rest {
        let words = with_two_dashes(whole, words.to_vec());
        let next = NextApp::try_parse_from(words).map_err(|error| misuse(&error, whole))?;
        placement::check_nodes(&next.app, names)?;
        let own = mca::exports_of_app(&next.mca)?;
        apps.push(app(next.app, &[all, &own].concat())?);
    }
    Ok(apps)
}

fn app(args: AppArgs, all: &[Export]) -> Result<App, Failure> {
    let mut words = args.command.into_iter();
    let Some(program) = words.next() else {
        let failure = Failure::usage("an application has no program");
        return Err(failure.cure("name a program on each side of `:`, as in -n 2 ./a : -n 4 ./b"));
    };
    let mut exports = all.to_vec();
    for pair in args.genv.chunks_exact(2) {
        exports.push(Export::set(&pair[0], &pair[1]));
    }
    for word in &args.exports {
        exports.extend(export(word)?);
    }
    Ok(App {
        program: own(program),
        args: words.collect(),
        num_procs: args.num_procs.unwrap_or(1),
        wdir: args.wdir,
        exports,
    })
}

/// Returns the program to run; `pmix` is this command itself, even if it is not in PATH.
fn own(program: OsString) -> OsString {
    if program != "pmix" {
        return program;
    }
    std::env::current_exe().map_or(program, PathBuf::into_os_string)
}

/// Parses an argument of `-x`. `ALL` of srun is accepted, because the environment is always passed.
fn export(word: &OsStr) -> Result<Vec<Export>, Failure> {
    let text = word.to_string_lossy();
    if text == "NONE" {
        let failure = Failure::usage(
            "--export NONE is not supported: processes inherit the environment of the launcher",
        );
        return Err(failure.cure("`env -i pmix run` starts the launcher with an empty environment"));
    }
    let words = match text.strip_prefix("ALL") {
        Some("") => return Ok(Vec::new()),
        Some(rest) if rest.starts_with(',') => rest[1..].split(',').map(OsString::from).collect(),
        _ => vec![word.to_owned()],
    };
    let read = |word: &OsString| {
        Export::parse(word).ok_or_else(|| {
            let failure =
                Failure::usage(format!("-x {}: missing name of a variable", word.display()));
            failure.cure("use -x NAME, -x NAME=VALUE or -x 'PREFIX*'")
        })
    };
    words.iter().map(read).collect()
}

/// Converts an error of clap about the words after a `:`, without its usage. Adds the replacement for an
/// option of the whole job or of another launcher.
fn misuse(error: &clap::Error, whole: &clap::Command) -> Failure {
    let text = error.to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" ");
    let failure = Failure::usage(format!("after `:`: {}", text.trim_start_matches("error: ")));
    let cure = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => {
            elsewhere(option).or_else(|| has_option(whole, option).then_some(WHOLE))
        }
        _ => None,
    };
    failure.cure(cure.unwrap_or(
        "expected after `:`: [-n N] [-x VAR[=VALUE]] [--wdir DIR] [--mca NAME VALUE] PROGRAM [ARG]...",
    ))
}
