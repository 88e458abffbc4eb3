// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values as they are answered: for programs with their type, for people without.

use pmix_types::json::List;
use pmix_types::{DataArray, Info, Value};
use serde_json::{Value as Json, json};

/// Returns a value with its type: `{"data":…,"type":"PMIX_STRING","type_id":3}`.
pub(crate) fn typed(value: &Value<'_>) -> Json {
    let data = match value {
        Value::DataArray(array) => items(array),
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

fn items(array: &DataArray<'_>) -> Json {
    let items = match array {
        DataArray::Info(infos) => infos.iter().map(entry).collect(),
        DataArray::Value(values) => values.iter().map(typed).collect(),
        array => serde_json::to_value(List(array)).unwrap_or_default(),
    };
    json!({ "array_of": array.data_type().to_string(), "items": items })
}

fn entry(info: &Info<'_>) -> Json {
    json!({ "key": info.key.as_text().to_str_lossy(), "value": typed(&info.value) })
}

/// Returns a value as one line of text.
pub(crate) fn plain(value: &Value<'_>) -> Vec<u8> {
    match value {
        Value::String(Some(text)) => text.as_bytes().to_vec(),
        Value::DataArray(DataArray::Proc(procs)) => {
            let procs: Vec<_> = procs.iter().map(proc).collect();
            procs.join(",").into_bytes()
        }
        Value::DataArray(DataArray::String(texts)) => {
            let texts = texts.iter().flatten().map(|text| text.as_bytes());
            texts.collect::<Vec<_>>().join(&b',')
        }
        Value::Proc(one) => proc(one).into_bytes(),
        Value::DataArray(array) => items(array).to_string().into_bytes(),
        value => match datum(value) {
            Json::String(text) => text.into_bytes(),
            other => other.to_string().into_bytes(),
        },
    }
}

fn proc(proc: &pmix_types::Proc<'_>) -> String {
    format!("{}:{}", proc.nspace, proc.rank)
}
