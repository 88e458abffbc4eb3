// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON lines protocol of `pmix map batch`.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::command::{command, pmix_with};

fn batch(lines: &[u8]) -> Vec<Value> {
    let outcome = pmix_with(&["map", "batch"], lines);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = String::from_utf8(outcome.stdout).expect("answers are UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an answer is JSON"))
        .collect()
}

fn one(request: &Value) -> Value {
    let mut answers = batch(request.to_string().as_bytes());
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

#[test]
fn an_encoded_list_comes_with_type_length_and_bytes() {
    let request = json!({"id": 7, "op": "encode", "procs": false, "scheme": "raw",
        "form": "string", "input": "n1,n2"});
    let expected = json!({"id": 7, "status": 0, "type": "raw", "len": 9,
        "bytes_hex": "7261773a6e312c6e32"});
    assert_eq!(one(&request), expected);
}

#[test]
fn the_length_of_regex2_raw_counts_the_nul() {
    let answer = one(&json!({"op": "encode", "form": "regex2", "input_hex": "6e31"}));
    let expected = json!({"id": null, "status": 0, "type": "raw", "len": 3, "bytes_hex": "6e3100"});
    assert_eq!(answer, expected);
}

#[test]
fn decoded_process_maps_are_one_string_a_node() {
    let answer = one(&json!({"id": "p", "op": "decode", "procs": true,
        "bytes_hex": "7261773a302d333b3b342c36"}));
    assert_eq!(
        answer,
        json!({"id": "p", "status": 0, "list": ["0,1,2,3", "", "4,6"]})
    );
    let answer =
        one(&json!({"op": "decode", "type": "raw", "procs": true, "bytes_hex": "303b3100"}));
    assert_eq!(answer["list"], json!(["0", "1"]));
}

#[test]
fn input_is_list_text_without_brackets_or_blanks_of_its_own() {
    let answer = one(&json!({"op": "encode", "scheme": "raw", "input": "n[1-3], a,,"}));
    assert_eq!(answer["len"], json!("raw:n[1-3], a,,".len()));
    let hex = answer["bytes_hex"].as_str().expect("hex");
    let back = one(&json!({"op": "decode", "bytes_hex": hex}));
    assert_eq!(back["list"], json!(["n[1-3]", " a", "", ""]));
}

#[test]
fn names_that_are_not_utf8_come_exactly_in_hex() {
    let answer = one(&json!({"op": "decode", "bytes_hex": "7261773aff2c61"}));
    assert_eq!(answer["list"], json!(["\u{fffd}", "a"]));
    assert_eq!(answer["list_hex"], json!(["ff", "61"]));
}

#[test]
fn every_line_is_answered_in_order_whatever_it_holds() {
    let lines = b"\n{\n[]\n3\n{\"id\":5}\nnot json\n\xff\xfe\n{\"id\":\"\xff\"}\n\
        {\"id\":6,\"op\":\"encode\",\"input\":3}\n{\"id\":7,\"op\":\"encode\"}\n\
        {\"id\":8,\"op\":\"decode\"}\n{\"id\":9,\"op\":\"decode\",\"bytes_hex\":\"6\"}\n\
        {\"id\":10,\"op\":\"sing\"}\n{\"id\":11,\"op\":\"encode\",\"input\":\"a\",\"form\":\"x\"}\n\
        {\"id\":12,\"op\":\"decode\",\"form\":\"regex2\",\"bytes_hex\":\"6100\"}\n\
        {\"id\":13,\"op\":\"encode\",\"input\":\"a\",\"input_hex\":\"61\"}\n\
        {\"id\":14,\"op\":\"encode\",\"input\":\"a\"}";
    let answers = batch(lines);
    let ids: Vec<_> = answers.iter().map(|a| a["id"].clone()).collect();
    let mut expected = vec![json!(null); 4];
    expected.push(json!(5));
    expected.extend([json!(null), json!(null), json!(null)]);
    expected.extend((6..=14).map(|n| json!(n)));
    assert_eq!(ids, expected);
    for answer in &answers[..answers.len() - 1] {
        assert_eq!(answer["status"], json!(-27), "{answer}");
        assert!(
            answer["error"].as_str().is_some_and(|e| !e.is_empty()),
            "{answer}"
        );
    }
    assert_eq!(answers.last().expect("answers")["status"], json!(0));
}

#[test]
fn statuses_tell_unknown_unsupported_and_declined_apart() {
    let encode = |scheme: &str, form: &str| {
        let request = json!({"op": "encode", "scheme": scheme, "form": form, "input": "a"});
        one(&request)["status"].clone()
    };
    assert_eq!(encode("nope", "string"), json!(-46));
    assert_eq!(encode("compress", "string"), json!(-1366));
    let decode = |request: Value| one(&request)["status"].clone();
    assert_eq!(
        decode(json!({"op": "decode", "type": "RAW", "bytes_hex": "6100"})),
        json!(-47)
    );
    let foreign = json!({"op": "decode", "scheme": "compress", "bytes_hex": "7261773a61"});
    assert_eq!(decode(foreign), json!(-1366));
}

#[test]
fn an_id_comes_back_byte_for_byte() {
    let ids = [
        "1.0e400",
        "123456789012345678901234567890",
        "{ \"b\":1, \"a\" : [ ] }",
        "\"\\u0041\"",
    ];
    for id in ids {
        let line = format!("{{\"id\":{id},\"op\":\"encode\",\"input\":\"a\"}}");
        let outcome = pmix_with(&["map", "batch"], line.as_bytes());
        assert!(
            outcome
                .text()
                .starts_with(&format!("{{\"id\":{id},\"status\":0,")),
            "{id}"
        );
    }
}

#[test]
fn a_driver_that_waits_for_each_answer_gets_it() {
    let mut child = command(&["map", "batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut requests = child.stdin.take().expect("piped");
    let mut answers = BufReader::new(child.stdout.take().expect("piped"));
    for id in 0..100 {
        let request = json!({"id": id, "op": "encode", "input": "n1,n2"});
        writeln!(requests, "{request}").expect("the request is taken");
        let mut line = String::new();
        answers.read_line(&mut line).expect("the answer comes");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["id"], json!(id));
    }
    drop(requests);
    assert!(child.wait().expect("the command ends").success());
}

#[test]
fn only_an_object_is_a_request() {
    let lines = [
        "[1,\"encode\",null,null,null,\"n1\"]",
        "null",
        "5",
        "\"x\"",
        "",
        " \t",
    ];
    let answers = pmix_with(
        &["map", "batch"],
        format!("{}\n", lines.join("\n")).as_bytes(),
    );
    let answers = answers.text();
    assert_eq!(answers.lines().count(), lines.len());
    for answer in answers.lines() {
        assert!(
            answer.starts_with("{\"id\":null,\"status\":-27,"),
            "{answer}"
        );
        assert!(answer.contains("an object"), "{answer}");
    }
}

// Planted: `pmix map batch` prints an encoded map that it cannot decode.
#[test]
fn data_that_cannot_be_decoded_is_not_encoded() {
    for scheme in ["auto", "raw"] {
        let request = json!({"op": "encode", "procs": true, "scheme": scheme, "input": "4-3,4"});
        let answer = one(&request);
        assert_ne!(answer["status"], json!(0), "{answer}");
        assert!(
            answer["error"].as_str().unwrap().contains("reversed"),
            "{answer}"
        );
        let answer = one(&json!({"op": "encode", "procs": true, "form": "regex2",
            "scheme": scheme, "input": "0,1;4-3"}));
        assert_ne!(answer["status"], json!(0), "{answer}");
    }
}
