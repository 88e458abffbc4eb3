// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of one call as the list that docs/json.md describes.

use pmix_types::json::{List, ListOf};
use pmix_types::{DataArray, DataType};
use serde::de::DeserializeSeed;

/// Prints the data of a call.
pub(super) fn print(data: &DataArray<'_>) -> Result<String, serde_json::Error> {
    serde_json::to_string(&List(data))
}

/// Reads the data of a call; a single datum is read as a list of one.
pub(super) fn read(
    data_type: DataType,
    json: &str,
) -> Result<DataArray<'static>, serde_json::Error> {
    // No datum has the form of a list, so none is taken for one.
    let single = !matches!(json.trim_start().as_bytes().first(), Some(b'[') | None);
    let known = !matches!(DataArray::empty(data_type), DataArray::Untyped { .. });
    let list = match single && known {
        true => format!("[{json}\n]"),
        false => json.to_owned(),
    };
    let mut text = serde_json::Deserializer::from_str(&list);
    let data = ListOf::new(data_type)
        .named("value")
        .deserialize(&mut text)?;
    text.end()?;
    Ok(data)
}
