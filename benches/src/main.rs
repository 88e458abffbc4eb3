// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench PART`: measures our code beside the real library and other programs, on the same input in
//! the same run.
//!
//! | part | measured |
//! | --- | --- |
//! | `preg` | encoders, parsers, the command |
//! | `bfrops` | packing and unpacking |
//! | `gds` | registration of jobs |
//! | `server` | whole sessions |
//! | `client` | the calls of a client |
//! | `capi` | our C library in place of a stock one |
//!
//! No check passes or fails by time. Each row states whether it meets the promised ratio. A check fails if its row
//! could not be measured.

#![forbid(unsafe_code)]

mod bfrops;
mod capi;
mod client;
mod command;
mod encode;
mod gds;
mod lists;
mod parse;
mod server;
mod table;
mod tools;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use table::Row;
use tools::{Effort, Timing, Tools};
use xtask::{Outcome, install};

/// The rows so far and the number of rows that could not be measured.
struct Report {
    rows: Vec<Row>,
    full: bool,
    only: Option<String>,
    failed: usize,
}

impl Report {
    /// Adds a row, or counts a failure of our side.
    fn add(&mut self, figure: &str, row: Result<Row, String>) {
        match row {
            Ok(row) => {
                println!(
                    "{}, {}: {} ({})",
                    row.figure, row.input, row.ours, row.ratio
                );
                self.rows.push(row);
            }
            Err(why) => {
                println!("FAILED {figure}: {why}");
                self.failed += 1;
            }
        }
    }

    /// Returns `true` if the command line selects this part.
    fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == part)
    }
}

/// One part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The encoders and parsers of maps, and the command.
    Preg,
    /// Packing and unpacking.
    Bfrops,
    /// Registering jobs, and asking about them.
    Gds,
    /// Whole sessions.
    Server,
    /// The calls of a client, of the crate and of the C library.
    Client,
    /// The C library in place of a stock one.
    Capi,
}

/// Measure costs beside the real library and others.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Options {
    part: Part,
    /// Run the rows that take a peer half a minute or more, too.
    #[arg(long)]
    full: bool,
    /// Run one step only: of preg encode, ppn, compress, parse or command; of bfrops uint32, int64, string,
    /// proc, value, info or nested; of gds beside, reply or alone; of server connect, fence, gets,
    /// groups, many-groups, whole, large, described, start, idle, many, tools, spawn, trues, mpich or timing; of client
    /// calls, hosts, whole or large; of capi calls, mpirun, srun, register or open.
    #[arg(long, value_name = "STEP")]
    only: Option<String>,
    /// Install missing packages.
    #[arg(long)]
    install: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.install {
        install::allow();
    }
    let outcome = match run(&options) {
        Ok(report) => Outcome {
            passed: report.rows.len(),
            failed: report.failed,
            ..Outcome::default()
        },
        Err(why) => {
            eprintln!("bench: {why}");
            Outcome::of(false)
        }
    };
    xtask::close(&outcome)
}

/// Measures and prints the table.
fn run(options: &Options) -> Result<Report, String> {
    let mut report = Report {
        rows: Vec::new(),
        full: options.full,
        only: options.only.clone(),
        failed: 0,
    };
    let words: Vec<String> = std::env::args().skip(1).collect();
    let call = format!("cargo xtask bench {}", words.join(" "));
    match options.part {
        Part::Preg => {}
        Part::Bfrops => {
            let options = bfrops::Options {
                full: report.full,
                only: report.only.clone(),
            };
            bfrops::measure(&options, &call, &mut report)?;
            return Ok(report);
        }
        Part::Gds => {
            gds::measure(&call, &mut report)?;
            return Ok(report);
        }
        Part::Server => {
            server::measure(&call, &mut report)?;
            return Ok(report);
        }
        Part::Client => {
            client::measure(&call, &mut report)?;
            return Ok(report);
        }
        Part::Capi => {
            capi::measure(&call, &mut report)?;
            return Ok(report);
        }
    }
    let tools = Tools::prepare()?;
    encode::measure(&tools, &mut report);
    parse::measure(&tools, &mut report);
    command::measure(&tools, &mut report);
    let text = document(&call, &tools, &report.rows);
    let path = install::scratch("bench")?.join("preg.md");
    std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("\n{text}");
    Ok(report)
}

/// Returns the table with a legend.
fn document(call: &str, tools: &Tools, rows: &[Row]) -> String {
    format!(
        "`{call}`, on {}; libpmix {}. Times are the least of several runs; a ratio is the other's \
         time over ours unless the row says otherwise.\n\n{}",
        machine(),
        tools.releases().join(" and "),
        table::markdown(rows)
    )
}

/// Returns the name of the processor and its number of cores.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(": "))
        .map_or("an unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}

/// Measures our side before and after the peer, so that other load on the machine affects both, and takes the better
/// of our two results.
fn beside(
    ours: impl Fn() -> Result<Timing, String>,
    other: impl FnOnce() -> Result<Timing, String>,
) -> Result<(Timing, Result<Timing, String>), String> {
    let before = ours()?;
    let other = other();
    let after = ours()?;
    let better = if after.least < before.least {
        after
    } else {
        before
    };
    Ok((better, other))
}

/// The description of a row of two times.
struct Race<'a> {
    figure: &'a str,
    input: String,
    /// The name of the peer.
    peer: &'a str,
    /// The promised ratio.
    bound: Option<f64>,
    /// `true` if the ratio is promised for this size.
    judged: bool,
}

impl Race<'_> {
    /// Returns the row, without the peer's side if the peer is not available.
    fn row(self, ours: &Timing, other: Result<Timing, String>) -> Row {
        use table::{Verdict, factor, time};
        let ratio = other.as_ref().ok().map(|o| o.least / ours.least);
        let verdict = match (self.bound, ratio) {
            (None, _) => Verdict::Shown,
            (Some(bound), Some(ratio)) if self.judged => Verdict::of(ratio >= bound),
            _ => Verdict::NotJudged,
        };
        Row {
            figure: self.figure.to_owned(),
            input: self.input,
            ours: both(ours),
            peer: match other {
                Ok(o) => format!("{}: {}", self.peer, time(o.least)),
                Err(why) => why,
            },
            ratio: ratio.map_or_else(String::new, factor),
            bound: self.bound.map_or_else(String::new, |b| format!("{b}")),
            verdict,
        }
    }
}

/// Formats the least time, and the median if it differs by much.
fn both(t: &Timing) -> String {
    let (least, median) = (table::time(t.least), table::time(t.median));
    if t.median > 1.3 * t.least {
        format!("{least} (median {median})")
    } else {
        least
    }
}
