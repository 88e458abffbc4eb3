// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions and manual pages, generated from the definition of the command line, and the names
//! of OpenPMIx's tools.

mod jobs;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use bfrops::Module;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Command, CommandFactory as _, ValueEnum};
use pmix_mca::Params;
use pmix_types::{Attribute, Constant, DataType};
use preg_core::Status;

use crate::args::{Cli, Listing, Part};
use crate::failure::{Exit, Failure};
use crate::manual;

/// Prints a completion script, which also completes names of attributes, statuses, types, schemes
/// and parameters.
pub(crate) fn completions(
    shell: Option<clap_complete::Shell>,
    list: Option<Listing>,
) -> Result<Exit, Failure> {
    let Some(shell) = shell else {
        let names = match list {
            Some(Listing::Jobs) | None => crate::tool::job_names(),
        };
        let mut out = io::stdout().lock();
        names.iter().try_for_each(|name| writeln!(out, "{name}"))?;
        return Ok(Exit::Ok);
    };
    // The generator panics if it cannot write, so it writes into a buffer.
    let mut script = Vec::new();
    let mut command = with_names(Cli::command());
    clap_complete::generate(shell, &mut command, "pmix", &mut script);
    if shell == clap_complete::Shell::Fish {
        // The generator omits subcommands that are not preceded by an option.
        for command in command.get_subcommands() {
            for arg in command.get_positionals() {
                let values = arg.get_possible_values();
                if let (false, name) = (values.is_empty(), command.get_name()) {
                    let names: Vec<_> = values.iter().map(PossibleValue::get_name).collect();
                    let condition = format!("__fish_pmix_using_subcommand {name}");
                    let names = names.join(" ");
                    writeln!(
                        script,
                        "complete -c pmix -n \"{condition}\" -f -a \"{names}\""
                    )?;
                }
            }
        }
    }
    let script = String::from_utf8_lossy(&script).into_owned();
    let script = jobs::add(shell, &command, script);
    io::stdout().write_all(script.as_bytes())?;
    Ok(Exit::Ok)
}

/// The names of signals that are completed. Names with `SIG` before them and numbers are also accepted.
const SIGNALS: &[&str] = &[
    "TERM", "INT", "HUP", "QUIT", "KILL", "USR1", "USR2", "STOP", "CONT", "TSTP", "ABRT", "ALRM",
    "CHLD", "PIPE", "TTIN", "TTOU", "URG", "WINCH",
];

/// Sets the known names as values of arguments, only for completion: the arguments also accept
/// patterns, keys and files.
fn with_names(command: Command) -> Command {
    let attributes = || Attribute::all().iter().map(Attribute::name);
    let statuses = || pmix_types::Status::all().iter().map(Constant::name);
    let types = DataType::all().iter().map(Constant::name);
    let (components, parameters) = of_encoders_and_servers();
    let schemes = components.into_iter().chain(["auto".to_owned()]);
    let mut infos = parameters.clone();
    infos.sort();
    let frameworks = infos.iter().filter_map(|name| name.split('_').next());
    let mut frameworks: Vec<_> = frameworks.map(str::to_owned).collect();
    frameworks.dedup();
    let all = frameworks.into_iter().chain(["all".to_owned()]);
    let offer = |command: Command, path: &[&'static str], arg, names: Vec<PossibleValue>| {
        offer(command, path, arg, &PossibleValuesParser::new(names))
    };
    let command = offer(command, &[], "mca", values(parameters));
    let command = offer(command, &["attr"], "what", values(attributes()));
    let command = offer(command, &["status"], "what", values(statuses()));
    let command = offer(command, &["get"], "keys", values(attributes()));
    let command = offer(command, &["query"], "keys", values(attributes()));
    let command = offer(command, &["events"], "codes", values(statuses()));
    let command = offer(
        command,
        &["kill"],
        "signal",
        values(SIGNALS.iter().copied()),
    );
    let parts = Part::value_variants()
        .iter()
        .filter_map(ValueEnum::to_possible_value);
    let command = offer(command, &["run"], "map_by", parts.collect());
    let command = offer(command, &["info"], "patterns", values(infos));
    let command = offer(command, &["info"], "param", values(all));
    let command = offer(command, &["map", "encode"], "scheme", values(schemes));
    let modules = || values(Module::ALL.map(Module::name));
    let command = offer(command, &["wire", "decode"], "module", modules());
    let command = offer(command, &["wire", "encode"], "module", modules());
    let types: Vec<_> = types.map(str::to_ascii_lowercase).collect();
    let command = offer(command, &["wire", "decode"], "types", values(types.clone()));
    offer(command, &["wire", "encode"], "data_type", values(types))
}

