// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value taken apart for a reader.
//!
//! Source: none outside; offsets are in bytes of the value.

use std::ops::Range;

use crate::Error;

/// Describes one field of an encoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The bytes of the value that the field covers.
    pub range: Range<usize>,
    /// The field's name in its format's grammar, for example `width`.
    pub name: &'static str,
    /// The meaning of its bytes, as text.
    pub meaning: String,
}

/// Lists all fields of a value in order, and the fault at which reading stopped, if it is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The fields, in the order of their bytes.
    pub fields: Vec<Field>,
    /// The fault at which reading stopped.
    pub fault: Option<Error>,
}

impl Explanation {
    /// Adds a field.
    pub fn field(&mut self, range: Range<usize>, name: &'static str, meaning: impl Into<String>) {
        self.fields.push(Field {
            range,
            name,
            meaning: meaning.into(),
        });
    }
}
