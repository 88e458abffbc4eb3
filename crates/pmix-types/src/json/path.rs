// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths in a JSON text, and errors with these paths.

use std::fmt;

use crate::DataType;

/// A place in the JSON text: its path from the root, kept on the stack during reading.
#[derive(Clone, Copy)]
pub(crate) struct At<'p> {
    parent: Option<&'p Self>,
    step: Step<'p>,
    /// The type of the datum at this place, if it is known.
    data_type: Option<DataType>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root(&'p str),
    Item(usize),
    Member(&'p str),
}

impl<'p> At<'p> {
    /// Creates the root. Its name in errors is `name`. An empty name is omitted.
    pub(crate) const fn root(name: &'p str) -> Self {
        Self {
            parent: None,
            step: Step::Root(name),
            data_type: None,
        }
    }

    /// Returns the place of an element of the list at this place, with the element type of the
    /// list.
    pub(crate) const fn item(&'p self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Item(index),
            data_type: self.data_type,
        }
    }

    /// Returns the place of a member of the object at this place.
    pub(crate) const fn member(&'p self, name: &'p str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Member(name),
            data_type: None,
        }
    }

    /// Returns the same place with the type of the data that are expected there.
    pub(crate) const fn of(self, data_type: DataType) -> Self {
        Self {
            data_type: Some(data_type),
            ..self
        }
    }

    /// Creates an error at this place.
    pub(crate) fn fault(&self, what: impl fmt::Display) -> Fault {
        let path = self.to_string();
        let mark = if path.is_empty() { "" } else { ": " };
        Fault(format!("{path}{mark}{what}"))
    }

    /// Creates the error for a node other than the expected one.
    pub(crate) fn expected(&self, what: &str, found: impl fmt::Display) -> Fault {
        match self.data_type {
            Some(of) => self.fault(format_args!("expected {what} for {of}, found {found}")),
            None => self.fault(format_args!("expected {what}, found {found}")),
        }
    }

    /// Creates the error for an unknown member of an object.
    pub(crate) fn unknown_member(&self, name: &str, known: &[&str]) -> Fault {
        let known = known.join(", ");
        match self.data_type {
            Some(of) => self.fault(format_args!("{of} has no member {name:?}; it has {known}")),
            None => self.fault(format_args!(
                "unknown member {name:?}; the members are {known}"
            )),
        }
    }

    /// Creates the error for a number that its type cannot hold.
    pub(crate) fn misfit(&self, number: impl fmt::Display, range: impl fmt::Display) -> Fault {
        match self.data_type {
            Some(of) => self.fault(format_args!("{number} does not fit {of} ({range})")),
            None => self.fault(format_args!("{number} does not fit ({range})")),
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root(name) => f.write_str(name),
            Step::Item(index) => write!(f, "[{index}]"),
            Step::Member(name) if self.is_first() => f.write_str(name),
            Step::Member(name) => write!(f, ".{name}"),
        }
    }
}

impl At<'_> {
    /// Returns `true` if no text precedes this step.
    fn is_first(&self) -> bool {
        matches!(
            self.parent,
            Some(At {
                step: Step::Root(""),
                ..
            })
        )
    }
}

/// The error of a JSON text and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_prints_as_a_path() {
        let root = At::root("value");
        let item = root.item(2);
        assert_eq!(item.member("data").to_string(), "value[2].data");
        let bare = At::root("");
        assert_eq!(bare.item(0).member("proc").to_string(), "[0].proc");
        let member = bare.member("proc");
        assert_eq!(member.member("rank").to_string(), "proc.rank");
        assert_eq!(bare.fault("x").to_string(), "x");
    }
}
