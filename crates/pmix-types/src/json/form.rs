// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON form of a type, both ways.

use serde::ser::{Serialize, Serializer};

use super::node::Node;
use super::path::{At, Fault};

/// A type with a JSON form.
///
/// It is a trait of its own beside serde's, because much of the model is made of foreign types
/// whose form in serde is another one: bytes, options, vectors, floating point numbers.
pub(crate) trait Form: Sized {
    /// Whether a list of none of these prints as `null`, as the C form of it is a null pointer.
    const NONE_IS_NULL: bool = false;

    /// Prints the datum.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads a datum.
    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault>;

    /// What a member that is left out stands for, if it may be.
    fn absent() -> Option<Self> {
        None
    }
}

/// Prints what it refers to in its JSON form.
pub(crate) struct As<'a, T>(pub(crate) &'a T);

impl<T: Form> Serialize for As<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

/// Nothing of a pointer is kept: it prints as null and reads from anything.
impl Form for () {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }

    fn read(_: Node<'_>, _: &At<'_>) -> Result<Self, Fault> {
        Ok(())
    }
}

impl<T: Form> Form for Option<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(datum) => datum.write(serializer),
            None => serializer.serialize_unit(),
        }
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        match node {
            Node::Null => Ok(None),
            _ => T::read(node, at).map(Some),
        }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Form> Form for Box<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        T::write(self, serializer)
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        T::read(node, at).map(Self::new)
    }
}

impl<T: Form> Form for Vec<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if T::NONE_IS_NULL && self.is_empty() {
            return serializer.serialize_unit();
        }
        serializer.collect_seq(self.iter().map(As))
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        match node {
            Node::Null => Ok(Self::new()),
            Node::List(items) => {
                let items = items.into_iter().enumerate();
                items
                    .map(|(index, item)| T::read(item, &at.item(index)))
                    .collect()
            }
            _ => Err(at.expected("a list", node)),
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}
