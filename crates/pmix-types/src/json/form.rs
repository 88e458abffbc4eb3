// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trait of types with a JSON form, and the parser of objects.

use std::borrow::Cow;

use serde::ser::{Serialize, Serializer};

use super::node::Node;
use super::path::{At, Fault};

/// A type with a JSON form.
///
/// This project has its own trait because serde's traits already define other forms for types of
/// the standard library: bytes, options, vectors, floating point numbers.
pub(crate) trait Form: Sized {
    /// `true` if an empty list of this type prints as `null`, because its C form is a null pointer.
    const NONE_IS_NULL: bool = false;

    /// Prints the datum.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads a datum.
    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault>;

    /// Returns the value of an omitted member, if the member may be omitted.
    fn absent() -> Option<Self> {
        None
    }
}

/// A wrapper that prints a datum in its JSON form.
pub(crate) struct As<'a, T>(pub(crate) &'a T);

impl<T: Form> Serialize for As<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

/// A pointer has no content: it prints as `null`, and any JSON is read as a pointer.
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

/// An object in which every member has a known name and occurs at most once.
pub(crate) struct Object<'de, 'p> {
    members: Vec<(Cow<'de, str>, Node<'de>)>,
    at: At<'p>,
}

impl<'de, 'p> Object<'de, 'p> {
    /// Takes an object whose members may be those in `names`.
    pub(crate) fn new(node: Node<'de>, at: &At<'p>, names: &[&str]) -> Result<Self, Fault> {
        let Node::Object(members) = node else {
            let wanted = format!("an object with {}", names.join(", "));
            return Err(at.expected(&wanted, node));
        };
        for (place, (name, _)) in members.iter().enumerate() {
            if !names.contains(&name.as_ref()) {
                let name: String = name.chars().take(40).collect();
                return Err(at.unknown_member(&name, names));
            }
            if members.iter().take(place).any(|(other, _)| other == name) {
                return Err(at.fault(format_args!("the member {name} occurs twice")));
            }
        }
        Ok(Self { members, at: *at })
    }

    /// Removes and returns a member, if it is present.
    pub(crate) fn take(&mut self, name: &str) -> Option<Node<'de>> {
        let place = self.members.iter().position(|(other, _)| other == name)?;
        Some(self.members.swap_remove(place).1)
    }

    /// Returns `true` if all members have been taken.
    pub(crate) const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Takes and reads a member.
    pub(crate) fn member<T: Form>(&mut self, name: &str) -> Result<T, Fault> {
        match self.take(name) {
            Some(node) => T::read(node, &self.at.member(name)),
            None => T::absent().ok_or_else(|| self.missing(name)),
        }
    }

    /// Creates the error for a missing member.
    pub(crate) fn missing(&self, name: &str) -> Fault {
        self.at.fault(format_args!("the member {name} is missing"))
    }
}
