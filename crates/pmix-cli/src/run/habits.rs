// SPDX-License-Identifier: MIT OR Apache-2.0
//! Support for command lines of other launchers: long options with one dash (`-np 4`, `-wdir DIR`).

use std::ffi::{OsStr, OsString};

use clap::Command;

/// Options of other launchers that `pmix run` does not have, and their replacements.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["-o", "--output", "-e", "--error", "--output-proctable"],
        "use `--output-dir DIR` to write the output of each process to files in DIR, `--output-name out.%r` \
        for their names, `--tag-output` to prefix each line with its process, and `--merge-output` to \
        join both streams",
    ),
    (
        &["-i", "--input"],
        "standard input goes to rank 0; use `--stdin RANK` for another rank",
    ),
    (
        &["-q", "-Q"],
        "use `--quiet` to omit the messages about ranks that others wait for",
    ),
    (
        &["-K", "--kill-on-bad-exit"],
        "omit it: a process that fails ends the job unless `--keep-going` is given",
    ),
    (
        &[
            "--npernode",
            "--pernode",
            "--ntasks-per-node",
            "--tasks-per-node",
            "--perhost",
        ],
        "use `-n N` for the number of processes on this node",
    ),
    (
        &["-t", "--time"],
        "use `--timeout SECONDS` to limit the run time of the job",
    ),
    (
        &["-w", "-H", "--nodelist", "--hosts"],
        "use `--host NODE` with the name of this node; processes start on this node only",
    ),
    (
        &["-J", "--job-name"],
        "use `--nspace NAME` for the name of the job",
    ),
    (
        &["--mpi"],
        "omit it: processes find the PMIx server automatically",
    ),
    (
        &["--cpu-bind", "--cpus-binding"],
        "use `--bind-to PART` to bind processes, for example to `core`",
    ),
    (
        &["-m", "--distribution", "--rankfile", "--rf"],
        "use `--map-by PART` to place processes, and `--cpu-set LIST` to select processors",
    ),
    (
        &["--gmca", "--pmixmca", "--prtemca", "--omca"],
        "use `--mca NAME VALUE` to set a parameter",
    ),
    (
        &["-f", "--machine"],
        "use `--hostfile FILE` with a file of nodes that includes this node",
    ),
    (
        &[
            "--display-map",
            "--display-devel-map",
            "--display-allocation",
            "--show-progress",
        ],
        "use `--report-bindings` to print bindings before processes start, or `--report` to also print how they ended",
    ),
    (
        &["--nooversubscribe", "--no-oversubscribe"],
        "`--cpus-per-rank N` and `--map-by ppr:N:PART` fail if there are too few processors",
    ),
    (
        &["--use-hwthread-cpus", "--hint", "--threads-per-core"],
        "use `--bind-to hwthread` or `--bind-to core` to select one of the two; `--map-by` accepts both",
    ),
    (
        &["--enable-recovery", "--continuous"],
        "use `--keep-going` to continue when a process fails, and `--max-restarts N` to restart it",
    ),
    (
        &["-W", "--wait"],
        "use `--grace SECONDS` for the time that processes have to terminate when the job ends",
    ),
    (
        &["--report-uri"],
        "tools find the server automatically, also by its process ID; `-v` shows its address",
    ),
    (
        &[
            "--personality",
            "--prefix",
            "--noprefix",
            "--launch-agent",
            "--nolocal",
        ],
        "omit it: processes start on this node only, with any MPI library",
    ),
    (
        &[
            "-A",
            "--account",
            "-p",
            "--partition",
            "--qos",
            "--reservation",
            "-C",
            "--constraint",
            "--exclusive",
            "--overlap",
            "--mem",
            "--mem-per-cpu",
            "-G",
            "--gpus",
            "--gpus-per-task",
            "--gpus-per-node",
            "--gres",
        ],
        "this is an option of a scheduler: pass it to Slurm's `salloc`, and start `pmix run` in the allocation",
    ),
    (
        &["--env", "--envlist", "--genvlist", "--envall", "--genvall"],
        "processes inherit the environment of the launcher; use `-x VAR=VALUE` to set more variables",
    ),
];

/// The help for an option of the whole job after a `:`.
pub(super) const WHOLE: &str = "options of the whole job must precede the first program";

/// Returns the replacement for an option of another launcher, if it is known.
pub(crate) fn elsewhere(option: &str) -> Option<&'static str> {
    let (option, _) = option.split_once('=').unwrap_or((option, ""));
    let mut known = ELSEWHERE.iter();
    let found = known.find(|(options, _)| options.contains(&option))?;
    Some(found.1)
}

/// Returns `true` if a word may be a long option with one dash.
pub(super) fn has_one_dash(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.len() > 2 && bytes[0] == b'-' && bytes[1] != b'-'
}

