// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that a server passes on in packed form.
//!
//! A server passes the values that a process puts to its clients and to other servers, which pass
//! them to their clients. Unpacking and packing it for each of them would give the same bytes. So
//! the server checks a value on arrival and keeps its bytes.
//!
//! Source: this project; the bytes are those of the packed value.

use pmix_types::{DataType, Key, Kval, Value};

use crate::refusal::Place;
use crate::{Decoder, Encoder, Error, Layout, Module, wire_type};

impl Layout {
    /// Returns `true` if both layouts pack values of a type to the same bytes, as far as their
    /// modules have the type. Returns `false` for modules before v3, which pack values differently.
    #[must_use]
    pub fn packs_alike(self, other: Self, data_type: DataType) -> bool {
        let is_current = |layout: Self| layout.module >= Module::V3;
        is_current(self)
            && is_current(other)
            && self.buffer == other.buffer
            && self.integers == other.integers
            // An array may contain arrays without a type; no other value does.
            && (self.untyped == other.untyped || data_type != DataType::DATA_ARRAY)
    }
}

impl<'a> Decoder<'a> {
    /// Unpacks one `PMIX_KVAL`, and returns the bytes of its value.
    ///
    /// # Errors
    ///
    /// As for [`Self::one`].
    pub fn kval_with_bytes(&mut self) -> Result<(Kval<'a>, &'a [u8]), Error> {
        self.one_head(DataType::KVAL)?;
        let key = self.field::<wire_type::Key>("key")?;
        let (value, bytes) = self.value_and_bytes()?;
        Ok((Kval { key, value }, bytes))
    }

    /// Unpacks one `PMIX_VALUE`, and returns the bytes of the value.
    ///
    /// # Errors
    ///
    /// As for [`Self::one`].
    pub fn value_with_bytes(&mut self) -> Result<(Value<'a>, &'a [u8]), Error> {
        self.one_head(DataType::VALUE)?;
        self.value_and_bytes()
    }

    /// Unpacks a value from bytes that [`Self::kval_with_bytes`] or [`Self::value_with_bytes`]
    /// returned.
    ///
    /// # Errors
    ///
    /// The bytes are invalid.
    pub fn value_of_bytes(&mut self) -> Result<Value<'a>, Error> {
        self.field::<wire_type::Value>("value")
    }

    fn value_and_bytes(&mut self) -> Result<(Value<'a>, &'a [u8]), Error> {
        let before = self.rest();
        let value = self.value_of_bytes()?;
        let len = before.len().saturating_sub(self.rest().len());
        Ok((value, before.get(..len).unwrap_or_default()))
    }
}

impl Encoder<'_> {
    /// Packs one `PMIX_KVAL` with a value that is already packed, in a layout that [packs
    /// alike](Layout::packs_alike).
    ///
    /// # Errors
    ///
    /// The module does not have the type, or no peer could unpack the key.
    pub fn kval_of_bytes(
        &mut self,
        key: &Key<'_>,
        data_type: DataType,
        value: &[u8],
    ) -> Result<(), Error> {
        self.whole(|encoder| {
            encoder.head(DataType::KVAL, 1)?;
            encoder.field::<wire_type::Key>(key)?;
            encoder.module().check(data_type, Place::PackValue, None)?;
            encoder.bytes(value);
            Ok(())
        })
    }

    /// Packs one `PMIX_VALUE` that is already packed, in a layout that [packs
    /// alike](Layout::packs_alike).
    ///
    /// # Errors
    ///
    /// The module does not have the type.
    pub fn value_of_bytes(&mut self, data_type: DataType, value: &[u8]) -> Result<(), Error> {
        self.whole(|encoder| {
            encoder.head(DataType::VALUE, 1)?;
            encoder.module().check(data_type, Place::PackValue, None)?;
            encoder.bytes(value);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::DataArray;

    use super::*;
    use crate::{BufferKind, Integers};

    fn layouts() -> Vec<Layout> {
        let mut layouts = Vec::new();
        for module in Module::ALL {
            for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
                for integers in [Integers::Flex, Integers::Fixed] {
                    layouts.push(Layout {
                        buffer,
                        integers,
                        ..Layout::new(module)
                    });
                }
            }
        }
        layouts
    }

    fn values() -> [Value<'static>; 6] {
        let untyped = DataArray::Untyped {
            data_type: DataType::UNDEF,
            len: 0,
        };
        [
            Value::DataArray(untyped),
            Value::from("ib0:17"),
            Value::ByteObject(vec![0, 1, 255].into()),
            Value::Uint32(70_000),
            Value::String(None),
            Value::Double(0.5),
        ]
    }

    #[test]
    fn relayed_bytes_equal_the_packed_value_in_compatible_layouts() {
        let key = Key::new("app.card");
        let mut pairs = 0;
        for from in layouts() {
            // Module v12 has arrays of infos only.
            let is_packed = |value: &Value<'_>| {
                from.module != Module::V12 || value.data_type() != DataType::DATA_ARRAY
            };
            for value in values().into_iter().filter(is_packed) {
                let kval = Kval {
                    key: key.clone(),
                    value: value.clone(),
                };
                let (mut kvals, mut alone) = (Vec::new(), Vec::new());
                Encoder::new(from, &mut kvals)
                    .one::<wire_type::Kval>(&kval)
                    .unwrap();
                Encoder::new(from, &mut alone)
                    .one::<wire_type::Value>(&value)
                    .unwrap();
                let (found, bytes) = Decoder::new(from, &kvals).kval_with_bytes().unwrap();
                assert_eq!(found, kval, "{from:?}");
                let (_, same) = Decoder::new(from, &alone).value_with_bytes().unwrap();
                assert_eq!(bytes, same, "{from:?}");
                let again = Decoder::new(from, bytes).value_of_bytes().unwrap();
                assert_eq!(again, value, "{from:?}");
                for to in layouts()
                    .into_iter()
                    .filter(|to| to.packs_alike(from, value.data_type()))
                {
                    pairs += 1;
                    let (mut relayed, mut packed) = (Vec::new(), Vec::new());
                    let mut encoder = Encoder::new(to, &mut relayed);
                    encoder
                        .kval_of_bytes(&key, value.data_type(), bytes)
                        .unwrap();
                    encoder.value_of_bytes(value.data_type(), bytes).unwrap();
                    let mut encoder = Encoder::new(to, &mut packed);
                    encoder.one::<wire_type::Kval>(&kval).unwrap();
                    encoder.one::<wire_type::Value>(&value).unwrap();
                    assert_eq!(relayed, packed, "{from:?} to {to:?}");
                }
            }
        }
        assert_eq!(
            pairs,
            5 * 5 * 5 * 4 + (3 * 3 + 2 * 2) * 4,
            "five modules, two buffers, two ways of integers; arrays differ since v51"
        );
    }

    #[test]
    fn rejects_types_that_the_reader_does_not_have() {
        let mut out = vec![9];
        let mut encoder = Encoder::new(Layout::new(Module::V3), &mut out);
        let key = Key::new("k");
        assert!(encoder.kval_of_bytes(&key, DataType::REGEX2, &[1]).is_err());
        assert!(encoder.value_of_bytes(DataType::REGEX2, &[1]).is_err());
        assert_eq!(out, [9]);
    }
}
