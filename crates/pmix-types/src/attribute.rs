// SPDX-License-Identifier: MIT OR Apache-2.0
//! An attribute: its name, key, type and history.
//!
//! Source: PMIx Standard, chapter "Reserved Keys"; the tables of `data` name the source of each
//! attribute.

use crate::table::short;
use crate::{DataType, Release, Releases, Standing};

/// An attribute of the PMIx headers: a name for people and a key for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    full_name: &'static str,
    key: &'static str,
    c_type: &'static str,
    data_type: Option<DataType>,
    releases: Releases,
    is_deprecated: bool,
    standing: Standing,
    keys: &'static [(Release, &'static str)],
    c_types: &'static [(Release, &'static str)],
    standard_key: Option<&'static str>,
    standard_type: Option<&'static str>,
}

/// Constructors for the generated table.
impl Attribute {
    pub(crate) const fn new(
        full_name: &'static str,
        key: &'static str,
        c_type: &'static str,
        data_type: Option<DataType>,
        releases: u8,
        standing: Standing,
    ) -> Self {
        Self {
            full_name,
            key,
            c_type,
            data_type,
            releases: Releases::from_bits(releases),
            is_deprecated: false,
            standing,
            keys: &[],
            c_types: &[],
            standard_key: None,
            standard_type: None,
        }
    }

    pub(crate) const fn deprecated(mut self) -> Self {
        self.is_deprecated = true;
        self
    }

    pub(crate) const fn with_keys(mut self, keys: &'static [(Release, &'static str)]) -> Self {
        self.keys = keys;
        self
    }

    pub(crate) const fn with_c_types(mut self, types: &'static [(Release, &'static str)]) -> Self {
        self.c_types = types;
        self
    }

    pub(crate) const fn with_standard_key(mut self, key: &'static str) -> Self {
        self.standard_key = Some(key);
        self
    }

    pub(crate) const fn with_standard_type(mut self, c_type: &'static str) -> Self {
        self.standard_type = Some(c_type);
        self
    }
}

impl Attribute {
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

    /// Returns the key in messages: that of the newest release with the attribute.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// Returns the key in one release, or `None` if that release does not have the attribute.
    #[must_use]
    pub fn key_in(&self, release: Release) -> Option<&'static str> {
        let has = self.releases.contains(release);
        has.then(|| of_release(self.keys, release).unwrap_or(self.key))
    }

    /// Returns the releases in which the key differs, each with its key.
    #[must_use]
    pub const fn other_keys(&self) -> &'static [(Release, &'static str)] {
        self.keys
    }

    /// Returns the key in the Standard, if it differs from [`Self::key`].
    #[must_use]
    pub const fn standard_key(&self) -> Option<&'static str> {
        self.standard_key
    }

    /// Returns the C type of the value by the headers, or `varies` if they do not specify it.
    #[must_use]
    pub const fn c_type(&self) -> &'static str {
        self.c_type
    }

    /// Returns the C type in one release, or `None` if that release does not have the attribute.
    #[must_use]
    pub fn c_type_in(&self, release: Release) -> Option<&'static str> {
        let has = self.releases.contains(release);
        has.then(|| of_release(self.c_types, release).unwrap_or(self.c_type))
    }

    /// Returns the releases in which the C type differs, each with its type.
    #[must_use]
    pub const fn other_c_types(&self) -> &'static [(Release, &'static str)] {
        self.c_types
    }

    /// Returns the type in the Standard, if it differs from [`Self::c_type`].
    #[must_use]
    pub const fn standard_type(&self) -> Option<&'static str> {
        self.standard_type
    }

    /// Returns the data type for the C type, if exactly one data type has this C type.
    #[must_use]
    pub const fn data_type(&self) -> Option<DataType> {
        self.data_type
    }

    /// Returns the releases whose headers have the attribute.
    #[must_use]
    pub const fn releases(&self) -> Releases {
        self.releases
    }

    /// Returns `true` if the newest headers that have the attribute mark it as deprecated.
    #[must_use]
    pub const fn is_deprecated(&self) -> bool {
        self.is_deprecated
    }

    /// Returns the status of the attribute in the PMIx Standard.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }
}

fn of_release(list: &'static [(Release, &'static str)], release: Release) -> Option<&'static str> {
    let found = list.iter().find(|(known, _)| *known == release);
    found.map(|(_, text)| *text)
}
