// SPDX-License-Identifier: MIT OR Apache-2.0
//! Status codes and ranks: open newtypes over the numbers in messages.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_status_t`: 0 is success,
//! errors are negative.

use std::fmt;
use std::str::FromStr;

use crate::ParseNameError;
use crate::number::open_number;
use crate::tables::enums::RANK;
use crate::tables::status::{STATUS, TEXTS};

open_number! {
    @type
    /// A PMIx status code (`pmix_status_t`, a signed 32-bit number; zero is success).
    ///
    /// Every number is a valid status, named or not. A few names are internal and never sent in
    /// messages, such as [`Status::ERR_TAKE_NEXT_OPTION`].
    #[derive(Default)]
    Status i32, "STATUS", STATUS
}

impl Status {
    /// Returns the meaning of the status as a lower-case fragment.
    #[must_use]
    pub fn text(self) -> &'static str {
        let found = TEXTS.binary_search_by_key(&self.0, |(number, _)| *number);
        let row = found.ok().and_then(|place| TEXTS.get(place));
        row.map_or("unknown status", |(_, text)| text)
    }

    /// Returns `true` if this is [`Status::SUCCESS`].
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Returns the number for a full name, including the prefix, in upper or lower case, as
    /// `PMIx_Error_code` does. Returns [`i32::MIN`] for an unknown name.
    #[must_use]
    pub fn from_error_name(name: &str) -> Self {
        let whole = crate::table::without_prefix(name).len() < name.len();
        let found = whole.then(|| Self::from_name(name)).flatten();
        found.unwrap_or(Self(i32::MIN))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "PMIX_{name} ({})", self.0),
            None => write!(f, "PMIX_STATUS({})", self.0),
        }
    }
}

impl FromStr for Status {
    type Err = ParseNameError;

    /// Parses a name with or without `PMIX_`, a number, or the output of `Display`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = || {
            let (name, number) = text.strip_suffix(')')?.split_once(" (")?;
            let named = Self::from_name(name)?;
            (number.parse() == Ok(named.0)).then_some(named)
        };
        let read = Self::read(text).or_else(shown);
        read.ok_or_else(|| ParseNameError::new("PMIX_STATUS", text))
    }
}

impl ParseNameError {
    /// Returns the status of the error: [`Status::ERR_BAD_PARAM`].
    #[must_use]
    pub const fn status(&self) -> Status {
        Status::ERR_BAD_PARAM
    }
}

// Process ranks.
//
// Source: PMIx Standard, chapter "Data Structures and Types", `pmix_rank_t`: valid ranks are 0 to
// 4,294,967,245 (`PMIX_RANK_VALID`).

open_number! {
    @type
    /// The number of a process within its nspace (`pmix_rank_t`, an unsigned 32-bit number).
    ///
    /// The Standard reserves the numbers above [`Rank::MAX_VALID`] for special meanings (undefined,
    /// wildcard, local node, ...). They never name one process of a map.
    Rank u32, "RANK", RANK
}

impl Rank {
    /// The highest number that names one process (`PMIX_RANK_VALID`).
    pub const MAX_VALID: Self = Self::VALID;

    /// Wraps a raw number. Special values are accepted as well.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns `true` if the number can name one process.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 <= Self::MAX_VALID.0
    }
}

impl Default for Rank {
    /// Returns the undefined rank, as the Standard's constructors set it.
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Rank {
    type Err = ParseNameError;

    /// Parses a number, or the name of a special rank with or without `PMIX_RANK_`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let short = || Self::from_name(&format!("RANK_{text}"));
        let read = Self::read(text).or_else(short);
        read.ok_or_else(|| ParseNameError::new("PMIX_RANK", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_numbers_survive() {
        assert_eq!(Status::from_raw(i32::MIN).as_raw(), i32::MIN);
        assert_eq!(Status::from_raw(-99_999).name(), None);
    }

    #[test]
    fn parses_its_printed_form() {
        for number in (-3001..10).chain([i32::MIN, i32::MAX]) {
            let status = Status::from_raw(number);
            assert_eq!(status.to_string().parse(), Ok(status));
        }
        assert!("PMIX_ERR_BAD_PARAM (-28)".parse::<Status>().is_err());
    }

    #[test]
    fn an_unknown_name_gives_the_lowest_number() {
        assert_eq!(Status::from_error_name("PMIX_NOT_THERE").as_raw(), i32::MIN);
        assert_eq!(Status::from_error_name("ERR_BAD_PARAM").as_raw(), i32::MIN);
        assert_eq!(
            Status::from_error_name("pmix_err_bad_param"),
            Status::ERR_BAD_PARAM
        );
    }

    #[test]
    fn parses_names_of_special_ranks() {
        for text in [
            "PMIX_RANK_WILDCARD",
            "RANK_WILDCARD",
            "wildcard",
            "4294967294",
        ] {
            assert_eq!(text.parse(), Ok(Rank::WILDCARD), "{text}");
        }
        assert_eq!(Rank::UNDEF.name(), Some("RANK_UNDEF"));
        assert_eq!(Rank::new(0).name(), None);
        assert!("-1".parse::<Rank>().is_err());
        assert!("4294967296".parse::<Rank>().is_err());
    }
}
