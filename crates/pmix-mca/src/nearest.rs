// SPDX-License-Identifier: MIT OR Apache-2.0
//! The known name that a misspelt one was probably meant to be.

/// The candidate with the fewest edits to `word`, if it is near enough to be worth showing.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word may hold more typing mistakes; nobody types names of 200 letters.
    let word = word.get(..200).unwrap_or(word);
    let most = (word.len() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= most && *edits < candidate.len())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean NAME?`, or nothing.
pub(crate) fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (above[j] + usize::from(x != y))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_typing_mistake_costs_one_edit() {
        assert_eq!(distance("priority", "priority"), 0);
        assert_eq!(distance("priorty", "priority"), 1);
        assert_eq!(distance("prioirty", "priority"), 1);
        assert_eq!(distance("", "raw"), 3);
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
