// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes of real libraries come off and go on again as they were.

use std::path::Path;

use bfrops::{BufferKind, Decoder, Encoder, Integers, Layout, Module, RegexExtent, RegexFramer};
use pmix_types::DataType;
use serde_json::Value as Json;

/// Knows the encoded maps of the vectors.
struct Framer;

impl RegexFramer for Framer {
    fn regex_extent(&self, bytes: &[u8]) -> Result<Option<RegexExtent>, String> {
        if let Some(rest) = bytes.strip_prefix(b"blob:\0component=zlib:\0size=") {
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            let text = std::str::from_utf8(&rest[..digits]).map_err(|e| e.to_string())?;
            let size: usize = text
                .parse()
                .map_err(|_| "a blob without its size".to_owned())?;
            let len = bytes.len() - rest.len() + digits + 2 + size;
            return Ok(Some(RegexExtent {
                len,
                terminated: false,
            }));
        }
        if bytes.starts_with(b"raw:") || bytes.starts_with(b"pmix") {
            let end = bytes.iter().position(|b| *b == 0);
            return Ok(end.map(|len| RegexExtent {
                len,
                terminated: true,
            }));
        }
        Ok(None)
    }
}

fn layout(record: &Json) -> Layout {
    let variant = record["variant"].as_str().unwrap_or_default();
    let module = match variant.strip_prefix("bfrops=") {
        Some(name) => Module::from_name(name).unwrap(),
        // The snapshot and the releases differ in the types they know, not in the bytes.
        None if record["producer"] == "seed" => Module::V61,
        None => Module::V41,
    };
    let buffer = match record["buffer"].as_str() {
        Some("described") => BufferKind::Described,
        _ => BufferKind::NonDescribed,
    };
    let integers = match variant {
        "psquash=native" => Integers::Fixed,
        _ => Integers::Flex,
    };
    Layout::new(module)
        .with_buffer(buffer)
        .with_integers(integers)
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// What is wrong with a record, if anything.
fn fault(record: &Json) -> Option<String> {
    // The topology of these releases has bytes behind it that only their hwloc can tell apart,
    // and one release cut an encoded map short.
    if record["type"] == "PMIX_TOPO" || record["note"].as_str().is_some_and(|n| n.contains("cut")) {
        return None;
    }
    let layout = layout(record);
    let data_type = DataType::from_raw(u16::try_from(record["type_id"].as_u64()?).unwrap());
    let bytes = unhex(record["bytes_hex"].as_str()?);
    let mut decoder = Decoder::new(layout, &bytes).with_framer(&Framer);
    let array = match decoder.array(data_type) {
        Ok(array) => array,
        Err(error) => return Some(format!("decode: {error}")),
    };
    if let Err(error) = decoder.finish() {
        return Some(error.to_string());
    }
    let mut again = Vec::new();
    if let Err(error) = Encoder::new(layout, &mut again)
        .with_framer(&Framer)
        .array(&array)
    {
        return Some(format!("encode: {error}"));
    }
    (again != bytes).then(|| format!("other bytes: {again:02x?}"))
}

fn file(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/bfrops");
    let text = std::fs::read_to_string(path.join(name)).unwrap();
    let mut faults = Vec::new();
    for line in text.lines() {
        let record: Json = serde_json::from_str(line).unwrap();
        if let Some(fault) = fault(&record) {
            faults.push(format!("{} {}: {fault}", record["type"], record["value"]));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn default_modules() {
    file("nondescribed.jsonl");
}

#[test]
fn described_buffers() {
    file("described.jsonl");
}

#[test]
fn v41() {
    file("legacy_v41.jsonl");
}

#[test]
fn v4() {
    file("legacy_v4.jsonl");
}

#[test]
fn native_integers() {
    file("psquash_native.jsonl");
}
