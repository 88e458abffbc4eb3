// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open numbers: newtypes over an integer whose known values have names.
//!
//! A number without a name is as valid as a named one. It prints as `PMIX_PROC_STATE(77)` and is
//! parsed from that text, so numbers of a newer peer are not lost.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types"; the rule that unknown numbers
//! survive is this project's own.

/// Splits a decimal or `0x` number into sign, radix and digits.
pub(crate) fn digits(text: &str) -> Option<(bool, u32, &str)> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (radix, text) = match text.strip_prefix("0x") {
        Some(rest) => (16, rest),
        None => (10, text),
    };
    // The parsers of the standard library would accept a second sign.
    let plain = text.chars().all(|c| c.is_digit(radix)) && !text.is_empty();
    plain.then_some((negative, radix, text))
}

/// Defines an open number: the newtype, its lookups, `Display`, `Debug` and `FromStr`.
///
/// `"PROC_STATE"` is the word with which unnamed numbers print, and the table has the named ones.
/// The form with `bits` prints and parses unions such as `PMIX_INFO_REQD|PMIX_INFO_QUALIFIER`.
macro_rules! open_number {
    ($(#[$doc:meta])* pub struct $name:ident($int:ty) = $kind:literal in $table:path;) => {
        open_number!(@type $(#[$doc])* #[derive(Default)] $name $int, $kind, $table);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "PMIX_{name}"),
                    None => write!(f, concat!("PMIX_", $kind, "({})"), self.0),
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ParseNameError;

            /// Parses a name with or without `PMIX_`, a number, or the printed form of an unnamed
            /// number.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::read(text).ok_or_else(|| Self::Err::new(concat!("PMIX_", $kind), text))
            }
        }
    };
    ($(#[$doc:meta])* pub struct $name:ident(bits $int:ty) = $kind:literal in $table:path;) => {
        open_number!(@type $(#[$doc])* #[derive(Default)] $name $int, $kind, $table);

        impl $name {
            /// Returns `true` if every bit of `other` is set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns the union of the two sets.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Returns the bits of this set that `other` does not have.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Returns `true` if no bit is set.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl std::fmt::Display for $name {
            /// Prints the name, or the names of the bits joined by `|`. Unnamed bits are last, in
            /// hexadecimal.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if let Some(name) = self.name() {
                    return write!(f, "PMIX_{name}");
                }
                let mut rest = self.0;
                let named = |bit: &$int| self.0 & bit != 0 && Self(*bit).name().is_some();
                for bit in (0..<$int>::BITS).map(|place| 1 << place).filter(named) {
                    let mark = if rest == self.0 { "" } else { "|" };
                    write!(f, "{mark}PMIX_{}", Self(bit).name().unwrap_or_default())?;
                    rest &= !bit;
                }
                match rest {
                    0 if self.0 != 0 => Ok(()),
                    _ if rest == self.0 => write!(f, concat!("PMIX_", $kind, "({:#x})"), rest),
                    _ => write!(f, "|{rest:#x}"),
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ParseNameError;

            /// Parses names with or without `PMIX_`, and numbers, joined by `|`.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let parts = text.split('|').map(|part| Self::read(part.trim()));
                let bits = parts.reduce(|a, b| Some(a?.union(b?))).flatten();
                bits.ok_or_else(|| Self::Err::new(concat!("PMIX_", $kind), text))
            }
        }
    };
    (@type $(#[$doc:meta])* $name:ident $int:ty, $kind:literal, $table:path) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name($int);

        impl $name {
            /// Wraps a raw number. Every number is accepted.
            #[must_use]
            pub const fn from_raw(number: $int) -> Self {
                Self(number)
            }

            /// Returns the raw number.
            #[must_use]
            pub const fn as_raw(self) -> $int {
                self.0
            }

            /// Returns the name of this number in the headers, without the prefix `PMIX_`.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.constant() {
                    Some(row) => Some(row.name()),
                    None => None,
                }
            }

            /// Returns the description of the canonical name of this number, if it has one.
            #[must_use]
            pub const fn constant(self) -> Option<&'static $crate::Constant<$int>> {
                let rows = $table.rows;
                let (mut low, mut high) = (0, rows.len());
                while low < high {
                    let middle = low + (high - low) / 2;
                    if rows[middle].number < self.0 {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                if low < rows.len() && rows[low].number == self.0 {
                    Some(&rows[low])
                } else {
                    None
                }
            }

            /// Returns the number with a name, with or without `PMIX_`, in upper or lower case.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::constant_of(name).map(|row| Self(row.number))
            }

            /// Returns the description of a name, with or without `PMIX_`, in upper or lower case.
            #[must_use]
            pub fn constant_of(name: &str) -> Option<&'static $crate::Constant<$int>> {
                $table.find(name)
            }

            /// Returns every named number, sorted by number; see [`crate::Constant`].
            #[must_use]
            pub fn all() -> &'static [$crate::Constant<$int>] {
                $table.rows
            }

            /// Returns every name of this number, the canonical one first.
            #[must_use]
            pub fn names(self) -> &'static [$crate::Constant<$int>] {
                $table.of(self.0)
            }

            /// Parses a name, a number or the printed form of an unnamed number.
            fn read(text: &str) -> Option<Self> {
                let inner = text.strip_prefix(concat!("PMIX_", $kind, "("));
                let text = inner.and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
                let Some((negative, radix, digits)) = $crate::number::digits(text) else {
                    return Self::from_name(text);
                };
                let sign = if negative { "-" } else { "" };
                <$int>::from_str_radix(&format!("{sign}{digits}"), radix).ok().map(Self)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

pub(crate) use open_number;
