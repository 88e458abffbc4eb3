// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of the output of a command with its page.

use std::collections::BTreeMap;

/// The last values of the variable words.
pub(crate) type Bound = BTreeMap<String, String>;

/// The directives in the comment before a block.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The words that vary, longer ones first.
    varies: Vec<String>,
    any_order: bool,
}

/// A part of a shown line.
#[derive(Clone, Copy, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Blanks,
    /// A variable word, which matches any other word.
    Word(&'a str),
    /// `…`, which matches any text.
    Anything,
}

impl Marks {
    /// Parses the line before a block, if it is such a comment.
    pub(crate) fn of(line: Option<&&str>) -> Self {
        let mut marks = Self::default();
        let comment = line.and_then(|line| line.strip_prefix("<!-- console: "));
        let Some(comment) = comment.and_then(|rest| rest.strip_suffix(" -->")) else {
            return marks;
        };
        for part in comment.split("; ") {
            match part.strip_prefix("varies ") {
                Some(words) => marks.varies = words.split(' ').map(str::to_owned).collect(),
                None if part == "any order" => marks.any_order = true,
                None => panic!("`{part}` is nothing that can be said of a console block"),
            }
        }
        marks
            .varies
            .sort_by_key(|word| std::cmp::Reverse(word.len()));
        marks
    }

    /// Asserts that each variable word occurs in the block.
    pub(crate) fn assert_used(&self, block: &[&str]) {
        for word in &self.varies {
            let is_used = block.iter().any(|line| {
                let pieces = self.pieces(line);
                pieces.contains(&Piece::Word(word))
            });
            assert!(is_used, "{word} varies and is in no line of {block:?}");
        }
    }

    /// Returns the values of the variable words if the printed lines match the shown ones.
    pub(crate) fn matches(&self, shown: &[&str], made: &[&str]) -> Option<Bound> {
        let mut bound = Bound::new();
        let is_shown = if self.any_order {
            self.in_any_order(shown, made, &mut bound)
        } else {
            self.in_order(shown, made, &mut bound)
        };
        is_shown.then_some(bound)
    }

    fn in_any_order(&self, shown: &[&str], made: &[&str], bound: &mut Bound) -> bool {
        let mut left = made.to_vec();
        for line in shown {
            let found = left.iter().position(|made| self.line(line, made, bound));
            match found {
                Some(at) => left.remove(at),
                None => return false,
            };
        }
        left.is_empty()
    }

    /// Matches the lines in order; a line `…` matches any number of lines.
    fn in_order(&self, shown: &[&str], made: &[&str], bound: &mut Bound) -> bool {
        match (shown, made) {
            ([], made) => made.is_empty(),
            (["…", shown @ ..], made) => {
                (0..=made.len()).any(|skipped| self.in_order(shown, &made[skipped..], bound))
            }
            ([line, shown @ ..], [first, made @ ..]) => {
                self.line(line, first, bound) && self.in_order(shown, made, bound)
            }
            (_, []) => false,
        }
    }

    fn line(&self, shown: &str, made: &str, bound: &mut Bound) -> bool {
        let pieces = self.pieces(shown);
        let varies = |piece: &Piece<'_>| matches!(piece, Piece::Word(_) | Piece::Anything);
        if !pieces.iter().any(varies) {
            return shown == made;
        }
        fits(&pieces, made, bound)
    }

    fn pieces<'a>(&'a self, line: &'a str) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut from = 0;
        let mut at = 0;
        while let Some(c) = line[at..].chars().next() {
            let (piece, len) = if c == ' ' {
                let rest = line[at..].trim_start_matches(' ');
                (Piece::Blanks, line.len() - at - rest.len())
            } else if c == '…' {
                (Piece::Anything, c.len_utf8())
            } else if let Some(word) = self.varies.iter().find(|word| is_at(line, at, word)) {
                (Piece::Word(word), word.len())
            } else {
                at += c.len_utf8();
                continue;
            };
            if from < at {
                pieces.push(Piece::Text(&line[from..at]));
            }
            pieces.push(piece);
            at += len;
            from = at;
        }
        if from < at {
            pieces.push(Piece::Text(&line[from..at]));
        }
        pieces
    }
}

