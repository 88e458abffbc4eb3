// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of the test vectors: calls that real libraries packed.

use std::path::Path;

use bfrops::{BufferKind, Integers, Layout, Module, RegexExtent, RegexFramer};
use data_encoding::HEXLOWER_PERMISSIVE;
use pmix_types::DataType;
use serde_json::Value as Json;

/// The files of the test vectors.
pub(crate) const FILES: [&str; 9] = [
    "nondescribed.jsonl",
    "described.jsonl",
    "psquash_native.jsonl",
    "legacy_v41.jsonl",
    "legacy_v4.jsonl",
    "legacy_v3.jsonl",
    "legacy_v21.jsonl",
    "legacy_v20.jsonl",
    "legacy_v12.jsonl",
];

/// A call and the bytes that a library packed.
pub(crate) struct Record {
    pub(crate) layout: Layout,
    pub(crate) data_type: DataType,
    pub(crate) bytes: Vec<u8>,
    /// The packed data as text, for messages of tests.
    pub(crate) name: String,
}

/// Returns the records of a file that contain exactly one complete call.
pub(crate) fn of(file: &str) -> Vec<Record> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/bfrops");
    let text = std::fs::read_to_string(path.join(file)).expect("the vectors are there");
    let records = text.lines().map(|line| serde_json::from_str(line).unwrap());
    records.filter_map(|json: Json| record(&json)).collect()
}

fn record(json: &Json) -> Option<Record> {
    // Skips the record of a release that truncates an encoded map.
    if json["note"]
        .as_str()
        .is_some_and(|note| note.contains("cut"))
    {
        return None;
    }
    Some(Record {
        layout: layout(json),
        data_type: DataType::from_raw(u16::try_from(json["type_id"].as_u64()?).unwrap()),
        bytes: unhex(json["bytes_hex"].as_str()?),
        name: format!("{} {}", json["type"], json["value"]),
    })
}

pub(crate) fn layout(json: &Json) -> Layout {
    let variant = json["variant"].as_str().unwrap_or_default();
    let module = match variant.strip_prefix("bfrops=") {
        Some(name) => Module::from_name(name).unwrap(),
        // The 7.0 snapshot has more types than the releases, but packs the same bytes.
        None if json["producer"] == "seed" => Module::V61,
        None => Module::V41,
    };
    let buffer = match json["buffer"].as_str() {
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

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).unwrap()
}

/// A framer for the encoded maps of the test vectors.
pub(crate) struct Framer;

impl RegexFramer for Framer {
    fn regex_extent(&self, bytes: &[u8]) -> Result<Option<RegexExtent>, String> {
        if let Some(rest) = bytes.strip_prefix(b"blob:\0component=zlib:\0size=") {
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            let text = std::str::from_utf8(&rest[..digits]).map_err(|e| e.to_string())?;
            let size: usize = text
                .parse()
                .map_err(|_| "a blob without its size".to_owned())?;
            return Ok(Some(RegexExtent {
                len: (bytes.len() - rest.len() + digits + 2).saturating_add(size),
                terminated: false,
            }));
        }
        if bytes.starts_with(b"raw:") || bytes.starts_with(b"pmix") {
            let end = bytes.iter().position(|b| *b == 0);
            return Ok(Some(RegexExtent {
                len: end.unwrap_or(bytes.len()),
                terminated: true,
            }));
        }
        Ok(None)
    }
}
