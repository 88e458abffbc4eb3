// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares packing and unpacking with real libraries. A value is packed to the bytes of the
//! library, and the bytes are unpacked to the value. If the library rejects them, this project
//! rejects them with the same status. `testdata/bfrops/deviations.toml` has the intended deviations
//! with their reasons and results.

mod deviations;

use std::path::{Path, PathBuf};

use bfrops::{Decoder, Encoder, Layout};
use pmix_types::json::{List, ListOf};
use pmix_types::{DataArray, DataType};
use serde::de::DeserializeSeed;
use serde_json::{Value as Json, json};

use crate::records::{self, Framer};
use deviations::{Deviations, Outcome, Way};

/// The files of the test vectors.
const FILES: [&str; 10] = [
    "nondescribed.jsonl",
    "described.jsonl",
    "psquash_native.jsonl",
    "legacy_v12.jsonl",
    "legacy_v20.jsonl",
    "legacy_v21.jsonl",
    "legacy_v3.jsonl",
    "legacy_v4.jsonl",
    "legacy_v41.jsonl",
    "legacy_described.jsonl",
];

/// Returns the data of a record as types of the data model.
fn value(call: &Call, json: &str) -> DataArray<'static> {
    let mut text = serde_json::Deserializer::from_str(json);
    let list = ListOf::new(call.data_type);
    let array = list.deserialize(&mut text);
    array.unwrap_or_else(|e| panic!("{}: {e}", call.name()))
}

fn print(array: &DataArray<'_>) -> Json {
    serde_json::to_value(List(array)).unwrap()
}

fn pack(call: &Call, array: &DataArray<'_>) -> Outcome {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(call.layout, &mut out).with_framer(&Framer);
    match encoder.array(array) {
        Ok(()) => Outcome::Bytes(out),
        Err(error) => Outcome::Status(error.status().as_raw()),
    }
}

fn unpack(call: &Call, bytes: &[u8]) -> Outcome {
    let mut decoder = Decoder::new(call.layout, bytes).with_framer(&Framer);
    let array = match decoder.array(call.data_type) {
        Ok(array) => array,
        Err(error) => return Outcome::Status(error.status().as_raw()),
    };
    match decoder.finish() {
        Ok(()) => Outcome::Value(print(&array)),
        Err(error) => Outcome::Status(error.status().as_raw()),
    }
}

/// Checks packing and unpacking of a record.
fn judge(call: &Call, deviations: &mut Deviations, faults: &mut Vec<String>) {
    let array = value(call, &call.value);
    let expected = match &call.bytes {
        Some(bytes) => Outcome::Bytes(bytes.clone()),
        None => Outcome::Status(call.status),
    };
    faults.extend(deviations.judge(call, Way::Pack, &expected, &pack(call, &array)));
    if let Some(bytes) = &call.bytes {
        let expected = Outcome::Value(print(&array));
        faults.extend(deviations.judge(call, Way::Unpack, &expected, &unpack(call, bytes)));
    }
}

#[test]
fn every_record_passes_both_ways_or_is_a_stated_deviation() {
    let mut deviations = Deviations::read();
    let mut faults = Vec::new();
    let mut count = 0;
    for file in FILES {
        for call in of(file) {
            judge(&call, &mut deviations, &mut faults);
            count += 1;
        }
    }
    assert!(count > 2800, "{count}");
    faults.extend(deviations.unneeded());
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n")
    );
}

struct Call {
    pub(crate) file: &'static str,
    pub(crate) line: usize,
    pub(crate) layout: Layout,
    pub(crate) type_name: String,
    pub(crate) data_type: DataType,
    pub(crate) producer: String,
    /// The packed data as JSON text.
    pub(crate) value: String,
    pub(crate) status: i32,
    pub(crate) bytes: Option<Vec<u8>>,
}

impl Call {
    pub(crate) fn name(&self) -> String {
        let Self {
            file,
            line,
            type_name,
            value,
            ..
        } = self;
        format!("{file}:{line} {type_name} {value:.120}")
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/bfrops")
}

/// Returns the records of a file.
fn of(file: &'static str) -> Vec<Call> {
    let text = std::fs::read_to_string(folder().join(file)).expect("the vectors are there");
    let records = text.lines().enumerate();
    records
        .map(|(index, text)| read(file, index + 1, &serde_json::from_str(text).unwrap()))
        .collect()
}

fn read(file: &'static str, line: usize, json: &Json) -> Call {
    let mut value = json["value"].clone();
    if json["type"] == "PMIX_NODE_STATS" {
        // The test vectors have only a note instead of these members.
        value[0]["diskstats"] = json!([]);
        value[0]["netstats"] = json!([]);
    }
    let type_id = json["type_id"].as_u64().unwrap();
    Call {
        file,
        line,
        layout: records::layout(json),
        type_name: json["type"].as_str().unwrap().to_owned(),
        data_type: DataType::from_raw(type_id.try_into().unwrap()),
        producer: json["producer"].as_str().unwrap().to_owned(),
        value: value.to_string(),
        status: json["status"].as_i64().unwrap().try_into().unwrap(),
        bytes: json["bytes_hex"].as_str().map(records::unhex),
    }
}
