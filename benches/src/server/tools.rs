// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures tools at a server, spawned jobs, and launches of many processes that do nothing.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pmix_interop::server::launcher::Launcher;
use pmix_interop::server::programs::{compile, compile_for};
use pmix_interop::tools::running::Running;
use xtask::{install, process};

use super::runs::{Field, Figures, Pair};
use crate::Report;
use crate::table::{Row, Verdict, factor, time};

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

/// The number of processes of the measured MPI program, and of its runs.
const MPI_PROCS: u32 = 64;
const MPI_RUNS: usize = 5;

/// Measures an MPI program on MPICH under `pmix run`, which serves it by PMI-1, and under Hydra.
pub(super) fn mpich(field: &Field, report: &mut Report) -> Result<(), String> {
    let hydra = install::hydra()?;
    let program = field.home().join("mpich-hello");
    let source = process::root().join("tests/server/mpi/hello.c");
    let mut compiler = Command::new(hydra.with_file_name("mpicc"));
    let libraries = hydra.parent().and_then(Path::parent);
    let libraries = libraries
        .ok_or("the virtual environment has no root")?
        .join("lib");
    compiler.arg("-O2").arg("-o").arg(&program).arg(source);
    compiler.arg(format!("-Wl,-rpath,{}", libraries.display()));
    process::output(&mut compiler)?;
    let size = MPI_PROCS.to_string();
    let ours = || field.whole(field.ours.command(MPI_PROCS).arg(&program).arg(&size));
    let theirs = || {
        let mut command = Command::new(&hydra);
        command.args(["-n", &size]).arg(&program).arg(&size);
        field.whole(&mut command)
    };
    let both = (0..MPI_RUNS).try_fold((f64::MAX, f64::MAX), |(one, other), _| {
        Ok::<_, String>((one.min(ours()?), other.min(theirs()?)))
    });
    let row = both.map(|(ours, peer)| {
        Pair {
            figure: "whole command of an MPI program on MPICH",
            input: format!("-n {MPI_PROCS}"),
            ours,
            peer,
            name: "mpiexec.hydra".to_owned(),
            bound: Some(1.0),
            shown: time,
        }
        .row()
    });
    report.add("mpich", row);
    Ok(())
}

/// The number of runs of a job. The least figure is reported, because a thread that wakes more often runs more turns.
const SPAWNS_RUNS: usize = 3;

/// The numbers of applications of the compared spawns, each with one process of `true`.
const APPS: [u32; 4] = [1, 10, 100, 1000];

/// The limit of the cost of an application in a large spawn, as a multiple of the cost in a small one.
const MOST: f64 = 1.3;

/// Counts the instructions of the launcher's first thread, which serves all processes, for spawns of few and of many
/// applications.
pub(super) fn apps(field: &Field, report: &mut Report) -> Result<(), String> {
    let Launcher::Ours(pmix) = &field.ours else {
        return Err("the other launchers have other threads".to_owned());
    };
    let program = compile(&field.release("5.")?.peer, "spawntime")?;
    let out = field.home().join("callgrind");
    let used = |apps: u32| -> Result<f64, String> {
        let mut command = counting(pmix, &out);
        command.arg(&program).args(["1", &apps.to_string()]);
        field.run(&mut command)?;
        instructions(&out)
    };
    let least = |apps| {
        let mut runs = 0..SPAWNS_RUNS;
        runs.try_fold(f64::MAX, |least, _| Ok::<_, String>(least.min(used(apps)?)))
    };
    let counts = APPS.map(least);
    report.add("spawn of a few applications", row(&counts, [0, 1, 2]));
    report.add("spawn of applications", row(&counts, [1, 2, 3]));
    Ok(())
}

/// Returns the row of three sizes. It has the instructions for each additional application: of the
/// second size over the first, and of the third size over the second. The smallest sizes are not
/// judged: the first thread itself starts a single process, and other threads start the processes
/// of a larger spawn.
fn row(counts: &[Result<f64, String>], sizes: [usize; 3]) -> Result<Row, String> {
    let count = |size: usize| counts.get(size).cloned().ok_or("no such size")?;
    let number = |size: usize| APPS.get(size).copied().unwrap_or_default();
    let each = |few: usize, many: usize| -> Result<f64, String> {
        Ok((count(many)? - count(few)?) / f64::from(number(many) - number(few)))
    };
    let [few, some, many] = sizes;
    let (small, large) = (each(few, some)?, each(some, many)?);
    let ratio = large / small;
    let [from, to, last] = sizes.map(number);
    Ok(Row {
        figure: "instructions of the launcher's first thread for each application of a spawn"
            .to_owned(),
        input: format!("{from} to {to} and {to} to {last} applications of `true`"),
        ours: format!("{small:.0} and {large:.0}"),
        peer: String::new(),
        ratio: factor(ratio),
        bound: format!("at most {MOST}"),
        verdict: match few {
            0 => Verdict::NotJudged,
            _ => Verdict::of(ratio <= MOST),
        },
    })
}

/// Returns a command that counts the instructions of each thread of `pmix run` into files whose names begin with `out`.
fn counting(pmix: &Path, out: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--separate-threads=yes", "--quiet"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(pmix).args(["run", "-n", "1"]);
    command
}

/// Returns the instructions of the first thread of a run that has ended.
fn instructions(out: &Path) -> Result<f64, String> {
    let path = format!("{}-01", out.display());
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    total(&text).ok_or_else(|| format!("{path} has no total"))
}

/// Returns the total of a profile of callgrind.
fn total(profile: &str) -> Option<f64> {
    let total = profile
        .lines()
        .find_map(|line| line.strip_prefix("totals: "));
    total?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_profile_is_that_of_its_thread() {
        let profile = "version: 1\nthread: 1\nevents: Ir\nfn=(1) main\n16 400\ntotals: 4711\n";
        assert_eq!(total(profile), Some(4711.0));
        assert_eq!(total("events: Ir\n"), None);
    }
}
