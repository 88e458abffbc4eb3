// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that OpenPMIx's tools have, by which the command can be started, too.

use std::ffi::OsString;
use std::path::Path;

/// The names of the program, and the command for each.
const NAMES: [(&str, &str); 4] = [
    ("pattrs", "attr"),
    ("plookup", "lookup"),
    ("pps", "ps"),
    ("pquery", "query"),
];

/// Returns the words of a command line, with the command that the name of the program selects inserted.
pub(crate) fn words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    let name = words.first().and_then(|word| Path::new(word).file_name());
    let meant = NAMES
        .iter()
        .find(|(known, _)| name.is_some_and(|name| name == *known));
    if let Some((_, command)) = meant {
        words[0] = "pmix".into();
        // The version is that of the whole.
        if !words
            .get(1)
            .is_some_and(|word| word == "--version" || word == "-V")
        {
            words.insert(1, (*command).into());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let line = words(line.split(' ').map(OsString::from));
        let line: Vec<_> = line.iter().map(|word| word.to_string_lossy()).collect();
        line.join(" ")
    }

    #[test]
    fn a_program_name_selects_its_command() {
        assert_eq!(read("/opt/bin/pps --json"), "pmix ps --json");
        assert_eq!(read("pquery pmix.job.size"), "pmix query pmix.job.size");
        assert_eq!(read("plookup a"), "pmix lookup a");
        assert_eq!(read("./pattrs"), "pmix attr");
        assert_eq!(read("pps --version"), "pmix --version");
    }

    #[test]
    fn other_program_names_select_no_command() {
        for line in ["pmix pps", "/usr/bin/pmix-1 ps", "", "pps2"] {
            assert_eq!(read(line), line);
        }
    }

    #[test]
    fn every_command_is_there() {
        use clap::CommandFactory as _;
        let command = crate::args::Cli::command();
        for (name, stands_for) in NAMES {
            assert!(command.find_subcommand(stands_for).is_some(), "{name}");
        }
    }
}
