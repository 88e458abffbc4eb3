// SPDX-License-Identifier: MIT OR Apache-2.0
//! Support for command lines of other launchers: long options with one dash (`-np 4`, `-wdir DIR`), and the options that
//! `pmix run` does not have.

pub(crate) mod page;
mod places;
mod row;
mod scheduler;
mod streams;
mod table;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use clap::Command;
use pmix_launch::App;

use crate::failure::Failure;
use row::Handling;
use table::SECTIONS;

/// The help for an option of the whole job after a `:`.
pub(super) const WHOLE: &str = "options of the whole job must precede the first program";

/// Returns the replacement for an option of another launcher, if it is known. A long option may have one dash.
/// A short option may have its value in the same word: `-j4`.
pub(crate) fn elsewhere(option: &str) -> Option<&'static str> {
    let name = name_of(option);
    // Launchers give the same name with one dash and with two to different options.
    let spelling = option.split('=').next().unwrap_or(option);
    let exact = refused(|known| known == spelling);
    exact.or_else(|| refused_as(name)).or_else(|| {
        let mut letters = name.chars();
        letters.next()?;
        let value = letters.as_str();
        let is_value =
            value.starts_with(|letter: char| letter.is_ascii_digit() || "./%".contains(letter));
        let letter = &name[..name.len() - value.len()];
        is_value.then(|| refused_as(letter))?
    })
}

/// Returns the replacement for a refused option with this name, which has no dashes.
fn refused_as(name: &str) -> Option<&'static str> {
    refused(|known| name_of(known) == name)
}

/// Returns the replacement for the first refused option that the predicate selects.
fn refused(selects: impl Fn(&str) -> bool) -> Option<&'static str> {
    let mut rows = SECTIONS.iter().flat_map(|(_, rows)| *rows);
    rows.find_map(|row| match row.handling {
        Handling::Refused(cure) => {
            let mut names = row.names.iter();
            names.any(|known| selects(known)).then_some(cure)
        }
        Handling::Accepted(_) => None,
    })
}

/// Returns the name of an option without its dashes and its value.
fn name_of(option: &str) -> &str {
    let (option, _) = option.split_once('=').unwrap_or((option, ""));
    option.trim_start_matches('-')
}

/// Returns an unknown option as it was typed, if the parser got it with a second dash.
pub(crate) fn typed(option: &str) -> Option<String> {
    let one_dash = option
        .strip_prefix('-')
        .filter(|word| word.starts_with('-'))?;
    let is_typed = |word: OsString| {
        let word = word.to_string_lossy();
        word.split('=').next() == Some(one_dash)
    };
    std::env::args_os()
        .any(is_typed)
        .then(|| one_dash.to_owned())
}

/// Adds advice to the failure of a program that was not found, if its name looks like a part of a command line.
pub(super) fn misread(failure: Failure, apps: &[App]) -> Failure {
    let message = failure.message().to_owned();
    let cure = apps.iter().find_map(|app| {
        let name = app.program.to_string_lossy();
        message.contains(&*name).then(|| advice(&name, &app.args))?
    });
    let usual = match () {
        () if apps.iter().any(|app| app.program.as_os_str().is_empty()) => {
            "the name of the program is empty: give a program after the options"
        }
        () if message.contains("No such file") => {
            "give the path of the program, or add its directory to PATH"
        }
        () if message.contains("Permission denied") => {
            "a program is a file, not a directory, whose mode allows this user to run it: chmod +x FILE"
        }
        () if message.contains("Exec format error") => {
            "the file is no program for this machine; a script names its interpreter in the first line: #!/bin/sh"
        }
        () => "",
    };
    match cure {
        Some(cure) => failure.cure(cure),
        None if usual.is_empty() => failure,
        None => failure.or_cure(usual),
    }
}

/// Returns advice about a program with this name.
fn advice(name: &str, args: &[OsString]) -> Option<String> {
    let is_variable = |name: &str| {
        let begins = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
        name.starts_with(begins)
            && name
                .chars()
                .all(|letter| begins(letter) || letter.is_ascii_digit())
    };
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        let program = args
            .first()
            .map_or_else(|| "PROGRAM".into(), |word| word.to_string_lossy());
        return Some(format!(
            "use -n for the number of processes: `pmix run -n {name} {program}`"
        ));
    }
    if let Some((variable, _)) = name.split_once('=')
        && is_variable(variable)
    {
        return Some(format!(
            "use -x to set a variable: `pmix run -x {name} PROGRAM`"
        ));
    }
    if name.contains(|letter: char| letter.is_whitespace() || "|&;<>".contains(letter)) {
        return Some(format!(
            "a shell runs a command line: `pmix run sh -c '{name}'`; without quotes, the words are a program and its arguments"
        ));
    }
    None
}

/// Returns `true` if a word may be a long option with one dash.
pub(super) fn has_one_dash(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.len() > 2 && bytes[0] == b'-' && bytes[1] != b'-'
}

/// Returns `true` if a word is `--export`, which may name several variables.
pub(super) fn is_export(word: &OsStr) -> bool {
    name_of(&word.to_string_lossy()) == "export"
}

