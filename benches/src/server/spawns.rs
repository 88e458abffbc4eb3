// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of a spawn per application. The cost must be linear, because one request decides the number.

use std::path::Path;
use std::process::Command;

use pmix_interop::server::launcher::Launcher;
use pmix_interop::server::programs::compile;

use super::runs::Field;
use crate::Report;
use crate::table::{Row, Verdict, factor};

/// The number of runs of a job. The least figure is reported, because a thread that wakes more often runs more turns.
const RUNS: usize = 3;

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
        let mut runs = 0..RUNS;
        runs.try_fold(f64::MAX, |least, _| Ok::<_, String>(least.min(used(apps)?)))
    };
    let counts = APPS.map(least);
    report.add("spawn of a few applications", row(&counts, [0, 1, 2]));
    report.add("spawn of applications", row(&counts, [1, 2, 3]));
    Ok(())
}

/// Returns the row of three sizes: the instructions for each application that the second has more than the first, and
/// the third more than the second. The smallest sizes are not judged: the first thread itself starts a single process,
/// and other threads start the processes of a larger spawn.
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
