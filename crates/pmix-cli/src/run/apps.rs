// SPDX-License-Identifier: MIT OR Apache-2.0
//! The applications of a job: what stands between one ` : ` and the next.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Parser as _;
use pmix_launch::{App, Export};

use crate::args::{AppArgs, NextApp};
use crate::failure::Failure;

/// Reads the applications. With maps, a single application without `-n` has all their processes.
pub(super) fn read(mut first: AppArgs, placed: Option<u64>) -> Result<Vec<App>, Failure> {
    let words = std::mem::take(&mut first.command);
    let mut parts = words.split(|word| word == ":");
    first.command = parts.next().unwrap_or_default().to_vec();
    let rest: Vec<&[OsString]> = parts.collect();
    if first.num_procs.is_none() && rest.is_empty() {
        let placed = placed.map(u32::try_from).transpose();
        first.num_procs = placed.map_err(|_| Failure::usage("there are not so many ranks"))?;
    }
    let mut apps = vec![app(first)?];
    for words in rest {
        let next = NextApp::try_parse_from(words).map_err(|error| misuse(&error))?;
        apps.push(app(next.app)?);
    }
    Ok(apps)
}

fn app(args: AppArgs) -> Result<App, Failure> {
    let mut words = args.command.into_iter();
    let Some(program) = words.next() else {
        let failure = Failure::usage("an application has no program");
        return Err(failure.cure("each side of a : names one, as in -n 2 ./a : -n 4 ./b"));
    };
    let exports = args.exports.iter().map(|word| export(word));
    Ok(App {
        program: own(program),
        args: words.collect(),
        num_procs: args.num_procs.unwrap_or(1),
        wdir: args.wdir,
        exports: exports.collect::<Result<_, _>>()?,
    })
}

/// A program; `pmix` is this command itself, on the path or not.
fn own(program: OsString) -> OsString {
    if program != "pmix" {
        return program;
    }
    std::env::current_exe().map_or(program, PathBuf::into_os_string)
}

fn export(word: &OsStr) -> Result<Export, Failure> {
    Export::parse(word).ok_or_else(|| {
        let failure = Failure::usage(format!("-x {}: a variable is missing", word.display()));
        failure.cure("-x NAME, -x NAME=VALUE or -x 'PREFIX*'")
    })
}

/// What clap says of the words behind a `:`, without its usage.
fn misuse(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" ");
    Failure::usage(format!("behind a : {}", text.trim_start_matches("error: ")))
        .cure("what follows a : is [-n N] [-x VAR[=VALUE]] [--wdir DIR] PROGRAM [ARG]...")
}
