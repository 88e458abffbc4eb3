// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a value says yes or no.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `PMIX_INFO_TRUE`; OpenPMIx,
//! `PMIx_Value_true`.

use std::fmt;

use crate::{Info, Text, Value};

/// Says whether a value means true, means false or is no truth value (`pmix_boolean_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// Yes (`PMIX_BOOL_TRUE`).
    True,
    /// No (`PMIX_BOOL_FALSE`).
    False,
    /// The value is neither (`PMIX_NON_BOOL`).
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

    /// Returns whether it means true (`PMIX_CHECK_TRUE`).
    #[must_use]
    pub const fn is_true(self) -> bool {
        matches!(self, Self::True)
    }

    /// Returns whether it means true or false (`PMIX_CHECK_BOOL`).
    #[must_use]
    pub const fn is_bool(self) -> bool {
        !matches!(self, Self::NonBool)
    }

    /// Returns the truth value, if it is one.
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
    /// Returns what the value means as a truth value (`PMIx_Value_true`).
    ///
    /// - No type at all is yes: that the key is there says so.
    /// - A truth value says what it is. Numbers are neither.
    /// - A string may have blanks in front. Empty or null it is yes. If it begins with a digit it
    ///   is a number, and no only if that is zero. Else case does not count: `y`, `t`, and what
    ///   begins with `yes`, `true` or `enable` is yes; `n`, `f`, and what begins with `no`,
    ///   `false` or `disable` is no; all else is neither.
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
    /// Returns what the info means as a truth value (`PMIx_Info_true`), see [`Value::truth`].
    #[must_use]
    pub fn truth(&self) -> Truth {
        self.value.truth()
    }
}

/// A blank in C's own locale.
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
        // DEVIATION: a number that is a multiple of 2^32 is yes, as every number but zero; the
        // real one keeps the low 32 bits of it and says no; a_number_beyond_32_bits_is_yes
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