/// Returns a command with the values of the variable words before it.
pub(crate) fn with_bound(command: &str, bound: &Bound) -> String {
    let mut made = String::new();
    let mut at = 0;
    while let Some(c) = command[at..].chars().next() {
        let mut words = bound.iter();
        if let Some((word, stands_for)) = words.find(|(word, _)| is_at(command, at, word)) {
            made.push_str(stands_for);
            at += word.len();
        } else {
            made.push(c);
            at += c.len_utf8();
        }
    }
    made
}

/// Returns `true` if a text has a whole word at a position.
fn is_at(text: &str, at: usize, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let rest = &text[at..];
    rest.starts_with(word)
        && !is_part(text[..at].chars().next_back())
        && !is_part(rest[word.len()..].chars().next())
}

/// Returns `true` if a text matches; spaces match any number of spaces, because the width of columns depends
/// on their contents.
fn fits(pieces: &[Piece<'_>], text: &str, bound: &mut Bound) -> bool {
    let Some((first, pieces)) = pieces.split_first() else {
        return text.is_empty();
    };
    match first {
        Piece::Text(shown) => text
            .strip_prefix(shown)
            .is_some_and(|rest| fits(pieces, rest, bound)),
        Piece::Blanks => {
            let rest = text.trim_start_matches(' ');
            rest.len() < text.len() && fits(pieces, rest, bound)
        }
        Piece::Anything => ends(text).any(|end| fits(pieces, &text[end..], bound)),
        Piece::Word(word) => {
            let len = text.find(' ').unwrap_or(text.len());
            let found = ends(&text[..len])
                .skip(1)
                .find(|end| fits(pieces, &text[*end..], bound));
            if let Some(end) = found {
                bound.insert((*word).to_owned(), text[..end].to_owned());
            }
            found.is_some()
        }
    }
}

/// Returns the possible ends of a prefix of a text.
fn ends(text: &str) -> impl Iterator<Item = usize> + '_ {
    let inner = text.char_indices().map(|(at, _)| at);
    inner.chain([text.len()])
}

#[test]
fn a_variable_word_matches_and_the_rest_must_be_equal() {
    let marks = Marks::of(Some(&"<!-- console: varies 4711 run-n01-4711 n01 -->"));
    let fits = |shown: &str, made: &str| marks.matches(&[shown], &[made]);
    let bound = fits("server run-n01-4711@1, n01", "server run-a-7@1, b.c").expect("it fits");
    assert_eq!(bound["run-n01-4711"], "run-a-7");
    assert_eq!(bound["n01"], "b.c");
    assert_eq!(
        with_bound("kill run-n01-4711@1 n012", &bound),
        "kill run-a-7@1 n012"
    );
    assert!(fits("  0   4711 up", " 0 123456 up").is_some());
    assert!(fits("  0   4711 up", " 1 123456 up").is_none());
    assert!(fits("  0   4711 up", " 0 12 34 up").is_none());
    assert!(fits("  0   4711 up", " 0  up").is_none());
    assert!(fits("14711 n012", "1 n012").is_none());
    assert!(fits("a  b", "a b").is_none());
}

#[test]
fn an_ellipsis_matches_any_lines_or_any_text() {
    let marks = Marks::default();
    let fits = |made: &[&str]| marks.matches(&["a", "…", "b … c"], made).is_some();
    assert!(fits(&["a", "b 1 c"]));
    assert!(fits(&["a", "x", "y", "b 1 2 c"]));
    assert!(!fits(&["a", "x"]));
    assert!(!fits(&["a", "x", "b 1 d"]));
}

#[test]
fn lines_in_any_order_are_each_there_once() {
    let marks = Marks::of(Some(&"<!-- console: varies n01; any order -->"));
    let fits = |made: &[&str]| marks.matches(&["0 on n01", "1 on n01"], made).is_some();
    assert!(fits(&["1 on a", "0 on a"]));
    assert!(!fits(&["1 on a", "1 on a"]));
    assert!(!fits(&["1 on a", "0 on a", "0 on a"]));
}