/// Returns the words of a command line, with a second dash added to long options that have one dash, and with one
/// option for each variable of `--export`. Arguments of the program are not changed.
pub(super) fn with_two_dashes(command: &Command, words: Vec<OsString>) -> Vec<OsString> {
    if !words
        .iter()
        .any(|word| has_one_dash(word) || is_export(word))
    {
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
        let name = name_of(&text);
        let is_known = named(command, name).is_some() || elsewhere(&text).is_some();
        // An option that is neither known nor a group of short ones is reported whole.
        let is_long =
            text.starts_with("--") || (name.len() > 1 && (is_known || !is_group(command, &text)));
        if is_export(&word) {
            // The value may be other bytes than UTF-8.
            let bytes = word.as_bytes();
            let value = match bytes.iter().position(|byte| *byte == b'=') {
                Some(at) => bytes.get(at + 1..).map(of_bytes),
                None => rest.next(),
            };
            made.extend(exports(value));
            continue;
        }
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

/// Returns `-x` for each variable of the value of `--export`. As srun does, the value separates variables by commas; a
/// comma in a value of one variable is kept if no name follows it.
fn exports(value: Option<OsString>) -> Vec<OsString> {
    let Some(value) = value else {
        return vec!["--export".into()];
    };
    let bytes = value.as_bytes();
    let is_name = |part: &[u8]| {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
        let name = name.strip_suffix(b"*").unwrap_or(name);
        let begins = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
        name.first().is_some_and(begins)
            && name
                .iter()
                .all(|byte| begins(byte) || byte.is_ascii_digit())
    };
    let mut parts = bytes.split(|byte| *byte == b',');
    // `ALL` has its meaning only in the value as a whole.
    if !bytes.contains(&b',') || bytes.starts_with(b"ALL,") || !parts.clone().all(is_name) {
        return vec!["--export".into(), value];
    }
    let mut made = Vec::new();
    for part in &mut parts {
        made.extend(["--export".into(), of_bytes(part)]);
    }
    made
}

/// Returns bytes as a word.
pub(super) fn of_bytes(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

/// Returns `true` if a word with one dash is a group of short options, of which the last may have a value.
fn is_group(command: &Command, text: &str) -> bool {
    let mut letters = text.trim_start_matches('-').chars();
    while let Some(letter) = letters.next() {
        let Some(option) = short(command, letter.encode_utf8(&mut [0; 4])) else {
            return false;
        };
        if option.get_action().takes_values() {
            let value = letters.as_str().trim_start_matches('=');
            let is_number = matches!(letter, 'n' | 'c' | 'N');
            return !is_number || value.starts_with(|letter: char| letter.is_ascii_digit());
        }
    }
    true
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
pub(crate) fn has_option(command: &Command, option: &str) -> bool {
    match name_of(option) {
        name if name.chars().count() > 1 => named(command, name).is_some(),
        name => short(command, name).is_some(),
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
    command.get_arguments().find(|arg| {
        let aliases = arg.get_all_short_aliases().unwrap_or_default();
        letter.is_some_and(|letter| arg.get_short() == Some(letter) || aliases.contains(&letter))
    })
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
    fn every_option_of_other_launchers_is_accepted_or_refused_with_a_replacement() {
        let command = Run::augment_args(Global::augment_args(Command::new("run")));
        let rows = || SECTIONS.iter().flat_map(|(_, rows)| *rows);
        let mut names = Vec::new();
        for row in rows() {
            assert!(!row.names.is_empty() && !row.from.is_empty());
            for name in row.names {
                let accepts = matches!(row.handling, Handling::Accepted(_));
                // These two options exist only to be refused with their own messages.
                let is_ambiguous = ["-c", "-N"].contains(name);
                assert_eq!(
                    has_option(&command, name),
                    accepts || is_ambiguous,
                    "{name}"
                );
                assert_eq!(elsewhere(name).is_some(), !accepts, "{name}");
                names.push(*name);
            }
        }
        let number = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), number, "an option has two rows");
        assert!(number > 230, "{number}");
        assert_eq!(elsewhere("--output=tag"), elsewhere("-o"));
        assert_eq!(elsewhere("--outptu"), None);
        assert_eq!(elsewhere("--j4"), elsewhere("-j"));
        assert_eq!(elsewhere("-oout.%t"), None);
        assert_eq!(elsewhere("-o%t"), elsewhere("-o"));
        assert_eq!(
            [elsewhere(""), elsewhere("-"), elsewhere("--n4")],
            [None; 3]
        );
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
            ("-launcher fork prog", "--launcher fork prog"),
            ("-prepend-rank prog", "--prepend-rank prog"),
            ("-nosuch prog -nosuch", "--nosuch prog -nosuch"),
            ("-lvn4 -xA=1 prog", "-lvn4 -xA=1 prog"),
            ("--export=A,B=1 prog", "--export A --export B=1 prog"),
            ("--export A,B -n 2 prog", "--export A --export B -n 2 prog"),
            ("--export=A=1,2 prog", "--export A=1,2 prog"),
            ("--export=ALL,B=2 prog", "--export ALL,B=2 prog"),
            (
                "--export=ALL_PROXY,A prog",
                "--export ALL_PROXY --export A prog",
            ),
            (
                "--export=ALLOW=1,B=2 prog",
                "--export ALLOW=1 --export B=2 prog",
            ),
        ] {
            assert_eq!(rewritten(typed), meant);
        }
        let command = Run::augment_args(Global::augment_args(Command::new("run")));
        let words = vec![of_bytes(b"--export=A=\xff,B"), "prog".into()];
        let expected = ["--export", "A=", "--export", "B", "prog"].map(OsString::from);
        let mut expected = expected.to_vec();
        expected[1] = of_bytes(b"A=\xff");
        assert_eq!(with_two_dashes(&command, words), expected);
    }
}
