// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `pmix wire`: packed data to JSON and back, explanations, and batches.

use std::path::Path;

use crate::command::{pmix, pmix_with};
use serde_json::{Value, json};

/// Returns the reply to each request of a batch.
fn batch(args: &[&str], requests: &[Value]) -> Vec<Value> {
    let lines: Vec<_> = requests.iter().map(Value::to_string).collect();
    let args = [&["wire"], args, &["--jsonl"]].concat();
    let outcome = pmix_with(&args, lines.join("\n").as_bytes());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let answers: Vec<Value> = String::from_utf8(outcome.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), requests.len());
    answers
}

/// Returns the records of a vector file as requests, with their line numbers as ids.
fn records(name: &str, module: &str, psquash: Option<&str>) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/bfrops");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let record = |(id, line): (usize, &str)| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        record["id"] = json!(id);
        let of_seed = record["producer"] == "seed";
        record["module"] = json!(if of_seed && module == "v41" {
            "v61"
        } else {
            module
        });
        record["psquash"] = json!(psquash);
        record
    };
    text.lines().enumerate().map(record).collect()
}

/// Returns `true` for vectors that no library packs as given, or that are incomplete in the record.
fn is_odd(record: &Value) -> bool {
    let odd = ["PMIX_PROC_CPUSET", "PMIX_TOPO", "PMIX_NODE_STATS"];
    // A double that `%f` would print as zero, and two values whose payload does not match the
    // record.
    let values = [json!(["9.9999999999999995e-08"])];
    let kinds = [json!("PMIX_DATA_TYPE"), json!("PMIX_DEVICE_DIST")];
    odd.contains(&record["type"].as_str().unwrap())
        || values.contains(&record["value"])
        || record["type"] == "PMIX_VALUE" && kinds.contains(&record["value"][0]["type"])
        || !record["note"].is_null()
}

#[test]
fn the_vectors_are_requests_and_are_answered_with_their_bytes() {
    let files = [
        ("nondescribed.jsonl", "v41", None),
        ("described.jsonl", "v41", None),
        ("psquash_native.jsonl", "v41", Some("native")),
        ("legacy_v3.jsonl", "v3", None),
        ("legacy_v4.jsonl", "v4", None),
    ];
    let mut exact = 0;
    for (name, module, psquash) in files {
        let requests = records(name, module, psquash);
        for (request, answer) in requests.iter().zip(batch(&["encode"], &requests)) {
            assert_eq!(answer["id"], request["id"]);
            if is_odd(request) {
                continue;
            }
            assert_eq!(
                answer["status"], request["status"],
                "{name}: {request} {answer}"
            );
            assert_eq!(
                answer["bytes_hex"], request["bytes_hex"],
                "{name}: {request}"
            );
            exact += 1;
        }
        let packed = |r: &&Value| !r["bytes_hex"].is_null() && !is_odd(r);
        let requests: Vec<_> = requests.iter().filter(packed).cloned().collect();
        let read = batch(&["decode"], &requests);
        let again = requests.iter().zip(&read).map(|(request, answer)| {
            assert_eq!(answer["status"], 0, "{name}: {request} {answer}");
            let mut request = request.clone();
            request["value"] = answer["value"].clone();
            request
        });
        let again: Vec<_> = again.collect();
        for (request, answer) in again.iter().zip(batch(&["encode"], &again)) {
            assert_eq!(
                answer["bytes_hex"], request["bytes_hex"],
                "{name}: {request}"
            );
        }
    }
    assert!(exact > 1400, "{exact}");
}

