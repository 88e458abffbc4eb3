// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the construct and destruct of a group of all processes of a job, relative to an empty
//! fence of the same processes. Also measures the growth of the server.

use std::path::Path;
use std::process::Command;

use pmix_interop::server::launcher::Launcher;
use pmix_interop::server::programs::compile;
use serde_json::Value;

use super::runs::{Field, kib};
use crate::Report;
use crate::table::{Row, Verdict, factor, time};
use crate::tools::bench_program;

/// The number of runs of a job. The least value of each figure is reported.
const RUNS: usize = 3;

/// The number of groups of a timed run, and of the run that measures the growth of the server.
const ROUNDS: u32 = 50;

const MANY: u32 = 10_000;

/// The limit of the time of a construct and a destruct, in empty fences.
const MOST: f64 = 1.5;

/// The figures that rank 0 of a job prints: the times of a fence and of a group in nanoseconds, and the growth of
/// the server in KiB.
#[derive(Clone, Copy)]
struct Said {
    fence: f64,
    group: f64,
    growth: f64,
}

pub(super) fn groups(field: &Field, report: &mut Report) -> Result<(), String> {
    for release in &field.releases {
        let program = match compile(&release.peer, "groups") {
            Ok(program) => program,
            Err(why) => {
                report.add("groups", Err(why));
                continue;
            }
        };
        let version = &release.peer.version;
        let best = |launcher: &Launcher| {
            let runs = (0..RUNS).map(|_| run(field, launcher, &program, 64, ROUNDS));
            runs.reduce(|best, next| {
                let (best, next) = (best?, next?);
                Ok(Said {
                    fence: best.fence.min(next.fence),
                    group: best.group.min(next.group),
                    growth: best.growth.min(next.growth),
                })
            })
            .unwrap_or_else(|| Err("no run".to_owned()))
        };
        let ours = best(&field.ours);
        let row = ours.clone().map(|ours| Row {
            figure: "construct and destruct a group, in empty fences".to_owned(),
            input: format!("64 ranks, {version}"),
            ours: time(ours.group),
            peer: format!("an empty fence of ours: {}", time(ours.fence)),
            ratio: factor(ours.fence / ours.group),
            bound: format!("{:.2}", 1.0 / MOST),
            verdict: Verdict::of(ours.group <= MOST * ours.fence),
        });
        report.add("groups", row);
        // Both servers of the release: prterun does not serve the program with every release.
        let theirs = std::iter::once(&release.host).chain(&release.prterun);
        for server in theirs {
            let Ok(ours) = &ours else { break };
            let row = best(server).map(|theirs| Row {
                figure: "construct and destruct a group".to_owned(),
                input: format!("64 ranks, {version}"),
                ours: time(ours.group),
                peer: format!("{}: {}", server.title(), time(theirs.group)),
                ratio: factor(theirs.group / ours.group),
                bound: "1".to_owned(),
                verdict: Verdict::of(theirs.group >= ours.group),
            });
            report.add("groups", row);
        }
        let row = run(field, &field.ours, &program, 4, MANY).map(|said| Row {
            figure: "growth of the server over 9,000 groups".to_owned(),
            input: format!("4 ranks, {version}"),
            ours: kib(said.growth),
            peer: String::new(),
            ratio: String::new(),
            bound: kib(64.0),
            verdict: Verdict::of(said.growth <= 64.0),
        });
        report.add("groups", row);
    }
    Ok(())
}

fn run(
    field: &Field,
    launcher: &Launcher,
    program: &Path,
    size: u32,
    rounds: u32,
) -> Result<Said, String> {
    let mut command = launcher.command(size);
    command.arg(program).arg(rounds.to_string());
    let text = field.run(&mut command)?;
    let said = text.lines().find_map(|line| {
        let start = line.find("{\"fence_ns\"")?;
        serde_json::from_str::<Value>(line.get(start..)?).ok()
    });
    let said = said.ok_or_else(|| format!("no figures in {text:.300}"))?;
    let figure = |name: &str| {
        let value = said.get(name).and_then(Value::as_f64);
        value.ok_or_else(|| format!("no {name} in {said}"))
    };
    Ok(Said {
        fence: figure("fence_ns")?,
        group: figure("group_ns")?,
        growth: figure("growth_kib")?,
    })
}

/// The numbers of groups.
const SIZES: [u32; 3] = [1_000, 10_000, 100_000];

/// The limit of the instructions per group, as a multiple of those in the smallest run. Tables grow and trees get
/// deeper, so the ratio exceeds 1.
const MANY_GROUPS_MOST: f64 = 1.5;

/// Counts the instructions for each number of groups.
pub(super) fn many_groups(_: &Field, report: &mut Report) -> Result<(), String> {
    let program = bench_program("pmix-engine", "groups")?;
    // The end of the processes costs instructions without any group, too.
    let base = instructions(&program, 0)?;
    let mut first = None;
    for size in SIZES {
        let row = instructions(&program, size).map(|total| {
            let each = (total - base) / f64::from(size);
            let least = *first.get_or_insert(each);
            Row {
                figure: "instructions of the server for a group that is registered and lost"
                    .to_owned(),
                input: format!("{size} groups of 32 processes"),
                ours: format!("{each:.0}"),
                peer: format!("one of {}: {least:.0}", SIZES[0]),
                ratio: factor(least / each),
                bound: format!("{:.2}", 1.0 / MANY_GROUPS_MOST),
                verdict: Verdict::of(each <= MANY_GROUPS_MOST * least),
            }
        });
        report.add("many groups", row);
    }
    Ok(())
}

/// Returns the instructions of the counted part of a run.
fn instructions(program: &std::path::Path, size: u32) -> Result<f64, String> {
    let mut command = Command::new("valgrind");
    command.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*counted_part*",
    ]);
    let done = command.arg(program).arg(size.to_string()).output();
    let done = done.map_err(|e| format!("valgrind: {e}"))?;
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    let counted = text
        .lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    match counted.filter(|_| done.status.success()) {
        Some(counted) => Ok(counted),
        None => Err(format!("valgrind counted nothing: {:.500}", text.trim())),
    }
}
