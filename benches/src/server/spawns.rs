// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of a spawn per application. The cost must be linear, because one request decides the number.

use std::process::Command;

use pmix_interop::server::launcher::Launcher;
use pmix_interop::server::programs::compile;

use super::runs::{Field, Figures};
use crate::Report;
use crate::table::{Row, Verdict, factor, time};

/// The number of runs of a job. The least value of each figure is reported.
const RUNS: usize = 5;

/// The numbers of applications of the compared spawns, each with one process of `true`.
const APPS: [u32; 3] = [10, 100, 1000];

/// The limit of the cost of an application in a large spawn, as a multiple of the cost in a small one.
const MOST: f64 = 1.3;

/// Measures the processor time of the launcher, without its children, for spawns of few and of many applications.
pub(super) fn apps(field: &Field, report: &mut Report) -> Result<(), String> {
    let Launcher::Ours(pmix) = &field.ours else {
        return Err("the other launchers do not say their processor time".to_owned());
    };
    let program = compile(&field.release("5.")?.peer, "spawntime")?;
    let used = |apps: u32| -> Result<f64, String> {
        let mut command = Command::new(pmix);
        command.args(["run", "--json", "-n", "1"]).arg(&program);
        command.args(["1", &apps.to_string()]);
        let text = field.run(&mut command)?;
        let line = text.lines().find(|line| line.contains("\"cpu_seconds\""));
        Ok(Figures::of_text(line.unwrap_or_default())?.get("cpu_seconds")? * 1e9)
    };
    let least = |apps| {
        let mut runs = 0..RUNS;
        runs.try_fold(f64::MAX, |least, _| Ok::<_, String>(least.min(used(apps)?)))
    };
    let each = |few: u32, many: u32| -> Result<f64, String> {
        Ok((least(many)? - least(few)?) / f64::from(many - few))
    };
    let [few, some, many] = APPS;
    let row = each(few, some).and_then(|small| {
        let large = each(some, many)?;
        let ratio = large / small;
        Ok(Row {
            figure: "launcher time of a spawn for each application".to_owned(),
            input: format!("{few} to {some} and {some} to {many} applications of `true`"),
            ours: format!("{} and {}", time(small), time(large)),
            peer: String::new(),
            ratio: factor(ratio),
            bound: format!("at most {MOST}"),
            verdict: Verdict::of(ratio <= MOST),
        })
    });
    report.add("spawn of applications", row);
    Ok(())
}
