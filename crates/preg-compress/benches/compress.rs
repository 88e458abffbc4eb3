// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the compress scheme for lists of 100,000 names: size and time, compared with zlib-rs at
//! level 9, and the rate of decoding.
//!
//! `cargo bench -p preg-compress [NAME...]`. Each figure is the best of several runs; `cargo xtask
//! bench preg` compares with C zlib.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pmix_mca::Source;
use preg_compress::COMPONENT;
use preg_core::{Limits, Params, Regex2, Scheme};

const N: usize = 100_000;
/// The limits of a measurement: a number of runs and a time.
const RUNS: usize = 9;
const TIME: Duration = Duration::from_secs(2);

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let (ours, level_9) = (scheme("auto"), scheme("9"));
    println!(
        "{:<18} {:>9} | {:>8} {:>9} {:>6} | {:>5} {:>5} | {:>8} {:>8} {:>8}",
        "list", "bytes", "bytes", "ms", "MB/s", "bytes", "time", "inflate", "map", "memcpy"
    );
    println!(
        "{:<18} {:>9} | {:>25} | {:>11} | {:>26}",
        "", "of text", "written", "of level 9", "GB/s of text read"
    );
    for (name, procs, text) in lists() {
        if wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str())) {
            row(name, procs, &text, &*ours, &*level_9);
        }
    }
}

fn scheme(level: &str) -> Box<dyn Scheme> {
    let params = Params::builder().set("pcompress_zlib_level", level, Source::Api);
    (COMPONENT.query)(&params.build().expect("valid settings"))
        .expect("settings can be obeyed")
        .expect("zlib is built")
}

fn row(name: &str, procs: bool, text: &[u8], ours: &dyn Scheme, level_9: &dyn Scheme) {
    let (value, time) = best(|| encode(ours, text));
    let (general, general_time) = best(|| encode(level_9, text));
    let limits = Limits::default();
    let (_, inflate) = best(|| ours.parse_regex(value.as_view(), &limits).expect("valid"));
    let form = ours.generate_node_regex(text).expect("valid");
    let form = form.expect("it shrinks");
    let (_, map) = best(|| match procs {
        true => ours.parse_procs(&form, &limits).expect("valid").is_some(),
        false => ours.parse_nodes(&form, &limits).expect("valid").is_some(),
    });
    let (_, copy) = best(|| text.to_vec());
    let rate = |time: Duration| text.len() as f64 / time.as_secs_f64() / 1e9;
    println!(
        "{name:<18} {:>9} | {:>8} {:>9.3} {:>6.0} | {:>5.2} {:>5.2} | {:>8.2} {:>8.2} {:>8.2}",
        text.len(),
        value.bytes.len(),
        time.as_secs_f64() * 1e3,
        rate(time) * 1e3,
        value.bytes.len() as f64 / general.bytes.len() as f64,
        time.as_secs_f64() / general_time.as_secs_f64(),
        rate(inflate),
        rate(map),
        rate(copy),
    );
}

fn encode(scheme: &dyn Scheme, text: &[u8]) -> Regex2 {
    let value = scheme.generate_regex(text).expect("no fault");
    value.expect("it shrinks")
}

/// Returns the result of a function and its shortest time.
fn best<T>(run: impl Fn() -> T) -> (T, Duration) {
    let began = Instant::now();
    let (mut answer, mut least) = (None, Duration::MAX);
    for _ in 0..RUNS {
        let start = Instant::now();
        answer = Some(black_box(run()));
        least = least.min(start.elapsed());
        if began.elapsed() > TIME {
            break;
        }
    }
    (answer.expect("at least one run"), least)
}

fn lists() -> Vec<(&'static str, bool, Vec<u8>)> {
    let numbered: Vec<_> = (1..=N * 104 / 100).map(|i| format!("node{i:06}")).collect();
    let holes = numbered
        .iter()
        .enumerate()
        .filter(|(i, _)| i * 37 % 100 >= 3);
    let holes: Vec<_> = holes.map(|(_, name)| name.clone()).take(N).collect();
    let racks: Vec<_> = (0..N)
        .map(|i| format!("r{:04}n{:02}", i / 64 + 1, i % 64 + 1))
        .collect();
    let cray: Vec<_> = (0..N).map(cray).collect();
    let numbered = numbered[..N].to_vec();
    let mut lists = vec![
        ("shuffled", false, joined(&shuffled(numbered.clone()))),
        ("shuffled racks", false, joined(&shuffled(racks.clone()))),
        ("shuffled x-names", false, joined(&shuffled(cray.clone()))),
        ("consecutive", false, joined(&numbered)),
        ("holes", false, joined(&holes)),
        ("racks", false, joined(&racks)),
        ("x-names", false, joined(&cray)),
    ];
    for (block, cyclic, ranks) in [
        ("block 1", "cyclic 1", 1),
        ("block 8", "cyclic 8", 8),
        ("block 128", "cyclic 128", 128),
    ] {
        lists.push((block, true, map(ranks, |node, r| node * ranks + r)));
        lists.push((cyclic, true, map(ranks, |node, r| node + r * N)));
    }
    lists
}

fn joined(names: &[String]) -> Vec<u8> {
    names.join(",").into_bytes()
}

fn cray(n: usize) -> String {
    let (chassis, slot) = (n / 32 % 8, n / 4 % 8);
    format!(
        "x{}c{chassis}s{slot}b{}n{}",
        1000 + n / 256,
        n / 2 % 2,
        n % 2
    )
}

/// Returns a permutation that is the same in every run.
fn shuffled(mut names: Vec<String>) -> Vec<String> {
    let mut state = 1_u64;
    for at in (1..names.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let pick = (state >> 33) % (at as u64 + 1);
        names.swap(at, usize::try_from(pick).expect("an index"));
    }
    names
}

fn map(ranks: usize, rank: impl Fn(usize, usize) -> usize) -> Vec<u8> {
    let mut text = String::new();
    for node in 0..N {
        for r in 0..ranks {
            text.push(if r > 0 { ',' } else { ';' });
            text.push_str(&rank(node, r).to_string());
        }
    }
    text.split_off(1).into_bytes()
}
