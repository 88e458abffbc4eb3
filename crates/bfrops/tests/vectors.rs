// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes of real libraries come off and go on again as they were.

#[allow(dead_code, reason = "not every test of the records needs all of them")]
mod records;

use bfrops::{Decoder, Encoder};
use records::{Framer, Record};

/// What is wrong with a record, if anything.
fn fault(record: &Record) -> Option<String> {
    let mut decoder = Decoder::new(record.layout, &record.bytes).with_framer(&Framer);
    let array = match decoder.array(record.data_type) {
        Ok(array) => array,
        Err(error) => return Some(format!("decode: {error}")),
    };
    if let Err(error) = decoder.finish() {
        return Some(error.to_string());
    }
    let mut again = Vec::new();
    if let Err(error) = Encoder::new(record.layout, &mut again)
        .with_framer(&Framer)
        .array(&array)
    {
        return Some(format!("encode: {error}"));
    }
    (again != record.bytes).then(|| format!("other bytes: {again:02x?}"))
}

fn file(name: &str) {
    let fault = |record: &Record| Some(format!("{}: {}", record.name, fault(record)?));
    let faults: Vec<String> = records::of(name).iter().filter_map(fault).collect();
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
