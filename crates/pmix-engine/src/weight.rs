// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates of the memory of pending requests, by which the engine and its host limit it.

use bfrops::{Encoder, Layout, Module, wire_type};
use pmix_types::{DataArray, DataType, Info, Pdata, Value};

/// Estimates the memory of infos in bytes.
#[must_use]
pub fn infos(infos: &[Info<'_>]) -> usize {
    infos.iter().map(info).sum()
}

/// Estimates the memory of a value in bytes.
#[must_use]
pub fn value(value: &Value<'_>) -> usize {
    let more = match value {
        Value::String(text) => text.as_ref().map_or(0, pmix_types::Text::len),
        Value::ByteObject(bytes)
        | Value::CompressedString(bytes)
        | Value::CompressedByteObject(bytes)
        | Value::DataBuffer(bytes) => bytes.len(),
        Value::DataArray(array) => elements(array),
        other => packed(|encoder| encoder.one::<wire_type::Value>(other)),
    };
    size_of::<Value<'_>>() + more
}

fn info(info: &Info<'_>) -> usize {
    size_of::<Info<'_>>() + info.key.as_bytes().len() + value(&info.value)
}

fn elements(array: &DataArray<'_>) -> usize {
    match array {
        DataArray::Info(list) => infos(list),
        DataArray::Value(list) => list.iter().map(value).sum(),
        DataArray::DataArray(list) => list.iter().map(|a| BOXED + elements(a)).sum(),
        DataArray::Pdata(list) => {
            let each = |pdata: &Pdata<'_>| BOXED + value(&pdata.value);
            list.iter().map(each).sum()
        }
        other if is_number(other.data_type()) => other.len() * size_of::<u64>(),
        other => other.len() * BOXED + packed(|encoder| encoder.array(other)),
    }
}

/// Returns `true` if values of the type are stored as plain numbers.
const fn is_number(data_type: DataType) -> bool {
    matches!(data_type.as_raw(), 1 | 2 | 4..=17)
}

/// The size of a structure without its texts and byte arrays.
const BOXED: usize = 128;

/// Returns the packed size in bytes. Texts and byte arrays have the same length packed and in memory.
fn packed(pack: impl Fn(&mut Encoder<'_>) -> Result<(), bfrops::Error>) -> usize {
    let mut bytes = Vec::new();
    // Each module lacks some types; together they have all.
    for module in [Module::V41, Module::V61] {
        if pack(&mut Encoder::new(Layout::new(module), &mut bytes)).is_ok() {
            break;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Text;

    #[test]
    fn the_weight_includes_nested_values() {
        let text = "x".repeat(10_000);
        let texts = DataArray::String(vec![Some(Text::from(text.as_str())); 3]);
        let deep = Info::new("a", vec![Info::new("b", vec![Info::new("c", texts)])]);
        let weight = infos(std::slice::from_ref(&deep));
        assert!((30_000..31_000).contains(&weight), "{weight}");
        let flat = vec![Info::new("k", 1_u32); 1000];
        let weight = infos(&flat);
        assert!((80_000..200_000).contains(&weight), "{weight}");
        let envar = pmix_types::Envar {
            value: Some(Text::from(text.as_str())),
            ..pmix_types::Envar::default()
        };
        assert!(value(&Value::from(envar)) > 10_000);
        let numbers = DataArray::Uint32(vec![7; 1000]);
        assert!((8000..8100).contains(&value(&Value::from(numbers))));
    }
}
