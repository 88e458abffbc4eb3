// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `pmix` command: node and process maps of PMIx for administrators and scripts.
#![forbid(unsafe_code)]

mod advice;
mod args;
mod context;
mod dictionary;
mod doctor;
mod excerpt;
mod failure;
mod get;
mod hello;
mod info;
mod input;
mod manual;
mod map;
mod node;
mod octets;
mod output;
mod plugins;
mod run;
mod shell;
mod style;
mod tool;
mod trace;
mod wire;

use std::ffi::OsString;
use std::io::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};

use args::{Cli, Command, Global, PluginsCommand, When};
use context::Context;
use failure::{Exit, Failure};
use style::Style;

fn main() {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == run::WATCHER)
    {
        run::watch();
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == run::WRAPPER)
    {
        run::exec_wrapped(std::env::args_os().skip(2));
    }
    let cli = parse(run::words(
        shell::command_words(std::env::args_os()).into_iter(),
    ))
    .unwrap_or_else(|error| misuse(&error));
    let stderr = Style::new(cli.global.color, &std::io::stderr());
    trace::install(cli.global.verbose, stderr);
    let json = cli.global.json;
    let exit = dispatch(cli).unwrap_or_else(|failure| report(&failure, json, stderr));
    trace::finish();
    // Exits without freeing memory, because the system does that faster.
    std::process::exit(exit.code());
}

/// Parses the command line. Help and errors of the parser use its color setting.
fn parse(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command().color(style::asked_for(&words));
    let matches = command.try_get_matches_from_mut(words.iter().cloned());
    let matches = matches.map_err(|error| meant(error, &command, &words))?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Adds a suggestion to an error about an unknown command or option.
fn meant(mut error: clap::Error, command: &clap::Command, words: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return match error.kind() {
            ErrorKind::UnknownArgument if run::is_named(command, words) => {
                meant_option(error, command)
            }
            ErrorKind::ValueValidation => plain_number(error, command),
            ErrorKind::UnknownArgument if words.get(1).is_some_and(|word| word == "map") => {
                meant_map(error, command, words)
            }
            ErrorKind::UnknownArgument => advice::of_argument(error, command, words),
            _ => error,
        };
    };
    let names = |of: &clap::Command| {
        let of = of.get_subcommands().map(|of| of.get_name().to_owned());
        of.collect::<Vec<_>>()
    };
    let maps = command
        .find_subcommand("map")
        .map(names)
        .unwrap_or_default();
    let all = [names(command), maps.clone()].concat();
    let tip = match maps.contains(word) {
        true => Some(format!("use `pmix map {word}`")),
        false if let Some(tip) = of_others(word) => Some(tip.to_owned()),
        false => dictionary::nearest(word, all.iter().map(String::as_str))
            .first()
            .map(|near| match maps.iter().any(|name| name == near) {
                true => format!("did you mean `pmix map {near}`?"),
                false => format!("did you mean `pmix {near}`?"),
            }),
    };
    let is_suggested = error.get(ContextKind::SuggestedSubcommand).is_some();
    let other = (!is_suggested).then(|| advice::of_command(word, command, words));
    match (tip, other) {
        (Some(tip), _) => {
            // clap would also suggest commands that do not belong to `pmix map`.
            error.remove(ContextKind::SuggestedSubcommand);
            advice::suggest(&mut error, tip);
        }
        (None, Some(other)) => advice::suggest(&mut error, other),
        (None, None) => {}
    }
    error
}

/// Commands of other programs, and what to type for each.
const OF_OTHERS: &[(&[&str], &str)] = &[
    (
        &[
            "mpirun", "mpiexec", "prterun", "prun", "srun", "aprun", "jsrun", "launch", "start",
        ],
        "use `pmix run -n N PROGRAM`",
    ),
    (
        &["nodeset", "cluset", "hostlist"],
        "use a command under `pmix map`: fold, expand, count, minus, groups; `pmix map --help` lists them",
    ),
    (
        &["scontrol", "show", "hostnames", "hosts"],
        "use `pmix map expand LIST` for `scontrol show hostnames`, `pmix map fold` for `show hostlist`, and `pmix ps` for jobs",
    ),
    (
        &["list", "ls"],
        "use `pmix map expand LIST` for the names of a list, `pmix map groups` for groups, and `pmix ps` for jobs",
    ),
    (&["squeue", "jobs"], "use `pmix ps`"),
    (
        &["scancel", "cancel", "stop", "signal"],
        "use `pmix kill JOB`",
    ),
    (
        &["pmix_info", "ompi_info", "prte_info", "parameters"],
        "use `pmix info`",
    ),
    (
        &["pdsh", "clush"],
        "use `pmix run --host n1,n2 -l PROGRAM` for one process on each node",
    ),
    (
        &["compare"],
        "use `pmix map diff` for two maps, `pmix map minus` or `pmix map xor` for two lists",
    ),
];