/// Returns the words of a command line, with a second dash added to long options that have one dash.
/// Arguments of the program are not changed.
pub(super) fn with_two_dashes(command: &Command, words: Vec<OsString>) -> Vec<OsString> {
    if !words.iter().any(|word| has_one_dash(word)) {
        return words;
    }
    let mut made = Vec::with_capacity(words.len());
    let mut rest = words.into_iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        if !text.starts_with('-') || text == "--" {
            made.push(word);
            break;
        }
        let name = text.trim_start_matches('-');
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        let is_known = named(command, name).is_some() || elsewhere(&format!("--{name}")).is_some();
        let is_long = text.starts_with("--") || (name.len() > 1 && is_known);
        let num_values = num_values(command, &text, is_long);
        match is_long && !text.starts_with("--") {
            true => made.push([OsStr::new("-"), &word].into_iter().collect()),
            false => made.push(word),
        }
        made.extend(rest.by_ref().take(num_values));
    }
    made.extend(rest);
    made
}

/// Returns the position of the command's name in a command line, after the program and the global options.
pub(super) fn command_at(cli: &Command, words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        let word = words.get(at)?.to_string_lossy();
        match word.strip_prefix('-') {
            None | Some("") => return Some(at),
            Some("-") => return None,
            Some(_) => at += 1 + num_values(cli, &word, word.starts_with("--")),
        }
    }
}

/// Returns the number of words after an option that are its values.
fn num_values(command: &Command, word: &str, is_long: bool) -> usize {
    let name = word.trim_start_matches('-');
    let (name, has_value) = match name.split_once('=') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    // A short option can have its value in the same word: -n4.
    let option = match is_long {
        true => named(command, name),
        false => short(command, name).filter(|_| name.chars().count() == 1),
    };
    option.map_or(0, |option| {
        let takes = option.get_action().takes_values() && !has_value;
        let range = option.get_num_args().unwrap_or_else(|| 1.into());
        if takes { range.min_values().max(1) } else { 0 }
    })
}

/// Returns `true` if a command has an option, which includes its dashes.
pub(super) fn has_option(command: &Command, option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(name) => named(command, name).is_some(),
        None => short(command, option.trim_start_matches('-')).is_some(),
    }
}

fn named<'a>(command: &'a Command, name: &str) -> Option<&'a clap::Arg> {
    command.get_arguments().find(|arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(name) || aliases.contains(&name)
    })
}

fn short<'a>(command: &'a Command, name: &str) -> Option<&'a clap::Arg> {
    let letter = name.chars().next();
    command
        .get_arguments()
        .find(|arg| arg.get_short().is_some() && arg.get_short() == letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Global, Run};
    use clap::{Args as _, CommandFactory as _};

    #[test]
    fn the_command_follows_the_global_options() {
        let cli = crate::args::Cli::command();
        let command = |line: &str| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            let at = command_at(&cli, &words)?;
            words[at].to_str().map(str::to_owned)
        };
        for (line, expected) in [
            ("pmix run -np 4 prog", Some("run")),
            ("pmix -v --color never run -n 4 prog", Some("run")),
            ("pmix --color=never -vv run", Some("run")),
            ("pmix --mca run run attr x", Some("attr")),
            ("pmix map encode run -np", Some("map")),
            ("pmix --json", None),
            ("pmix -- run", None),
            ("pmix", None),
        ] {
            assert_eq!(command(line).as_deref(), expected, "{line}");
        }
    }

    fn rewritten(line: &str) -> String {
        let command = Run::augment_args(Global::augment_args(Command::new("run")));
        let words = line.split(' ').map(OsString::from).collect();
        let words = with_two_dashes(&command, words);
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn options_of_other_launchers_do_not_exist_here() {
        let command = Run::augment_args(Global::augment_args(Command::new("run")));
        for option in ELSEWHERE.iter().flat_map(|(options, _)| *options) {
            assert!(!has_option(&command, option), "{option}");
        }
        assert_eq!(elsewhere("--output=tag"), elsewhere("-o"));
        assert_eq!(elsewhere("--outptu"), None);
    }

    #[test]
    fn long_options_get_their_second_dash_and_the_program_keeps_its_own() {
        for (typed, meant) in [
            ("-np 4 prog -np 4", "--np 4 prog -np 4"),
            ("-n 2 -wdir /tmp prog -v", "-n 2 --wdir /tmp prog -v"),
            ("-n4 -x A=1 prog", "-n4 -x A=1 prog"),
            ("-genv A -np prog -np", "--genv A -np prog -np"),
            ("--mca btl -np prog -np", "--mca btl -np prog -np"),
            ("--timeout=5 -np 2 prog", "--timeout=5 --np 2 prog"),
            ("-vv -np 2 -- -np", "-vv --np 2 -- -np"),
            ("-npernode 2 prog", "--npernode 2 prog"),
        ] {
            assert_eq!(rewritten(typed), meant);
        }
    }
}