#[test]
fn a_batch_answers_every_line() {
    let input = concat!(
        r#"{"id": "a", "type": "PMIX_UINT32", "count": 2, "value": [1, 300]}"#,
        "\nno JSON\n[1]\n",
        r#"{"id": 2, "type": "PMIX_UINT8", "value": [300]}"#,
        "\n",
        r#"{"id": 3, "type": "PMIX_UINT8", "count": 3, "value": [1]}"#,
        "\n",
        r#"{"id": 4, "type": 300, "value": null}"#,
        "\n",
        r#"{"id": 5, "type": 300, "module": "v12", "value": null}"#,
        "\n",
        r#"{"id": 6, "type": "PMIX_UINT8", "count": 1, "bytes_hex": "040102"}"#,
        "\n",
        r#"{"id": 7, "type": "PMIX_UINT8", "bytes_hex": "0201ff"}"#,
        "\n",
        r#"{"id": 8, "buffer": "described", "bytes_hex": "09020c05"}"#,
        "\n",
        r#"{"id": 9, "module": "v5", "type": "PMIX_UINT8", "value": [1]}"#,
        "\n",
        r#"{"id": 10, "type": "PMIX_UINT8", "value": [1], "bytes_hex": "0201"}"#,
        "\n",
        r#"{"id": 11, "type": "uint8", "buffer": "Described", "value": [1]}"#,
    );
    let outcome = pmix_with(&["wire", "--jsonl"], input.as_bytes());
    assert_eq!(outcome.code, 0);
    let expected = [
        r#"{"id":"a","status":0,"bytes_hex":"0401ac02"}"#,
        r#"{"id":null,"status":-27,"error":"not a request: expected an object, {\"type\":…}"}"#,
        r#"{"id":null,"status":-27,"error":"not a request: expected an object, {\"type\":…}"}"#,
        r#"{"id":2,"status":-27,"error":"value[0]: 300 does not fit PMIX_UINT8 (0 to 255)"}"#,
        r#"{"id":3,"status":-27,"error":"the count is 3, but the value holds 1 elements"}"#,
        r#"{"id":4,"status":-16,"error":"PMIX_DATA_TYPE(300) (type 300) is not a type of module v41"}"#,
        r#"{"id":5,"status":-21,"error":"PMIX_DATA_TYPE(300) (type 300) is not a type of module v12"}"#,
        r#"{"id":6,"status":-19,"error":"the buffer holds 2 elements, but the limit is 1"}"#,
        r#"{"id":7,"status":-20,"error":"1 bytes are left after the last datum at byte 2"}"#,
        r#"{"id":8,"status":0,"value":[5]}"#,
        r#"{"id":9,"status":-27,"error":"unknown module \"v5\", expected one of v12, v20, v21, v3, v4, v41, v51, v61"}"#,
        r#"{"id":10,"status":-27,"error":"give \"value\" or \"bytes_hex\", or use `pmix wire encode` or `pmix wire decode`"}"#,
        r#"{"id":11,"status":0,"bytes_hex":"09020c01"}"#,
    ];
    for (answer, expected) in outcome.text().lines().zip(expected) {
        assert_eq!(answer, expected);
    }
    assert_eq!(outcome.text().lines().count(), expected.len());
}

#[test]
fn any_bytes_are_answered_for_every_type() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let mut requests = Vec::new();
    for data_type in 0..80 {
        for round in 0..60 {
            let len = random() % 40;
            // A plausible count at the start reaches deeper code.
            let mut digits = if round % 2 == 0 {
                "02".to_owned()
            } else {
                String::new()
            };
            (0..len).for_each(|_| digits += &format!("{:02x}", random() & 0x7f >> (round % 4)));
            let module = ["v12", "v20", "v21", "v3", "v4", "v41", "v61"][round % 7];
            let buffer = ["nondescribed", "described"][round / 7 % 2];
            requests.push(json!({
                "type": data_type, "bytes_hex": digits, "module": module, "buffer": buffer,
            }));
        }
    }
    let answers = batch(&["decode"], &requests);
    let refused = answers.iter().filter(|answer| answer["status"] != 0);
    assert!(refused.count() < answers.len());
}

