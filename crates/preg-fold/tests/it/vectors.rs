// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lists of the recorded test vectors: each value decodes to its list, and regular lists are
//! shorter than in every other scheme.

use std::collections::BTreeMap;
use std::io::Write;

use crate::lists::{encoded, fold, shown};
use flate2::{Compression, write::ZlibEncoder};
use pmix_mca::Source;
use preg_core::{Limits, NodeList, Params, ProcMap};
use serde_json::Value;

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
