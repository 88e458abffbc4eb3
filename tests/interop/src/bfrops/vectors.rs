// SPDX-License-Identifier: MIT OR Apache-2.0
//! The peer programs checked against the measured vectors, which proves the programs themselves.

use std::collections::BTreeMap;
use std::path::Path;

use bfrops::{BufferKind, Integers, Layout, Module};
use pmix_types::DataType;
use serde_json::Value;

use super::peer::{harness, is_mislabelled, is_unsent};
use crate::peers::Peer;
use crate::tally::Tally;
use xtask::process::root;

/// Returns the reason why the wire or the release loses a part of a vector, if it does.
fn loss(record: &Value, layout: Layout, peer: &Peer) -> Option<&'static str> {
    let data_type: DataType = record["type"].as_str()?.parse().ok()?;
    let text = record["value"].to_string();
    let element = &record["value"][0]["type"];
    let unread = ["PMIX_DATA_ARRAY", "PMIX_COMMAND"];
    let is_v12 = layout.module == Module::V12;
    let is_legacy = matches!(layout.module, Module::V12 | Module::V20);
    let reasons = [
        (
            matches!(data_type, DataType::KVAL | DataType::TOPO),
            "the peer program does not know the type",
        ),
        (
            data_type == DataType::POINTER || text.contains("PMIX_POINTER"),
            "nothing of a pointer is sent",
        ),
        (
            is_unsent(layout, data_type),
            "module v12 sends nothing of the type",
        ),
        (
            is_mislabelled(layout, data_type),
            "module v12 does not read the type of its own described processes",
        ),
        (
            data_type == DataType::PROC_INFO && text.contains("\"exit_code\":3"),
            "an exit code is not sent",
        ),
        (
            data_type == DataType::PROC_STATS,
            "the library reads a member that it does not send",
        ),
        (
            is_rounded(&record["value"]),
            "digits after the sixth are not sent",
        ),
        (
            text.contains("\"type\":\"PMIX_DATA_TYPE\""),
            "the value was packed as 0",
        ),
        (
            data_type == DataType::DATA_ARRAY && (is_legacy || unread.iter().any(|t| element == t)),
            "the library does not read every array that it packs",
        ),
        (
            layout.module == Module::V20 && text.contains("\"type\":\"PMIX_PERSIST\""),
            "module v20 reads a persistence in a value as a process",
        ),
        (
            is_v12 && text.contains("\"type\":\"PMIX_PROC_RANK\""),
            "module v12 makes a number of a rank in a value",
        ),
        (
            is_v12 && data_type == DataType::APP,
            "module v12 sends neither flags nor a working directory",
        ),
        (
            is_v12 && text.contains("\"type\":\"PMIX_DATA_ARRAY\""),
            "module v12 reads the infos of an array as values",
        ),
        (
            data_type == DataType::VALUE && text.contains("PMIX_DEVICE_DIST"),
            "the record names another type of device than its bytes",
        ),
        (
            !peer.reads_blob && text.contains("blob_payload_hex"),
            "4.2.2 cuts the compressed form of a map short",
        ),
    ];
    let found = reasons.into_iter().find(|(holds, _)| *holds);
    found.map(|(_, reason)| reason)
}

/// Returns `true` if a number has more digits than the wire form carries.
fn is_rounded(value: &Value) -> bool {
    let numbers = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let mut doubles = numbers.filter_map(|text| text.parse::<f64>().ok());
    doubles.any(|double| {
        let sent = format!("{double:.6}").parse::<f64>();
        double.is_finite() && sent != Ok(double)
    })
}

/// Has every release unpack every vector that a release packed, and pack it again.
///
/// # Errors
/// Returns a message if the vectors are missing or are not JSON lines.
pub(crate) fn run(peers: &[Peer], tally: &mut Tally) -> Result<(), String> {
    let dir = root().join("testdata/bfrops");
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for file in files(&dir)? {
        let text = std::fs::read_to_string(dir.join(&file)).map_err(|e| format!("{file}: {e}"))?;
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).map_err(|e| format!("{file}: {e}"))?;
            if is_decodable(&record) {
                let group = format!("{} {}", record["variant"], record["buffer"]);
                groups.entry(group).or_default().push(record);
            }
        }
    }
    let mut left_out = BTreeMap::new();
    for records in groups.values() {
        for peer in peers {
            check(peer, records, &mut left_out, tally)?;
        }
    }
    println!("vectors left out:");
    for (reason, count) in left_out {
        println!("  {count}: {reason}");
    }
    Ok(())
}

fn files(dir: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let names = entries.flatten().map(|e| e.file_name());
    let mut names: Vec<String> = names.filter_map(|n| n.into_string().ok()).collect();
    names.retain(|name| name.ends_with(".jsonl"));
    names.sort();
    Ok(names)
}

/// Returns `true` if a release packed the record completely and there is something to unpack.
fn is_decodable(record: &Value) -> bool {
    let is_whole = record["status"] == 0 && record["note"].is_null();
    is_whole && record["producer"] != "seed" && record["count"] != 0
}

/// Returns the layout of the records of a group.
fn layout(record: &Value) -> Layout {
    let variant = record["variant"].as_str().unwrap_or_default();
    let module = variant.strip_prefix("bfrops=").and_then(Module::from_name);
    let mut layout = Layout::new(module.unwrap_or(Module::V41));
    if variant == "psquash=native" {
        layout = layout.with_integers(Integers::Fixed);
    }
    match record["buffer"].as_str() {
        Some("described") => layout.with_buffer(BufferKind::Described),
        _ => layout,
    }
}

fn check(
    peer: &Peer,
    records: &[Value],
    left_out: &mut BTreeMap<&'static str, usize>,
    tally: &mut Tally,
) -> Result<(), String> {
    let row = format!("bfrops vectors, {}", peer.version);
    let variant = &records[0]["variant"];
    let layout = layout(&records[0]);
    let mut harness = harness(&peer.bfrops, layout);
    for record in records {
        let data_type = record["type"].as_str().unwrap_or_default();
        if let Some(reason) = loss(record, layout, peer) {
            *left_out.entry(reason).or_default() += 1;
            tally.leave_out(&row, reason);
            continue;
        }
        let digits = record["bytes_hex"].as_str().unwrap_or_default();
        let answer = harness.ask(&format!("unpack {data_type} {} {digits}", record["count"]))?;
        let expected = Value::Array(
            record["value"]
                .as_array()
                .into_iter()
                .flatten()
                .map(spelled)
                .collect(),
        );
        let words: Vec<&str> = answer.splitn(5, ' ').collect();
        let json = words
            .get(4)
            .and_then(|json| serde_json::from_str(json).ok());
        if words.starts_with(&["0", "0", "0", digits]) && json == Some(expected) {
            tally.pass(&row);
        } else {
            tally.fail(
                &row,
                &format!("{variant}: {data_type} {digits:.200}: {answer:.300}"),
            );
        }
    }
    Ok(())
}

/// Returns a datum with its abbreviated long texts expanded.
fn spelled(datum: &Value) -> Value {
    match (datum["repeat"].as_str(), datum["n"].as_u64()) {
        (Some(part), Some(count)) => {
            Value::String(part.repeat(usize::try_from(count).unwrap_or(0)))
        }
        _ => datum.clone(),
    }
}