#[test]
fn calls_are_read_in_order_or_up_to_the_end() {
    let read = |args: &[&str]| pmix(&[&["wire", "decode"], args].concat());
    let bytes = "0208616263000202";
    let outcome = read(&[
        "--type", "string", "--type", "bool", "--type", "pid", "--hex", bytes,
    ]);
    assert_eq!(outcome.code, 3);
    assert_eq!(outcome.text(), "[\"abc\"]\n[true]");
    assert!(outcome.stderr.contains("byte 8"), "{}", outcome.stderr);
    let outcome = read(&[
        "--type",
        "string",
        "--type",
        "uint8...",
        "--hex",
        "02086162630002010401ff",
    ]);
    assert_eq!(
        (outcome.code, outcome.text().as_str()),
        (0, "[\"abc\"]\n[1]\n[1,255]")
    );
    let outcome = read(&["--type", "string", "--hex", "0208616263000201"]);
    assert_eq!((outcome.code, outcome.text().as_str()), (3, "[\"abc\"]"));
    assert!(
        outcome.stderr.contains("2 bytes are left"),
        "{}",
        outcome.stderr
    );
    let outcome = read(&[
        "--buffer",
        "described",
        "--json",
        "--hex",
        "09020c0509020e ac02",
    ]);
    let lines = [
        r#"{"offset":0,"type":"PMIX_UINT8","count":1,"value":[5]}"#,
        r#"{"offset":4,"type":"PMIX_UINT32","count":1,"value":[300]}"#,
    ];
    assert_eq!((outcome.code, outcome.text()), (0, lines.join("\n")));
    let outcome = read(&["--hex", "0205"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("--type"), "{}", outcome.stderr);
    let outcome = read(&["--type", "bool...", "--type", "bool", "--hex", "0201"]);
    assert_eq!(outcome.code, 2);
}

#[test]
fn bytes_come_as_digits_or_as_they_are() {
    let call = [2, 6, b'h', b'i', 0];
    let outcome = pmix_with(&["wire", "decode", "--type", "string", "--raw"], &call);
    assert_eq!((outcome.code, outcome.text().as_str()), (0, "[\"hi\"]"));
    let digits = b"# one call\n0x02 06 68\n69 00\n";
    let outcome = pmix_with(&["wire", "decode", "--type", "string", "-"], digits);
    assert_eq!((outcome.code, outcome.text().as_str()), (0, "[\"hi\"]"));
    let outcome = pmix_with(&["wire", "decode", "--type", "string"], &call);
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains("--raw"), "{}", outcome.stderr);
    let outcome = pmix_with(
        &["wire", "encode", "--type", "string", "--raw"],
        b"[\"hi\"]",
    );
    assert_eq!((outcome.code, outcome.stdout.as_slice()), (0, &call[..]));
}

#[test]
fn a_single_datum_is_a_list_of_one() {
    let packed = |data_type, json| pmix(&["wire", "encode", "--type", data_type, json]).text();
    assert_eq!(packed("PMIX_UINT32", "300"), "02ac02");
    assert_eq!(packed("PMIX_STRING", "null"), "0200");
    assert_eq!(
        packed("PMIX_PROC", r#"{"nspace": "ns", "rank": 3}"#),
        "02066e730003"
    );
    assert_eq!(packed("PMIX_UINT32", "[1, 2]"), "040102");
    assert_eq!(packed("PMIX_UINT32", "[]"), "00");
    for wrong in ["", "[1", "1 2", "[1] 2", "{}"] {
        assert_eq!(
            pmix(&["wire", "encode", "--type", "uint32", wrong]).code,
            3,
            "{wrong}"
        );
    }
}

#[test]
fn an_explanation_shows_what_can_be_read_and_where_it_stops() {
    let args = ["wire", "decode", "--explain", "--type", "proc", "--hex"];
    let outcome = pmix(&[&args[..], &["02066e730003"]].concat());
    assert_eq!(outcome.code, 0);
    assert!(
        outcome.text().contains("string \"ns\""),
        "{}",
        outcome.text()
    );
    let outcome = pmix(&[&args[..], &["02066e7300"]].concat());
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.text().contains("string \"ns\""),
        "{}",
        outcome.text()
    );
    assert!(
        outcome.text().contains("stops at byte 5"),
        "{}",
        outcome.text()
    );
    let outcome = pmix(&[&args[..], &["02066e7300", "--json"]].concat());
    assert_eq!(outcome.code, 1);
    let report = outcome.json();
    assert_eq!(report["fault"]["offset"], 5);
    assert_eq!(report["fault"]["status"], -50);
    assert_eq!(
        report["calls"][0],
        json!({"offset": 0, "title": "call 1 of PMIX_PROC"})
    );
}

/// Returns the captured connections with their names.
fn captures() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/wire");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|e| e == "hex"));
    let named = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.display().to_string(), text)
    };
    files.map(named).collect()
}

