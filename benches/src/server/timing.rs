// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `get_timing` and `fence_timing`, two examples of OpenPMIx 7, with its client library and with ours, under
//! `pmix run` and under prterun 5. All run in a private root of Debian sid.

use std::fs;
use std::path::Path;

use pmix_interop::newest::{compile_example, example};
use xtask::install::{self, Root};

use super::runs::{Field, Pair};
use crate::Report;
use crate::table::time;

/// The number of processes.
const SIZE: &str = "4";

/// The number of runs of each command. The least figure is reported.
const RUNS: usize = 5;

/// The figures of the examples: the label before the number, and the nanoseconds of its unit.
const OF_GET: &[(&str, f64)] = &[("peer", 1.0), ("job", 1.0), ("sess", 1.0), ("self", 1.0)];
const OF_FENCE: &[(&str, f64)] = &[("barrier=", 1e3), ("modex=", 1e3)];

/// A launcher and the client library of its processes.
struct Setup {
    launcher: Vec<String>,
    title: &'static str,
}

/// Measures both examples.
pub(super) fn timing(field: &Field, report: &mut Report) -> Result<(), String> {
    let root = Root::debian(install::NEWEST, install::SID)?;
    let home = install::scratch("bench/timing")?;
    let pmix = home.join("pmix");
    fs::copy(&field.pmix, &pmix).map_err(|e| format!("{}: {e}", pmix.display()))?;
    let library = pmix_interop::capi::library("dist")?;
    let copy = home.join("libpmix.so.2");
    fs::copy(library.file(), &copy).map_err(|e| format!("{}: {e}", copy.display()))?;
    let words =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let pmix = pmix.to_string_lossy();
    let found = format!("LD_LIBRARY_PATH={}", home.display());
    let theirs = Setup {
        launcher: words(&[
            "prterun",
            "--host",
            "localhost:16",
            "--map-by",
            "slot",
            "-n",
            SIZE,
        ]),
        title: "OpenPMIx 7 under prterun 5",
    };
    let ours = [
        Setup {
            launcher: words(&[&pmix, "run", "-n", SIZE]),
            title: "OpenPMIx 7 under pmix run",
        },
        Setup {
            launcher: words(&[&pmix, "run", "-n", SIZE, "env", &found]),
            title: "pmix-rs under pmix run",
        },
    ];
    for (name, labels) in [("get_timing", OF_GET), ("fence_timing", OF_FENCE)] {
        let program = compile_example(&root, &home, name)?;
        let measured = |setup: &Setup| least(&root, &home, setup, &program, labels);
        let peer = measured(&theirs)?;
        for setup in &ours {
            let figures = measured(setup)?;
            let names =
                std::iter::once("whole command").chain(labels.iter().map(|(label, _)| *label));
            for ((label, ours), peer) in names.zip(figures).zip(&peer) {
                let pair = Pair {
                    figure: match name {
                        "get_timing" => "example get_timing of OpenPMIx 7",
                        _ => "example fence_timing of OpenPMIx 7",
                    },
                    input: format!(
                        "{}, {}, -n {SIZE}",
                        label.trim_end_matches('='),
                        setup.title
                    ),
                    ours,
                    peer: *peer,
                    name: theirs.title.to_owned(),
                    bound: Some(1.0),
                    shown: time,
                };
                report.add("timing", Ok(pair.row()));
            }
        }
    }
    Ok(())
}

/// Returns the least time of the whole command, then of each figure, in nanoseconds.
fn least(
    root: &Root,
    home: &Path,
    setup: &Setup,
    program: &Path,
    labels: &[(&str, f64)],
) -> Result<Vec<f64>, String> {
    let mut least = vec![f64::MAX; labels.len() + 1];
    for _ in 0..RUNS {
        let ended = example(root, home, &setup.launcher, program)?;
        if ended.code != Some(0) {
            return Err(format!(
                "{}: {:?}: {:.300}",
                setup.title, ended.code, ended.text
            ));
        }
        let mut figures = vec![ended.took.as_secs_f64() * 1e9];
        for (label, unit) in labels {
            let figure = figure(&ended.text, label)
                .ok_or_else(|| format!("{}: no {label}: {:.300}", setup.title, ended.text))?;
            figures.push(figure * unit);
        }
        for (least, figure) in least.iter_mut().zip(figures) {
            *least = least.min(figure);
        }
    }
    Ok(least)
}

/// Returns the number that follows a label.
fn figure(text: &str, label: &str) -> Option<f64> {
    let (_, rest) = text.split_once(label)?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_follows_its_label() {
        let gets = "get_timing: 4 ranks\nget_timing:   peer       94.3 ns/op\nget_timing:   job       12.0 ns/op\n";
        assert_eq!(figure(gets, "job"), Some(12.0));
        assert_eq!(
            figure("nprocs=4 barrier=31.5 us modex=99.0 us", "modex="),
            Some(99.0)
        );
        assert_eq!(figure(gets, "sess"), None);
    }
}
