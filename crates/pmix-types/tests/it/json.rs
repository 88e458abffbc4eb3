// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the JSON form: round trips of every value in the test vectors, and rejected input.

use std::fs;
use std::path::Path;

use pmix_types::json::{List, ListOf};
use pmix_types::{
    DataArray, DataType, Info, InfoFlags, Query, RegexBytes, Text, Timeval, Value as Datum,
};
use serde::de::DeserializeSeed;
use serde_json::{Value, json};

fn read(data_type: &str, json: &Value) -> Result<DataArray<'static>, String> {
    let data_type: DataType = data_type.parse().unwrap();
    let text = json.to_string();
    let mut text = serde_json::Deserializer::from_str(&text);
    let list = ListOf::new(data_type).named("value");
    list.deserialize(&mut text).map_err(|e| e.to_string())
}

fn print(data: &DataArray<'_>) -> Value {
    serde_json::to_value(List(data)).unwrap()
}

/// Returns the printed form of a value whose test vector has a form that is only read.
fn printed(data_type: &str, value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| printed(data_type, item)).collect(),
        Value::Object(object) if object.contains_key("repeat") => {
            let times = object["n"].as_u64().unwrap().try_into().unwrap();
            json!(object["repeat"].as_str().unwrap().repeat(times))
        }
        Value::Object(object)
            if object.contains_key("data")
                && object.get("type") == Some(&json!("PMIX_POINTER")) =>
        {
            json!({"data": null, "type": "PMIX_POINTER"})
        }
        Value::Null if data_type == "300" => json!([]),
        _ if data_type == "PMIX_POINTER" => Value::Null,
        _ => value.clone(),
    }
}

/// Returns the records of all vector files: origin, type and value.
fn records() -> Vec<(String, String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/bfrops");
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        for (line, text) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let record: Value = serde_json::from_str(text).unwrap();
            let data_type = match record["type"].as_str().unwrap() {
                "UNKNOWN" => record["type_id"].to_string(),
                name => name.to_owned(),
            };
            let mut value = record["value"].clone();
            if data_type == "PMIX_NODE_STATS" {
                // The test vectors have only a note instead of these members.
                value[0]["diskstats"] = json!([]);
                value[0]["netstats"] = json!([]);
            }
            records.push((format!("{}:{}", path.display(), line + 1), data_type, value));
        }
    }
    records
}

#[test]
fn every_value_of_the_vectors_reads_and_prints_back() {
    let records = records();
    assert!(records.len() > 2700, "{}", records.len());
    for (place, data_type, value) in records {
        let data = read(&data_type, &value).unwrap_or_else(|e| panic!("{place}: {e}"));
        // Compares texts, because the order of members matters.
        let again = print(&data);
        assert_eq!(
            again.to_string(),
            printed(&data_type, &value).to_string(),
            "{place}"
        );
        let expected = value.as_array().map_or(0, Vec::len);
        assert_eq!(data.len(), expected, "{place}");
    }
}

#[test]
fn every_form_of_the_documentation_reads_and_prints_back() {
    let text = include_str!("../../../../docs/json.md");
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `PMIX_"));
    let mut seen = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('`').collect();
        let data_type = format!("PMIX_{}", cells[0]);
        let value: Value = serde_json::from_str(cells[2]).unwrap_or_else(|e| panic!("{row}: {e}"));
        let data = read(&data_type, &json!([value])).unwrap_or_else(|e| panic!("{row}: {e}"));
        assert_eq!(print(&data)[0].to_string(), value.to_string());
        seen.push(data.data_type());
    }
    let of_model = |t: &DataType| !matches!(DataArray::empty(*t), DataArray::Untyped { .. });
    let all = DataType::all()
        .iter()
        .map(|row| DataType::from_raw(row.number()));
    let missing: Vec<_> = all.filter(of_model).filter(|t| !seen.contains(t)).collect();
    assert!(missing.is_empty(), "no example of {missing:?}");
}

