// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a parameter before anybody sets it.
//!
//! Source: none outside.

/// Describes one parameter that a framework or component understands.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// The full MCA name, for example `pcompress_base_limit`.
    pub name: &'static str,
    /// The built-in value as text; it also tells the kind of value, see [`Kind::of`].
    pub default: &'static str,
    /// The help, in one line, with unit and range.
    pub help: &'static str,
}

/// Names the kind of value that a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A truth value.
    Flag,
    /// A whole number.
    Number,
    /// Anything.
    Text,
}

impl Kind {
    /// Returns the kind of a parameter with this built-in value.
    #[must_use]
    pub fn of(default: &str) -> Self {
        match default {
            "true" | "false" => Self::Flag,
            text if text.parse::<i64>().is_ok() => Self::Number,
            _ => Self::Text,
        }
    }

    /// What to write, for messages.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Number => "a whole number",
            Self::Text => "text",
        }
    }
}

/// Reads 1, 0, true, false, yes, no, on, off.
pub(crate) fn parse_flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" | "t" | "y" => Some(true),
        "0" | "false" | "no" | "off" | "f" | "n" => Some(false),
        _ => None,
    }
}
