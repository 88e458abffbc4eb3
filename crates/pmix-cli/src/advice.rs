// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for unknown words and options of all commands but `pmix run`.

use std::ffi::{OsStr, OsString};

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use pmix_mca::Environment;
use rustix::fs::{Access, access};

/// Arguments that a command does not have, and the advice for each; `""` for any argument without a dash.
const OF_COMMANDS: &[(&str, &[&str], &str)] = &[
    (
        "map diff",
        &[""],
        "name the maps by options: pmix map diff --nodes OLD --new-nodes NEW; for two lists, use `pmix map minus` or `pmix map xor`",
    ),
    (
        "map verify",
        &[""],
        "name the maps by options: pmix map verify --nodes NODES --procs PROCS",
    ),
    (
        "map batch",
        &[""],
        "requests are read from standard input: pmix map batch < FILE",
    ),
    (
        "info",
        &["--parsable", "--parseable"],
        "use `pmix --json info`",
    ),
    ("ps", &[""], "name one job, or none for all jobs"),
    ("top", &[""], "name one job, or none for all jobs"),
    ("events", &[""], "name one job, or none for all jobs"),
    ("attach", &[""], "name one job; `pmix ps` lists the jobs"),
    ("release", &[""], "name one job; `pmix ps` lists the jobs"),
    (
        "hello",
        &[""],
        "a launcher starts it, for example `pmix run -n 4 pmix hello`",
    ),
    (
        "doctor",
        &[""],
        "name one job or program, or none for this node",
    ),
    ("attr", &[""], "name one attribute, key or pattern"),
    ("status", &[""], "name one status, number or pattern"),
];

/// Adds advice to an error about an argument that a command does not have, unless a similar option exists.
pub(crate) fn of_argument(
    mut error: clap::Error,
    command: &Command,
    words: &[OsString],
) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let (path, of_command) = path(command, words);
    let name = word.split('=').next().unwrap_or_default();
    let kind = if name.starts_with('-') { name } else { "" };
    let listed = OF_COMMANDS.iter();
    let listed = listed.filter(|(command, _, _)| *command == path);
    let known = listed.into_iter().find(|(_, args, _)| args.contains(&kind));
    if known.is_none() && error.get(ContextKind::SuggestedArg).is_some() {
        return error;
    }
    let help = match path.is_empty() {
        true => "pmix --help".to_owned(),
        false => format!("pmix {path} --help"),
    };
    let of_run = command.find_subcommand(crate::run::NAME);
    let tip = match known {
        Some((_, _, tip)) => (*tip).to_owned(),
        None if let Some(signal) = signal(words).filter(|_| path == "kill") => {
            format!("use `--signal {signal}`")
        }
        None if path.is_empty()
            && of_run.is_some_and(|run| crate::run::habits::has_option(run, name)) =>
        {
            format!("this is an option of `pmix run`: pmix run {name} …")
        }
        // The word may be meant as a value, and is a number.
        None if is_number(name) => return error,
        None if kind.is_empty() && of_command.get_positionals().next().is_none() => {
            format!("this command has options only: `{help}` lists them")
        }
        None if kind.is_empty() => format!("`{help}` shows the arguments"),
        None => format!("`{help}` lists the options"),
    };
    error.remove(ContextKind::SuggestedArg);
    suggest(&mut error, tip);
    error
}

/// Returns the advice for a word that is no command: that for a program, or the list of commands.
pub(crate) fn of_command(word: &str, command: &Command, words: &[OsString]) -> String {
    match path(command, words).0 {
        path if !path.is_empty() => format!("`pmix {path} --help` lists the commands"),
        _ if is_program(word) => format!("to start this program, use `pmix run -n N {word}`"),
        _ => "`pmix --help` lists the commands".to_owned(),
    }
}

/// Replaces the advice of the parser.
pub(crate) fn suggest(error: &mut clap::Error, tip: String) {
    let tips = vec![StyledStr::from(tip)];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// Returns the names of the commands in a command line, and the last of these commands.
fn path<'c>(command: &'c Command, words: &[OsString]) -> (String, &'c Command) {
    let mut found = command;
    let mut names = Vec::new();
    for word in words.iter().skip(1) {
        let mut inside = found.get_subcommands();
        let is_named = |one: &&Command| {
            word == one.get_name() || one.get_all_aliases().any(|alias| word == alias)
        };
        if let Some(one) = inside.find(is_named) {
            names.push(one.get_name());
            found = one;
        }
    }
    (names.join(" "), found)
}

/// Returns the signal in a command line with `-9` or `-KILL`, as kill(1) has them.
fn signal(words: &[OsString]) -> Option<&str> {
    let names = words
        .iter()
        .filter_map(|word| word.to_str()?.strip_prefix('-'));
    let mut signals = names.filter(|name| pmix_launch::signal_number(name).is_some());
    signals.next()
}

fn is_number(option: &str) -> bool {
    let digits = option.strip_prefix('-').unwrap_or(option);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns `true` for the path of a file, and for the name of a program in `PATH`.
fn is_program(word: &str) -> bool {
    let is_executable =
        |path: &std::path::Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if word.contains('/') {
        return is_executable(word.as_ref());
    }
    let environment = Environment::of_process();
    let path = environment.first_of(&["PATH"]);
    let dirs = path.unwrap_or_else(|| OsStr::new(""));
    // A long `PATH` must not delay a message.
    let mut dirs = std::env::split_paths(dirs).take(64);
    dirs.any(|dir| is_executable(&dir.join(word)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_listed_command_exists() {
        let mut cli = crate::args::Cli::command();
        cli.build();
        for (listed, args, _) in OF_COMMANDS {
            let words = ["pmix"].into_iter().chain(listed.split(' '));
            let words: Vec<_> = words.map(OsString::from).collect();
            let (found, command) = path(&cli, &words);
            assert_eq!(found, *listed);
            let mut options = args.iter().filter(|arg| !arg.is_empty());
            assert!(options.all(|option| !crate::run::habits::has_option(command, option)));
        }
    }

    #[test]
    fn signals_are_those_of_kill() {
        for option in ["-9", "-KILL", "-SIGTERM", "-usr1"] {
            let words = ["pmix", "kill", "job", option].map(OsString::from);
            assert_eq!(signal(&words), Some(&option[1..]));
        }
        let words = ["pmix", "kill", "9", "--kil", "-x", "--9", "-"].map(OsString::from);
        assert_eq!(signal(&words), None);
    }
}
