// SPDX-License-Identifier: MIT OR Apache-2.0
//! The declaration of parameters.
//!
//! Source: none outside.

/// A parameter of a framework or component.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// The full MCA name, for example `pcompress_base_limit`.
    pub name: &'static str,
    /// The default as text. It also determines the kind of value, see [`Kind::of`].
    pub default: &'static str,
    /// The help, in one line, with unit and range.
    pub help: &'static str,
}

/// The kind of value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A truth value.
    Flag,
    /// A whole number.
    Number,
    /// Any text.
    Text,
}

impl Kind {
    /// Returns the kind of a parameter with this default.
    #[must_use]
    pub fn of(default: &str) -> Self {
        match default {
            "true" | "false" => Self::Flag,
            text if text.parse::<i64>().is_ok() => Self::Number,
            _ => Self::Text,
        }
    }

    /// Returns a description of the expected values, for messages.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Number => "a whole number",
            Self::Text => "text",
        }
    }
}

/// Parses 1, 0, true, false, yes, no, on, off.
pub(crate) fn parse_flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" | "t" | "y" => Some(true),
        "0" | "false" | "no" | "off" | "f" | "n" => Some(false),
        _ => None,
    }
}
