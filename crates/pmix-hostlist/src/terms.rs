// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terms of a list with operators of nodeset and pdsh, or with groups of nodes.
//!
//! Source: nodeset(1) of ClusterShell 1.9, "Extended String Pattern"; pdsh(1), "Excluding Target Nodes or Groups".

use crate::{Error, is_blank};

const HINT: &str = "operators are between two lists: n[1-8]!n3 without n3, n[1-8]&n[4-9] in both, n[1-4]^n[3-6] in one \
                    of them, n[1-8],-n3 without n3";

/// The operator before a term. Operators have no precedence: each one combines the result so far with its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `a,b`, or blanks: the names of both.
    Union,
    /// `a!b`: the names of the result that are not in the term.
    Difference,
    /// `a&b`: the names of the result that are also in the term.
    Intersection,
    /// `a^b`: the names in only one of them.
    SymmetricDifference,
    /// `a,-b` of pdsh: names to leave out of the whole list, at any position.
    Exclusion,
}

/// A term of a list: a name, a name with brackets, or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term<'a> {
    /// The operator before the term; [`Operator::Union`] for the first term.
    pub operator: Operator,
    /// The offset of the text in the list.
    pub offset: usize,
    /// The text without the operator, but with the `@` of a group.
    pub text: &'a [u8],
}

/// Splits a list into its terms, if it has an operator or a group (`@compute`). Returns `None` for other lists, whose
/// names [`parse`](crate::parse) returns.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM` with the offset of an operator without a list before or after it, of a bracket that is not
/// closed, or of the notations `^FILE` and `/REGEX/` of pdsh.
pub fn terms(text: &[u8]) -> Result<Option<Vec<Term<'_>>>, Error> {
    if !has_operators(text) {
        return Ok(None);
    }
    let mut found = Vec::new();
    let mut at = skip_blanks(text, 0);
    let mut operator = Operator::Union;
    while at < text.len() {
        let (term, end) = read_term(text, at, operator, found.is_empty())?;
        found.push(term);
        let next = skip_blanks(text, end);
        let Some(byte) = text.get(next) else {
            return Ok(Some(found));
        };
        let after = next + usize::from(is_separator(*byte));
        operator = match byte {
            b'!' => Operator::Difference,
            b'&' => Operator::Intersection,
            b'^' if next == end || text.get(after).copied().is_some_and(is_blank) => {
                Operator::SymmetricDifference
            }
            b'^' => return Err(of_file(next)),
            _ => Operator::Union,
        };
        at = skip_blanks(text, after);
        if at == text.len() {
            let message = format!("nothing follows the operator `{}`", char::from(*byte));
            return Err(Error::syntax(next, message, HINT));
        }
    }
    Ok(Some(found))
}

/// Returns `true` if a byte outside of brackets is an operator, or a word begins with `@` or `-`.
fn has_operators(text: &[u8]) -> bool {
    let mut is_inside = false;
    let mut is_start = true;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'[' => is_inside = true,
            b']' => is_inside = false,
            _ if is_inside => {}
            b'!' | b'&' | b'^' => return true,
            b'@' | b'-' if is_start => {
                let next = text.get(at + 1).copied();
                if next.is_some_and(|next| next != b',' && !is_blank(next)) {
                    return true;
                }
            }
            _ => {}
        }
        is_start = *byte == b',' || is_blank(*byte);
    }
    false
}

fn read_term(
    text: &[u8],
    start: usize,
    operator: Operator,
    is_first: bool,
) -> Result<(Term<'_>, usize), Error> {
    let rest = &text[start..];
    let (operator, offset) = match rest {
        [b'-', next, ..] if operator == Operator::Union && !is_word_end(*next) => {
            if is_first {
                let message = "a list cannot begin with names to leave out";
                return Err(Error::syntax(start, message, HINT));
            }
            (Operator::Exclusion, start + 1)
        }
        _ => (operator, start),
    };
    match text.get(offset) {
        Some(b'^') if operator == Operator::Union => return Err(of_file(offset)),
        Some(b'/') if operator != Operator::Difference => {
            let message = "a regular expression of pdsh, or a path";
            let hint =
                "regular expressions are not supported: filter names with grep. @FILE reads a file";
            return Err(Error::syntax(offset, message, hint));
        }
        _ => {}
    }
    let end = term_end(text, offset)?;
    if end == offset {
        let shown = text.get(end).copied().map_or(' ', char::from);
        let message = format!("a list is missing before the operator `{shown}`");
        return Err(Error::syntax(end, message, HINT));
    }
    let term = Term {
        operator,
        offset,
        text: &text[offset..end],
    };
    Ok((term, end))
}