#[test]
fn every_captured_message_is_explained_to_its_end() {
    let mut commands = std::collections::BTreeSet::new();
    for (name, text) in captures() {
        let outcome = pmix(&["wire", "decode", "--message", &name]);
        assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
        let lines = outcome.text();
        let sent = text.matches("RAW ").count();
        assert_eq!(lines.lines().count(), sent, "{name}");
        for line in lines.lines() {
            let message: Value = serde_json::from_str(line).unwrap();
            assert!(message["fault"].is_null(), "{name}: {message}");
            commands.extend(message["command"].as_str().map(str::to_owned));
        }
        let explained = pmix(&["wire", "decode", "--message", "--explain", &name]);
        assert_eq!(explained.code, 0, "{name}");
        assert!(!explained.text().contains("stops at"), "{name}");
    }
    assert!(commands.len() > 25, "{commands:?}");
}

#[test]
fn a_stream_of_one_side_is_read_message_by_message() {
    let (_, text) = captures()
        .into_iter()
        .find(|(name, _)| name.contains("client-5.0.11"))
        .unwrap();
    let of = |side: &str| {
        let mut digits = String::new();
        let mut speaks = false;
        for line in text.lines() {
            speaks = line
                .strip_prefix("== ")
                .map_or(speaks, |rest| rest.starts_with(side));
            if let (true, Some(raw)) = (speaks, line.trim().strip_prefix("RAW ")) {
                digits += raw;
            }
        }
        digits
    };
    let whats = |args: &[&str], digits: &str| -> Vec<String> {
        let args = [&["wire", "decode", "--message"], args].concat();
        let outcome = pmix_with(&args, digits.as_bytes());
        let lines = outcome.text();
        let what = |line: &str| {
            let message: Value = serde_json::from_str(line).unwrap();
            message["what"].as_str().unwrap().to_owned()
        };
        lines.lines().map(what).collect()
    };
    let requests = whats(&[], &of("CLIENT"));
    let expected = [
        "introduction",
        "request REQ",
        "request COMMIT",
        "request FENCENB",
        "request GETNB",
        "request FINALIZE",
    ];
    assert_eq!(requests, expected);
    let replies = whats(&["--from", "server", "--command", "getnb"], &of("SERVER"));
    assert!(
        replies.iter().all(|what| what == "reply to GETNB"),
        "{replies:?}"
    );
    assert_eq!(replies.len(), 5);
}

#[test]
fn a_bad_message_leaves_the_next_ones_untouched() {
    // A request with a string that claims too many bytes, and a valid one.
    let digits = "00000000 00000065 00000004 00000000 02040208\
                  00000000 00000066 00000002 00000000 0205";
    let outcome = pmix(&["wire", "decode", "--message", "--hex", digits]);
    assert_eq!(outcome.code, 1);
    let lines = outcome.text();
    let messages: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(messages[0]["fault"]["status"], -50);
    assert_eq!(messages[0]["calls"][0]["value"], json!([4]));
    assert_eq!(messages[1]["what"], "request FINALIZE");
    assert!(messages[1]["fault"].is_null());
}

#[test]
fn damaged_captures_end_without_a_crash() {
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below
    };
    for (name, text) in captures() {
        for _ in 0..8 {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..40 {
                let place = random(bytes.len());
                bytes[place] = b"0123456789abcdef \n=R|"[random(21)];
            }
            for args in [&["--explain"][..], &[]] {
                let args = [&["wire", "decode", "--message"], args].concat();
                let outcome = pmix_with(&args, &bytes);
                assert!(
                    [0, 1, 3].contains(&outcome.code),
                    "{name}: {}",
                    outcome.stderr
                );
            }
        }
    }
}

#[test]
fn many_small_data_are_read_where_they_are_declared() {
    let mut bytes = "fe ff 0f".replace(' ', "");
    bytes += &"00".repeat(131_071);
    let read = |args: &[&str]| {
        let args = [&["wire", "decode", "--type", "string"], args].concat();
        pmix_with(&args, bytes.as_bytes())
    };
    let outcome = read(&[]);
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains("--memory"), "{}", outcome.stderr);
    assert_eq!(read(&["--memory", "40"]).code, 0);
    let mut request = json!({"type": "PMIX_STRING", "bytes_hex": bytes, "count": 131_071});
    assert_eq!(batch(&[], &[request.clone()])[0]["status"], 0);
    request["count"] = Value::Null;
    assert_eq!(batch(&[], &[request])[0]["status"], -29);
}
