// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dictionary of attributes, searchable by name, key or pattern.
//!
//! Source: PMIx Standard, chapter "Reserved Keys"; the lookup by name is this project's own.

use crate::table::{by_name, without_prefix};
use crate::tables::attributes::{ATTRIBUTES, KEYS};
use crate::{Attribute, Pattern, Release};

impl Attribute {
    /// Returns every attribute, sorted by name.
    #[must_use]
    pub fn all() -> &'static [Self] {
        ATTRIBUTES
    }

    /// Returns the attribute with a name, with or without `PMIX_`, in upper or lower case.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        let name = without_prefix(name);
        let place = ATTRIBUTES.binary_search_by(|row| by_name(row.name(), name));
        ATTRIBUTES.get(place.ok()?)
    }

    /// Returns the attribute with a key. If several attributes share the key, returns the one that
    /// OpenPMIx prints. Keys that exist only in one release or only in the Standard are found as
    /// well.
    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Self> {
        Self::sharing(key).next()
    }

    /// Returns the attribute with a key in one release, if that release has one.
    #[must_use]
    pub fn by_key_in(release: Release, key: &str) -> Option<&'static Self> {
        Self::sharing(key).find(|row| row.key_in(release) == Some(key))
    }

    /// Returns every attribute that has the key in any release, starting with the one that printing
    /// uses.
    pub fn sharing(key: &str) -> impl Iterator<Item = &'static Self> + use<> {
        let start = KEYS.partition_point(|(known, _)| *known < key);
        let end = KEYS.partition_point(|(known, _)| *known <= key);
        let rows = KEYS.get(start..end).unwrap_or_default();
        rows.iter()
            .filter_map(|(_, place)| ATTRIBUTES.get(usize::from(*place)))
    }

    /// Returns the full name for a key in upper or lower case, as `PMIx_Get_attribute_name` does.
    /// Returns the text itself if it is not a key.
    #[must_use]
    pub fn name_of(key: &str) -> &str {
        // The table has every key in lower case.
        let found = Self::by_key(&key.to_ascii_lowercase());
        found.map_or(key, |row| row.full_name())
    }

    /// Returns the key for a full name in upper or lower case, as `PMIx_Get_attribute_string` does.
    /// Returns the text itself if it is not a name.
    #[must_use]
    pub fn key_of(name: &str) -> &str {
        let whole = without_prefix(name).len() < name.len();
        let found = whole.then(|| Self::by_name(name)).flatten();
        found.map_or(name, |row| row.key())
    }

    /// Returns the attributes whose name or key matches a pattern. A pattern with `*` or `?` must
    /// match the whole text, any other pattern a part of it. Case is ignored, and names match with
    /// or without `PMIX_`.
    pub fn search(pattern: &str) -> impl Iterator<Item = &'static Self> {
        let pattern = Pattern::new(pattern);
        ATTRIBUTES
            .iter()
            .filter(move |row| pattern.matches_attribute(row))
    }
}
