// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggestions for misspelled names.
//!
//! Source: this project.

use strsim::osa_distance;

/// Returns the candidate with the fewest edits to `word`, if it is similar enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Bounds the time: no user types names of more than 200 letters.
    let word = word.get(..200).unwrap_or(word);
    let most = (word.len() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (osa_distance(word, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= most && *edits < candidate.len())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Returns `; did you mean NAME?`, or an empty text.
pub(crate) fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_typing_error_is_one_edit() {
        let near = |word| nearest(word, ["raw", "priority"]);
        for word in ["priority", "priorty", "prioirty", "ppriority", "priorita"] {
            assert_eq!(near(word), Some("priority"), "{word}");
        }
        // Two swapped pairs are two edits. Three edits are too many for a word of eight letters.
        assert_eq!(near("rpioirty"), Some("priority"));
        assert_eq!(near("rpioiryt"), None);
    }

    #[test]
    fn a_word_that_is_far_from_all_gets_no_suggestion() {
        assert_eq!(
            nearest("prioirty", ["enabled", "priority"]),
            Some("priority")
        );
        assert_eq!(nearest("zzzzzz", ["enabled", "priority"]), None);
        assert_eq!(nearest("x", ["raw", "fold"]), None);
    }
}