#[test]
fn forms_that_are_only_read_are_accepted() {
    let same = [
        (
            "PMIX_STRING",
            json!({"n": 3, "repeat": "ab"}),
            json!("ababab"),
        ),
        ("PMIX_STRING", json!({"hex": "6162"}), json!("ab")),
        ("PMIX_STRING", json!({"n": 0, "repeat": "ab"}), json!("")),
        ("PMIX_SCOPE", json!("PMIX_REMOTE"), json!(2)),
        (
            "PMIX_INFO_DIRECTIVES",
            json!("PMIX_INFO_REQD|0x10"),
            json!(17),
        ),
        ("PMIX_DATA_TYPE", json!("PMIX_UINT32"), json!(14)),
        ("PMIX_POINTER", json!({"any": ["thing"]}), json!(null)),
        ("PMIX_DOUBLE", json!(2), json!("2")),
        ("PMIX_FLOAT", json!(0.1), json!("0.100000001")),
        ("PMIX_DOUBLE", json!("-Infinity"), json!("-inf")),
        ("PMIX_BYTE_OBJECT", json!(null), json!({"hex": ""})),
        (
            "PMIX_ENDPOINT",
            json!({"endpt": {"hex": "0A"}}),
            json!({"endpt": "0a", "osname": null, "uuid": null}),
        ),
        ("PMIX_REGEX", json!({}), json!({"string": ""})),
        (
            "PMIX_VALUE",
            json!({"type": 14, "data": 5}),
            json!({"data": 5, "type": "PMIX_UINT32"}),
        ),
        (
            "PMIX_VALUE",
            json!({"type": "PMIX_UNDEF"}),
            json!({"data": null, "type": "PMIX_UNDEF"}),
        ),
        (
            "PMIX_QUERY",
            json!({"keys": []}),
            json!({"keys": null, "qualifiers": []}),
        ),
    ];
    for (data_type, given, expected) in same {
        let data = read(data_type, &json!([given])).unwrap_or_else(|e| panic!("{given}: {e}"));
        assert_eq!(print(&data)[0], expected);
    }
}

