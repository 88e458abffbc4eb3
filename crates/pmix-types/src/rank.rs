// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process ranks.

use std::fmt;

/// The rank of a process within its nspace (`pmix_rank_t`, an unsigned 32-bit number).
///
/// The numbers above [`Rank::MAX_VALID`] are reserved by the Standard for special meanings
/// (undefined, wildcard, local node, ...) and never name one process of a map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(u32);

impl Rank {
    /// The highest number that can name a process (`PMIX_RANK_VALID`).
    pub const MAX_VALID: Self = Self(u32::MAX - 50);

    /// The rank is not known or does not matter (`PMIX_RANK_UNDEF`).
    pub const UNDEF: Self = Self(u32::MAX);

    /// Every process of the nspace (`PMIX_RANK_WILDCARD`).
    pub const WILDCARD: Self = Self(u32::MAX - 1);

    /// Every process of the node (`PMIX_RANK_LOCAL_NODE`).
    pub const LOCAL_NODE: Self = Self(u32::MAX - 2);

    /// No rank at all (`PMIX_RANK_INVALID`).
    pub const INVALID: Self = Self(u32::MAX - 3);

    /// Every process of the same nspace on the node (`PMIX_RANK_LOCAL_PEERS`).
    pub const LOCAL_PEERS: Self = Self(u32::MAX - 4);

    /// Wraps a raw number; special values are accepted too.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The raw number.
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        self.0
    }

    /// Whether the number can name one process.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 <= Self::MAX_VALID.0
    }
}

impl Default for Rank {
    /// The undefined rank, as the Standard's constructors leave it.
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({})", self.0)
    }
}
