// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lists of the recorded test vectors: each value decodes to its list, and regular lists are
//! shorter than in every other scheme.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pmix_mca::Source;
use preg_core::{Limits, NodeList, Params, ProcMap};
use serde_json::Value;

use crate::lists::{Dice, encoded, fold, kept, odometer, procs, shown, shuffled, xnames};

/// Returns the lists of the test vectors by case.
fn lists() -> BTreeMap<String, Vec<u8>> {
    let mut lists = BTreeMap::new();
    for file in [
        "generate_regex",
        "generate_ppn",
        "regex2",
        "native",
        "inputs",
    ] {
        let path = format!(
            "{}/../../testdata/preg/{file}.jsonl",
            env!("CARGO_MANIFEST_DIR")
        );
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let case = row.get("case").or_else(|| row.get("id"));
            if let (Some(case), Some(Value::String(input))) = (case, row.get("input")) {
                let case = case.as_str().unwrap().to_owned();
                lists.insert(case, input.clone().into_bytes());
            }
        }
    }
    assert!(lists.len() > 200, "only {} lists found", lists.len());
    lists
}

fn zlib(list: &[u8]) -> usize {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(list).unwrap();
    encoder.finish().unwrap().len()
}

/// Returns `true` if the whole list of a case follows one rule and has more than one name.
fn is_regular(case: &str, list: &[u8]) -> bool {
    let shapes = [
        "contig",
        "descending",
        "stride",
        "proc/block",
        "proc/cyclic",
        "proc/single",
    ];
    shapes.iter().any(|s| case.contains(s)) && list.len() > 8
}

#[test]
fn every_vector_survives_and_never_exceeds_raw() {
    for (case, list) in lists() {
        let value = encoded(&list).bytes;
        // The raw form is the text plus a NUL. Among values of equal length, the scheme with the
        // higher priority is used.
        assert!(value.len() <= list.len() + 1, "{case}: {}", shown(&value));
    }
}

#[test]
fn regular_vectors_beat_raw_and_zlib() {
    let mut seen = 0;
    for (case, list) in lists() {
        if is_regular(&case, &list) {
            seen += 1;
            let len = encoded(&list).bytes.len();
            assert!(len < list.len(), "{case}: {len} bytes, raw {}", list.len());
            assert!(len < zlib(&list), "{case}: {len}, zlib {}", zlib(&list));
        }
    }
    assert!(seen > 60, "only {seen} regular lists");
}

#[test]
fn when_enabled_it_is_selected_for_regular_vectors() {
    let params = Params::builder()
        .set("preg", "native,raw,compress,fold", Source::Api)
        // Lets the compress scheme accept short lists as well.
        .set("pcompress_base_limit", "1", Source::Api)
        .build()
        .unwrap();
    let preg = pmix_builtin::open_preg(&params).unwrap();
    for (case, list) in lists() {
        if is_regular(&case, &list) || case.ends_with("/two") || case.ends_with("/one") {
            let winner = preg.generate_regex(&list).unwrap();
            assert_eq!(winner.kind, "fold", "{case}");
            assert_eq!(preg.parse_regex(winner.as_view()).unwrap(), list, "{case}");
        }
    }
    let default = pmix_builtin::open_preg(&Params::default()).unwrap();
    let value = default.generate_regex(b"n1,n2,n3").unwrap();
    assert_ne!(value.kind, "fold", "it is off by default");
}

#[test]
fn two_names_that_follow_each_other_beat_raw() {
    for (case, list) in lists() {
        // Two names of fugaku also differ in a letter.
        if case.ends_with("/two") && !case.contains("fugaku") {
            let len = encoded(&list).bytes.len();
            assert!(len < list.len(), "{case}: {len} bytes, raw {}", list.len());
        }
    }
}

#[test]
fn folded_and_text_parsers_agree_on_every_vector() {
    let limits = Limits::default();
    for (case, list) in lists() {
        let value = encoded(&list);
        let nodes = fold().regex_nodes(value.as_view(), &limits).unwrap();
        let names: Vec<_> = nodes.expect("it is ours").iter().collect();
        let wanted: Vec<_> = NodeList::parse_text(&list, &limits)
            .unwrap()
            .iter()
            .collect();
        assert_eq!(names, wanted, "{case}");
        let procs = fold().regex_procs(value.as_view(), &limits);
        match ProcMap::parse_text(&list, &limits) {
            Ok(map) => {
                let (mut got, mut wanted) = (Vec::new(), Vec::new());
                let procs = procs.unwrap().unwrap();
                assert_eq!(procs.num_nodes(), map.num_nodes(), "{case}");
                procs.write_text(&mut got);
                map.write_text(&mut wanted);
                assert_eq!(got, wanted, "{case}");
            }
            Err(_) => assert!(procs.is_err(), "{case}"),
        }
    }
}

/// The number of ranks per node. Only optimized builds use 128, which gives the documented map of
/// 104 MB.
const SLOTS: u64 = if cfg!(debug_assertions) { 8 } else { 128 };

const NODES: u64 = if cfg!(debug_assertions) {
    20_000
} else {
    100_000
};

