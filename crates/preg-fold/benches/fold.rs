// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times folding for lists of three sizes: the time per byte must not grow with the list.
//!
//! `cargo bench -p preg-fold -- WORD` runs only the lists whose name contains the word.

use std::hint::black_box;
use std::time::{Duration, Instant};

use preg_core::{Limits, Params, Scheme};

#[path = "../tests/it/lists.rs"]
mod lists;

use lists::{Dice, kept, odometer, procs, shuffled, xnames};

type Maker = fn(u64) -> Vec<u8>;

fn holes(names: u64) -> Vec<u8> {
    let mut dice = Dice(1);
    let all = odometer(&[("node", 1..=99_999_999, 7)], 0, names);
    kept(&all, || dice.below(100) >= 3)
}

fn words(names: u64) -> Vec<u8> {
    let mut dice = Dice(3);
    let letters = b"abcdefg,h";
    let bytes = (0..names * 9).map(|_| letters[usize::try_from(dice.below(9)).unwrap_or(0)]);
    bytes.collect()
}

/// Returns the shortest time of a few runs.
fn best<T>(mut f: impl FnMut() -> T) -> (Duration, T) {
    let mut time = || {
        let start = Instant::now();
        let result = black_box(f());
        (start.elapsed(), result)
    };
    let mut best = time();
    for _ in 0..4 {
        let next = time();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

fn row(fold: &dyn Scheme, name: &str, make: impl FnOnce() -> Vec<u8>) {
    let wanted = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    if wanted.is_some_and(|w| !name.contains(&w)) {
        return;
    }
    let list = &*make();
    let limits = Limits::default();
    let (encode, value) = best(|| fold.generate_regex(list));
    let value = value.expect("encodes").expect("no NUL");
    let (text, back) = best(|| fold.parse_regex(value.as_view(), &limits));
    assert!(back.expect("decodes").is_some_and(|t| t == list));
    let (nodes, _) = best(|| fold.regex_nodes(value.as_view(), &limits));
    let (procs, _) = best(|| fold.regex_procs(value.as_view(), &limits));
    let rate = |time: Duration| list.len() as f64 / 1e6 / time.as_secs_f64();
    println!(
        "{name:<22} {:>11} {:>10} {:>10.1?} {:>6.0} {:>10.1?} {:>6.0} {:>10.1?} {:>10.1?}",
        list.len(),
        value.bytes.len(),
        encode,
        rate(encode),
        text,
        rate(text),
        nodes,
        procs
    );
}

fn main() {
    let fold = (preg_fold::COMPONENT.query)(&Params::default())
        .expect("takes no settings")
        .expect("works everywhere");
    println!(
        "{:<22} {:>11} {:>10} {:>10} {:>6} {:>10} {:>6} {:>10} {:>10}",
        "list", "text", "value", "encode", "MB/s", "to text", "MB/s", "to nodes", "to procs"
    );
    let lists: [(&str, Maker); 7] = [
        ("consecutive", |n| odometer(&[("n", 1..=n, 1)], 0, n)),
        ("racks", |n| {
            odometer(&[("r", 1..=n, 4), ("n", 1..=72, 2)], 5, n)
        }),
        ("x-names", |n| xnames(3, n)),
        ("3 % holes", holes),
        ("shuffled", |n| {
            shuffled(&odometer(&[("n", 1..=n, 6)], 0, n), &mut Dice(2))
        }),
        ("shuffled x-names", |n| {
            shuffled(&xnames(3, n), &mut Dice(2))
        }),
        ("words", words),
    ];
    for (name, list) in lists {
        for names in [10_000, 100_000, 1_000_000] {
            row(&*fold, name, || list(names));
        }
    }
    for nodes in [1_000, 10_000, 100_000] {
        row(&*fold, "block x 128", || {
            procs(nodes, 128, |n, s| n * 128 + s)
        });
        row(&*fold, "cyclic x 128", || {
            procs(nodes, 128, |n, s| s * nodes + n)
        });
        let plane = |n, s| (s / 4) * 4 * nodes + n * 4 + s % 4;
        row(&*fold, "planes of 4 x 128", || procs(nodes, 128, plane));
    }
}
