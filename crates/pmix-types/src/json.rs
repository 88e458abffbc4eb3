// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON form of the model (feature `serde`): printing and reading.
//!
//! Every structure implements serde's traits. A list of data of one type is printed through
//! [`List`] and read through [`ListOf`]. `docs/json.md` documents the forms, with an example of
//! each. Numbers are exact to 64 bits. Floating point numbers are strings with enough digits. Text
//! that is not UTF-8 and bytes are `{"hex": …}`. The members of an object are in alphabetical
//! order. Reading is strict: an unknown member is an error. Errors have the path: `value[2].data:
//! 300 does not fit PMIX_UINT8 (0 to 255)`. Nesting is bounded, and no memory is reserved for a
//! length that the text states.

mod form;
mod node;
mod number;
mod path;
mod structures;
mod text;
mod typed;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use crate::{DataArray, DataType};
use typed::Data;

pub(crate) use form::{As, Form};
pub(crate) use node::Node;
pub(crate) use path::{At, Fault};
pub(crate) use typed::untyped;

// The serde implementations of the JSON forms.
//
// Source: `docs/json.md`, which defines the JSON form.

/// A serializer of data of one type, as a list without the type. See [`ListOf`].
#[derive(Clone, Copy, Debug)]
pub struct List<'a>(pub &'a DataArray<'a>);

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Data(self.0).serialize(serializer)
    }
}

/// A deserializer of a list of data whose type is known, for example from a member `type` outside
/// of the list.
///
/// ```
/// use pmix_types::{DataArray, DataType, json::ListOf};
/// use serde::de::DeserializeSeed;
///
/// let read = |json| {
///     let mut json = serde_json::Deserializer::from_str(json);
///     ListOf::new(DataType::UINT8).deserialize(&mut json)
/// };
/// assert_eq!(read("[1, 2]").unwrap(), DataArray::Uint8(vec![1, 2]));
/// let error = read("[1, 300]").unwrap_err().to_string();
/// assert_eq!(error, "[1]: 300 does not fit PMIX_UINT8 (0 to 255)");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ListOf<'n> {
    data_type: DataType,
    name: &'n str,
}

impl<'n> ListOf<'n> {
    /// Creates a deserializer of data of a type.
    #[must_use]
    pub const fn new(data_type: DataType) -> Self {
        Self {
            data_type,
            name: "",
        }
    }

    /// Sets the name of the list, with which paths in errors begin, as in `value[2].data`.
    #[must_use]
    pub const fn named(self, name: &'n str) -> Self {
        Self { name, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for ListOf<'_> {
    type Value = DataArray<'static>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let node = Node::deserialize(deserializer)?;
        let at = At::root(self.name).of(self.data_type);
        DataArray::read_data(self.data_type, node, &at).map_err(D::Error::custom)
    }
}

macro_rules! forms {
    ($($type:ty),* $(,)?) => {
        $(impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.write(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let node = Node::deserialize(deserializer)?;
                Self::read(node, &At::root("")).map_err(D::Error::custom)
            }
        })*
    };
}

forms!(
    crate::App<'_>,
    crate::Coord,
    crate::Cpuset<'_>,
    crate::DataArray<'_>,
    crate::Device<'_>,
    crate::DeviceDistance<'_>,
    crate::DiskStats<'_>,
    crate::Endpoint<'_>,
    crate::Envar<'_>,
    crate::Geometry<'_>,
    crate::Info<'_>,
    crate::Key<'_>,
    crate::Kval<'_>,
    crate::NetStats<'_>,
    crate::NodePid<'_>,
    crate::NodeStats<'_>,
    crate::Nspace<'_>,
    crate::Pdata<'_>,
    crate::Proc<'_>,
    crate::ProcInfo<'_>,
    crate::ProcStats<'_>,
    crate::Query<'_>,
    crate::Rank,
    crate::Regattr<'_>,
    crate::RegexBytes<'_>,
    crate::ResourceUnit,
    crate::Status,
    crate::Text<'_>,
    crate::Timeval,
    crate::Topology<'_>,
    crate::Value<'_>,
    crate::WireRegex2<'_>,
);
