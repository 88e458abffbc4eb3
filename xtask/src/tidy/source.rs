// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Rust file taken apart into code, comments and string literals.
//!
//! Not a parser: just enough lexing that a rule about code is not fooled by a comment, and one
//! about literals not by code.

/// One comment or string literal and the line on which it begins, counted from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A Rust file, taken apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// The lines, with comments removed and literals emptied.
    pub(crate) code: Vec<String>,
    /// The comments, marks included.
    pub(crate) comments: Vec<Piece>,
    /// The contents of the string literals.
    pub(crate) strings: Vec<Piece>,
    /// For each line whether it belongs to a `#[cfg(test)]` item.
    pub(crate) is_test: Vec<bool>,
}

impl Source {
    /// Takes a file apart.
    pub(crate) fn parse(text: &str) -> Self {
        let mut lexer = Lexer {
            bytes: text.as_bytes(),
            at: 0,
            line: 1,
            source: Self::default(),
            code: Vec::new(),
        };
        lexer.run();
        let code = String::from_utf8_lossy(&lexer.code).into_owned();
        let mut source = lexer.source;
        source.code = code.lines().map(str::to_owned).collect();
        source.is_test = test_lines(&source.code);
        source
    }

    /// Whether a line (counted from one) is test code.
    pub(crate) fn in_test(&self, line: usize) -> bool {
        self.is_test.get(line - 1).copied().unwrap_or(false)
    }
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
    source: Source,
    code: Vec<u8>,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            if rest.starts_with(b"//") {
                let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                self.take_comment(end);
            } else if rest.starts_with(b"/*") {
                self.take_comment(block_comment_len(rest));
            } else if let Some((open, close)) = string_mark(rest, self.code.last().copied()) {
                self.take_string(open, &close);
            } else if rest[0] == b'\'' {
                self.take_code(char_len(rest));
            } else {
                self.take_code(1);
            }
        }
    }

    fn take_code(&mut self, len: usize) {
        for byte in &self.bytes[self.at..self.at + len] {
            self.line += usize::from(*byte == b'\n');
        }
        // A character literal is kept as an empty one, so that `'"'` or `'{'` count for nothing.
        if len > 1 {
            self.code.extend_from_slice(b"' '");
        } else {
            self.code.push(self.bytes[self.at]);
        }
        self.at += len;
    }

    /// Leaves out `len` bytes but keeps their line ends; returns the text.
    fn skip(&mut self, len: usize) -> Piece {
        let bytes = &self.bytes[self.at..self.at + len];
        let piece = Piece {
            line: self.line,
            text: String::from_utf8_lossy(bytes).into_owned(),
        };
        let ends = bytes.iter().filter(|b| **b == b'\n').count();
        self.code.extend(std::iter::repeat_n(b'\n', ends));
        self.line += ends;
        self.at += len;
        piece
    }

    fn take_comment(&mut self, len: usize) {
        let piece = self.skip(len);
        self.source.comments.push(piece);
    }

    fn take_string(&mut self, open: usize, close: &[u8]) {
        self.code.push(b'"');
        self.at += open;
        let raw = close.len() > 1 || self.bytes[self.at - open..self.at - 1].contains(&b'r');
        let mut len = 0;
        let rest = &self.bytes[self.at..];
        while len < rest.len() && !rest[len..].starts_with(close) {
            len += if !raw && rest[len] == b'\\' { 2 } else { 1 };
        }
        let piece = self.skip(len.min(rest.len()));
        self.source.strings.push(piece);
        self.code.push(b'"');
        self.at = (self.at + close.len()).min(self.bytes.len());
    }
}

/// The length of a block comment, which may hold others.
fn block_comment_len(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// If a string literal begins here: the length of its opening mark, and its closing mark.
fn string_mark(rest: &[u8], before: Option<u8>) -> Option<(usize, Vec<u8>)> {
    if before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return (rest[0] == b'"').then(|| (1, b"\"".to_vec()));
    }
    let prefix = rest
        .iter()
        .take_while(|b| matches!(b, b'b' | b'c' | b'r'))
        .count();
    let raw = rest[..prefix].contains(&b'r');
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    let quoted = rest.get(prefix + hashes) == Some(&b'"');
    if prefix > 2 || !quoted || (hashes > 0 && !raw) {
        return None;
    }
    let mut close = b"\"".to_vec();
    close.extend(std::iter::repeat_n(b'#', hashes));
    Some((prefix + hashes + 1, close))
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn char_len(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|b| *b == b'\'');
        return end.map_or(1, |end| end + 4);
    }
    let text = String::from_utf8_lossy(&rest[1..rest.len().min(6)]);
    match text.chars().next() {
        Some(c) if rest.get(1 + c.len_utf8()) == Some(&b'\'') => c.len_utf8() + 2,
        _ => 1,
    }
}

/// Marks the lines of every item behind `#[cfg(test)]` or `#[cfg(all(test, ...))]`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut marks = vec![false; code.len()];
    let mut line = 0;
    while line < code.len() {
        let text = code[line].trim_start();
        if text.starts_with("#[cfg(test)]") || text.starts_with("#[cfg(all(test") {
            let end = item_end(code, line);
            marks[line..=end].fill(true);
            line = end;
        }
        line += 1;
    }
    marks
}

/// The last line of the item that begins with the attribute on `start`.
fn item_end(code: &[String], start: usize) -> usize {
    let (mut depth, mut square) = (0_usize, 0_usize);
    for (line, text) in code.iter().enumerate().skip(start) {
        for byte in text.bytes() {
            match byte {
                b'[' | b'(' => square += 1,
                b']' | b')' => square = square.saturating_sub(1),
                b'{' => depth += 1,
                b'}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return line;
                    }
                }
                b';' if depth == 0 && square == 0 => return line,
                _ => {}
            }
        }
    }
    code.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_literals_are_told_apart() {
        let source = Source::parse(concat!(
            "let a = \"raw: // no comment\"; // unsafe in a comment\n",
            "/* nested /* unsafe */ still */ let b = b\"x\\\"y\";\n",
            "let c = br#\"one \" two\"#; let d = '\"'; let e: &'static str = r\"\\\";\n",
        ));
        let texts: Vec<_> = source.strings.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(texts, ["raw: // no comment", "x\\\"y", "one \" two", "\\"]);
        assert_eq!(source.comments.len(), 2);
        assert!(source.code.iter().all(|line| !line.contains("unsafe")));
        assert!(source.code[2].ends_with("let e: &'static str = \"\";"));
    }

    #[test]
    fn lines_are_counted_through_long_literals() {
        let source = Source::parse("let a = \"one\ntwo\";\n// here\nlet b = \"three\";\n");
        assert_eq!(source.comments[0].line, 3);
        assert_eq!(source.strings[1].line, 4);
        assert_eq!(source.code.len(), 4);
    }

    #[test]
    fn test_items_end_where_their_braces_end() {
        let text = concat!(
            "fn product() { '{'; }\n",
            "#[cfg(test)]\n",
            "mod tests {\n",
            "    fn inner() { let a = \"}\"; }\n",
            "}\n",
            "fn product_again() {}\n",
            "#[cfg(test)]\n",
            "mod more;\n",
            "fn last() {}\n",
        );
        let source = Source::parse(text);
        let product: Vec<_> = (1..=9).filter(|line| !source.in_test(*line)).collect();
        assert_eq!(product, [1, 6, 9]);
    }
}
