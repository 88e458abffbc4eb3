// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench preg`: what the encoders, the parsers and the command cost, beside the real
//! library and others on the same lists in the same run. `cargo xtask bench bfrops`: the same of
//! packing and unpacking. `cargo xtask bench gds`: the same of registering jobs. `cargo xtask bench
//! server`: the same of whole sessions. `cargo xtask bench client`: the same of a client's calls. `cargo
//! xtask bench capi`: the same of our C library in place of a stock one.
//!
//! Nothing here passes or fails by time: each row says whether it meets what was promised, and a
//! check is that the row could be measured at all.

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

/// The rows so far, and how many could not be measured.
struct Report {
    rows: Vec<Row>,
    full: bool,
    only: Option<String>,
    failed: usize,
}

impl Report {
    /// Adds a row, or counts that our side of it failed.
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

    /// Whether this part was asked for.
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

/// What it costs, beside the real library and others.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Options {
    part: Part,
    /// Adds what takes a peer half a minute and more, or counts more of it.
    #[arg(long)]
    full: bool,
    /// One step: of preg encode, ppn, compress, parse or command; of bfrops uint32, int64, string,
    /// proc, value, info or nested; of gds beside, reply or alone; of server connect, fence, gets,
    /// groups, many-groups, whole, large, described, start, idle, many, tools, spawn or trues; of client calls, hosts,
    /// whole or large; of capi calls, mpirun, srun, register or open.
    #[arg(long, value_name = "STEP")]
    only: Option<String>,
    /// Installs what is needed and missing.
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

/// The table with what one needs to know to read it.
fn document(call: &str, tools: &Tools, rows: &[Row]) -> String {
    format!(
        "`{call}`, on {}; libpmix {}. Times are the least of several runs; a ratio is the other's \
         time over ours unless the row says otherwise.\n\n{}",
        machine(),
        tools.releases().join(" and "),
        table::markdown(rows)
    )
}

/// The processor and how many of its cores there are.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(": "))
        .map_or("an unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}

/// Measures ours before and after the other, so that a busy moment of the machine falls on both;
/// ours is the better of the two.
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

/// What a row of two times is about.
struct Race<'a> {
    figure: &'a str,
    input: String,
    /// Whose the other time is.
    peer: &'a str,
    /// How many times faster we promise to be.
    bound: Option<f64>,
    /// Whether the promise is for this size.
    judged: bool,
}

impl Race<'_> {
    /// The row, with the other's side missing if it is not here.
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

/// The least time, and the median where it differs much.
fn both(t: &Timing) -> String {
    let (least, median) = (table::time(t.least), table::time(t.median));
    if t.median > 1.3 * t.least {
        format!("{least} (median {median})")
    } else {
        least
    }
}
