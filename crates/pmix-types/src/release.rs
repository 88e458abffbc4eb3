// SPDX-License-Identifier: MIT OR Apache-2.0
//! The releases of OpenPMIx whose headers the tables were read from.

use std::fmt;
use std::str::FromStr;

use crate::ParseNameError;

/// The version of the binary interface of the PMIx Standard, stable and provisional, that this project has.
pub const ABI_VERSION: &str = "5.0";

/// Names a release of OpenPMIx; older ones are less.
///
/// The last two are snapshots that both call themselves 7.0.0a1: the one the extension documents
/// describe, and a later one.
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
}

impl Release {
    /// Lists every release, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V4_2_2,
        Self::V5_0_11,
        Self::V6_1_0,
        Self::Seed,
        Self::Master,
    ];

    /// Returns the version as the tables spell it, for example `5.0.11`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4_2_2 => "4.2.2",
            Self::V5_0_11 => "5.0.11",
            Self::V6_1_0 => "6.1.0",
            Self::Seed => "seed",
            Self::Master => "master",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::V4_2_2 => 1,
            Self::V5_0_11 => 2,
            Self::V6_1_0 => 4,
            Self::Seed => 8,
            Self::Master => 16,
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

/// Holds a set of releases.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Releases(u8);

impl Releases {
    /// One bit for each release, the oldest lowest; for the generated tables.
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns whether a release is in the set.
    #[must_use]
    pub const fn contains(self, release: Release) -> bool {
        self.0 & release.bit() != 0
    }

    /// Returns the releases of the set, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Release> {
        Release::ALL.into_iter().filter(move |r| self.contains(*r))
    }

    /// Returns the oldest release of the set: the one that introduced a name, as far as the tables
    /// reach back.
    #[must_use]
    pub fn since(self) -> Option<Release> {
        self.iter().next()
    }

    /// Returns the newest release of the set: the last one that had a name. A set with the newest
    /// release of all has none.
    #[must_use]
    pub fn until(self) -> Option<Release> {
        self.iter().last().filter(|last| *last != Release::Master)
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
    fn a_set_knows_its_ends() {
        let all = Releases::from_bits(0b11111);
        assert_eq!(all.since(), Some(Release::V4_2_2));
        assert_eq!(all.until(), None);
        let dropped = Releases::from_bits(0b00011);
        assert_eq!(dropped.until(), Some(Release::V5_0_11));
        assert!(!dropped.contains(Release::V6_1_0));
        assert_eq!(Releases::from_bits(0).since(), None);
    }

    #[test]
    fn names_of_releases_parse() {
        for release in Release::ALL {
            assert_eq!(release.as_str().parse(), Ok(release));
        }
        assert!("4.2".parse::<Release>().is_err());
    }
}
