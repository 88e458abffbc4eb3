// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runs under a tool: the programs of `tests/server` with our library on both sides, the tests of `pmix-capi`,
//! which run those of `tests/capi`, and planted faults that the tool must find.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Wanted;
use super::tool::{FOUND, Tool};
use crate::logs::{Kind, Logs};
use crate::ours::Ours;
use crate::server::case::{Case, Judge};
use crate::server::launcher::{HOST, Launcher};
use crate::server::run_all;
use crate::tally::Tally;
use xtask::process;

/// The time limit of the runs of one tool.
const LIMIT: Duration = Duration::from_secs(8 * 60);

/// A program of `tests/server/programs`.
struct Work {
    name: &'static str,
    args: &'static [&'static str],
    size: u32,
    /// The options of `pmix run`, or `None` for a program that runs under the host in C.
    pmix: Option<&'static [&'static str]>,
    /// `true` if the short form runs it.
    short: bool,
}

const fn work(name: &'static str, size: u32) -> Work {
    Work {
        name,
        args: &[],
        size,
        pmix: None,
        short: false,
    }
}

/// Returns a program that the short form runs, too.
const fn short(name: &'static str, size: u32) -> Work {
    Work {
        short: true,
        ..work(name, size)
    }
}

const WORKS: &[Work] = &[
    work("short", 2),
    short("exchange", 3),
    short("direct", 3),
    short("fences", 3),
    short("events", 3),
    work("order", 2),
    short("publish", 3),
    Work {
        args: &["3"],
        ..work("jobinfo", 3)
    },
    work("resolve", 3),
    work("control", 3),
    short("tool", 2),
    Work {
        args: &["by-pid"],
        ..work("tool", 2)
    },
    work("spawn", 2),
    Work {
        args: &["256"],
        ..work("together", 4)
    },
    Work {
        pmix: Some(&[]),
        ..work("launched", 2)
    },
    Work {
        pmix: Some(&["--forward-io"]),
        ..short("forward", 2)
    },
];

/// Faults of `tests/capi/planted.c`, and the report of each tool.
const PLANTED: &[(&str, Kind, &str)] = &[
    ("leak", Kind::Memcheck, "definitely lost"),
    ("uninitialised", Kind::Memcheck, "uninitialised value"),
    ("overflow", Kind::Memcheck, "Invalid read"),
    ("freed", Kind::Memcheck, "Invalid read"),
    ("leak", Kind::Address, "detected memory leaks"),
    ("overflow", Kind::Address, "heap-buffer-overflow"),
    ("freed", Kind::Address, "heap-use-after-free"),
    ("race", Kind::Thread, "data race"),
];

/// Tests of `pmix-capi` that need no tool: those of headers and symbols, of process memory, of a library that other
/// programs load, and of missing arguments.
const LEFT_OUT: &[&str] = &[
    "headers::",
    "symbols::",
    "nulls::",
    "a_program_opens_and_closes",
    "the_library_may_be_loaded_before",
];

/// Returns the tests that take too long under valgrind, which runs one thread at a time, or that prove nothing under
/// the thread sanitizer.
fn left_out(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Memcheck => &["random::", "threads_initialize"],
        Kind::Address => &[],
        Kind::Thread => &["random::"],
    }
}

/// Tests that the short form omits; it runs another test of each kind.
const LONG: &[&str] = &[
    "random::",
    "a_tool_has_several_servers",
    "a_tool_that_loses_its_server",
    "a_program_drives_progress_itself",
];

/// Runs everything under a tool, or the short form.
///
/// # Errors
/// Returns a message if a program does not compile.
pub(super) fn run(tool: &Tool, wanted: Wanted<'_>, tally: &mut Tally) -> Result<(), String> {
    planted(tool, tally)?;
    let mut cases = Vec::new();
    let sources = process::root().join("tests/server/host");
    let sources: Vec<_> = HOST.iter().map(|file| sources.join(file)).collect();
    let host = Launcher::Host(tool.compile("host", &sources)?, "ours".to_owned());
    let pmix = Launcher::Ours(Ours::build(wanted.profile)?.program);
    for work in WORKS.iter().filter(|work| work.short || !wanted.short) {
        cases.push(case(tool, work, &host, &pmix)?);
    }
    run_all(cases, Instant::now() + LIMIT, tally)?;
    tests(tool, wanted.short, tally)
}

