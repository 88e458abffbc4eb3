// SPDX-License-Identifier: MIT OR Apache-2.0
//! A record of the test vectors: a pack call and the result of a library.

use std::path::{Path, PathBuf};

use bfrops::Layout;
use pmix_types::DataType;
use serde_json::{Value as Json, json};

use crate::records;

pub(crate) struct Call {
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

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/bfrops")
}

/// Returns the records of a file.
pub(crate) fn of(file: &'static str) -> Vec<Call> {
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
