// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes values of real libraries, and compresses the lists that they compress.
#![cfg(feature = "zlib")]

use std::collections::HashMap;
use std::path::Path;

use data_encoding::HEXLOWER_PERMISSIVE;
use pmix_mca::Source;
use preg_compress::COMPONENT;
use preg_core::{Limits, NodeList, Params, ProcMap, Regex2Ref, Scheme};
use serde_json::Value;

fn records(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/preg")
        .join(file);
    let text = std::fs::read_to_string(&path).expect("the vectors are in testdata/preg");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect()
}

fn inputs() -> HashMap<String, String> {
    let text_of = |r: &Value, key| r[key].as_str().expect("text").to_owned();
    records("inputs.jsonl")
        .iter()
        .map(|r| (text_of(r, "id"), text_of(r, "input")))
        .collect()
}

/// Returns the list of a record, inline or by its id. Names of vectors are UTF-8.
fn input<'a>(record: &'a Value, inputs: &'a HashMap<String, String>) -> Option<&'a [u8]> {
    record["input"]
        .as_str()
        .or_else(|| inputs.get(record["input_id"].as_str()?).map(String::as_str))
        .map(str::as_bytes)
}

fn hex(text: &str) -> Vec<u8> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).expect("hex")
}

fn scheme(config: &str) -> Box<dyn Scheme> {
    let mut params = Params::builder();
    if config == "limit64" {
        params = params.set("pcompress_base_limit", "64", Source::Api);
    }
    (COMPONENT.query)(&params.build().expect("valid settings"))
        .expect("settings can be obeyed")
        .expect("zlib is built")
}

fn node_text(list: &NodeList) -> Vec<u8> {
    let mut text = Vec::new();
    list.write_text(b',', &mut text);
    text
}

fn proc_text(map: &ProcMap) -> Vec<u8> {
    let mut text = Vec::new();
    map.write_text(&mut text);
    text
}

#[test]
fn blobs_of_real_libraries_decode_to_their_input() {
    let (scheme, inputs, limits) = (scheme("default"), inputs(), Limits::default());
    let mut seen = 0;
    for (file, procs) in [
        ("generate_regex.jsonl", false),
        ("generate_ppn.jsonl", true),
    ] {
        for record in records(file).iter().filter(|r| r["type"] == "blob") {
            let value = hex(record["output_hex"].as_str().expect("blobs are complete"));
            let expected = input(record, &inputs).expect("every blob has its input");
            let text = if procs {
                proc_text(&scheme.parse_procs(&value, &limits).unwrap().unwrap())
            } else {
                node_text(&scheme.parse_nodes(&value, &limits).unwrap().unwrap())
            };
            assert!(text == expected, "{}", record["case"]);
            let extent = scheme.legacy_len(&value).unwrap().unwrap();
            assert_eq!(extent.wire_len(), value.len(), "{}", record["case"]);
            seen += 1;
        }
    }
    assert_eq!(seen, 129);
}

#[test]
fn blobs_of_the_parse_vectors_have_their_count() {
    let (scheme, limits) = (scheme("default"), Limits::default());
    let mut seen = 0;
    for record in records("parse.jsonl")
        .iter()
        .filter(|r| r["form"] == "blob")
    {
        let Some(value) = record["encoded_hex"].as_str().map(hex) else {
            continue;
        };
        let count = if record["api"] == "parse_procs" {
            scheme
                .parse_procs(&value, &limits)
                .unwrap()
                .unwrap()
                .num_nodes()
        } else {
            scheme.parse_nodes(&value, &limits).unwrap().unwrap().len()
        };
        assert_eq!(
            Some(count as u64),
            record["count"].as_u64(),
            "{}",
            record["case"]
        );
        seen += 1;
    }
    assert_eq!(seen, 122);
}

#[test]
fn regex2_of_the_real_library_decodes_to_its_input() {
    let (scheme, inputs, limits) = (scheme("default"), inputs(), Limits::default());
    let mut seen = 0;
    for record in records("regex2.jsonl") {
        if record["type"] != "compress" || record["api"] != "generate_regex2" {
            continue;
        }
        let bytes = hex(record["output_hex"].as_str().expect("values are complete"));
        let regex = Regex2Ref {
            kind: "compress",
            bytes: &bytes,
        };
        let text = scheme.parse_regex(regex, &limits).unwrap().unwrap();
        assert!(
            Some(&text[..]) == input(&record, &inputs),
            "{}",
            record["case"]
        );
        seen += 1;
    }
    assert_eq!(seen, 129);
}

/// Also checks the size. The frame is the same, and general encoders are good for small lists, so
/// the sizes must be about equal.
#[test]
fn lists_that_the_real_library_compresses_are_compressed() {
    let inputs = inputs();
    let (mut ours, mut theirs) = (0, 0);
    for record in records("regex2.jsonl") {
        if record["type"] != "compress" || record["api"] != "generate_regex2" {
            continue;
        }
        let scheme = scheme(record["config"].as_str().unwrap());
        let list = input(&record, &inputs).unwrap();
        let value = scheme.generate_regex(list).unwrap();
        let value = value.unwrap_or_else(|| panic!("{} is declined", record["case"]));
        let declared = u32::try_from(list.len()).unwrap();
        assert_eq!(value.bytes[..4], declared.to_le_bytes());
        ours += value.bytes.len() as u64;
        theirs += record["output_len"].as_u64().unwrap();
    }
    assert!(ours * 100 <= theirs * 102, "{ours} bytes against {theirs}");
}

