// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Rust file as tokens: its literals, functions, paths, and test lines.
//!
//! The lexer is `proc-macro2`, so a rule about code ignores comments, and a rule about literals
//! ignores code. Comments are not tokens. Comments on their own lines are read from the text.

use proc_macro2::{Delimiter, Group, Literal, Span, TokenStream, TokenTree};

/// A comment, literal or name with its first line, counted from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The parts of a Rust file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// The tokens without attributes and test items.
    pub(crate) product: Vec<Token>,
    /// The lines that contain only a comment, including its marks.
    pub(crate) comments: Vec<Piece>,
    /// The string literals outside of attributes, as written.
    pub(crate) strings: Vec<Piece>,
    /// The names of all functions.
    pub(crate) functions: Vec<Piece>,
    /// The modules declared only for tests.
    pub(crate) test_modules: Vec<String>,
    /// `true` for each line that belongs to a `#[cfg(test)]` item.
    pub(crate) is_test: Vec<bool>,
}

/// A token of product code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name or keyword.
    Name(String),
    /// A punctuation character other than `::`.
    Sign(char),
    /// The path separator `::`.
    Path,
    /// Tokens in braces.
    Braces(Vec<Self>),
    /// Tokens in parentheses or brackets.
    Inside(Vec<Self>),
}

impl Source {
    /// Parses a file.
    ///
    /// # Errors
    /// Returns a message if the text is no Rust.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let tokens: TokenStream = text
            .parse()
            .map_err(|e: proc_macro2::LexError| format!("line {}: {e}", line(e.span())))?;
        let comment = |(index, line): (usize, &str)| {
            let text = line.trim();
            text.starts_with("//").then(|| Piece {
                line: index + 1,
                text: text.to_owned(),
            })
        };
        let mut source = Self {
            comments: text.lines().enumerate().filter_map(comment).collect(),
            is_test: vec![false; text.lines().count()],
            ..Self::default()
        };
        source.product = source.read(tokens, false);
        Ok(source)
    }

    /// Returns `true` if a line (counted from one) is test code.
    pub(crate) fn in_test(&self, line: usize) -> bool {
        self.is_test.get(line - 1).copied().unwrap_or(false)
    }

    /// Reads the tokens of one level and returns those of product code.
    fn read(&mut self, tokens: TokenStream, mut in_test: bool) -> Vec<Token> {
        let mut product = Vec::new();
        let mut tokens = tokens.into_iter().peekable();
        // The first line of the item after a test attribute.
        let mut test_item: Option<usize> = None;
        let within = in_test;
        let mut before = [String::new(), String::new()];
        while let Some(token) = tokens.next() {
            let mut ends_item = false;
            let mut name = String::new();
            let made = match token {
                TokenTree::Punct(sign) if sign.as_char() == '#' => {
                    if let Some(attribute) = attribute(&mut tokens)
                        && is_for_tests(&attribute)
                    {
                        test_item = test_item.or_else(|| Some(line(sign.span())));
                        in_test = true;
                    }
                    continue;
                }
                TokenTree::Punct(sign) => {
                    ends_item = matches!(sign.as_char(), ';' | ',');
                    let colon = |token: &TokenTree| matches!(token, TokenTree::Punct(next) if next.as_char() == ':');
                    if sign.as_char() == ':' && tokens.next_if(colon).is_some() {
                        Token::Path
                    } else {
                        Token::Sign(sign.as_char())
                    }
                }
                TokenTree::Literal(literal) => {
                    self.strings.extend(string(&literal));
                    continue;
                }
                TokenTree::Ident(ident) => {
                    name = ident.to_string();
                    let piece = || Piece {
                        line: line(ident.span()),
                        text: name.clone(),
                    };
                    if before[1] == "fn" {
                        self.functions.push(piece());
                    }
                    if before[1] == "mod" && in_test {
                        self.test_modules.push(name.clone());
                    }
                    Token::Name(name.clone())
                }
                TokenTree::Group(group) => {
                    ends_item = group.delimiter() == Delimiter::Brace;
                    // `cfg!(feature = "...")` names a feature, as the attribute does.
                    if before == ["cfg", "!"] {
                        continue;
                    }
                    let inside = self.read(group.stream(), in_test);
                    if ends_item {
                        self.mark(test_item.take(), &group);
                        Token::Braces(inside)
                    } else {
                        Token::Inside(inside)
                    }
                }
            };
            if let Token::Sign(sign) = made {
                name = sign.to_string();
            }
            let [_, last] = before;
            before = [last, name];
            if !in_test {
                product.push(made);
            }
            if ends_item {
                if let Some(start) = test_item.take() {
                    // A declaration such as `mod tests;`: one line in practice.
                    self.is_test[start - 1..]
                        .iter_mut()
                        .take(2)
                        .for_each(|t| *t = true);
                }
                in_test = within;
            }
        }
        product
    }

    /// Marks the lines of a test item that ends with this group.
    fn mark(&mut self, start: Option<usize>, group: &Group) {
        if let Some(start) = start {
            let end = line(group.span_close());
            self.is_test[start - 1..end].fill(true);
        }
    }
}

