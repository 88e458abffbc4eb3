// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names and numbers of the PMIx headers (status codes, data types, enumerations): the type of
//! a row, and the lookup of a row by its name or number. The rows are in generated files.
//!
//! Source: the tables in `data`. `data/README.md` states their origin.

use std::cmp::Ordering;

use crate::{Release, Releases};

/// The status of a name in the PMIx Standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Standing {
    /// Part of the Standard.
    Stable,
    /// Part of the Standard, but subject to change.
    Provisional,
    /// Kept in the Standard for old programs only.
    Deprecated,
    /// Removed from the Standard.
    Removed,
    /// An extension of OpenPMIx, which is not in the Standard.
    Extension,
}

impl Standing {
    /// Returns the status as a lower-case word.
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

/// A named number of the PMIx headers.
///
/// Several names may share a number. The first of them in its table is the canonical name, which
/// printing uses. It is a deprecated name only if all names of the number are deprecated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant<N: 'static> {
    pub(crate) full_name: &'static str,
    pub(crate) number: N,
    pub(crate) releases: Releases,
    pub(crate) is_deprecated: bool,
    pub(crate) standing: Standing,
    /// The releases in which the number differs, each with its number.
    pub(crate) elsewhere: &'static [(Release, N)],
}

/// Constructors for the generated tables.
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

    /// Returns the name as in the headers, with the prefix `PMIX_`.
    #[must_use]
    pub const fn full_name(&self) -> &'static str {
        self.full_name
    }

    /// Returns the number of the name in the newest release that has it.
    #[must_use]
    pub const fn number(&self) -> N {
        self.number
    }

    /// Returns the number of the name in one release, which may differ from the newest one.
    #[must_use]
    pub fn number_in(&self, release: Release) -> Option<N> {
        let other = self.elsewhere.iter().find(|(r, _)| *r == release);
        let number = other.map_or(self.number, |(_, number)| *number);
        self.releases.contains(release).then_some(number)
    }

    /// Returns the releases in which the number differs, each with its number.
    #[must_use]
    pub const fn other_numbers(&self) -> &'static [(Release, N)] {
        self.elsewhere
    }

    /// Returns the releases whose headers have the name.
    #[must_use]
    pub const fn releases(&self) -> Releases {
        self.releases
    }

    /// Returns `true` if the newest headers that have the name mark it as deprecated.
    #[must_use]
    pub const fn is_deprecated(&self) -> bool {
        self.is_deprecated
    }

    /// Returns the status of the name in the PMIx Standard.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }
}

/// The named numbers of a type.
pub(crate) struct Table<N: 'static> {
    /// The rows, sorted by number. The canonical name is the first row of a number.
    pub(crate) rows: &'static [Constant<N>],
    /// Indices into `rows`, sorted by name.
    pub(crate) by_name: &'static [u16],
}

impl<N: Copy + Ord> Table<N> {
    /// Returns the row of a name, which may begin with `PMIX_`. Case is ignored.
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

    /// Returns all rows of a number, starting with the canonical one.
    pub(crate) fn of(&self, number: N) -> &'static [Constant<N>] {
        let start = self.rows.partition_point(|row| row.number < number);
        let end = self.rows.partition_point(|row| row.number <= number);
        self.rows.get(start..end).unwrap_or_default()
    }
}

/// Returns a name of the tables without its prefix `PMIX_`.
pub(crate) const fn short(full_name: &'static str) -> &'static str {
    match full_name.split_at_checked(5) {
        Some((_, name)) => name,
        None => full_name,
    }
}

/// Returns a name without the prefix `PMIX_`, if it has the prefix.
pub(crate) fn without_prefix(name: &str) -> &str {
    match name.split_at_checked(5) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("PMIX_") => rest,
        _ => name,
    }
}

/// Compares a name of a table with a requested name, in upper or lower case.
pub(crate) fn by_name(ours: &str, asked: &str) -> Ordering {
    let asked = asked.bytes().map(|b| b.to_ascii_uppercase());
    ours.bytes().cmp(asked)
}