#[test]
fn lists_below_the_limit_are_declined() {
    let inputs = inputs();
    for file in ["generate_regex.jsonl", "generate_ppn.jsonl"] {
        for record in records(file) {
            let Some(list) = input(&record, &inputs).filter(|l| l.len() < 4096) else {
                continue;
            };
            let scheme = scheme("default");
            assert_eq!(scheme.generate_node_regex(list), Ok(None));
            assert_eq!(scheme.generate_ppn(list), Ok(None));
            assert_eq!(scheme.generate_regex(list), Ok(None));
        }
    }
}

/// Checks the result of each hostile string form: its names, or status and offset.
#[test]
fn hostile_blobs_are_parsed_exactly_or_rejected() {
    type Answer = Result<usize, (i32, usize)>;
    let expected: &[(&str, Answer)] = &[
        ("blob/no-framing", Err((-27, 6))),
        ("blob/other-comp", Err((-47, 16))),
        ("blob/size0", Err((-27, 30))),
        ("blob/size1", Err((-27, 31))),
        ("blob/size-short", Err((-27, 33 + 1048))),
        ("blob/size-huge", Err((-27, 1110))),
        ("blob/size-u64max", Err((-27, 27))),
        ("blob/size-neg", Err((-27, 27))),
        ("blob/size-word", Err((-27, 27))),
        ("blob/ulen-ffffffff", Err((-47, 33))),
        ("blob/bomb-1GB-claimed", Err((-47, 33))),
        ("blob/payload-garbage", Err((-47, 36))),
        ("blob/payload-trunc", Err((-47, 1075))),
        ("blob/bad-adler", Err((-47, 1095))),
        ("blob/raw-deflate", Err((-47, 37))),
        ("blob/level1", Ok(600)),
        ("blob/tail-garbage", Err((-27, 1095))),
        ("blob/empty-string", Ok(0)),
        ("blob/missing-size", Err((-27, 22))),
        ("blob/no-colon-nul", Ok(600)),
    ];
    let (scheme, limits) = (scheme("default"), Limits::default());
    let mut seen = HashMap::new();
    for record in records("nasty.jsonl") {
        let case = record["case"].as_str().unwrap();
        let Some((_, expected)) = expected.iter().find(|(name, _)| *name == case) else {
            continue;
        };
        let value = hex(record["input_hex"]
            .as_str()
            .expect("short inputs are inline"));
        let answer = scheme.parse_nodes(&value, &limits);
        let shown = match &answer {
            Ok(list) => Ok(list.as_ref().expect("it carries the tag").len()),
            Err(e) => Err((e.status().as_raw(), e.offset().expect("a place"))),
        };
        assert_eq!(shown, *expected, "{case}: {answer:?}");
        seen.insert(case.to_owned(), ());
    }
    assert_eq!(seen.len(), expected.len());
}

#[test]
fn does_not_claim_text_that_resembles_a_blob() {
    let (scheme, limits) = (scheme("default"), Limits::default());
    for text in [
        &b"blob"[..],
        b"blob:",
        b"blobby,n2",
        b"blob:,n2",
        b"",
        b"\0",
        b"pmix[n[1:1-3]]",
    ] {
        assert_eq!(scheme.parse_nodes(text, &limits), Ok(None));
        assert_eq!(scheme.parse_procs(text, &limits), Ok(None));
        assert_eq!(scheme.legacy_len(text), Ok(None));
        assert_eq!(scheme.explain(text), None);
    }
}

/// DEVIATION: OpenPMIx accepts a stated length that is greater than the actual one; here it is
/// rejected.
#[test]
fn hostile_regex2_is_parsed_exactly_or_rejected() {
    let deviations = ["r2/compress-ulen-long"];
    let (scheme, limits) = (scheme("default"), Limits::default());
    let mut seen = 0;
    for record in records("nasty.jsonl") {
        let case = record["case"].as_str().unwrap();
        let bytes = record["bytes_hex"]
            .as_str()
            .filter(|h| *h != "NULL")
            .map(hex);
        let (Some(bytes), true) = (bytes, record["type_hex"] == "636f6d7072657373") else {
            continue;
        };
        let regex = Regex2Ref {
            kind: "compress",
            bytes: &bytes,
        };
        let status = match scheme.parse_regex(regex, &limits) {
            Ok(_) => 0,
            Err(e) => {
                assert!(e.offset().is_some(), "{case}: {e}");
                e.status().as_raw()
            }
        };
        let expected = record["status"].as_i64().expect("no crash among them");
        let expected = if deviations.contains(&case) {
            -47
        } else {
            expected
        };
        assert_eq!(i64::from(status), expected, "{case}");
        seen += 1;
    }
    assert_eq!(seen, 7);
}
