// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures tools at a server, spawned jobs, and launches of many processes that do nothing.

use std::process::Command;
use std::time::{Duration, Instant};

use pmix_interop::server::launcher::Launcher;
use pmix_interop::server::programs::{compile, compile_for};
use pmix_interop::tools::running::Running;
use xtask::install;

use super::rows::Pair;
use super::runs::{Field, Figures};
use crate::Report;
use crate::table::{Row, Verdict, time};

/// The number of runs of each command. The least time is reported.
const RUNS: usize = 21;
/// The number of processes of the job that `pmix ps` lists.
const LISTED: u32 = 1000;
/// The time limit until all processes of the listed job run.
const START: Duration = Duration::from_secs(60);
/// The number of processes that a process spawns.
const SPAWNED: u32 = 16;

/// Measures a tool that connects, queries and disconnects: the same program with our library under `pmix run`,
/// and with 5.0.11's library under prterun.
pub(super) fn attaching(field: &Field, report: &mut Report) -> Result<(), String> {
    let release = field.release("5.")?;
    let prterun = release.prterun.as_ref().ok_or("no prterun here")?;
    let library = pmix_interop::capi::library("dist")?;
    let ours = compile_for("ours", &library, "tooltime")?;
    let theirs = compile(&release.peer, "tooltime")?;
    let least = |launcher: &Launcher, tool: &std::path::Path| {
        let title = format!("bench {}", launcher.title());
        let server = Running::start(&title, launcher.command(2), true)?;
        (0..RUNS).try_fold(f64::MAX, |least, _| {
            let text = field.run(Command::new(tool).arg(&server.uri))?;
            let took = Figures::of_text(text.trim())?.get("tool_ns")?;
            Ok::<_, String>(least.min(took))
        })
    };
    let row = least(&field.ours, &ours).and_then(|ours| {
        Ok(Pair {
            figure: "tool: attach, query, detach",
            input: "a job of 2".to_owned(),
            ours,
            peer: least(prterun, &theirs)?,
            name: format!("{} at {}", release.peer.version, prterun.title()),
            bound: Some(3.0),
            shown: time,
        }
        .row())
    });
    report.add("tool", row);
    report.add("pmix ps", listing(field));
    Ok(())
}

/// Measures the whole command `pmix ps --json` at a server with a large job.
fn listing(field: &Field) -> Result<Row, String> {
    let mut command = field.ours.command(LISTED);
    command.args(["sleep", "600"]);
    let server = Running::start("bench ps", command, false)?;
    let ps = || {
        let mut command = Command::new(&field.pmix);
        command.args(["ps", "--json"]).env("TMPDIR", &server.home);
        field.timed(&mut command)
    };
    let begun = Instant::now();
    loop {
        let (text, _) = ps()?;
        let num_running = text.matches("\"running\"").count();
        if u32::try_from(num_running).is_ok_and(|num| num >= LISTED) {
            break;
        }
        if begun.elapsed() > START {
            return Err(format!("{num_running} of {LISTED} run: {text:.300}"));
        }
    }
    let ours = (0..RUNS).try_fold(f64::MAX, |least, _| ps().map(|(_, took)| least.min(took)))?;
    Ok(Row {
        figure: "pmix ps --json, whole command".to_owned(),
        input: format!("{LISTED} processes"),
        ours: time(ours),
        peer: String::new(),
        ratio: String::new(),
        bound: "at most 20 ms".to_owned(),
        verdict: Verdict::of(ours <= 20e6),
    })
}

/// Measures a process that spawns others and waits for their end, beside a command that starts the same number.
pub(super) fn spawning(field: &Field, report: &mut Report) -> Result<(), String> {
    let program = compile(&field.release("5.")?.peer, "spawntime")?;
    let spawn = || {
        let mut command = field.ours.command(1);
        let text = field.run(command.arg(&program).arg(SPAWNED.to_string()))?;
        let line = text.lines().find(|line| line.starts_with("{\""));
        Figures::of_text(line.unwrap_or_default())?.get("spawn_ns")
    };
    let whole = || field.whole(field.ours.command(SPAWNED).arg("true"));
    let both = (0..RUNS).try_fold((f64::MAX, f64::MAX), |(ours, whole_least), _| {
        Ok::<_, String>((ours.min(spawn()?), whole_least.min(whole()?)))
    });
    let row = both.map(|(ours, peer)| {
        Pair {
            figure: "spawn of `true`, until the job has ended",
            input: format!("{SPAWNED} processes"),
            ours,
            peer,
            name: format!("`pmix run -n {SPAWNED} true`"),
            bound: Some(1.0 / 1.1),
            shown: time,
        }
        .row()
    });
    report.add("spawn", row);
    Ok(())
}

/// Measures `pmix run` of `true` beside Hydra and prterun.
pub(super) fn trues(field: &Field, report: &mut Report) -> Result<(), String> {
    let hydra = install::hydra()?;
    let prterun = field.release("5.")?.prterun.as_ref();
    for (size, runs) in [(64, RUNS), (256, 11), (1000, 5)] {
        let of_hydra = || {
            let mut command = Command::new(&hydra);
            command.args(["-n", &size.to_string(), "true"]);
            field.whole(&mut command)
        };
        let of = |launcher: &Launcher| field.whole(launcher.command(size).arg("true"));
        let both = (0..runs).try_fold((f64::MAX, f64::MAX), |(ours, theirs), _| {
            Ok::<_, String>((ours.min(of(&field.ours)?), theirs.min(of_hydra()?)))
        });
        let pair = |ours: f64, peer: f64, name: String, bound: f64| {
            Pair {
                figure: "whole command of `true`",
                input: format!("-n {size}"),
                ours,
                peer,
                name,
                bound: Some(bound),
                shown: time,
            }
            .row()
        };
        let beside_hydra = |(ours, peer)| pair(ours, peer, "mpiexec.hydra".to_owned(), 1.25);
        report.add("trues", both.clone().map(beside_hydra));
        if let (Ok((ours, _)), Some(prterun)) = (both, prterun) {
            let theirs = (0..3).try_fold(f64::MAX, |least, _| of(prterun).map(|t| least.min(t)));
            let row = theirs.map(|peer| pair(ours, peer, prterun.title(), 3.0));
            report.add("trues", row);
        }
    }
    Ok(())
}
