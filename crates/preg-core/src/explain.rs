// SPDX-License-Identifier: MIT OR Apache-2.0
//! The explanation of a value for users, field by field.
//!
//! Source: none outside; offsets are in bytes of the value.

use std::fmt;
use std::ops::Range;

use crate::Error;

/// A field of an encoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The bytes of the field in the value.
    pub range: Range<usize>,
    /// The name of the field in the grammar of its format, for example `width`.
    pub name: &'static str,
    /// The meaning of the bytes, as text.
    pub meaning: String,
}

/// The fields of a value. For a damaged value, the fields before the damage and the error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The fields, in the order of their bytes.
    pub fields: Vec<Field>,
    /// The error that ended decoding, if the value is damaged.
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

/// The form of a value, determined by its tag or type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueForm {
    /// The string form of a scheme.
    String {
        /// The name of the scheme.
        scheme: String,
    },
    /// The string form of a scheme that is disabled for parsing.
    Unread {
        /// The name of the scheme.
        scheme: String,
    },
    /// A plain list: it does not begin with the tag of a scheme.
    List,
    /// A regex2: a value with a type.
    Regex2 {
        /// The type of the regex2.
        kind: String,
        /// The name of the scheme that parses this type; `None` if there is none.
        scheme: Option<String>,
    },
}

impl fmt::Display for ValueForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String { scheme } => write!(f, "string form of scheme {scheme}"),
            Self::Unread { scheme } => {
                write!(
                    f,
                    "string form of scheme {scheme}, which is disabled for parsing"
                )
            }
            Self::List => f.write_str("plain list: it does not begin with the tag of a scheme"),
            Self::Regex2 {
                kind,
                scheme: Some(scheme),
            } => write!(f, "type {kind:?} of scheme {scheme}"),
            Self::Regex2 { kind, scheme: None } => {
                write!(f, "type {kind:?}, which no scheme parses")
            }
        }
    }
}