/// Returns what to type for a command of another program.
fn of_others(word: &str) -> Option<&'static str> {
    let known = OF_OTHERS.iter().find(|(words, _)| words.contains(&word));
    known.map(|(_, tip)| *tip)
}

/// The errors of Rust's parser of numbers, and the text for a user.
const OF_NUMBERS: &[(&str, &str)] = &[
    ("invalid digit found in string", "expected a whole number"),
    (
        "cannot parse integer from empty string",
        "expected a whole number",
    ),
    (
        "number too large to fit in target type",
        "the number is too large",
    ),
    (
        "number too small to fit in target type",
        "the number is too small",
    ),
];

/// Replaces the text of Rust's parser of numbers in an error about a value.
fn plain_number(error: clap::Error, command: &clap::Command) -> clap::Error {
    let source = std::error::Error::source(&error).map(ToString::to_string);
    let known = OF_NUMBERS
        .iter()
        .find(|(text, _)| source.as_deref() == Some(text));
    let (Some((_, text)), Some(ContextValue::String(arg)), Some(ContextValue::String(value))) = (
        known,
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::InvalidValue),
    ) else {
        return error;
    };
    let message = format!("invalid value '{value}' for '{arg}': {text}\n");
    clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
}

/// Options of nodeset and pdsh, and the command under `pmix map` for each.
const OF_NODESET: &[(&[&str], &str)] = &[
    (&["-f", "--fold"], "pmix map fold LIST"),
    (&["-e", "--expand"], "pmix map expand LIST"),
    (&["-c", "--count"], "pmix map count LIST"),
    (&["-r", "--regroup"], "pmix map regroup LIST"),
    (
        &["-l", "--list", "--list-all", "-L", "-G", "--groupbase"],
        "pmix map groups",
    ),
    (&["-a", "--all"], "the group @*"),
    (
        &["-x", "--exclude"],
        "pmix map minus LIST LIST, or LIST!LIST",
    ),
    (
        &["-i", "--intersection"],
        "pmix map intersection LIST LIST, or LIST&LIST",
    ),
    (&["-X", "--xor"], "pmix map xor LIST LIST, or LIST^LIST"),
    (&["-I", "--slice"], "pmix map slice PLACES LIST"),
    (&["--split"], "pmix map split N LIST"),
    (&["--pick"], "pmix map pick N LIST"),
    (
        &["-S", "--separator"],
        "pmix map convert --to list -S SEPARATOR LIST",
    ),
    (
        &["-O", "--output-format"],
        "pmix map convert --to list -O FORMAT LIST",
    ),
    (&["--contiguous"], "pmix map fold --contiguous LIST"),
    (&["-s", "--groupsource"], "the group @SOURCE:NAME"),
    (
        &["-R", "--rangeset"],
        "names in place of bare numbers, as in n[1-4]",
    ),
    (
        &["--autostep", "--axis"],
        "pmix map fold LIST, which writes no steps and folds every number of a name",
    ),
    (&["-w"], "the list as an argument without an option"),
    (&["-g"], "the group @genders:ATTRIBUTE"),
];

/// Adds advice to an error about an unknown option of `pmix map`: for an option of nodeset or pdsh, the command that
/// replaces it.
fn meant_map(mut error: clap::Error, command: &clap::Command, words: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let name = option.split('=').next().unwrap_or_default().to_owned();
    let known = OF_NODESET
        .iter()
        .find(|(options, _)| options.contains(&&*name));
    let Some((_, command)) = known else {
        return advice::of_argument(error, command, words);
    };
    error.remove(ContextKind::SuggestedArg);
    let tip = format!("for {name} of nodeset or pdsh, use {command}");
    advice::suggest(&mut error, tip);
    error
}

