// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's tasks, in place of shell scripts.
//!
//! `cargo xtask` alone lists them. Every task ends with the plain line `N passed, N failed, N
//! skipped` and exits with 0 only if nothing failed. With `--install` a task installs what it needs
//! and does not find, as it does where the variable `CI` is set.
#![forbid(unsafe_code)]

mod bench;
mod captures;
mod ci;
mod faults;
mod fuzz;
mod install;
mod interop;
mod matrix;
mod outcome;
mod process;
mod tables;
mod test;
mod tidy;

use std::process::ExitCode;

pub(crate) use outcome::Outcome;

/// One task: how it is called, what it does and the function that does it.
struct Task {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Outcome,
}

/// Every task, in the order in which they are listed.
const TASKS: &[Task] = &[
    Task {
        name: "bench",
        arguments: "PART [--full]",
        about: "what it costs, beside the real library and others",
        run: bench::run,
    },
    Task {
        name: "interop",
        arguments: "[PART] [--seed N]",
        about: "our data into real PMIx libraries, theirs into us",
        run: interop::run,
    },
    Task {
        name: "faults",
        arguments: "[--short] [--only NAME] [--seed N]",
        about: "a live server among hostile and dying peers",
        run: faults::run,
    },
    Task {
        name: "test",
        arguments: "",
        about: "format, lints, every test, documentation and tidy",
        run: test::run,
    },
    Task {
        name: "matrix",
        arguments: "",
        about: "the command in every build and configuration, read across",
        run: matrix::run,
    },
    Task {
        name: "fuzz",
        arguments: "SECONDS [TARGET]",
        about: "every fuzz target for that long, two at a time",
        run: fuzz::run,
    },
    Task {
        name: "ci",
        arguments: "",
        about: "all that must hold: test, matrix, fuzz, faults, interop",
        run: ci::run,
    },
    Task {
        name: "tables",
        arguments: "[--check]",
        about: "the generated constants, from the tables of data/",
        run: tables::run,
    },
    Task {
        name: "tidy",
        arguments: "[--deviations]",
        about: "layers, unsafe homes, scheme names, licences, file sizes",
        run: tidy::run,
    },
];

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--install") {
        arguments.retain(|word| word != "--install");
        install::allow();
    }
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    };
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let Some(task) = task(name) else {
        eprintln!("there is no task {name:?}\n\n{}", usage());
        return ExitCode::from(2);
    };
    let outcome = (task.run)(rest);
    println!("{outcome}");
    if outcome.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The task of a name.
fn task(name: &str) -> Option<&'static Task> {
    TASKS.iter().find(|task| task.name == name)
}

/// The list of tasks.
fn usage() -> String {
    let mut text = String::from("usage: cargo xtask TASK [ARGUMENTS] [--install]\n\n");
    for task in TASKS {
        let call = format!("{} {}", task.name, task.arguments);
        text.push_str(&format!("  {call:<26} {}\n", task.about));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_names_every_task_once() {
        let text = usage();
        for task in TASKS {
            let line = format!("\n  {} ", task.name);
            assert_eq!(text.matches(&line).count(), 1, "{}", task.name);
        }
    }
}