#[test]
fn errors_name_the_place_and_the_cause() {
    let wrong = [
        (
            "PMIX_VALUE",
            json!([{"data": 1, "type": 12}, {"data": 300, "type": "PMIX_UINT8"}]),
            "value[1].data: 300 does not fit PMIX_UINT8 (0 to 255)",
        ),
        (
            "PMIX_INT8",
            json!([-129]),
            "value[0]: -129 does not fit PMIX_INT8 (-128 to 127)",
        ),
        (
            "PMIX_BOOL",
            json!([1]),
            "value[0]: expected true or false for PMIX_BOOL, found the number 1",
        ),
        (
            "PMIX_STRING",
            json!("x"),
            "value: expected a list for PMIX_STRING, found the string \"x\"",
        ),
        (
            "PMIX_STRING",
            json!(["a\0b"]),
            "value[0]: a string cannot hold a NUL",
        ),
        (
            "PMIX_STRING",
            json!([{"hex": "00"}]),
            "value[0]: a string cannot hold a NUL",
        ),
        (
            "PMIX_PROC",
            json!([{"nspace": "n", "rnk": 1}]),
            "value[0]: PMIX_PROC has no member \"rnk\"; it has nspace, rank",
        ),
        (
            "PMIX_PROC",
            json!([{"nspace": "n"}]),
            "value[0]: the member rank is missing",
        ),
        (
            "PMIX_PROC",
            json!([{"nspace": "n", "rank": 4_294_967_296_u64}]),
            "value[0].rank: 4294967296 does not fit (0 to 4294967295)",
        ),
        (
            "PMIX_UINT64",
            json!([1.5]),
            "value[0]: expected a whole number for PMIX_UINT64, found the number 1.5",
        ),
        (
            "PMIX_UINT64",
            json!([18_446_744_073_709_551_616.0]),
            "value[0]: 18446744073709552000 does not fit PMIX_UINT64 (no type is wider than 64 bits)",
        ),
        (
            "PMIX_FLOAT",
            json!(["1e39"]),
            "value[0]: 1e39 does not fit PMIX_FLOAT (it would be infinite)",
        ),
        (
            "PMIX_BYTE_OBJECT",
            json!([{"hex": "abc"}]),
            "value[0].hex: a byte has two hexadecimal digits, and 3 is odd",
        ),
        (
            "PMIX_BYTE_OBJECT",
            json!([{"hex": "0g"}]),
            "value[0].hex: 'g' at character 1 is not a hexadecimal digit",
        ),
        (
            "PMIX_STRING",
            json!([{"n": 1_000_000_000_000_u64, "repeat": "x"}]),
            "value[0]: a repeated string has 1000000000000 bytes, the limit is 16777216",
        ),
        (
            "PMIX_VALUE",
            json!([{"data": null, "type": 300}]),
            "value[0].data: no value can have the type PMIX_DATA_TYPE(300)",
        ),
        (
            "PMIX_VALUE",
            json!([{"data": null, "type": "PMIX_INFO"}]),
            "value[0].data: no value can have the type PMIX_INFO",
        ),
        (
            "PMIX_DATA_ARRAY",
            json!([{"type": "PMIX_UINT8", "array": [1], "len": 1}]),
            "value[0]: only an empty array of an unknown type has a `len`",
        ),
        (
            "PMIX_REGEX",
            json!([{"hex": "", "string": ""}]),
            "value[0]: only one of blob_payload_hex, hex, string may be given",
        ),
        (
            "300",
            json!([1]),
            "value[0]: expected null for PMIX_DATA_TYPE(300), found the number 1",
        ),
    ];
    for (data_type, json, error) in wrong {
        assert_eq!(read(data_type, &json).unwrap_err(), error);
    }
    let twice = serde_json::from_str::<Timeval>(r#"{"tv_sec": 1, "tv_sec": 2, "tv_usec": 3}"#);
    assert_eq!(
        twice.unwrap_err().to_string(),
        "the member tv_sec occurs twice"
    );
}

#[test]
fn nesting_is_bounded_in_every_format() {
    let nested = |depth| {
        let mut value = json!({"data": 1, "type": "PMIX_UINT8"});
        for _ in 0..depth {
            let array = json!({"array": [value], "type": "PMIX_VALUE"});
            value = json!({"data": array, "type": "PMIX_DATA_ARRAY"});
        }
        value
    };
    // For a parsed tree, only this crate bounds the depth.
    let read = serde_json::from_value::<Datum<'_>>;
    assert!(read(nested(41)).is_ok());
    assert_eq!(
        read(nested(43)).unwrap_err().to_string(),
        "nested deeper than 128"
    );
}

#[test]
fn bytes_that_are_not_text_survive() {
    let data = DataArray::String(vec![Some(Text::from(&b"n\xff1"[..]))]);
    assert_eq!(print(&data), json!([{"hex": "6eff31"}]));
    assert_eq!(read("PMIX_STRING", &print(&data)).unwrap(), data);
    let forms: [(&[u8], Value); 4] = [
        (b"raw:a,b", json!({"string": "raw:a,b"})),
        (b"a\0b", json!({"hex": "610062"})),
        (
            b"blob:\0component=zlib:\0size=2:\0xy",
            json!({"blob_payload_hex": "7879"}),
        ),
        (
            b"blob:\0component=zlib:\0size=02:\0xy",
            json!({"hex": "626c6f623a00636f6d706f6e656e743d7a6c69623a0073697a653d30323a007879"}),
        ),
    ];
    for (bytes, form) in forms {
        let data = DataArray::Regex(vec![RegexBytes(bytes.into())]);
        assert_eq!(print(&data), json!([form]));
        assert_eq!(read("PMIX_REGEX", &print(&data)).unwrap(), data);
    }
}

#[test]
fn an_array_of_nothing_keeps_its_length() {
    let data_type = DataType::UNDEF;
    let array = DataArray::Untyped {
        data_type,
        len: u64::MAX,
    };
    let json = serde_json::to_string(&array).unwrap();
    assert_eq!(
        json,
        r#"{"array":[],"len":18446744073709551615,"type":"PMIX_UNDEF"}"#
    );
    assert_eq!(serde_json::from_str::<DataArray<'_>>(&json).unwrap(), array);
}

#[test]
fn structures_implement_serde() {
    let info = Info {
        flags: InfoFlags::from_raw(1),
        ..Info::new("pmix.timeout", Datum::Int32(-5))
    };
    let json = r#"{"data":-5,"flags":1,"key":"pmix.timeout","type":"PMIX_INT32"}"#;
    assert_eq!(serde_json::to_string(&info).unwrap(), json);
    assert_eq!(serde_json::from_str::<Info<'_>>(json).unwrap(), info);
    let query = Query {
        keys: vec!["a".into()],
        qualifiers: vec![info],
    };
    let json = serde_json::to_string(&query).unwrap();
    assert_eq!(serde_json::from_str::<Query<'_>>(&json).unwrap(), query);
}
