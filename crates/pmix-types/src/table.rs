// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of named numbers: what the generated files hold and how it is looked up.
//!
//! Source: the tables of `data`, each of which names what it was read from.

use std::cmp::Ordering;

use crate::{Release, Releases};

/// Says whether the PMIx Standard has a name, and whether it is deprecated there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Standing {
    /// Part of the Standard.
    Stable,
    /// Part of the Standard, but not yet for good.
    Provisional,
    /// Kept by the Standard for old programs alone.
    Deprecated,
    /// Taken out of the Standard.
    Removed,
    /// Not in the Standard: an extension of OpenPMIx.
    Extension,
}

impl Standing {
    /// Returns the standing as a word in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Provisional => "provisional",
            Self::Deprecated => "deprecated",
            Self::Removed => "removed",
            Self::Extension => "extension",
        }
    }
}

/// Describes one named number of the PMIx headers.
///
/// Several names may share a number; the first in its table is the canonical one, which printing
/// uses. It is never a deprecated one unless all of them are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant<N: 'static> {
    pub(crate) full_name: &'static str,
    pub(crate) number: N,
    pub(crate) releases: Releases,
    pub(crate) is_deprecated: bool,
    pub(crate) standing: Standing,
    /// The numbers that some releases have instead.
    pub(crate) elsewhere: &'static [(Release, N)],
}

/// For the generated tables.
impl<N: Copy> Constant<N> {
    pub(crate) const fn new(
        full_name: &'static str,
        number: N,
        releases: u8,
        standing: Standing,
    ) -> Self {
        Self {
            full_name,
            number,
            releases: Releases::from_bits(releases),
            is_deprecated: false,
            standing,
            elsewhere: &[],
        }
    }

    pub(crate) const fn deprecated(mut self) -> Self {
        self.is_deprecated = true;
        self
    }

    pub(crate) const fn elsewhere(mut self, numbers: &'static [(Release, N)]) -> Self {
        self.elsewhere = numbers;
        self
    }
}

impl<N: Copy> Constant<N> {
    /// Returns the name without the prefix `PMIX_`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        short(self.full_name)
    }

    /// Returns the name as the headers have it, with the prefix `PMIX_`.
    #[must_use]
    pub const fn full_name(&self) -> &'static str {
        self.full_name
    }

    /// Returns the number that the newest release with the name gives it.
    #[must_use]
    pub const fn number(&self) -> N {
        self.number
    }

    /// Returns the number that this name has in one release, which may be another one.
    #[must_use]
    pub fn number_in(&self, release: Release) -> Option<N> {
        let other = self.elsewhere.iter().find(|(r, _)| *r == release);
        let number = other.map_or(self.number, |(_, number)| *number);
        self.releases.contains(release).then_some(number)
    }

    /// Returns the releases that have another number, and that number.
    #[must_use]
    pub const fn other_numbers(&self) -> &'static [(Release, N)] {
        self.elsewhere
    }

    /// Returns the releases whose headers have the name.
    #[must_use]
    pub const fn releases(&self) -> Releases {
        self.releases
    }

    /// Returns whether the newest headers that have the name call it deprecated.
    #[must_use]
    pub const fn is_deprecated(&self) -> bool {
        self.is_deprecated
    }

    /// Returns whether the PMIx Standard has the name.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }
}

/// The named numbers of one type.
pub(crate) struct Table<N: 'static> {
    /// Sorted by number; of equal numbers the canonical name comes first.
    pub(crate) rows: &'static [Constant<N>],
    /// Places in `rows`, sorted by name.
    pub(crate) by_name: &'static [u16],
}

impl<N: Copy + Ord> Table<N> {
    /// The row of a name, which may begin with `PMIX_`; upper and lower case are the same.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Constant<N>> {
        let name = without_prefix(name);
        let key = |place: &u16| {
            self.rows
                .get(usize::from(*place))
                .map_or("", Constant::name)
        };
        let found = self
            .by_name
            .binary_search_by(|place| by_name(key(place), name));
        let place = self.by_name.get(found.ok()?)?;
        self.rows.get(usize::from(*place))
    }

    /// All rows of a number, the canonical one first.
    pub(crate) fn of(&self, number: N) -> &'static [Constant<N>] {
        let start = self.rows.partition_point(|row| row.number < number);
        let end = self.rows.partition_point(|row| row.number <= number);
        self.rows.get(start..end).unwrap_or_default()
    }
}

/// A name of the tables without its prefix `PMIX_`.
pub(crate) const fn short(full_name: &'static str) -> &'static str {
    match full_name.split_at_checked(5) {
        Some((_, name)) => name,
        None => full_name,
    }
}

/// A name without the prefix `PMIX_`, if it has that.
pub(crate) fn without_prefix(name: &str) -> &str {
    match name.split_at_checked(5) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("PMIX_") => rest,
        _ => name,
    }
}

/// Compares a name of a table with one that was asked for, whose case does not matter.
pub(crate) fn by_name(ours: &str, asked: &str) -> Ordering {
    let asked = asked.bytes().map(|b| b.to_ascii_uppercase());
    ours.bytes().cmp(asked)
}
