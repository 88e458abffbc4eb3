// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process ranks.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_rank_t`: valid ranks are 0 to
//! 4,294,967,245 (`PMIX_RANK_VALID`).

use std::fmt;
use std::str::FromStr;

use crate::ParseNameError;
use crate::number::open_number;
use crate::tables::enums::RANK;

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

    /// Wraps a raw number; special values are accepted as well.
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
