// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dictionary of attributes, searchable by name, key or pattern.
//!
//! Source: PMIx Standard, chapter "Reserved Keys"; the lookup by name is this project's own.

use crate::table::{by_name, without_prefix};
use crate::tables::attributes::{ATTRIBUTES, KEYS};
use crate::{Attribute, Release};

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

    /// Returns every attribute that has the key in any release. The first one is that of
    /// [`Self::by_key`].
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

// Patterns over names: a glob or a substring.
//
// Source: this project; the command and the dictionary search names with it.

/// A pattern that ignores case: with `*` or `?` it is a glob over the whole text, otherwise a
/// substring.
///
/// ```
/// use pmix_types::Pattern;
/// assert!(Pattern::new("job").matches("PMIX_JOB_SIZE"));
/// assert!(Pattern::new("pmix.*.size").matches("pmix.job.size"));
/// assert!(!Pattern::new("JOB?").matches("PMIX_JOB_SIZE"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The pattern in lower case.
    text: Vec<u8>,
    is_glob: bool,
}

impl Pattern {
    /// Creates a pattern from a user's text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let text = text.to_ascii_lowercase().into_bytes();
        let is_glob = text.iter().any(|b| matches!(b, b'*' | b'?'));
        Self { text, is_glob }
    }

    /// Returns `true` if a text matches the pattern.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase().into_bytes();
        if self.is_glob {
            return glob(&self.text, &text);
        }
        self.text.is_empty() || text.windows(self.text.len()).any(|part| part == self.text)
    }

    /// Returns `true` if a name matches, with or without `PMIX_`.
    #[must_use]
    pub fn matches_name(&self, name: &str) -> bool {
        self.matches(name) || self.matches(&format!("PMIX_{name}"))
    }

    /// Returns `true` if the name or one of the keys of an attribute matches.
    pub(crate) fn matches_attribute(&self, attribute: &Attribute) -> bool {
        let others = attribute.other_keys().iter().map(|(_, key)| *key);
        let mut keys = others
            .chain([attribute.key()])
            .chain(attribute.standard_key());
        self.matches_name(attribute.name()) || keys.any(|key| self.matches(key))
    }
}

/// Matches a glob. It backtracks to the last `*` only, so it takes at most `pattern x text` steps.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((place, taken)) = star else {
                    return false;
                };
                star = Some((place, taken + 1));
                at = place + 1;
                from = taken + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_cover_the_whole_text() {
        let cases = [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbcd", false),
            ("*a*b*", "xxayyb", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("a**", "a", true),
            ("*ab", "aab", true),
        ];
        for (pattern, text, expected) in cases {
            let pattern = Pattern::new(pattern);
            assert_eq!(pattern.matches(text), expected, "{pattern:?} {text}");
        }
    }

    #[test]
    fn a_substring_matches_anywhere_in_any_case() {
        let pattern = Pattern::new("Job.Size");
        assert!(pattern.matches("pmix.job.size"));
        assert!(!pattern.matches("pmix.job"));
        assert!(Pattern::new("").matches("anything"));
    }

    #[test]
    fn many_stars_take_bounded_time() {
        let pattern = Pattern::new(&"*a".repeat(200));
        assert!(!pattern.matches(&"b".repeat(10_000)));
    }
}
