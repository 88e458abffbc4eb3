// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoding takes time in proportion to its input, for every form.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::growth;
use pmix_mca::{Params, Source};
use pmix_types::Regex2Ref;
use preg_core::Preg;

fn preg() -> Preg {
    let params = Params::builder().set("preg_fold_enabled", "true", Source::Api);
    pmix_builtin::open_preg(&params.build().unwrap()).unwrap()
}

/// Generates irregular numbers, the same in every run.
fn scattered(size: usize) -> impl Iterator<Item = u64> {
    (0..size as u64).map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40)
}

/// Returns thousands of names, one list for each kind of storage.
fn names(size: usize) -> Vec<(&'static str, String)> {
    let each = |name: &dyn Fn(u64) -> String| {
        let names: Vec<_> = scattered(size).map(name).collect();
        names.join(",")
    };
    vec![
        ("names of one shape", each(&|n| format!("node{n}"))),
        (
            "names of as many shapes",
            each(&|n| format!("{}x", word(n))),
        ),
        (
            "names of two numbers",
            each(&|n| format!("r{}n{}", n % 97, n)),
        ),
        (
            "names of many widths",
            each(&|n| "0".repeat((n % 40) as usize) + "1"),
        ),
        ("one name", "n".repeat(size)),
    ]
}

/// Writes a number in letters, so that no part of the name is a number.
fn word(mut number: u64) -> String {
    let mut word = String::new();
    while number > 0 {
        word.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
    }
    word
}

fn ranks(size: usize) -> Vec<(&'static str, String)> {
    let mut scatter = String::new();
    for (at, rank) in scattered(size).enumerate() {
        let separator = if at % 7 == 0 { ';' } else { ',' };
        write!(scatter, "{rank}{separator}").unwrap();
    }
    vec![
        ("ranks without a pattern", scatter + "0"),
        ("nodes without ranks", ";".repeat(size)),
        (
            "ranges of two",
            (0..size)
                .map(|at| format!("{}-{};", 3 * at, 3 * at + 1))
                .collect::<String>()
                + "0",
        ),
    ]
}

fn blob(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    let stream = encoder.finish().unwrap();
    let declared = u32::try_from(text.len()).unwrap().to_le_bytes();
    let payload = [&declared[..], &stream].concat();
    let head = format!("blob:\0component=zlib:\0size={}:\0", payload.len());
    [head.as_bytes(), &payload].concat()
}

const FIRST: usize = 1_000;

// Planted: parsing of a list is quadratic in the shapes of its names.
#[test]
fn lists_of_names() {
    let preg = preg();
    for kind in 0..names(1).len() {
        let (what, _) = names(1)[kind];
        growth::is_linear(
            what,
            FIRST,
            |size| names(size)[kind].1.clone(),
            |text| drop(preg.parse_nodes(text.as_bytes()).unwrap()),
        );
    }
}

#[test]
fn maps_of_ranks() {
    let preg = preg();
    for kind in 0..ranks(1).len() {
        let (what, _) = ranks(1)[kind];
        growth::is_linear(
            what,
            FIRST,
            |size| ranks(size)[kind].1.clone(),
            |text| drop(preg.parse_procs(text.as_bytes()).unwrap()),
        );
    }
}

#[test]
fn compressed_lists() {
    let preg = preg();
    for kind in 0..names(1).len() {
        let (what, _) = names(1)[kind];
        growth::is_linear(
            what,
            FIRST,
            |size| blob(&names(size)[kind].1),
            |value| drop(preg.parse_nodes(value).unwrap()),
        );
    }
}

#[test]
fn values_of_each_scheme() {
    let preg = preg();
    let list = |size| {
        let names: Vec<_> = scattered(size).map(|n| format!("node{n}")).collect();
        names.join(",")
    };
    for module in preg.modules() {
        let scheme = &module.scheme;
        let made = |size| scheme.generate_node_regex(list(size).as_bytes()).unwrap();
        growth::is_linear(
            scheme.name(),
            1_000,
            |size| made(size).expect("every scheme takes such a list"),
            |value| drop(preg.parse_nodes(value).unwrap()),
        );
    }
}

#[test]
fn values_with_many_ranges() {
    let preg = preg();
    growth::is_linear(
        "ranges of the range notation",
        FIRST,
        |size| {
            let ranges: Vec<_> = (0..size)
                .map(|at| format!("{}-{}", 5 * at, 5 * at + 2))
                .collect();
            format!("pmix[n[6:{}]]", ranges.join(","))
        },
        |value| {
            let (kind, bytes) = ("pmix", value.as_bytes());
            drop(preg.resolve_nodes(Regex2Ref { kind, bytes }).unwrap());
        },
    );
}
