// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interpretation of values as booleans.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `PMIX_INFO_TRUE`; OpenPMIx,
//! `PMIx_Value_true`.

use std::fmt;

use crate::{Info, Text, Value};

/// The truth of a value: true, false or not a boolean (`pmix_boolean_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// True (`PMIX_BOOL_TRUE`).
    True,
    /// False (`PMIX_BOOL_FALSE`).
    False,
    /// Neither (`PMIX_NON_BOOL`).
    NonBool,
}

impl Truth {
    /// Returns the number in C.
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        match self {
            Self::True => 0,
            Self::False => 1,
            Self::NonBool => 2,
        }
    }

    /// Returns the truth with a number of C.
    #[must_use]
    pub const fn from_raw(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::True),
            1 => Some(Self::False),
            2 => Some(Self::NonBool),
            _ => None,
        }
    }

    /// Returns `true` if it is true (`PMIX_CHECK_TRUE`).
    #[must_use]
    pub const fn is_true(self) -> bool {
        matches!(self, Self::True)
    }

    /// Returns `true` if it is true or false (`PMIX_CHECK_BOOL`).
    #[must_use]
    pub const fn is_bool(self) -> bool {
        !matches!(self, Self::NonBool)
    }

    /// Returns the truth value as a `bool`, if it is one.
    #[must_use]
    pub const fn as_bool(self) -> Option<bool> {
        match self {
            Self::True => Some(true),
            Self::False => Some(false),
            Self::NonBool => None,
        }
    }
}

impl From<bool> for Truth {
    fn from(flag: bool) -> Self {
        if flag { Self::True } else { Self::False }
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::True => "PMIX_BOOL_TRUE",
            Self::False => "PMIX_BOOL_FALSE",
            Self::NonBool => "PMIX_NON_BOOL",
        })
    }
}

impl Value<'_> {
    /// Returns the meaning of the value as a truth value (`PMIx_Value_true`).
    ///
    /// - A value without a type is true, because its key is present.
    /// - A truth value is itself. Numbers are neither true nor false.
    /// - Leading blanks of a string are ignored. An empty or null string is true. A string that
    ///   begins with a digit is a number, and false only if it is zero. Otherwise case is ignored:
    ///   `y`, `t`, and texts that begin with `yes`, `true` or `enable` are true; `n`, `f`, and
    ///   texts that begin with `no`, `false` or `disable` are false; all others are neither.
    #[must_use]
    pub fn truth(&self) -> Truth {
        match self {
            Self::Undef | Self::String(None) => Truth::True,
            Self::Bool(flag) => (*flag).into(),
            Self::String(Some(text)) => truth_of_text(text),
            _ => Truth::NonBool,
        }
    }
}

impl Info<'_> {
    /// Returns the meaning of the info as a truth value (`PMIx_Info_true`), see [`Value::truth`].
    #[must_use]
    pub fn truth(&self) -> Truth {
        self.value.truth()
    }
}

/// Returns `true` for a blank of the C locale.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn truth_of_text(text: &Text<'_>) -> Truth {
    let text = text.as_bytes();
    let start = text.iter().position(|byte| !is_blank(*byte));
    let text = start
        .and_then(|start| text.get(start..))
        .unwrap_or_default();
    let Some(first) = text.first() else {
        return Truth::True;
    };
    if first.is_ascii_digit() {
        // DEVIATION: a multiple of 2^32 is true, as every number except zero; OpenPMIx keeps the
        // low 32 bits and returns false; a_number_beyond_32_bits_is_yes
        let mut digits = text.iter().take_while(|byte| byte.is_ascii_digit());
        return digits.any(|digit| *digit != b'0').into();
    }
    let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
    let begins = |word: &str| {
        let start = text.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    if is("y") || is("t") || ["yes", "true", "enable"].into_iter().any(begins) {
        Truth::True
    } else if is("n") || is("f") || ["no", "false", "disable"].into_iter().any(begins) {
        Truth::False
    } else {
        Truth::NonBool
    }
}
