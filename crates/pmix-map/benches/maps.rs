// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times maps: `cargo bench -p pmix-map --bench maps`.
//!
//! A number after `--` selects a single size. Each figure is the shortest time of several runs.
//! Under `cargo test` only the smallest size is run.

use std::hint::black_box;
use std::time::Instant;

use pmix_map::{Limits, NodeList, NodeListBuilder, ProcMap, Progression};
use pmix_types::Rank;

/// Returns the best time of a few runs, in nanoseconds.
fn best<T>(mut run: impl FnMut() -> T) -> f64 {
    let budget = Instant::now();
    let mut best = f64::INFINITY;
    while best.is_infinite() || budget.elapsed().as_millis() < 200 {
        let start = Instant::now();
        black_box(run());
        best = best.min(start.elapsed().as_secs_f64() * 1e9);
    }
    best
}

/// Returns a permutation of `0..len`, the same in every run.
fn shuffled(len: usize) -> Vec<usize> {
    let mut numbers: Vec<_> = (0..len).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in (1..len).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let j = usize::try_from(state % (i as u64 + 1)).unwrap_or(0);
        numbers.swap(i, j);
    }
    numbers
}

fn xname(i: usize) -> String {
    let (x, c, s, b, n) = (i >> 8, i >> 5 & 7, i >> 2 & 7, i >> 1 & 1, i & 1);
    format!("x{}c{c}s{s}b{b}n{n}", 1000 + x)
}

fn node_lists(len: usize) -> Vec<(&'static str, String)> {
    let join = |names: Vec<String>| names.join(",");
    let rack = |n: usize| format!("r{:04}n{:02}", n / 72 + 1, n % 72 + 1);
    let order = shuffled(len);
    let holes = (0..).filter(|n| n * 2_654_435_761 % 1000 >= 30).take(len);
    vec![
        (
            "consecutive",
            join((1..=len).map(|n| format!("n{n:07}")).collect()),
        ),
        (
            "3 % holes",
            join(holes.map(|n: usize| format!("n{n:07}")).collect()),
        ),
        ("racks", join((0..len).map(rack).collect())),
        ("x-names", join((0..len).map(xname).collect())),
        (
            "shuffled",
            join(order.iter().map(|n| format!("n{n:07}")).collect()),
        ),
        (
            "shuffled x",
            join(order.iter().map(|n| xname(*n)).collect()),
        ),
        (
            "unpadded",
            join((1..=len).map(|n| format!("n{n}")).collect()),
        ),
        ("no digits", join((0..len).map(letters).collect())),
    ]
}

fn letters(n: usize) -> String {
    format!("{n:06x}")
        .bytes()
        .map(|b| char::from(b'a' + (b & 15) + (b >> 6)))
        .collect()
}

fn per(total: f64, count: usize) -> f64 {
    total / count as f64
}

fn bench_nodes(len: usize) {
    for (kind, text) in node_lists(len) {
        let text = text.into_bytes();
        let limits = Limits::default();
        let parse = best(|| NodeList::parse_text(&text, &limits));
        let list = NodeList::parse_text(&text, &limits).expect("a list within the limits");
        let held = list.memory_bytes();
        let mut out = Vec::with_capacity(text.len());
        let write = best(|| {
            out.clear();
            list.write_text(b',', &mut out);
            out.len()
        });
        assert!(out == text, "{kind} does not expand to its text");
        let probes: Vec<_> = shuffled(len).into_iter().take(10_000).collect();
        let names: Vec<_> = probes.iter().filter_map(|i| list.nth(*i)).collect();
        let mut name = Vec::new();
        let nth = best(|| {
            for i in &probes {
                name.clear();
                list.write_nth(*i, &mut name);
                black_box(&name);
            }
        });
        let index = best(|| list.clone().position(b"nowhere"));
        black_box(list.position(b"nowhere"));
        let position = best(|| names.iter().filter_map(|n| list.position(n)).sum::<usize>());
        println!(
            "{kind:<12} {len:>8} {:>7.2} {:>7.1} {:>7.1} {:>7.0} {:>8.0} {:>9.2} {held:>10} {:>10}",
            per(text.len() as f64, 1) / parse,
            per(parse, len),
            per(write, len),
            per(nth, probes.len()),
            per(position, names.len()),
            index / 1e6,
            list.memory_bytes(),
        );
    }
}

