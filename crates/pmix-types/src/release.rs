// SPDX-License-Identifier: MIT OR Apache-2.0
//! The releases of OpenPMIx whose headers are the source of the tables.

use std::fmt;
use std::str::FromStr;

use crate::ParseNameError;

/// The version of the binary interface of the PMIx Standard, stable and provisional, that this
/// project implements.
pub const ABI_VERSION: &str = "5.0";

/// A release of OpenPMIx. An older release is less than a newer one.
///
/// [`Seed`](Self::Seed) and [`Master`](Self::Master) are snapshots that both have the version
/// 7.0.0a1: the snapshot that the extension documents describe, and a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Release {
    /// 4.2.2.
    V4_2_2,
    /// 5.0.11.
    V5_0_11,
    /// 6.1.0.
    V6_1_0,
    /// 7.0.0a1, the snapshot that the extension documents describe.
    Seed,
    /// 7.0.0a1, a later snapshot.
    Master,
    /// 7.0.0rc1.
    V7_0_0Rc1,
}

impl Release {
    /// All releases, oldest first.
    pub const ALL: [Self; 6] = [
        Self::V4_2_2,
        Self::V5_0_11,
        Self::V6_1_0,
        Self::Seed,
        Self::Master,
        Self::V7_0_0Rc1,
    ];

    /// Returns the version as the tables write it, for example `5.0.11`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4_2_2 => "4.2.2",
            Self::V5_0_11 => "5.0.11",
            Self::V6_1_0 => "6.1.0",
            Self::Seed => "seed",
            Self::Master => "master",
            Self::V7_0_0Rc1 => "7.0.0rc1",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::V4_2_2 => 1,
            Self::V5_0_11 => 2,
            Self::V6_1_0 => 4,
            Self::Seed => 8,
            Self::Master => 16,
            Self::V7_0_0Rc1 => 32,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Release {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|r| r.as_str() == text);
        found.ok_or_else(|| ParseNameError::new("release", text))
    }
}

/// A set of releases.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Releases(u8);

impl Releases {
    /// Creates a set for the generated tables from one bit for each release, the oldest in the
    /// lowest bit.
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns `true` if a release is in the set.
    #[must_use]
    pub const fn contains(self, release: Release) -> bool {
        self.0 & release.bit() != 0
    }

    /// Returns the releases of the set, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Release> {
        Release::ALL.into_iter().filter(move |r| self.contains(*r))
    }

    /// Returns the oldest release of the set. It introduced the name, unless this is the oldest
    /// release in the tables.
    #[must_use]
    pub fn since(self) -> Option<Release> {
        self.iter().next()
    }

    /// Returns the newest release of the set, which is the last one with the name. Returns `None`
    /// if the set contains the newest release in the tables.
    #[must_use]
    pub fn until(self) -> Option<Release> {
        self.iter()
            .last()
            .filter(|last| Release::ALL.last() != Some(last))
    }
}

impl fmt::Debug for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_and_until_are_the_ends_of_a_set() {
        let all = Releases::from_bits(0b111111);
        assert_eq!(all.since(), Some(Release::V4_2_2));
        assert_eq!(all.until(), None);
        let dropped = Releases::from_bits(0b00011);
        assert_eq!(dropped.until(), Some(Release::V5_0_11));
        assert!(!dropped.contains(Release::V6_1_0));
        assert_eq!(Releases::from_bits(0).since(), None);
    }

    #[test]
    fn parses_names_of_releases() {
        for release in Release::ALL {
            assert_eq!(release.as_str().parse(), Ok(release));
        }
        assert!("4.2".parse::<Release>().is_err());
    }
}
