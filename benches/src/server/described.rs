// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures a job whose maps name 100,000 nodes while one process runs, beside a job of one process.

use std::process::Command;

use super::rows::kib;
use super::runs::Field;
use crate::Report;
use crate::table::{Row, Verdict, time};
use pmix_interop::server::launcher::Launcher;

/// The number of runs of each command. The least value of each figure is reported.
const RUNS: usize = 11;

/// The maps of the job. Rank 0 is the only process of the first node, which is the local node.
const MAPS: [(&str, &str); 2] = [
    ("--nodes", "node[0000000-0099999]"),
    ("--procs", "fold:10/1;1*128/99999"),
];

/// Compares `pmix run` of the described job with `pmix run` of one process.
pub(super) fn described(field: &Field, report: &mut Report) -> Result<(), String> {
    let Launcher::Ours(pmix) = &field.ours else {
        return Err("the other launchers do not describe other nodes".to_owned());
    };
    let idle = || {
        let mut command = Command::new(pmix);
        command.args(["run", "-n", "1"]);
        command
    };
    let large = || {
        let mut command = Command::new(pmix);
        command.args(["run", "--node-name", "node0000000"]);
        for (option, map) in MAPS {
            command.args([option, map]);
        }
        command
    };
    let least = |measure: &dyn Fn() -> Result<f64, String>| {
        (0..RUNS).try_fold(f64::MAX, |least, _| Ok::<_, String>(least.min(measure()?)))
    };
    let whole = |command: &dyn Fn() -> Command| least(&|| field.whole(command().arg("true")));
    let peak = |command: &dyn Fn() -> Command| least(&|| peak_kib(field, command()));
    let row = whole(&idle).and_then(|idle_ns| {
        let (took, idle_kib) = (whole(&large)? - idle_ns, peak(&idle)?);
        let more = peak(&large)? - idle_kib;
        Ok(Row {
            figure: "described job, beyond one process".to_owned(),
            input: "100,000 nodes, 128 processes each".to_owned(),
            ours: format!("{}, {}", time(took), kib(more)),
            peer: format!("one process: {}, {}", time(idle_ns), kib(idle_kib)),
            ratio: String::new(),
            bound: "10 ms, 1 MB".to_owned(),
            verdict: Verdict::of(took < 10e6 && more * 1024.0 < 1e6),
        })
    });
    report.add("described job", row);
    Ok(())
}

/// Returns the peak memory of a launcher while its process runs, which the process reads.
fn peak_kib(field: &Field, mut command: Command) -> Result<f64, String> {
    const ASK: &str = "sed -n 's/^VmHWM: *//p' /proc/$PPID/status";
    let text = field.run(command.args(["sh", "-c", ASK]))?;
    let mut words = text.split_whitespace();
    let number = words.find_map(|word| word.parse::<f64>().ok());
    number.ok_or_else(|| format!("no memory in {text:.100}"))
}