fn bench_progression() {
    let limits = Limits::default();
    let run = Progression {
        prefix: b"n",
        width: 7,
        first: 1,
        count: 1_000_000,
        step: 1,
        suffix: b"",
    };
    let build = || {
        let mut builder = NodeListBuilder::new(&limits);
        builder.progression(&run).expect("a run that fits");
        builder.finish()
    };
    let held = build().memory_bytes();
    println!(
        "one run of 1,000,000 names: {:.0} ns, {held} bytes of heap",
        best(build)
    );
}

fn proc_maps(nodes: usize) -> Vec<(String, String)> {
    let mut maps = Vec::new();
    for ppn in [1, 8, 128]
        .into_iter()
        .filter(|ppn| nodes * ppn <= 12_800_000)
    {
        let text = |rank: &dyn Fn(usize, usize) -> usize| {
            let node = |n| {
                (0..ppn)
                    .map(|r| rank(n, r).to_string())
                    .collect::<Vec<_>>()
                    .join(",")
            };
            (0..nodes).map(node).collect::<Vec<_>>().join(";")
        };
        let order = shuffled(nodes * ppn);
        maps.extend([
            (format!("block {ppn}"), text(&|n, r| n * ppn + r)),
            (format!("cyclic {ppn}"), text(&|n, r| n + r * nodes)),
            (
                format!("plane {ppn}"),
                text(&|n, r| r / 4 * 4 * nodes + n * 4 + r % 4),
            ),
            (
                format!("gaps {ppn}"),
                text(&|n, r| n + n / 33 + r * (nodes + nodes / 33 + 1)),
            ),
            (format!("shuffled {ppn}"), text(&|n, r| order[n * ppn + r])),
        ]);
    }
    maps
}

fn bench_procs(nodes: usize) {
    for (kind, text) in proc_maps(nodes) {
        let text = text.into_bytes();
        let limits = Limits::default();
        let parse = best(|| ProcMap::parse_text(&text, &limits));
        let map = ProcMap::parse_text(&text, &limits).expect("a map within the limits");
        let (held, ranks) = (map.memory_bytes(), map.num_ranks());
        let mut out = Vec::with_capacity(text.len() + 16);
        let write = best(|| {
            out.clear();
            map.write_text(&mut out);
            out.len()
        });
        assert!(out == text, "{kind} does not expand to its text");
        let size = usize::try_from(ranks).unwrap_or(usize::MAX);
        let probes: Vec<_> = shuffled(size).into_iter().take(10_000).collect();
        let probes: Vec<_> = probes
            .iter()
            .filter_map(|r| u32::try_from(*r).ok())
            .collect();
        let index = best(|| map.clone().node_of(Rank::new(0)));
        black_box(map.node_of(Rank::new(0)));
        let find = || {
            probes
                .iter()
                .filter_map(|r| map.node_of(Rank::new(*r)))
                .sum::<usize>()
        };
        let node_of = best(find);
        println!(
            "{kind:<12} {nodes:>8} {:>7.2} {:>7.1} {:>7.1} {:>7} {:>8.0} {:>9.2} {held:>10} {:>10}",
            per(text.len() as f64, 1) / parse,
            per(parse, size),
            per(write, size),
            "",
            per(node_of, probes.len()),
            index / 1e6,
            map.memory_bytes(),
        );
    }
}

fn main() {
    let quick = std::env::args().any(|a| a == "--test") || cfg!(debug_assertions);
    let size = std::env::args().find_map(|a| a.parse().ok());
    let all = [10_000, 100_000, 1_000_000];
    let sizes = match (quick, &size) {
        (true, _) => &[1000],
        (_, Some(size)) => std::slice::from_ref(size),
        _ => &all[..],
    };
    bench_progression();
    println!(
        "{:<12} {:>8} {:>7} {:>7} {:>7} {:>7} {:>8} {:>9} {:>10} {:>10}",
        "node list",
        "names",
        "GB/s",
        "parse",
        "write",
        "nth",
        "position",
        "index ms",
        "bytes",
        "+ index"
    );
    for len in sizes {
        bench_nodes(*len);
    }
    println!("\nprocess maps: ns a rank, node_of under position");
    for nodes in sizes {
        bench_procs(*nodes);
    }
}
