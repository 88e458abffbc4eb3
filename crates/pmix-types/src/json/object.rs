// SPDX-License-Identifier: MIT OR Apache-2.0
//! The members of an object during reading.

use std::borrow::Cow;

use super::form::Form;
use super::node::Node;
use super::path::{At, Fault};

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
