// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of OpenPMIx 4.2.2, 5.0.11 and the snapshot of the specification, compared with this
//! scheme.

use std::collections::HashMap;
use std::path::Path;

use data_encoding::HEXLOWER_PERMISSIVE;
use preg_core::{Limits, NodeList, Params, ProcMap, Scheme};
use serde_json::Value;

fn scheme() -> Box<dyn Scheme> {
    (preg_native::COMPONENT.query)(&Params::default())
        .expect("the defaults are valid")
        .expect("the scheme works everywhere")
}

fn records(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/preg")
        .join(file);
    let text = std::fs::read_to_string(&path).expect("the vectors are in testdata/preg");
    text.lines()
        .map(|l| serde_json::from_str(l).expect("a record is JSON"))
        .collect()
}

fn hex(text: &Value) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.as_str()?.as_bytes()).ok()
}

fn inputs() -> HashMap<String, String> {
    let text = |v: &Value| v.as_str().expect("a string").to_owned();
    records("inputs.jsonl")
        .iter()
        .map(|r| (text(&r["id"]), text(&r["input"])))
        .collect()
}

fn input_of(record: &Value, inputs: &HashMap<String, String>) -> Option<String> {
    match (record["input"].as_str(), record["input_id"].as_str()) {
        (Some(inline), _) => Some(inline.to_owned()),
        (None, Some(id)) => inputs.get(id).cloned(),
        (None, None) => inputs.get(record["case"].as_str()?).cloned(),
    }
}

fn nodes(value: &[u8]) -> Result<NodeList, preg_core::Error> {
    scheme()
        .parse_nodes(value, &Limits::default())
        .map(|list| list.expect("the value carries the tag"))
}

fn procs(value: &[u8]) -> Result<ProcMap, preg_core::Error> {
    scheme()
        .parse_procs(value, &Limits::default())
        .map(|map| map.expect("the value carries the tag"))
}

fn node_text(value: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    nodes(value).expect("parses").write_text(b',', &mut text);
    text
}

fn proc_text(map: &ProcMap) -> String {
    let mut text = Vec::new();
    map.write_text(&mut text);
    String::from_utf8(text).expect("ranks are ASCII")
}

/// Returns `true` if upstream's text for this list decodes to the list.
fn upstream_is_right(value: &[u8], list: &str) -> bool {
    nodes(value).is_ok_and(|nodes| {
        let mut text = Vec::new();
        nodes.write_text(b',', &mut text);
        text == list.as_bytes()
    })
}

#[test]
fn node_maps_are_correct_and_never_longer_than_upstream() {
    let inputs = inputs();
    let (mut equal, mut shorter, mut right) = (0, 0, 0);
    for record in records("native.jsonl") {
        if record["api"] != "native.generate_node_regex" {
            continue;
        }
        let list = input_of(&record, &inputs).expect("an input");
        let ours = scheme()
            .generate_node_regex(list.as_bytes())
            .expect("never fails");
        let declines = list.contains(['[', ']']) || list.split(',').any(str::is_empty);
        assert_eq!(ours.is_none(), declines, "{}", record["case"]);
        let Some(ours) = ours else { continue };
        assert_eq!(node_text(&ours), list.as_bytes(), "{}", record["case"]);
        let theirs = hex(&record["output_hex"]).expect("an output");
        if upstream_is_right(&theirs, &list) {
            right += 1;
            assert!(ours.len() <= theirs.len(), "{}", record["case"]);
            equal += usize::from(ours == theirs);
            shorter += usize::from(ours.len() < theirs.len());
            // OpenPMIx does not fold names with a colon. This scheme folds `raw:1,raw:2` to text of
            // the same length.
            let tie = ours.len() == theirs.len() && record["case"] != "node/hand/36";
            assert!(!tie || ours == theirs, "{}", record["case"]);
        }
    }
    assert!(
        right > 150 && equal > 60 && shorter > 60,
        "{right} {equal} {shorter}"
    );
}

