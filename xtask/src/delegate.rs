// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks that are programs of their own: `cargo xtask` runs them and reads their counts from a file.

use std::ffi::OsStr;
use std::fs;
use std::process::ExitCode;

use crate::Outcome;
use crate::install;
use crate::process::{self, cargo};

/// The variable that names the file for the counts.
const FILE: &str = "XTASK_OUTCOME";

/// Runs the program of a package with these arguments and returns its counts.
///
/// A program that does not build, or exits before it has written its counts, is one failed check.
pub fn delegate<S: AsRef<OsStr>>(package: &str, arguments: &[S]) -> Outcome {
    match try_delegate(package, arguments) {
        Ok(outcome) => outcome,
        Err(why) => {
            let mut outcome = Outcome::default();
            outcome.check(package, Err(why));
            outcome
        }
    }
}

fn try_delegate<S: AsRef<OsStr>>(package: &str, arguments: &[S]) -> Result<Outcome, String> {
    let name = format!("{package}-{}", std::process::id());
    let file = install::scratch("outcomes")?.join(name);
    let mut command = cargo(["run", "--quiet", "--locked", "--package", package, "--"]);
    command.args(arguments).env(FILE, &file);
    let asked = arguments.iter().any(|word| word.as_ref() == "--install");
    if install::may_install() && !asked {
        command.arg("--install");
    }
    // A failed check also fails the program, whose counts say more than its exit status.
    let ended = process::run(&mut command);
    let Ok(text) = fs::read_to_string(&file) else {
        ended?;
        // A program that only printed its help has no counts.
        let for_help = arguments.iter().any(|word| {
            let word = word.as_ref();
            word == "--help" || word == "-h"
        });
        return match for_help {
            true => Ok(Outcome::default()),
            false => Err(format!("{package} counted nothing")),
        };
    };
    let _ = fs::remove_file(&file);
    let outcome = Outcome::from_json(&text)?;
    match ended {
        Err(why) if outcome.failed == 0 => Err(why),
        _ => Ok(outcome),
    }
}

/// Reports the counts of a task's program to `cargo xtask`, or prints them as the closing line if the program was
/// started directly.
pub fn close(outcome: &Outcome) -> ExitCode {
    match std::env::var_os(FILE) {
        None => println!("{outcome}"),
        Some(file) => {
            if let Err(why) = fs::write(&file, outcome.to_json()) {
                eprintln!("{}: {why}", file.display());
                return ExitCode::FAILURE;
            }
        }
    }
    match outcome.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