#[track_caller]
fn at_most(list: &[u8], bytes: usize) {
    let value = encoded(list).bytes;
    assert!(
        value.len() <= bytes,
        "{} bytes, at most {bytes} wanted: {}",
        value.len(),
        shown(&value)
    );
}

#[test]
fn a_million_xnames_take_40_bytes_from_any_start() {
    at_most(&xnames(0, 1_000_000), 40);
    for start in [1, 2, 3, 77, 255, 256 * 3 + 129] {
        at_most(&xnames(start, 50_000), 40);
    }
}

#[test]
fn xnames_of_any_nesting_fold() {
    let wheels = |c, s, b, n| {
        [
            ("x", 8..=120_000, 1),
            ("c", 0..=c, 1),
            ("s", 0..=s, 1),
            ("b", 0..=b, 1),
            ("n", 0..=n, 1),
        ]
    };
    for (c, s, b, n) in [(7, 7, 1, 1), (3, 15, 1, 3), (10, 11, 0, 8), (1, 99, 2, 1)] {
        at_most(&odometer(&wheels(c, s, b, n), 777, 50_000), 60);
    }
}

#[test]
fn racks_and_consecutive_names_fold() {
    let racks = [("r", 1..=20_000, 4), ("n", 1..=72, 2)];
    at_most(&odometer(&racks, 0, 50_000), 30);
    at_most(&odometer(&racks, 1_000, 50_000), 30);
    at_most(&odometer(&[("n", 1..=1_000_000, 1)], 0, 1_000_000), 12);
    at_most(&odometer(&[("node", 0..=999_999, 7)], 0, 100_000), 25);
}

#[test]
fn rows_of_machines_with_ten_wheels_fold() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let wheels = names.map(|name| (name, 1..=3, 1));
    at_most(&odometer(&wheels, 1, 3_u64.pow(10) - 2), 70);
    at_most(&odometer(&wheels, 12_345, 30_000), 70);
}

#[test]
fn regular_process_maps_fold() {
    at_most(&procs(NODES, SLOTS, |n, s| n * SLOTS + s), 20);
    at_most(&procs(NODES, SLOTS, |n, s| s * NODES + n), 30);
    let plane = |n, s| (s / 4) * 4 * NODES + n * 4 + s % 4;
    at_most(&procs(NODES, SLOTS, plane), 40);
    let pairs = |n, s| (s / 2) * 2 * NODES + n * 2 + s % 2;
    at_most(&procs(NODES, SLOTS, pairs), 40);
}

#[test]
fn process_maps_with_odd_first_and_last_nodes_fold() {
    let full = procs(5_000, 8, |n, s| 3 + n * 8 + s);
    let map = [b"0,1,2;", &*full, b";40003,40004;;0,1"].concat();
    at_most(&map, 50);
}

#[test]
fn nodes_with_the_same_odd_pattern_fold() {
    at_most(
        &procs(20_000, 4, |n, s| n * 4 + [0, 3, 1, 2][(s % 4) as usize]),
        30,
    );
    let split =
        |n, s| [n * 4, n * 4 + 1, 1_000_000 + n * 4, 1_000_001 + n * 4, 7][(s % 5) as usize];
    at_most(&procs(20_000, 5, split), 60);
}

#[test]
fn descending_and_strided_products_fold() {
    let names = xnames(3, 100_001);
    let mut reversed: Vec<_> = names.split(|b| *b == b',').collect();
    reversed.reverse();
    at_most(&reversed.join(&b","[..]), 60);
    let racks = odometer(&[("a", 1..=99, 2), ("n", 1..=18, 2)], 0, 99 * 18);
    let mut reversed: Vec<_> = racks.split(|b| *b == b',').collect();
    reversed.reverse();
    at_most(&reversed.join(&b","[..]), 40);
    let mut even = false;
    at_most(
        &kept(&xnames(0, 100_000), || {
            even = !even;
            even
        }),
        40,
    );
}

#[test]
fn holes_cost_a_few_bytes_each() {
    let mut dice = Dice(7);
    let all = odometer(&[("n", 0..=999_999, 6)], 0, 100_000);
    let list = kept(&all, || dice.below(100) >= 3);
    // The list has 3,000 holes.
    at_most(&list, 16_000);
}

#[test]
fn shuffled_lists_cost_less_than_their_text() {
    let mut dice = Dice(7);
    let list = shuffled(&odometer(&[("node", 0..=999_999, 6)], 0, 10_000), &mut dice);
    at_most(&list, list.len() * 6 / 10);
}

#[test]
fn no_value_exceeds_its_list_by_more_than_one_byte() {
    let mut dice = Dice(99);
    let alphabets: [&[u8]; 4] = [b"ab01,", b"*/^~%()\\0,", b"0123456789,;", b"n19,;-.\xff "];
    for alphabet in alphabets {
        for len in (0..300).chain([5_000]) {
            let list: Vec<u8> = (0..len)
                .map(|_| alphabet[usize::try_from(dice.below(alphabet.len() as u64)).unwrap()])
                .collect();
            at_most(&list, list.len() + 1);
        }
    }
}
