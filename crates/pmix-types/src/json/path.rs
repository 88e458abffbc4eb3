// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where in a JSON text something stands, and what is wrong there.

use std::fmt;

use crate::DataType;

/// A place: the way to it from the root, kept on the stack while the text is read.
#[derive(Clone, Copy)]
pub(crate) struct At<'p> {
    parent: Option<&'p Self>,
    step: Step<'p>,
    /// The type of the datum that stands here, where one is known.
    data_type: Option<DataType>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root(&'p str),
    Item(usize),
    Member(&'p str),
}

impl<'p> At<'p> {
    /// The root, which errors call `name`; an empty name is left out.
    pub(crate) const fn root(name: &'p str) -> Self {
        Self {
            parent: None,
            step: Step::Root(name),
            data_type: None,
        }
    }

    /// An item of the list that stands here; it has the type that the list is said to be of.
    pub(crate) const fn item(&'p self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Item(index),
            data_type: self.data_type,
        }
    }

    /// A member of the object that stands here.
    pub(crate) const fn member(&'p self, name: &'p str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Member(name),
            data_type: None,
        }
    }

    /// The same place, where a datum or data of a type are expected.
    pub(crate) const fn of(self, data_type: DataType) -> Self {
        Self {
            data_type: Some(data_type),
            ..self
        }
    }

    /// A fault at this place.
    pub(crate) fn fault(&self, what: impl fmt::Display) -> Fault {
        let path = self.to_string();
        let mark = if path.is_empty() { "" } else { ": " };
        Fault(format!("{path}{mark}{what}"))
    }

    /// A fault: something else stands here than was expected.
    pub(crate) fn expected(&self, what: &str, found: impl fmt::Display) -> Fault {
        match self.data_type {
            Some(of) => self.fault(format_args!("expected {what} for {of}, found {found}")),
            None => self.fault(format_args!("expected {what}, found {found}")),
        }
    }

    /// A fault: an object has a member that is not among the known ones.
    pub(crate) fn unknown_member(&self, name: &str, known: &[&str]) -> Fault {
        let known = known.join(", ");
        match self.data_type {
            Some(of) => self.fault(format_args!("{of} has no member {name:?}; it has {known}")),
            None => self.fault(format_args!(
                "no member {name:?} is known; these are: {known}"
            )),
        }
    }

    /// A fault: a number is outside of its type.
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
    /// Whether nothing is printed in front of this step.
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

/// What is wrong with a JSON text, and where.
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
    fn a_place_prints_as_people_would_write_it() {
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