/// Adds the replacement for an option of another launcher to an error about an unknown option of
/// `pmix run`. It replaces clap's advice to use `--`, because the option would become the program
/// after `--`.
fn meant_option(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    error.remove(ContextKind::Suggested);
    let (known, is_near) = match (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::SuggestedArg),
    ) {
        (Some(ContextValue::String(option)), Some(ContextValue::String(near))) => {
            let name = |option: &str| option.trim_start_matches('-').to_owned();
            let is_near = pmix_mca::nearest(&name(option), [&*name(near)]).is_some();
            (replacement(option), is_near)
        }
        (Some(ContextValue::String(option)), _) => (replacement(option), false),
        _ => (None, true),
    };
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && let Some(typed) = run::habits::typed(option)
    {
        error.insert(ContextKind::InvalidArg, ContextValue::String(typed));
    }
    // clap considers `--version` similar to `--personality`.
    if known.is_some() || !is_near {
        // The usage would be that of the suggested option.
        error.remove(ContextKind::SuggestedArg);
        let usage = command
            .find_subcommand(run::NAME)
            .map(|run| run.clone().render_usage());
        match usage {
            Some(usage) => error.insert(ContextKind::Usage, ContextValue::StyledStr(usage)),
            None => error.remove(ContextKind::Usage),
        };
    }
    if let Some(tip) = known {
        advice::suggest(&mut error, tip.to_owned());
    }
    error
}

/// Returns the replacement for an option of another launcher, by the spelling that was typed.
fn replacement(option: &str) -> Option<&'static str> {
    let typed = run::habits::typed(option);
    run::habits::elsewhere(typed.as_deref().unwrap_or(option))
}

/// Reports an invalid command line, also in JSON if it is requested, and exits.
fn misuse(error: &clap::Error) -> ! {
    let asks = std::env::args_os().any(|arg| arg == "--json");
    if asks && error.use_stderr() {
        let text = match error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "missing command".to_owned(),
            _ => error.to_string(),
        };
        // Only the first paragraph is the message. Tips and usage follow it.
        let lines = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.is_empty());
        let text = lines.collect::<Vec<_>>().join(" ");
        let failure = Failure::usage(text.trim_start_matches("error: ")).cure("see --help");
        // If the message cannot be written, the exit code still reports the failure.
        let _ = writeln!(std::io::stdout(), "{}", failure.to_json());
    }
    // If the help cannot be printed completely, the command fails.
    let printed = error.print().and_then(|()| {
        let mut out = std::io::stdout();
        if error.kind() == ErrorKind::DisplayVersion && info::is_asked_for_in_full() {
            out.write_all(info::details().as_bytes())?;
        }
        out.flush()
    });
    match printed {
        Err(e) if !error.use_stderr() => {
            let failure = Failure::from(e);
            if !failure.is_quiet() {
                let style = Style::new(When::Never, &std::io::stderr());
                let _ = std::io::stderr().write_all(failure.render(style).as_bytes());
            }
            std::process::exit(failure.exit().code())
        }
        _ => std::process::exit(error.exit_code()),
    }
}

fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let global = &cli.global;
    run::mca::warn_of_unused(&global.mca, &cli.command);
    match cli.command {
        // These commands must work with a broken configuration, so they do not read it.
        Command::Completions { shell, list } => shell::completions(shell, list),
        Command::Man { dir } => shell::man(dir.as_deref()),
        Command::Info(args) => info::run(global, &args),
        Command::Attr(args) => dictionary::attr(global, &args),
        Command::Status(args) => dictionary::status(global, &args),
        Command::Hello(args) => hello::run(global, &args),
        Command::Query(args) => tool::query(global, &args),
        Command::Ps(args) => tool::ps(global, &args),
        Command::Top(args) => tool::top(global, &args),
        Command::Events(args) => tool::events(global, &args),
        Command::Publish(args) => tool::publish(global, &args),
        Command::Lookup(args) => tool::lookup(global, &args),
        Command::Attach(args) => tool::attach_to(global, &args),
        Command::Doctor(args) => doctor::run(global, &args),
        Command::Kill(args) => tool::kill(global, &args),
        Command::Release(args) => tool::release(global, &args),
        Command::Map(command) => opened(global, |context| map::run(context, command)),
        Command::Get(args) => opened(global, |context| get::run(context, &args)),
        Command::Run(args) => opened(global, |context| run::run(context, *args, &global.mca)),
        Command::Node(args) => node::run(&args),
        Command::Wire(args) => opened(global, |context| wire::run(context, &args)),
        Command::Plugins(PluginsCommand::Check { file, lists }) => {
            plugins::check(global, &file, &lists)
        }
        Command::Plugins(PluginsCommand::List) => opened(global, plugins::list),
    }
}

fn opened(
    global: &Global,
    work: impl FnOnce(&mut Context) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let mut context = Context::open(global)?;
    let exit = work(&mut context)?;
    context.out.flush()?;
    Ok(exit)
}

fn report(failure: &Failure, json: bool, style: Style) -> Exit {
    if !failure.is_quiet() {
        // If the message cannot be written, the exit code still reports the failure.
        trace::say(failure.render(style).into_bytes());
        if json && !failure.is_answered() {
            let _ = writeln!(std::io::stdout(), "{}", failure.to_json());
        }
    }
    failure.exit()
}
