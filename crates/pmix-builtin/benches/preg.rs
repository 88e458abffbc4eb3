// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of `cargo xtask bench preg` for this project: times one operation of the framework on a
//! file.
//!
//! `preg OPERATION SCHEME FILE RUNS CAP_MS [OUT]` prints `STATUS MIN_NS MEDIAN_NS RUNS BYTES
//! FRAMING`, like the programs of the peers. SCHEME is the only active one (`-` for the defaults).
//! The operations: `read` only reads the file; `regex`, `ppn` and `regex2` encode; `nodes` and
//! `procs` parse a value of the string form into a folded map (BYTES is its memory); `names` and
//! `text` parse it and expand it into one string per name or into one text. OUT receives the
//! encoded value.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pmix_builtin::preg_components;
use preg_core::{Error, Params, Preg};

/// The result of one run: its size, its framing, and the bytes if they are requested.
struct Made {
    size: usize,
    framing: String,
    bytes: Vec<u8>,
}

impl Made {
    fn sized(size: usize) -> Self {
        Self {
            size,
            framing: "-".to_owned(),
            bytes: Vec::new(),
        }
    }

    fn value(framing: String, bytes: Vec<u8>) -> Self {
        Self {
            size: bytes.len(),
            framing,
            bytes,
        }
    }
}

type Timed = (Duration, Result<Made, Error>);

/// Times `work`, and describes its result outside of the measured time.
fn timed<T>(work: impl FnOnce() -> Result<T, Error>, describe: impl FnOnce(T) -> Made) -> Timed {
    let start = Instant::now();
    let result = black_box(work());
    let took = start.elapsed();
    (took, result.map(describe))
}

fn once(preg: &Preg, operation: &str, input: &[u8]) -> Option<Timed> {
    let input = black_box(input);
    Some(match operation {
        "read" => timed(|| Ok(input.len()), Made::sized),
        "regex" => timed(
            || preg.generate_node_regex(input),
            |v| Made::value(v.framing, v.bytes),
        ),
        "ppn" => timed(
            || preg.generate_ppn(input),
            |v| Made::value(v.framing, v.bytes),
        ),
        "regex2" => timed(
            || preg.generate_regex(input),
            |v| Made::value(v.kind, v.bytes),
        ),
        "nodes" => timed(
            || preg.parse_nodes(input),
            |l| Made::sized(l.memory_bytes()),
        ),
        "procs" => timed(
            || preg.parse_procs(input),
            |m| Made::sized(usize::try_from(m.num_ranks()).unwrap_or(usize::MAX)),
        ),
        "names" => timed(
            || Ok(preg.parse_nodes(input)?.iter().collect::<Vec<_>>()),
            |names| Made::sized(names.iter().map(Vec::len).sum()),
        ),
        "text" => timed(
            || {
                let mut text = Vec::new();
                preg.parse_nodes(input)?.write_text(b',', &mut text);
                Ok(text)
            },
            |text| Made::sized(text.len()),
        ),
        _ => return None,
    })
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [operation, scheme, file, runs, cap, out @ ..] = arguments else {
        return Err("usage: preg OPERATION SCHEME FILE RUNS CAP_MS [OUT]".to_owned());
    };
    let runs: usize = runs.parse().map_err(|e| format!("RUNS: {e}"))?;
    let cap = Duration::from_millis(cap.parse().map_err(|e| format!("CAP_MS: {e}"))?);
    let input = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
    let components: Vec<_> = preg_components()
        .into_iter()
        .filter(|c| scheme == "-" || c.name == scheme)
        .collect();
    let preg = Preg::open(&Params::default(), &components).map_err(|e| e.to_string())?;
    let mut times = Vec::new();
    let mut last = Made::sized(0);
    while times.len() < runs.max(1) && (times.is_empty() || times.iter().sum::<Duration>() < cap) {
        let (took, made) = once(&preg, operation, &input)
            .ok_or_else(|| format!("there is no operation {operation}"))?;
        times.push(took);
        last = made.map_err(|e| e.to_string())?;
    }
    times.sort_unstable();
    let (least, median) = (times[0], times[times.len() / 2]);
    if let [out] = out {
        std::fs::write(out, &last.bytes).map_err(|e| format!("{out}: {e}"))?;
    }
    println!(
        "0 {} {} {} {} {}",
        least.as_nanos(),
        median.as_nanos(),
        times.len(),
        last.size,
        last.framing
    );
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    arguments.retain(|a| a != "--bench");
    if arguments.is_empty() {
        println!("the figures come from: cargo xtask bench preg");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("error {why}");
            ExitCode::FAILURE
        }
    }
}
