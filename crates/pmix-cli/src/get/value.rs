// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of a registration from JSON. A value has a type, by its name or a short name, and a
//! datum, which may be text.

use pmix_types::json::List;
use pmix_types::{DataArray, DataType, Info, InfoFlags, RegexBytes, Value, WireRegex2};
use preg_core::Preg;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::args;

/// An info in a job or a request.
#[derive(Clone, Deserialize)]
#[serde(expecting = "an info, {\"key\":…,\"type\":…,\"value\":…}")]
pub(super) struct Entry {
    key: String,
    #[serde(rename = "type")]
    data_type: TypeName,
    #[serde(default, alias = "data")]
    value: Json,
    #[serde(default)]
    flags: u32,
}

/// A type by name or number.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "the name or number of a type")]
enum TypeName {
    Number(u16),
    Name(String),
}

/// The short names of types: those of C types in the Standard's macros.
const SHORT: &[(&str, DataType)] = &[
    ("str", DataType::STRING),
    ("i8", DataType::INT8),
    ("i16", DataType::INT16),
    ("i32", DataType::INT32),
    ("i64", DataType::INT64),
    ("u8", DataType::UINT8),
    ("u16", DataType::UINT16),
    ("u32", DataType::UINT32),
    ("u64", DataType::UINT64),
    ("rank", DataType::PROC_RANK),
    ("nspace", DataType::PROC_NSPACE),
    ("bo", DataType::BYTE_OBJECT),
    ("state", DataType::PROC_STATE),
];

/// Converts infos. An error includes the path, for example `[2] pmix.node.arr: [0] pmix.nodeid: …`.
pub(super) fn infos(preg: &Preg, entries: &[Entry]) -> Result<Vec<Info<'static>>, String> {
    let infos = entries.iter().enumerate().map(|(place, entry)| {
        let value = value(preg, &entry.data_type, &entry.value);
        let value = value.map_err(|fault| format!("[{place}] {}: {fault}", entry.key))?;
        let mut info = Info::new(args::key(&entry.key).to_owned(), value);
        info.flags = InfoFlags::from_raw(entry.flags);
        Ok(info)
    });
    infos.collect()
}

fn value(preg: &Preg, name: &TypeName, datum: &Json) -> Result<Value<'static>, String> {
    let data_type = match name {
        TypeName::Number(number) => DataType::from_raw(*number),
        TypeName::Name(name) => match name.as_str() {
            "noderx" | "procrx" | "regex" | "rx2" | "regex2" if datum.is_string() => {
                return map(preg, name, datum.as_str().unwrap_or_default());
            }
            "rx2" => DataType::REGEX2,
            "info_array" => return array(preg, datum),
            name => {
                let short = SHORT.iter().find(|(short, _)| *short == name);
                match short {
                    Some((_, data_type)) => *data_type,
                    None => args::data_type(name)?,
                }
            }
        },
    };
    let datum = match (datum, data_type) {
        (Json::Object(array), DataType::DATA_ARRAY) if array.contains_key("array_of") => {
            return typed_array(preg, array);
        }
        (Json::String(text), _) => json_of(data_type, text),
        (Json::Number(number), DataType::BOOL) => Json::Bool(number.as_f64() != Some(0.0)),
        _ => datum.clone(),
    };
    let value = json!({ "type": data_type.as_raw(), "data": datum });
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// Parses a value of a type.
pub(crate) fn of_text(data_type: DataType, text: &str) -> Result<Value<'static>, String> {
    let value = json!({ "type": data_type.as_raw(), "data": json_of(data_type, text) });
    serde_json::from_value(value).map_err(|error| format!("not a valid {data_type}: {error}"))
}

/// Returns a map in an encoded form: a list is encoded, an encoded value is kept.
fn map(preg: &Preg, form: &str, text: &str) -> Result<Value<'static>, String> {
    let fault = |error: preg_core::Error| error.to_string();
    let regex = |bytes: Vec<u8>| Value::Regex(RegexBytes(bytes.into()));
    Ok(match form {
        "noderx" => regex(
            preg.generate_node_regex(text.as_bytes())
                .map_err(fault)?
                .bytes,
        ),
        "procrx" => regex(preg.generate_ppn(text.as_bytes()).map_err(fault)?.bytes),
        "regex" => regex(text.as_bytes().to_vec()),
        _ => {
            let encoded = preg.generate_regex(text.as_bytes()).map_err(fault)?;
            Value::Regex2(Box::new(WireRegex2::from(encoded)))
        }
    })
}

