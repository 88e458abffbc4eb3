// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns over names: a glob or a substring.
//!
//! Source: none outside; the command and the dictionary search names with it.

use crate::Attribute;

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
