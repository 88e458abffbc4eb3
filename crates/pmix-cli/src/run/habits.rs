// SPDX-License-Identifier: MIT OR Apache-2.0
//! What users of other launchers type, in the form that the argument parser takes: long options
//! behind one dash (`-np 4`, `-wdir DIR`).

use std::ffi::{OsStr, OsString};

use clap::Command;

/// Options of other launchers that `pmix run` does not take, and what does here what they mean.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["-o", "--output", "-e", "--error", "--output-proctable"],
        "`--output-dir DIR` has each process write to files there, which `--output-name out.%r` names; \
         `--tag-output` says in front of each line who wrote it, and `--merge-output` joins both streams",
    ),
    (
        &["-i", "--input"],
        "what `pmix run` reads goes to rank 0, or to the one of `--stdin RANK`",
    ),
    (
        &["-q", "-Q", "--quiet"],
        "leave it out: `pmix run` says nothing as long as all goes well",
    ),
    (
        &["-K", "--kill-on-bad-exit"],
        "leave it out: a process that fails ends the job, unless `--keep-going` is given",
    ),
    (
        &[
            "--npernode",
            "--pernode",
            "--ntasks-per-node",
            "--tasks-per-node",
            "--perhost",
        ],
        "`-n N` says how many processes there are, on this node",
    ),
    (
        &["-t", "--time"],
        "`--timeout SECONDS` says how long the job may run",
    ),
    (
        &["-w", "-H", "--nodelist", "--hosts"],
        "`--host NODE` names this node; processes start on no other",
    ),
    (
        &["-J", "--job-name"],
        "`--nspace NAME` says what the job is called",
    ),
    (
        &["--mpi"],
        "leave it out: processes find the PMIx server by themselves",
    ),
    (
        &["--cpu-bind", "--cpus-binding"],
        "`--bind-to PART` confines processes, to `core` for one",
    ),
    (
        &["-m", "--distribution", "--rankfile", "--rf"],
        "`--map-by PART` says where processes run, and `--cpu-set LIST` on which processors",
    ),
    (
        &["--gmca", "--pmixmca", "--prtemca", "--omca"],
        "`--mca NAME VALUE` sets a parameter",
    ),
    (
        &["-f", "--machine"],
        "`--hostfile FILE` names a file of nodes, this one among them",
    ),
    (
        &["-u", "--unbuffered"],
        "`--no-whole-lines` has processes write to the launcher's own streams themselves",
    ),
    (
        &[
            "--display-map",
            "--display-devel-map",
            "--display-allocation",
            "--show-progress",
        ],
        "`--report-bindings` says where processes run before they start, and `--report` how they ended, too",
    ),
    (
        &["--nooversubscribe", "--no-oversubscribe"],
        "`--cpus-per-rank N` and `--map-by ppr:N:PART` are refused where there is less than they name",
    ),
    (
        &["--use-hwthread-cpus", "--hint", "--threads-per-core"],
        "`--bind-to hwthread` or `--bind-to core` says which of the two a process has, and `--map-by` deals out \
         either",
    ),
    (
        &["--enable-recovery", "--continuous"],
        "`--keep-going` lets the others go on when a process fails, and `--max-restarts N` starts it again",
    ),
    (
        &["-W", "--wait"],
        "`--grace SECONDS` says how long processes may take to end when the job does",
    ),
    (
        &["--report-uri"],
        "tools find the server by themselves, by process id too; `-v` says where it listens",
    ),
    (
        &[
            "--personality",
            "--prefix",
            "--noprefix",
            "--launch-agent",
            "--nolocal",
        ],
        "leave it out: processes start on this node alone, whatever MPI they use",
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
        "that is asked of a scheduler: `salloc` of Slurm takes it, and `pmix run` runs inside of the allocation",
    ),
    (
        &["--env", "--envlist", "--genvlist", "--envall", "--genvall"],
        "processes have the environment of the launcher, and `-x VAR=VALUE` sets more",
    ),
];

/// What is said of an option behind a `:` that is for all applications.
pub(super) const WHOLE: &str = "what is for the whole job stands in front of the first program";

/// What does here what an option of another launcher means, if that is known.
pub(crate) fn elsewhere(option: &str) -> Option<&'static str> {
    let (option, _) = option.split_once('=').unwrap_or((option, ""));
    let mut known = ELSEWHERE.iter();
    let found = known.find(|(options, _)| options.contains(&option))?;
    Some(found.1)
}

/// Whether a word may be a long option behind one dash.
pub(super) fn has_one_dash(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.len() > 2 && bytes[0] == b'-' && bytes[1] != b'-'
}

/// The words of a command line, with a second dash in front of long options that have one. What stands
/// behind the program is for the program and stays as it is.
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

/// Where the name of a command stands in the words of a command line, behind the program and the options of every
/// command.
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

/// How many of the words behind an option are its values.
fn num_values(command: &Command, word: &str, is_long: bool) -> usize {
    let name = word.trim_start_matches('-');
    let (name, has_value) = match name.split_once('=') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    // A value may stand in the same word as a short option: -n4.
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

/// Whether a command has an option, which is given with its dashes.
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
    fn the_command_stands_behind_the_options_of_every_command() {
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
    fn what_is_known_of_elsewhere_is_no_option_here() {
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