fn array(preg: &Preg, datum: &Json) -> Result<Value<'static>, String> {
    let entries: Vec<Entry> = match datum {
        Json::Null => Vec::new(),
        list => Vec::deserialize(list).map_err(|e| e.to_string())?,
    };
    Ok(Value::DataArray(DataArray::Info(infos(preg, &entries)?)))
}

/// Parses an array in the form of replies: `{"array_of":…,"items":[…]}`.
fn typed_array(
    preg: &Preg,
    array: &serde_json::Map<String, Json>,
) -> Result<Value<'static>, String> {
    let name = array.get("array_of").and_then(Json::as_str);
    let data_type = args::data_type(name.unwrap_or_default())?;
    let items = array.get("items").unwrap_or(&Json::Null);
    if data_type == DataType::INFO {
        let Json::Array(items) = items else {
            return self::array(preg, items);
        };
        let flat = items.iter().map(|item| {
            let inner = &item["value"];
            match inner.get("type") {
                Some(kind) => json!({ "key": item["key"], "type": kind, "value": inner["data"] }),
                None => item.clone(),
            }
        });
        return self::array(preg, &Json::Array(flat.collect()));
    }
    let value = json!({
        "type": DataType::DATA_ARRAY.as_raw(),
        "data": { "array": items, "type": data_type.as_raw() },
    });
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// Returns the number in a text for a numeric type, otherwise the text itself.
fn json_of(data_type: DataType, text: &str) -> Json {
    let as_it_is = || Json::String(text.to_owned());
    match data_type {
        DataType::STRING | DataType::PROC_NSPACE | DataType::FLOAT | DataType::DOUBLE => as_it_is(),
        DataType::BOOL => match text {
            "1" | "true" => Json::Bool(true),
            "0" | "false" => Json::Bool(false),
            _ => as_it_is(),
        },
        DataType::REGEX => json!({ "string": text }),
        _ => match serde_json::from_str(text) {
            Ok(Json::Number(number)) => Json::Number(number),
            _ => as_it_is(),
        },
    }
}

/// Returns a value with its type: `{"data":…,"type":"PMIX_STRING","type_id":3}`.
pub(crate) fn typed_json(value: &Value<'_>) -> Json {
    let data = match value {
        Value::DataArray(array) => items_json(array),
        value => datum(value),
    };
    json!({
        "data": data,
        "type": value.data_type().to_string(),
        "type_id": value.data_type().as_raw(),
    })
}

/// Returns a datum in the form of docs/json.md.
fn datum(value: &Value<'_>) -> Json {
    // Printing cannot fail: no member is missing and every key is text.
    let mut form = serde_json::to_value(value).unwrap_or_default();
    form.get_mut("data").map(Json::take).unwrap_or_default()
}

fn items_json(array: &DataArray<'_>) -> Json {
    let items = match array {
        DataArray::Info(infos) => infos.iter().map(entry_json).collect(),
        DataArray::Value(values) => values.iter().map(typed_json).collect(),
        array => serde_json::to_value(List(array)).unwrap_or_default(),
    };
    json!({ "array_of": array.data_type().to_string(), "items": items })
}

fn entry_json(info: &Info<'_>) -> Json {
    json!({ "key": info.key.as_text().to_str_lossy(), "value": typed_json(&info.value) })
}

/// Returns a value as one line of text.
pub(crate) fn plain_text(value: &Value<'_>) -> Vec<u8> {
    match value {
        Value::String(Some(text)) => text.as_bytes().to_vec(),
        Value::DataArray(DataArray::Proc(procs)) => {
            let procs: Vec<_> = procs.iter().map(proc_text).collect();
            procs.join(",").into_bytes()
        }
        Value::DataArray(DataArray::String(texts)) => {
            let texts = texts.iter().flatten().map(|text| text.as_bytes());
            texts.collect::<Vec<_>>().join(&b',')
        }
        Value::Proc(one) => proc_text(one).into_bytes(),
        Value::DataArray(array) => items_json(array).to_string().into_bytes(),
        value => match datum(value) {
            Json::String(text) => text.into_bytes(),
            other => other.to_string().into_bytes(),
        },
    }
}

fn proc_text(proc: &pmix_types::Proc<'_>) -> String {
    format!("{}:{}", proc.nspace, proc.rank)
}
