// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the command as a whole process, beside programs that fold host lists.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::table::{Row, Verdict, size};
use super::{Effort, Race, Report, Tools, beside, lists, tools};
use xtask::install;
use xtask::process;

/// The compared programs. An error names a program that is missing.
struct Others {
    nodeset: Result<Vec<PathBuf>, String>,
    clustershell: Result<Vec<PathBuf>, String>,
}

/// Measures every row of this part.
pub(super) fn measure(tools: &Tools, report: &mut Report) {
    if !report.wants("command") {
        return;
    }
    let script = process::root().join("benches/peers/clustershell_fold.py");
    let python = install::pip("ClusterShell").and_then(|()| install::venv());
    let others = Others {
        nodeset: nodeset().map(|program| vec![program]),
        clustershell: python.map(|python| vec![python, script]),
    };
    for (kind, scheme) in [
        ("seq", "auto"),
        ("seq", "native"),
        ("xname", "auto"),
        ("xname", "native"),
    ] {
        let nodeset = Other {
            name: "`nodeset` (Rust)",
            command: &others.nodeset,
            effort: Effort::USUAL,
            bound: 5.0,
        };
        report.add("pmix map encode", race(tools, kind, scheme, &nodeset));
        if (kind, scheme) == ("seq", "auto") {
            let clustershell = Other {
                name: "ClusterShell",
                command: &others.clustershell,
                effort: Effort::ONCE,
                bound: 100.0,
            };
            report.add("pmix map encode", race(tools, kind, scheme, &clustershell));
        }
        report.add("peak memory", peak(tools, kind, scheme));
    }
    let slurm = tools::compile("slurm_fold", &["bytes.c"], &["-lslurm"]);
    report.add("libslurm", beside_slurm(tools, report.full, slurm));
    report.add("start", start(tools));
}

/// A program that folds a list.
struct Other<'a> {
    name: &'a str,
    command: &'a Result<Vec<PathBuf>, String>,
    effort: Effort,
    bound: f64,
}

fn race(tools: &Tools, kind: &str, scheme: &str, other: &Other<'_>) -> Result<Row, String> {
    let list = lists::nodes(&tools.lists, kind, 1_000_000)?;
    let (ours, theirs) = beside(
        || encode(tools, scheme, &list),
        || {
            let mut words = other.command.clone()?;
            words.push(list.clone());
            tools.process(other.effort, &words)
        },
    )?;
    let judged = scheme == "auto" && kind == "seq";
    let race = Race {
        figure: "`pmix map encode`, whole process",
        input: format!("1000000 {}, scheme {scheme}", lists::title(kind)),
        peer: other.name,
        bound: judged.then_some(other.bound),
        judged,
    };
    Ok(race.row(&ours, theirs))
}

fn encode(tools: &Tools, scheme: &str, list: &Path) -> Result<tools::Timing, String> {
    let at = format!("@{}", list.display());
    let command = [
        tools.pmix.as_os_str(),
        "map".as_ref(),
        "encode".as_ref(),
        "--scheme".as_ref(),
        scheme.as_ref(),
        at.as_ref(),
    ];
    tools.process(Effort::USUAL, &command)
}

/// Compares the peak memory of the process with the size of the list.
fn peak(tools: &Tools, kind: &str, scheme: &str) -> Result<Row, String> {
    let list = lists::nodes(&tools.lists, kind, 1_000_000)?;
    let used = encode(tools, scheme, &list)?.bytes;
    let length = std::fs::metadata(&list).map_err(|e| e.to_string())?.len();
    let input = u32::try_from(length)
        .map(f64::from)
        .map_err(|e| e.to_string())?;
    Ok(Row {
        figure: "`pmix map encode`, peak memory".to_owned(),
        input: format!("1000000 {}, scheme {scheme}", lists::title(kind)),
        ours: size(used),
        peer: format!("the list: {}", size(input)),
        ratio: format!("{:.2} of the list", used / input),
        bound: "at most 3".to_owned(),
        verdict: Verdict::of(used <= 3.0 * input),
    })
}

/// Measures libslurm, which folds in quadratic time: with a tenth of the names unless `--full` is given.
fn beside_slurm(tools: &Tools, full: bool, slurm: Result<PathBuf, String>) -> Result<Row, String> {
    let count = if full { 1_000_000 } else { 100_000 };
    let list = lists::nodes(&tools.lists, "seq", count)?;
    let (ours, other) = beside(
        || encode(tools, "native", &list),
        || tools.process(Effort::ONCE, &[&slurm?, &list]),
    )?;
    let race = Race {
        figure: "`pmix map encode`, whole process",
        input: format!("{count} consecutive, scheme native"),
        peer: "libslurm",
        bound: None,
        judged: false,
    };
    Ok(race.row(&ours, other))
}

fn start(tools: &Tools) -> Result<Row, String> {
    let effort = Effort {
        runs: 50,
        cap_ms: 1000,
    };
    let ours = tools.process(
        effort,
        &[
            tools.pmix.as_os_str(),
            "map".as_ref(),
            "count".as_ref(),
            "n1".as_ref(),
        ],
    )?;
    let other = tools.process(effort, &["true"]);
    let race = Race {
        figure: "start of `pmix map count n1`",
        input: "one name".to_owned(),
        peer: "`true`",
        bound: None,
        judged: false,
    };
    let mut row = race.row(&ours, other);
    row.ours = format!("{}, {}", super::both(&ours), size(ours.bytes));
    row.bound = "under 5 ms, under 8 MB".to_owned();
    row.verdict = Verdict::of(ours.least < 5e6 && ours.bytes < 8e6);
    Ok(row)
}

/// Builds the program on the crate `nodeset`, which cargo downloads.
fn nodeset() -> Result<PathBuf, String> {
    let target = install::scratch("bench/nodeset-fold")?;
    let source = process::root().join("benches/peers/nodeset-fold");
    let mut cargo: Command = process::cargo(["build", "--quiet", "--release", "--locked"]);
    cargo.current_dir(source).arg("--target-dir").arg(&target);
    process::output(&mut cargo).map_err(|e| format!("no program on nodeset: {e}"))?;
    Ok(target.join("release/nodeset-fold"))
}
