// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of `cargo xtask bench bfrops` for this project: times packing and unpacking of data
//! from a file.
//!
//! `bfrops OPERATION TYPE FILE COUNT RUNS CAP_MS` prints `STATUS MIN_NS MEDIAN_NS RUNS BYTES`, like
//! the benchmark programs of the other libraries. FILE contains pack calls of TYPE: one call with
//! COUNT data for `pack`, `borrow` and `own`; COUNT calls with one datum each for `pack-one`,
//! `borrow-one` and `own-one`. `borrow` unpacks data that borrow from the message, and reads each
//! of them. `own` unpacks owned data. As in the other programs, the time excludes creating the
//! message and dropping the data. Callgrind counts the instructions of `measured`.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bfrops::{Decoder, Encoder, Error, Layout, Limits, Module, WireType, wire_type};
use pmix_types::IntoOwned;

const LAYOUT: Layout = Layout::new(Module::V41);

/// The timed operation and its input.
struct Work<'a> {
    operation: &'a str,
    message: &'a [u8],
    count: usize,
    runs: usize,
    cap: Duration,
}

/// The times of all runs, and the number of bytes packed or unpacked.
struct Times {
    runs: Vec<Duration>,
    bytes: usize,
}

/// Runs the work. This is the only function whose instructions are counted.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    work()
}

impl Work<'_> {
    /// Times an operation repeatedly. Dropping its result is not measured.
    fn repeat<T>(&self, operation: impl Fn() -> Result<T, Error>) -> Result<Times, Error> {
        let mut runs = Vec::new();
        let spent = |runs: &[Duration]| runs.iter().sum::<Duration>();
        while runs.len() < self.runs && (runs.is_empty() || spent(&runs) < self.cap) {
            let start = Instant::now();
            let result = black_box(measured(&operation));
            runs.push(start.elapsed());
            drop(result?);
        }
        let bytes = self.message.len();
        Ok(Times { runs, bytes })
    }

    fn run<K: WireType>(&self) -> Result<Times, Error>
    where
        for<'m> K::Item<'m>: IntoOwned,
    {
        let message = self.message;
        // 100,000 values take ten times as much memory as the message has bytes. The default limit
        // is lower.
        let limits = Limits {
            memory_factor: 64,
            ..Limits::default()
        };
        let decoder = || Decoder::new(LAYOUT, black_box(message)).with_limits(limits);
        match self.operation {
            "pack" => {
                let items = decoder().all::<K>()?;
                self.packs(|out| Encoder::new(LAYOUT, out).call::<K>(black_box(&items)))
            }
            "pack-one" => {
                let mut decoder = decoder();
                let items: Vec<_> = (0..self.count)
                    .map(|_| decoder.one::<K>())
                    .collect::<Result<_, _>>()?;
                self.packs(|out| {
                    let mut encoder = Encoder::new(LAYOUT, out);
                    items
                        .iter()
                        .try_for_each(|item| encoder.one::<K>(black_box(item)))
                })
            }
            "bulk" => self.repeat(|| decoder().all::<K>()),
            "borrow" => self.repeat(|| {
                let mut decoder = decoder();
                decoder
                    .call::<K>()?
                    .try_for_each(|item| item.map(|item| drop(black_box(item))))
            }),
            "borrow-one" => self.repeat(|| {
                let mut decoder = decoder();
                (0..self.count)
                    .try_for_each(|_| decoder.one::<K>().map(|item| drop(black_box(item))))
            }),
            "own" => self.repeat(|| {
                let mut decoder = decoder();
                let mut owned = Vec::with_capacity(self.count);
                for item in decoder.call::<K>()? {
                    owned.push(item?.into_owned());
                }
                Ok(owned)
            }),
            _ => self.repeat(|| {
                let mut decoder = decoder();
                let mut owned = Vec::with_capacity(self.count);
                for _ in 0..self.count {
                    owned.push(decoder.one::<K>()?.into_owned());
                }
                Ok(owned)
            }),
        }
    }

    /// Times packing into a new message, whose bytes must equal those of FILE.
    fn packs(&self, pack: impl Fn(&mut Vec<u8>) -> Result<(), Error>) -> Result<Times, Error> {
        let mut once = Vec::new();
        pack(&mut once)?;
        assert!(once == self.message, "other bytes than were unpacked");
        self.repeat(|| {
            let mut out = Vec::new();
            pack(&mut out)?;
            Ok(out)
        })
    }

    fn of_type(&self, data_type: &str) -> Option<Result<Times, Error>> {
        Some(match data_type {
            "PMIX_UINT32" => self.run::<wire_type::Uint32>(),
            "PMIX_INT64" => self.run::<wire_type::Int64>(),
            "PMIX_STRING" => self.run::<wire_type::String>(),
            "PMIX_PROC" => self.run::<wire_type::Proc>(),
            "PMIX_VALUE" => self.run::<wire_type::Value>(),
            "PMIX_INFO" => self.run::<wire_type::Info>(),
            _ => return None,
        })
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [operation, data_type, file, count, runs, cap] = arguments else {
        return Err("usage: bfrops OPERATION TYPE FILE COUNT RUNS CAP_MS".to_owned());
    };
    let cap = cap.parse().map_err(|e| format!("CAP_MS: {e}"))?;
    let message = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
    let work = Work {
        operation,
        message: &message,
        count: count.parse().map_err(|e| format!("COUNT: {e}"))?,
        runs: runs.parse().map_err(|e| format!("RUNS: {e}"))?,
        cap: Duration::from_millis(cap),
    };
    let times = work.of_type(data_type);
    let times = times.ok_or_else(|| format!("{data_type} is not timed"))?;
    let Times { mut runs, bytes } = times.map_err(|e| e.to_string())?;
    runs.sort_unstable();
    let (Some(least), Some(median)) = (runs.first(), runs.get(runs.len() / 2)) else {
        return Err("no runs".to_owned());
    };
    let (least, median) = (least.as_nanos(), median.as_nanos());
    println!("0 {least} {median} {} {bytes}", runs.len());
    Ok(())
}

fn main() -> ExitCode {
    // Cargo adds an argument when it runs a benchmark.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bfrops: {why}");
            ExitCode::FAILURE
        }
    }
}
