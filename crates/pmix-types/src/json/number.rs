// SPDX-License-Identifier: MIT OR Apache-2.0
//! Truth values and numbers.

use serde::ser::{Serialize, Serializer};

use super::form::Form;
use super::node::Node;
use super::path::{At, Fault};

impl Form for bool {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*self)
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        match node {
            Node::Bool(flag) => Ok(flag),
            _ => Err(at.expected("true or false", node)),
        }
    }
}

macro_rules! whole {
    ($($int:ty),*) => {
        $(impl Form for $int {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Serialize::serialize(self, serializer)
            }

            fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
                let number = node.whole(at)?;
                Self::try_from(number).map_err(|_| {
                    at.misfit(number, format_args!("{} to {}", Self::MIN, Self::MAX))
                })
            }
        })*
    };
}

whole!(u8, u16, u32, u64, i8, i16, i32, i64);

/// Implements `Form` for open numbers: they print as numbers and are also read from their names. A
/// number with `or` may be omitted and has that default.
macro_rules! named {
    ($($name:ident $(or $absent:expr)?),* $(,)?) => {
        $(impl Form for crate::$name {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Serialize::serialize(&self.as_raw(), serializer)
            }

            fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
                match &node {
                    Node::Text(name) => name.parse().map_err(|e| at.fault(e)),
                    _ => Form::read(node, at).map(Self::from_raw),
                }
            }

            $(fn absent() -> Option<Self> {
                Some($absent)
            })?
        })*
    };
}

named!(
    AllocDirective,
    AllocInheritance,
    Command,
    CoordView,
    DataRange,
    DataType,
    DeviceType,
    InfoFlags or Self::default(),
    IofChannel,
    JobState,
    LinkState,
    Locality,
    Persistence,
    ProcState,
    Rank,
    ResourceBlockDirective,
    Scope,
    Status,
    StorageAccessType,
    StorageAccessibility,
    StorageMedium,
    StoragePersistence,
);
