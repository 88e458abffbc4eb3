// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dictionary of attributes: every one of them, found by name, key or pattern.
//!
//! Source: PMIx Standard, chapter "Reserved Keys"; how names are found is this project's own.

use crate::table::{by_name, without_prefix};
use crate::tables::attributes::{ATTRIBUTES, KEYS};
use crate::{Attribute, Pattern, Release};

impl Attribute {
    /// Returns every attribute, sorted by name.
    #[must_use]
    pub fn all() -> &'static [Self] {
        ATTRIBUTES
    }

    /// Returns the attribute of a name, with or without `PMIX_`, in upper or lower case.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        let name = without_prefix(name);
        let place = ATTRIBUTES.binary_search_by(|row| by_name(row.name(), name));
        ATTRIBUTES.get(place.ok()?)
    }

    /// Returns the attribute that a key stands for. A key that several share gives the one that
    /// OpenPMIx prints; a key of one release or of the Standard alone is found as well.
    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Self> {
        Self::sharing(key).next()
    }

    /// Returns the attribute that a key stands for in one release, if that release has one.
    #[must_use]
    pub fn by_key_in(release: Release, key: &str) -> Option<&'static Self> {
        Self::sharing(key).find(|row| row.key_in(release) == Some(key))
    }

    /// Returns every attribute with a key, in this or that release, the one that printing uses
    /// first.
    pub fn sharing(key: &str) -> impl Iterator<Item = &'static Self> + use<> {
        let start = KEYS.partition_point(|(known, _)| *known < key);
        let end = KEYS.partition_point(|(known, _)| *known <= key);
        let rows = KEYS.get(start..end).unwrap_or_default();
        rows.iter()
            .filter_map(|(_, place)| ATTRIBUTES.get(usize::from(*place)))
    }

    /// Returns the whole name of a key in upper or lower case, as `PMIx_Get_attribute_name` does;
    /// the text itself if it is no key.
    #[must_use]
    pub fn name_of(key: &str) -> &str {
        // Every key is in lower case.
        let found = Self::by_key(&key.to_ascii_lowercase());
        found.map_or(key, |row| row.full_name())
    }

    /// Returns the key of a whole name in upper or lower case, as `PMIx_Get_attribute_string` does;
    /// the text itself if it is no name.
    #[must_use]
    pub fn key_of(name: &str) -> &str {
        let whole = without_prefix(name).len() < name.len();
        let found = whole.then(|| Self::by_name(name)).flatten();
        found.map_or(name, |row| row.key())
    }

    /// Returns the attributes whose name or key a pattern matches: with `*` or `?` all of it,
    /// otherwise some part of it. The case does not matter, and names match with or without
    /// `PMIX_`.
    pub fn search(pattern: &str) -> impl Iterator<Item = &'static Self> {
        let pattern = Pattern::new(pattern);
        ATTRIBUTES
            .iter()
            .filter(move |row| pattern.matches_attribute(row))
    }
}