fn values<T: Into<clap::builder::Str>>(names: impl IntoIterator<Item = T>) -> Vec<PossibleValue> {
    names.into_iter().map(PossibleValue::new).collect()
}

/// Sets the values that are completed for an argument of a command.
fn offer(
    command: Command,
    path: &[&'static str],
    arg: &'static str,
    names: &PossibleValuesParser,
) -> Command {
    match path.split_first() {
        None => command.mut_arg(arg, |arg| arg.value_parser(names.clone())),
        Some((first, rest)) => {
            command.mut_subcommand(first, |command| offer(command, rest, arg, names))
        }
    }
}

/// Returns the names of the schemes and of all parameters.
fn of_encoders_and_servers() -> (Vec<String>, Vec<String>) {
    let components = pmix_builtin::preg_components();
    let mut catalogs = vec![preg_core::parameters(&components)];
    catalogs.extend(crate::info::server_catalogs());
    let settings = Params::default();
    let infos = catalogs
        .iter()
        .flat_map(|catalog| catalog.describe(&settings));
    let names = components.iter().map(|component| component.name.to_owned());
    (names.collect(), infos.map(|info| info.name).collect())
}

/// Prints the page of `pmix`, or writes all pages into a directory. If the directory is `man1`, the
/// pages of section 7 are written beside it.
pub(crate) fn man(dir: Option<&Path>) -> Result<Exit, Failure> {
    let Some(dir) = dir else {
        io::stdout().write_all(manual::first_page().as_bytes())?;
        return Ok(Exit::Ok);
    };
    let beside = dir.parent().filter(|_| dir.ends_with("man1"));
    let seventh = beside.map_or_else(|| dir.to_path_buf(), |all| all.join("man7"));
    for page in manual::pages() {
        let dir = if page.section() == "7" { &seventh } else { dir };
        let path = dir.join(&page.file);
        std::fs::create_dir_all(dir).map_err(|e| no_directory(dir, &e))?;
        std::fs::write(&path, page.text).map_err(|e| unwritable(&path, &e))?;
    }
    Ok(Exit::Ok)
}

/// Returns the failure for an unusable directory for the pages.
fn no_directory(dir: &Path, error: &io::Error) -> Failure {
    let dir = dir.display();
    Failure::usage(match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            format!(
                "{dir} is not a directory, and the manual pages need one: {error}; name another directory"
            )
        }
        _ => format!("cannot create the directory {dir}: {error}"),
    })
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    let message = match error.kind() {
        io::ErrorKind::IsADirectory => {
            format!("{path} is a directory in the place of a manual page: remove it")
        }
        _ => format!("cannot write {path}: {error}"),
    };
    Failure::new(Exit::Data, Status::ERROR, message)
}

/// The names of the program, and the command for each.
const NAMES: [(&str, &str); 4] = [
    ("pattrs", "attr"),
    ("plookup", "lookup"),
    ("pps", "ps"),
    ("pquery", "query"),
];

/// Returns the words of a command line, with the command that the name of the program selects inserted.
pub(crate) fn command_words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    let name = words.first().and_then(|word| Path::new(word).file_name());
    let meant = NAMES
        .iter()
        .find(|(known, _)| name.is_some_and(|name| name == *known));
    if let Some((_, command)) = meant {
        words[0] = "pmix".into();
        // `--version` prints the version of `pmix`.
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
        let line = command_words(line.split(' ').map(OsString::from));
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
    fn every_completed_signal_is_known() {
        for name in SIGNALS {
            assert!(pmix_launch::signal_number(name).is_some(), "{name}");
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