#[test]
fn process_maps_agree_with_correct_ones_of_upstream() {
    let inputs = inputs();
    let (mut equal, mut declined) = (0, 0);
    for record in records("native.jsonl") {
        if record["api"] != "native.generate_ppn" {
            continue;
        }
        let list = input_of(&record, &inputs).expect("an input");
        let ours = scheme().generate_ppn(list.as_bytes()).expect("never fails");
        if record["status"] == 0 {
            let theirs = hex(&record["output_hex"]).expect("an output");
            // OpenPMIx writes ranks above 2^31-1 as negative numbers; this scheme declines them.
            match ours {
                Some(ours) => assert_eq!(ours, theirs, "{}", record["case"]),
                None => assert_eq!(record["case"], "proc/hand/20"),
            }
            equal += 1;
        } else if let Some(ours) = ours {
            // This scheme joins the ranges of lists such as 0-3,4-7.
            assert!(ours.len() <= list.len());
            let meant = ProcMap::parse_text(list.as_bytes(), &Limits::default()).expect("ranks");
            let read = procs(&ours).expect("parses");
            assert_eq!(proc_text(&read), proc_text(&meant), "{}", record["case"]);
        } else {
            declined += 1;
        }
    }
    assert!(equal >= 7 && declined >= 20, "{equal} {declined}");
}

#[test]
fn values_of_upstream_are_parsed_as_by_upstream() {
    let (inputs, written) = (inputs(), written());
    let mut read = 0;
    for record in records("parse.jsonl") {
        if record["form"] != "pmix" {
            continue;
        }
        let case = record["case"].as_str().expect("a case");
        let value = hex(&record["encoded_hex"])
            .or_else(|| written.get(case).cloned())
            .expect("the bytes are here or in native.jsonl");
        let garbage = record["result"].as_array().is_some_and(|r| {
            r.iter()
                .any(|n| n.as_str().is_some_and(|n| n.contains(['[', ']'])))
        });
        if case == "proc/hand/20" {
            assert!(procs(&value).is_err(), "negative ranks");
        } else if record["api"] == "parse_procs" {
            let list = input_of(&record, &inputs).expect("an input");
            assert_eq!(proc_text(&procs(&value).expect("parses")), list, "{case}");
        } else if garbage {
            not_split_into_garbage(case, &value);
        } else {
            let list = match record["result"].as_array() {
                Some(names) => names
                    .iter()
                    .filter_map(Value::as_str)
                    .collect::<Vec<_>>()
                    .join(","),
                // OpenPMIx's generator drops one comma at the end of the list.
                None => {
                    let list = input_of(&record, &inputs).expect("an input");
                    list.strip_suffix(',').unwrap_or(&list).to_owned()
                }
            };
            assert_eq!(
                nodes(&value).map(|_| node_text(&value)),
                Ok(list.into_bytes()),
                "{case}"
            );
        }
        read += 1;
    }
    assert!(read > 200, "{read}");
}

/// Returns the values of native.jsonl by case, because parse.jsonl has only checksums of long
/// values.
fn written() -> HashMap<String, Vec<u8>> {
    records("native.jsonl")
        .iter()
        .filter_map(|r| Some((r["case"].as_str()?.to_owned(), hex(&r["output_hex"])?)))
        .collect()
}

/// Checks values that OpenPMIx splits at commas: empty names are parsed, all others are rejected.
fn not_split_into_garbage(case: &str, value: &[u8]) {
    match case {
        "node/hand/22" => assert_eq!(node_text(value), b"n1,n2,"),
        "node/hand/23" => assert_eq!(node_text(value), b",n1"),
        "node/hand/34" => assert_eq!(nodes(value).expect_err("brackets").offset(), Some(9)),
        other => panic!("{other} is new"),
    }
}

/// The results of this parser for hostile values for which OpenPMIx's result differs or is missing.
///
/// Each text is the result, or `error STATUS OFFSET`.
const NASTY: &[(&str, &str)] = &[
    ("pn/width-empty", "error -27 7"),
    ("pn/width-word", "error -27 7"),
    ("pn/width0", "error -27 7"),
    ("pn/width1-num10", "error -27 11"),
    ("pn/width1-big", "error -27 9"),
    ("pn/width0-big", "error -27 6"),
    ("pn/width-neg", "error -27 7"),
    ("pn/width-int-overflow", "error -27 7"),
    ("pn/reversed", "error -27 9"),
    ("pn/range-huge", "error -29 10"),
    ("pn/range-1e6", "1000001 names from n0000000"),
    ("pn/range-u64", "error -27 11"),
    ("pn/num20", "error -27 10"),
    ("pn/unterminated-outer", "error -27 10"),
    ("pn/double-close", "error -27 13"),
    ("pn/trailing-junk", "error -27 17"),
    ("pn/nested", "error -27 12"),
    ("pn/empty-elem", "n1,,n2"),
    ("pn/trail-comma", "n1,"),
    ("pn/range-empty", "error -46 9"),
    ("pn/range-3part", "error -27 12"),
    ("pn/neg-range", "error -46 9"),
    ("pp/semi", ";"),
    ("pp/empty-node", "0,1;;2,3"),
    ("pp/reversed", "error -27 5"),
    ("pp/huge", "error -27 7"),
    ("pp/1e6", "1000001 ranks"),
    ("pp/word", "error -27 5"),
    ("pp/neg", "error -27 5"),
    ("pp/neg2", "error -27 5"),
    ("pp/open", "error -27 7"),
    ("pp/unterminated", "error -27 8"),
];