/// Checks that the tool finds planted faults.
fn planted(tool: &Tool, tally: &mut Tally) -> Result<(), String> {
    let what = format!("{}: planted faults", tool.kind.title());
    let program = process::root().join("tests/capi/planted.c");
    let program = tool.compile("planted", &[program])?;
    for (fault, kind, phrase) in PLANTED {
        if *kind != tool.kind {
            continue;
        }
        let logs = Logs::new(tool.home().join(format!("logs-{fault}")), *kind, 1)?;
        let mut words = tool.words(&logs);
        words.extend([program.display().to_string(), (*fault).to_owned()]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(tool.setting(&logs));
        let output = command.output().map_err(|e| format!("{}: {e}", words[0]))?;
        match output.status.code() == Some(FOUND) && logs.say(phrase)? {
            true => tally.pass(&what),
            false => tally.fail(&what, &format!("{fault}: {}", output.status)),
        }
    }
    Ok(())
}

/// Returns a run of a program under the host in C, which the tool analyzes too, or under `pmix run`.
fn case(tool: &Tool, work: &Work, host: &Launcher, pmix: &Launcher) -> Result<Case, String> {
    let sources = process::root().join("tests/server/programs");
    let file = |name: &str| sources.join(format!("{name}.c"));
    let program = tool.compile(work.name, &[file(work.name), file("check")])?;
    let name = format!("{} {} on {}", work.name, work.args.join(" "), work.size);
    let processes = usize::try_from(work.size).unwrap_or(0) + usize::from(work.pmix.is_none());
    let logs = tool.home().join(format!("logs-{}", name.replace(' ', "-")));
    let logs = Logs::new(logs, tool.kind, processes)?;
    let words = tool.words(&logs);
    let mut command = match work.pmix {
        Some(options) => {
            let mut command = pmix.command(work.size);
            command.args(options).args(words);
            command
        }
        None => before(&words, host.command(work.size)),
    };
    command
        .arg(program)
        .args(work.args)
        .envs(tool.setting(&logs));
    Ok(Case {
        what: format!("{}: programs with ours on both sides", tool.kind.title()),
        name,
        command,
        limit: Duration::from_secs(120),
        judge: Judge::Logged(0, logs),
        is_control: false,
    })
}

/// Puts words before a command. The first one is a program.
fn before(words: &[String], command: Command) -> Command {
    let Some((program, rest)) = words.split_first() else {
        return command;
    };
    let mut whole = Command::new(program);
    whole
        .args(rest)
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    whole
}

/// Builds the integration tests of the library's crate as `cargo xtask test` does, and returns their program.
fn test_program() -> Result<PathBuf, String> {
    let mut command = process::cargo(["test", "--no-run", "--test", "it"]);
    command.args(process::selection("dev", "pmix-capi"));
    let said = process::output(command.arg("--message-format=json"))?;
    let of_crate = said.split(|byte| *byte == b'\n').find_map(|line| {
        let artifact: Value = serde_json::from_slice(line).ok()?;
        let is_of_crate = artifact["manifest_path"]
            .as_str()?
            .ends_with("/pmix-capi/Cargo.toml");
        let program = artifact["executable"].as_str()?;
        is_of_crate.then(|| PathBuf::from(program))
    });
    of_crate.ok_or_else(|| "cargo does not name the tests of pmix-capi".to_owned())
}

/// Runs the tests of the library's crate on the library of the tool.
fn tests(tool: &Tool, short: bool, tally: &mut Tally) -> Result<(), String> {
    let what = format!("{}: tests of pmix-capi", tool.kind.title());
    let logs = Logs::new(tool.home().join("logs-tests"), tool.kind, 1)?;
    let fewer = "-DCYCLES=12 -DSERVER_CYCLES=12 -DKEPT_KB=262144";
    let mut command = Command::new(test_program()?);
    command.current_dir(process::root().join("crates/pmix-capi"));
    command.args(["--test-threads", "2"]);
    let long = if short { LONG } else { &[] };
    for name in LEFT_OUT.iter().chain(left_out(tool.kind)).chain(long) {
        command.args(["--skip", name]);
    }
    let compiling = tool.compiling().join(" ");
    command
        .env("PMIX_TEST_LIBRARY", tool.library())
        .env("PMIX_TEST_CFLAGS", format!("{compiling} {fewer}"))
        .env("PMIX_TEST_LDFLAGS", tool.linking().join(" "))
        .env("PMIX_TEST_UNDER", tool.words(&logs).join(" "))
        .env("PMIX_ROUNDS", "8")
        .envs(tool.setting(&logs))
        .stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|e| format!("the tests of pmix-capi: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let ends = |end: &str| said.lines().filter(|line| line.ends_with(end)).count();
    let passed = said
        .lines()
        .filter(|line| line.starts_with("test ") && line.ends_with("... ok"));
    tally.passes(&what, passed.count());
    for line in said.lines().filter(|line| line.ends_with("... FAILED")) {
        tally.fail(&what, line);
    }
    if !output.status.success() && ends("... FAILED") == 0 {
        tally.fail(&what, &String::from_utf8_lossy(&output.stderr));
    }
    if !output.status.success() {
        let file = tool.home().join("tests.txt");
        std::fs::write(&file, &said).map_err(|e| format!("{}: {e}", file.display()))?;
        println!("what they said is in {}", file.display());
    }
    match logs.judge() {
        Ok(()) => tally.pass(&what),
        Err(why) => tally.fail(&what, &why),
    }
    Ok(())
}
