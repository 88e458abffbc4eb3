// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times the native scheme for lists of three sizes.
//!
//! `cargo bench -p preg-native`

use std::time::{Duration, Instant};

use preg_core::{Limits, Params, Scheme};

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];

fn main() {
    let scheme = (preg_native::COMPONENT.query)(&Params::default())
        .expect("the defaults are valid")
        .expect("the scheme works everywhere");
    println!(
        "{:<28}{:>10}{:>12}{:>12}{:>10}",
        "node map", "names", "bytes", "ms", "ns/name"
    );
    for (name, make) in LISTS {
        for size in SIZES {
            let list = join((0..size).map(|i| make(i, size)));
            report(name, size, || {
                scheme.generate_node_regex(&list).expect("ok")
            });
        }
    }
    println!(
        "{:<28}{:>10}{:>12}{:>12}{:>10}",
        "process map", "ranks", "bytes", "ms", "ns/rank"
    );
    for (nodes, each) in [(10_000, 8), (100_000, 1), (100_000, 8), (100_000, 128)] {
        let block = procs(nodes, |n, r| n * each + r, each);
        report(&format!("block {nodes} x {each}"), nodes * each, || {
            scheme.generate_ppn(&block).expect("ok")
        });
        let cyclic = procs(nodes, |n, r| n + r * nodes, each);
        report(&format!("cyclic {nodes} x {each}"), nodes * each, || {
            scheme.generate_ppn(&cyclic).expect("ok")
        });
    }
    parse(&*scheme);
}

type Make = fn(usize, usize) -> String;

const LISTS: [(&str, Make); 7] = [
    ("consecutive", |i, _| format!("node{i:07}")),
    ("3 % holes", |i, _| format!("node{:07}", i * 100 / 97)),
    ("racks r0001n01", |i, _| {
        format!("r{:05}n{:02}", i / 18 + 1, i % 18 + 1)
    }),
    ("x-names", |i, _| xname(i)),
    ("shuffled", |i, size| format!("n{:07}", shuffled(i, size))),
    ("shuffled x-names", |i, size| xname(shuffled(i, size))),
    ("fqdn shuffled in fours", |i, size| {
        format!(
            "node{:07}.cluster.example.com",
            shuffled(i / 4, size / 4) * 4 + i % 4
        )
    }),
];

fn xname(i: usize) -> String {
    let (n, b, s, c) = (i % 2, i / 2 % 2, i / 4 % 8, i / 32 % 8);
    format!("x{}c{c}s{s}b{b}n{n}", 1000 + i / 256)
}

/// Returns an irregular permutation of `0..size`.
fn shuffled(i: usize, size: usize) -> usize {
    // A permutation, because the prime 999,983 divides none of the sizes.
    (i * 999_983 + 12_345) % size
}

fn join(names: impl Iterator<Item = String>) -> Vec<u8> {
    names.collect::<Vec<_>>().join(",").into_bytes()
}

fn procs(nodes: usize, rank: impl Fn(usize, usize) -> usize, each: usize) -> Vec<u8> {
    let node = |n| {
        let ranks: Vec<_> = (0..each).map(|r| rank(n, r).to_string()).collect();
        ranks.join(",")
    };
    (0..nodes)
        .map(node)
        .collect::<Vec<_>>()
        .join(";")
        .into_bytes()
}

fn best(mut run: impl FnMut()) -> Duration {
    (0..7)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .min()
        .expect("seven runs")
}

fn report(name: &str, size: usize, generate: impl Fn() -> Option<Vec<u8>>) {
    let bytes = generate().map_or_else(|| "declined".to_owned(), |v| v.len().to_string());
    let time = best(|| {
        std::hint::black_box(generate());
    });
    row(name, size, &bytes, time);
}

fn row(name: &str, size: usize, bytes: &str, time: Duration) {
    let ms = time.as_secs_f64() * 1e3;
    let each = ms * 1e6 / size as f64;
    println!("{name:<28}{size:>10}{bytes:>12}{ms:>12.3}{each:>10.1}");
}

fn parse(scheme: &dyn Scheme) {
    println!(
        "{:<28}{:>10}{:>12}{:>12}{:>10}",
        "parse", "names", "bytes", "ms", "ns/name"
    );
    for size in SIZES {
        let one = format!("pmix[n[7:1-{size}]]").into_bytes();
        parse_row("one run", size, &one, scheme);
        let list = join((0..size).map(|i| format!("node{:07}", i * 100 / 97)));
        let holes = scheme
            .generate_node_regex(&list)
            .expect("ok")
            .expect("taken");
        parse_row("3 % holes", size, &holes, scheme);
    }
}

fn parse_row(name: &str, size: usize, value: &[u8], scheme: &dyn Scheme) {
    let limits = Limits::default();
    let time = best(|| {
        std::hint::black_box(scheme.parse_nodes(value, &limits).expect("parses"));
    });
    row(name, size, &value.len().to_string(), time);
}
