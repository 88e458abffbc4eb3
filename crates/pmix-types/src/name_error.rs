// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error for a text that is not a name.
//!
//! Source: this project; `FromStr` of the types of this crate returns it.

use std::fmt;

/// The error for a text that is neither a known name nor a number of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseNameError {
    kind: &'static str,
    text: String,
}

impl ParseNameError {
    /// Creates an error for `text`, which is not a valid `kind`. A long text is truncated.
    pub(crate) fn new(kind: &'static str, text: &str) -> Self {
        let text = text.chars().take(64).collect();
        Self { kind, text }
    }
}

impl fmt::Display for ParseNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, text } = self;
        write!(f, "{text:?} is neither a name nor a number of a {kind}")
    }
}

impl std::error::Error for ParseNameError {}