fn line(span: Span) -> usize {
    span.start().line
}

/// Returns the content of the attribute whose `#` was read.
fn attribute(
    tokens: &mut std::iter::Peekable<proc_macro2::token_stream::IntoIter>,
) -> Option<TokenStream> {
    let bang = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == '!');
    let _ = tokens.next_if(bang);
    let bracket = |token: &TokenTree| matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket);
    match tokens.next_if(bracket) {
        Some(TokenTree::Group(group)) => Some(group.stream()),
        _ => None,
    }
}

/// Returns `true` if an attribute is `cfg(test)` or `cfg(all(test, ...))`.
fn is_for_tests(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text.starts_with("cfg(test)") || text.starts_with("cfg(all(test")
}

/// Returns the content of a literal, if it is a string of characters or bytes.
fn string(literal: &Literal) -> Option<Piece> {
    let text = literal.to_string();
    let open = text.find('"')?;
    let close = text.rfind('"')?;
    // A character literal such as '"' contains a quote, too.
    (open < close && !text.starts_with('\'') && !text.starts_with("b'")).then(|| Piece {
        line: line(literal.span()),
        text: text[open + 1..close].to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_literals_are_distinguished() {
        let source = Source::parse(concat!(
            "let a = \"raw: // no comment\"; // unsafe in a comment\n",
            "/* nested /* unsafe */ still */ let b = b\"x\\\"y\";\n",
            "  // alone\n",
            "let c = br#\"one \" two\"#; let d = '\"'; let e: &'static str = r\"\\\";\n",
            "#[cfg(feature = \"raw\")] let f = cfg!(feature = \"raw\");\n",
        ))
        .expect("tokens");
        let texts: Vec<_> = source.strings.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(texts, ["raw: // no comment", "x\\\"y", "one \" two", "\\"]);
        assert_eq!(source.comments.len(), 1);
        assert!(!source.product.contains(&Token::Name("unsafe".to_owned())));
        assert!(Source::parse("let a = (;").is_err());
    }

    #[test]
    fn lines_are_counted_through_long_literals() {
        let source = Source::parse("let a = \"one\ntwo\";\n// here\nlet b = \"three\";\n");
        let source = source.expect("tokens");
        assert_eq!(source.comments[0].line, 3);
        assert_eq!(source.strings[1].line, 4);
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
        let source = Source::parse(text).expect("tokens");
        let product: Vec<_> = (1..=9).filter(|line| !source.in_test(*line)).collect();
        assert_eq!(product, [1, 6, 9]);
        assert_eq!(source.test_modules, ["tests", "more"]);
        let names: Vec<_> = source.functions.iter().map(|f| f.text.as_str()).collect();
        assert_eq!(names, ["product", "inner", "product_again", "last"]);
        assert!(!source.product.contains(&Token::Name("more".to_owned())));
    }
}