#[cold]
fn of_file(at: usize) -> Error {
    let message =
        "`^FILE` is a file of nodes for pdsh, and `^` is an operator between two lists here";
    Error::syntax(at, message, "write @FILE as an argument of its own")
}

/// Returns the end of the term: the next separator or operator outside of brackets.
fn term_end(text: &[u8], start: usize) -> Result<usize, Error> {
    let mut at = start;
    while let Some(byte) = text.get(at) {
        match byte {
            b'[' => match memchr::memchr(b']', &text[at..]) {
                Some(len) => at += len,
                None => {
                    let message = "this bracket is never closed";
                    return Err(Error::syntax(at, message, HINT));
                }
            },
            byte if is_word_end(*byte) => break,
            _ => {}
        }
        at += 1;
    }
    Ok(at)
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b'!' | b'&' | b'^')
}

fn is_word_end(byte: u8) -> bool {
    is_separator(byte) || is_blank(byte)
}

fn skip_blanks(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| is_blank(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> String {
        let found = terms(text.as_bytes()).unwrap().unwrap();
        let shown = |term: &Term<'_>| {
            assert!(text.as_bytes()[term.offset..].starts_with(term.text));
            let sign = match term.operator {
                Operator::Union => '+',
                Operator::Difference => '!',
                Operator::Intersection => '&',
                Operator::SymmetricDifference => '^',
                Operator::Exclusion => '-',
            };
            format!("{sign}{}", String::from_utf8_lossy(term.text))
        };
        found.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn operators_separate_terms() {
        assert_eq!(split("n[1-9]!n[2,3]&a^b,c"), "+n[1-9] !n[2,3] &a ^b +c");
        assert_eq!(split(" a ! b  ^ c d "), "+a !b ^c +d");
        assert_eq!(split("a[1-9],-a3,-a[4,5],b"), "+a[1-9] -a3 -a[4,5] +b");
        assert_eq!(split("@compute"), "+@compute");
        assert_eq!(split("n1,@a:b[1-2]!@c"), "+n1 +@a:b[1-2] !@c");
        // A term after another operator than the comma may begin with a hyphen.
        assert_eq!(split("a!-b"), "+a !-b");
    }

    #[test]
    fn other_lists_have_no_terms() {
        for text in [
            "",
            "n1,n2",
            "n[1-3]-ib,-",
            "a-b",
            "a@b",
            "@",
            "-,a",
            "[!&^]",
        ] {
            assert_eq!(terms(text.as_bytes()).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn operators_without_a_list_are_errors() {
        for (text, offset, message) in [
            ("!n1", 0, "a list is missing before the operator `!`"),
            ("n1!", 2, "nothing follows the operator `!`"),
            ("n1!&n2", 3, "a list is missing before the operator `&`"),
            ("n1,!n2", 3, "a list is missing before the operator `!`"),
            ("n1,,n2!n3", 3, "a list is missing before the operator `,`"),
            ("n1!n2,", 5, "nothing follows the operator `,`"),
            ("-n1,n2", 0, "a list cannot begin with names to leave out"),
            ("^hosts", 0, "`^FILE` is a file of nodes for pdsh"),
            ("n1,^hosts", 3, "`^FILE` is a file of nodes for pdsh"),
            ("n1 ^hosts", 3, "`^FILE` is a file of nodes for pdsh"),
            ("n[1-9],-/n3/", 8, "a regular expression of pdsh"),
            ("a!n[1", 3, "this bracket is never closed"),
        ] {
            let error = terms(text.as_bytes()).unwrap_err();
            assert_eq!(error.offset(), Some(offset), "{text}: {error}");
            assert!(error.to_string().contains(message), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a1@!&^,\\-\\[\\] /]{0,12}") {
            if let Ok(Some(found)) = terms(text.as_bytes()) {
                assert!(found.iter().all(|term| !term.text.is_empty()));
            }
        }
    }
}