#[test]
fn hostile_values_are_parsed_exactly_or_rejected() {
    let mut checked = 0;
    for record in records("nasty.jsonl") {
        let api = record["api"].as_str().expect("an api");
        if !matches!(api, "native.parse_nodes" | "native.parse_procs") {
            continue;
        }
        let Some(value) = hex(&record["input_hex"]) else {
            continue;
        };
        let case = record["case"].as_str().expect("a case");
        let answer = if api == "native.parse_nodes" {
            node_answer(&value)
        } else {
            proc_answer(&value)
        };
        let expected = match NASTY.iter().find(|(name, _)| *name == case) {
            Some((_, ours)) => (*ours).to_owned(),
            None => upstream_answer(&record),
        };
        assert!(
            answer == expected || (expected.starts_with("error") && answer.starts_with(&expected)),
            "{case}: {answer}, expected {expected}"
        );
        checked += 1;
    }
    assert!(checked >= 60, "{checked}");
}

fn upstream_answer(record: &Value) -> String {
    let separator = if record["api"] == "native.parse_nodes" {
        ","
    } else {
        ";"
    };
    match record["status"].as_i64() {
        Some(0) => match record["result"].as_array() {
            Some(list) => list
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(separator),
            None => format!("{} names from", record["result"]["count"]),
        },
        // Values without the tag are declined; upstream returns -27 for those without a bracket.
        Some(status) if !hex(&record["input_hex"]).is_some_and(|v| v.starts_with(b"pmix[")) => {
            assert!(matches!(status, -27 | -1366));
            "declined".to_owned()
        }
        Some(status) => format!("error {status}"),
        None => panic!("{} needs an answer of its own", record["case"]),
    }
}

fn refusal(error: &preg_core::Error) -> String {
    let offset = error.offset().map_or_else(String::new, |o| format!(" {o}"));
    format!("error {}{offset}", error.status().as_raw())
}

fn node_answer(value: &[u8]) -> String {
    match scheme().parse_nodes(value, &Limits::default()) {
        Err(error) => refusal(&error),
        Ok(None) => "declined".to_owned(),
        Ok(Some(list)) if list.len() > 100 || list.nth(0).is_some_and(|n| n.len() > 1000) => {
            let first = String::from_utf8_lossy(&list.nth(0).expect("a name")).into_owned();
            match first.len() {
                ..100 => format!("{} names from {first}", list.len()),
                _ => format!("{} names from", list.len()),
            }
        }
        Ok(Some(_)) => String::from_utf8_lossy(&node_text(value)).into_owned(),
    }
}

fn proc_answer(value: &[u8]) -> String {
    match scheme().parse_procs(value, &Limits::default()) {
        Err(error) => refusal(&error),
        Ok(None) => "declined".to_owned(),
        Ok(Some(map)) if map.num_ranks() > 1000 => format!("{} ranks", map.num_ranks()),
        Ok(Some(map)) => proc_text(&map),
    }
}

#[test]
fn hostile_lists_keep_every_name_or_are_declined() {
    let mut checked = 0;
    for record in records("nasty.jsonl") {
        let Some(list) = hex(&record["input_hex"]) else {
            continue;
        };
        match record["api"].as_str() {
            Some("native.generate_node_regex" | "generate_regex") => {
                if let Some(ours) = scheme().generate_node_regex(&list).expect("never fails") {
                    assert_eq!(node_text(&ours), list, "{}", record["case"]);
                }
            }
            Some("native.generate_ppn" | "generate_ppn") => {
                if let Some(ours) = scheme().generate_ppn(&list).expect("never fails") {
                    let meant = ProcMap::parse_text(&list, &Limits::default()).expect("ranks");
                    let read = procs(&ours).expect("parses");
                    assert_eq!(proc_text(&read), proc_text(&meant), "{}", record["case"]);
                }
            }
            _ => continue,
        }
        checked += 1;
    }
    assert!(checked > 100, "{checked}");
}
