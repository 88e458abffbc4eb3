// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data with their type: values, arrays, and the structures that have a value among their members.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::form::{As, Form, Object};
use super::node::Node;
use super::path::{At, Fault};
use crate::{DataArray, DataType, Value};

/// The type of the adjacent data: its name, or its number if it has no name.
struct TypeName(DataType);

impl Form for TypeName {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.name() {
            Some(_) => serializer.collect_str(&self.0),
            None => serializer.serialize_u16(self.0.as_raw()),
        }
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        DataType::read(node, at).map(Self)
    }
}

/// A serializer of the datum of a value without its type.
struct Datum<'a>(&'a Value<'a>);

impl Serialize for Datum<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write_datum(serializer)
    }
}

/// Reads a value from the members `data` and `type`.
fn value<'v>(object: &mut Object<'_, '_>, at: &At<'_>) -> Result<Value<'v>, Fault> {
    let TypeName(data_type) = object.member("type")?;
    let data = match (object.take("data"), data_type) {
        (Some(node), _) => node,
        (None, DataType::UNDEF | DataType::POINTER) => Node::Null,
        (None, _) => return Err(object.missing("data")),
    };
    Value::read_datum(data_type, data, &at.member("data").of(data_type))
}

impl Form for Value<'_> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("VALUE", 2)?;
        object.serialize_field("data", &Datum(self))?;
        object.serialize_field("type", &As(&TypeName(self.data_type())))?;
        object.end()
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        let at = at.of(DataType::VALUE);
        let mut object = Object::new(node, &at, &["data", "type"])?;
        value(&mut object, &at)
    }
}

/// Implements `Form` for structures with a field `value`: the members are `data`, those listed, and
/// `type`.
macro_rules! valued {
    ($($name:ident as $data_type:ident { $($json:literal: $field:ident,)* })*) => {
        $(impl Form for crate::$name<'_> {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let len = ["data", "type", $($json),*].len();
                let mut object = serializer.serialize_struct(stringify!($data_type), len)?;
                object.serialize_field("data", &Datum(&self.value))?;
                $(object.serialize_field($json, &As(&self.$field))?;)*
                object.serialize_field("type", &As(&TypeName(self.value.data_type())))?;
                object.end()
            }

            fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
                let at = at.of(DataType::$data_type);
                let mut object = Object::new(node, &at, &["data", $($json,)* "type"])?;
                Ok(Self {
                    $($field: object.member($json)?,)*
                    value: value(&mut object, &at)?,
                })
            }
        })*
    };
}

valued! {
    Info as INFO { "flags": flags, "key": key, }
    Kval as KVAL { "key": key, }
    Pdata as PDATA { "key": key, "proc": proc, }
}

/// A serializer of the data of an array without their type.
pub(super) struct Data<'a>(pub(super) &'a DataArray<'a>);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write_data(serializer)
    }
}

impl Form for DataArray<'_> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let said = match self {
            Self::Untyped { len, .. } if *len > 0 => Some(len),
            _ => None,
        };
        let members = 2 + usize::from(said.is_some());
        let mut object = serializer.serialize_struct("DATA_ARRAY", members)?;
        object.serialize_field("array", &Data(self))?;
        if let Some(len) = said {
            object.serialize_field("len", len)?;
        }
        object.serialize_field("type", &As(&TypeName(self.data_type())))?;
        object.end()
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        let at = at.of(DataType::DATA_ARRAY);
        let mut object = Object::new(node, &at, &["array", "len", "type"])?;
        let TypeName(data_type) = object.member("type")?;
        let items = object
            .take("array")
            .ok_or_else(|| object.missing("array"))?;
        let said: Option<u64> = object.member("len")?;
        let array = Self::read_data(data_type, items, &at.member("array").of(data_type))?;
        match (array, said) {
            (array, None) => Ok(array),
            (Self::Untyped { data_type, len: 0 }, Some(len)) => {
                Ok(Self::Untyped { data_type, len })
            }
            _ => Err(at.fault("only an empty array of an unknown type has a `len`")),
        }
    }
}

/// Reads data of a type without a form: a list of nulls, which are counted.
pub(crate) fn untyped<'v>(
    data_type: DataType,
    node: &Node<'_>,
    at: &At<'_>,
) -> Result<DataArray<'v>, Fault> {
    let items = match node {
        Node::Null => &[][..],
        Node::List(items) => items,
        _ => return Err(at.expected("a list", node)),
    };
    if let Some((index, item)) = (items.iter().enumerate()).find(|(_, i)| !matches!(i, Node::Null))
    {
        return Err(at.item(index).expected("null", item));
    }
    let len = u64::try_from(items.len()).unwrap_or(u64::MAX);
    Ok(DataArray::Untyped { data_type, len })
}
