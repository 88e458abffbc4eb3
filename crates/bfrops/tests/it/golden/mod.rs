// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares packing and unpacking with real libraries: a value is packed to the library's bytes,
//! and the bytes are unpacked to the value, or this project and the library reject them with the
//! same status. `testdata/bfrops/deviations.toml` has the intended deviations with their reasons
//! and results.

mod call;
mod deviations;

use bfrops::{Decoder, Encoder};
use pmix_types::DataArray;
use pmix_types::json::{List, ListOf};
use serde::de::DeserializeSeed;
use serde_json::Value as Json;

use crate::records::Framer;
use call::Call;
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
        for call in call::of(file) {
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
