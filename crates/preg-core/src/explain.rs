// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value taken apart for a reader.
//!
//! Source: none outside; offsets are in bytes of the value.

use std::fmt;
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

/// Says what a value is taken for, by its tag or its type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueForm {
    /// The string form of a scheme.
    String {
        /// The name of the scheme.
        scheme: String,
    },
    /// The string form of a scheme that may not read values here.
    Unread {
        /// The name of the scheme.
        scheme: String,
    },
    /// A list as it is: no scheme's tag stands in front.
    List,
    /// A value that names its type, and the scheme of that type.
    Regex2 {
        /// The type.
        kind: String,
        /// The name of the scheme; `None` if no scheme reads this type.
        scheme: Option<String>,
    },
}

impl fmt::Display for ValueForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String { scheme } => write!(f, "string form of scheme {scheme}"),
            Self::Unread { scheme } => {
                write!(f, "string form of scheme {scheme}, which may not read here")
            }
            Self::List => f.write_str("plain list: no scheme's tag stands in front"),
            Self::Regex2 {
                kind,
                scheme: Some(scheme),
            } => write!(f, "type {kind:?} of scheme {scheme}"),
            Self::Regex2 { kind, scheme: None } => {
                write!(f, "type {kind:?}, which no scheme reads")
            }
        }
    }
}
