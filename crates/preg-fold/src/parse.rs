// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of the grammar. It returns one item at a time, and can record the fields for
//! explanations.

use std::borrow::Cow;
use std::ops::Range;

use preg_core::{Error, Explanation};

use crate::format::{
    Cursor, MAX_COLUMNS, MAX_LOOPS, Move, SPECIAL, VALUE_END, letter, letter_index,
};
use crate::value::{Column, Content, Item, Loop, Piece, Template};

/// The parser of the items of a value.
pub(crate) struct Parser<'a, 'n> {
    bytes: &'a [u8],
    at: usize,
    first: bool,
    notes: Option<&'n mut Explanation>,
}

impl<'a, 'n> Parser<'a, 'n> {
    /// Creates a parser for the items that start at `at`, after the version.
    pub(crate) fn new(bytes: &'a [u8], at: usize, notes: Option<&'n mut Explanation>) -> Self {
        Self {
            bytes,
            at,
            first: true,
            notes,
        }
    }

    /// Returns the next item, or `None` at the end.
    pub(crate) fn next_item(&mut self) -> Result<Option<Item<'a>>, Error> {
        let mut separator = None;
        if !std::mem::take(&mut self.first) {
            let Some(byte) = self.peek() else {
                return Ok(None);
            };
            separator = Some(byte);
            self.at += 1;
            self.note(self.at - 1, "separator", || {
                String::from("between two items")
            });
        }
        let offset = self.at;
        let content = match self.plain() {
            Some(text) => Content::Plain(text),
            None => {
                let template = self.template()?;
                let pieces = self.pieces(&template)?;
                Content::Folded(template, pieces)
            }
        };
        Ok(Some(Item {
            offset,
            separator,
            content,
        }))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn note(&mut self, start: usize, name: &'static str, meaning: impl FnOnce() -> String) {
        let range = start..self.at;
        if let Some(notes) = &mut self.notes {
            notes.field(range, name, meaning());
        }
    }

    fn expected(&self, what: &str) -> Error {
        let found = match self.peek() {
            Some(byte) => format!("\"{}\"", byte.escape_ascii()),
            None => String::from("the end"),
        };
        Error::damaged(self.at, format!("expected {what}, found {found}"))
    }

    /// Parses an item without columns and loops, if there is one.
    fn plain(&mut self) -> Option<Cow<'a, [u8]>> {
        let rest = self.bytes.get(self.at..)?;
        let is_end = |b: &u8| matches!(b, b',' | b';');
        let stop = rest
            .iter()
            .position(|b| is_end(b) || SPECIAL.contains(b))
            .unwrap_or(rest.len());
        let (mut text, mut end) = (Cow::Borrowed(&rest[..stop]), stop);
        while rest.get(end) == Some(&b'\\') {
            text.to_mut()
                .push(*rest.get(end + 1).filter(|b| !is_end(b))?);
            let from = end + 2;
            let more = rest.get(from..)?;
            let len = more
                .iter()
                .position(|b| is_end(b) || SPECIAL.contains(b))
                .unwrap_or(more.len());
            text.to_mut().extend_from_slice(&more[..len]);
            end = from + len;
        }
        if rest.get(end).is_some_and(|b| !is_end(b)) {
            return None;
        }
        let start = self.at;
        self.at += end;
        self.note(start, "name", || String::from("text as it stands"));
        Some(text)
    }

    fn digits(&mut self) -> Range<usize> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        start..self.at
    }

    fn number(&mut self, what: &str) -> Result<u64, Error> {
        let range = self.digits();
        if range.is_empty() {
            return Err(self.expected(what));
        }
        let text = self.bytes.get(range.clone()).unwrap_or_default();
        text.iter()
            .try_fold(0_u64, |n, b| {
                n.checked_mul(10)?.checked_add(u64::from(b - b'0'))
            })
            .ok_or_else(|| Error::damaged(range.start, format!("{what} is above 2^64")))
    }

    fn template(&mut self) -> Result<Template, Error> {
        let start = self.at;
        let group = self.peek() == Some(b'(');
        self.at += usize::from(group);
        let mut template = Template {
            literals: vec![Vec::new()],
            columns: Vec::new(),
            names: 1,
        };
        loop {
            match self.peek() {
                Some(b')') if group => {
                    self.at += 1;
                    break;
                }
                None | Some(b',' | b';' | b'*' | b'/' | b'^' | b'~') if !group => break,
                Some(b'%' | b'0'..=b'9') => self.column(&mut template)?,
                Some(b'\\') => self.escape(&mut template)?,
                None | Some(b'*' | b'/' | b'^' | b'~') => {
                    return Err(self.expected("`)`, the end of the group"));
                }
                Some(b'(' | b')') => return Err(self.expected("`\\` before a parenthesis")),
                Some(byte) => {
                    template.names += usize::from(matches!(byte, b',' | b';'));
                    self.at += 1;
                    template.text().push(byte);
                }
            }
        }
        self.note(start, "template", || {
            format!(
                "{} name(s) with {} column(s), counted a, b, ... from the right",
                template.names,
                template.columns.len()
            )
        });
        Ok(template)
    }

    /// Parses `\` and the literal after it: one byte, or all consecutive digits.
    fn escape(&mut self, template: &mut Template) -> Result<(), Error> {
        self.at += 1;
        let start = self.at;
        if self.digits().is_empty() {
            self.at += 1;
        }
        let Some(literal) = self.bytes.get(start..self.at) else {
            self.at = start;
            return Err(self.expected("a byte behind `\\`"));
        };
        // Separators divide the names of a record. A name with an escaped separator would be two
        // names in the list text.
        if matches!(literal, b"," | b";") {
            self.at = start;
            return Err(self.expected("a byte of a name behind `\\`"));
        }
        template.text().extend_from_slice(literal);
        Ok(())
    }

    fn column(&mut self, template: &mut Template) -> Result<(), Error> {
        let padded = self.peek() == Some(b'%');
        self.at += usize::from(padded);
        let range = self.digits();
        if range.is_empty() {
            return Err(self.expected("digits behind `%`"));
        }
        if template.columns.len() >= MAX_COLUMNS {
            return Err(Error::damaged(
                range.start,
                format!("more than {MAX_COLUMNS} columns in a template"),
            ));
        }
        let cut = range.end.saturating_sub(18).max(range.start);
        let literal = self.bytes.get(range.start..cut).unwrap_or_default();
        template.text().extend_from_slice(literal);
        let digits = self.bytes.get(cut..range.end).unwrap_or_default();
        let zeros = digits.len() > 1 && digits.first() == Some(&b'0');
        let fixed = padded || zeros || cut > range.start;
        template.columns.push(Column {
            value: digits
                .iter()
                .fold(0, |n, b| n * 10 + i64::from(b.wrapping_sub(b'0'))),
            width: if fixed { digits.len() } else { 1 },
            name: template.names - 1,
        });
        template.literals.push(Vec::new());
        Ok(())
    }

    fn pieces(&mut self, template: &Template) -> Result<Vec<Piece>, Error> {
        let mut cursor = Cursor::new(template.columns.iter().map(|c| c.name).collect());
        let mut pieces = vec![self.piece(&mut cursor, None)?];
        while let Some(mark @ (b'^' | b'~')) = self.peek() {
            let start = self.at;
            self.at += 1;
            cursor.reset();
            let moves = match self.peek() {
                Some(b'0'..=b'9') => {
                    let step = self.number("a step")?;
                    cursor.step_moves(self.fit(step, false)?)
                }
                _ => self.moves(&cursor)?.unwrap_or_default(),
            };
            self.note(start, "joint", || {
                format!("the next record is the last one {}", shown(&moves, &cursor))
            });
            let separator = if mark == b'~' { b';' } else { b',' };
            pieces.push(self.piece(&mut cursor, Some((separator, moves)))?);
        }
        match self.peek() {
            None | Some(b',' | b';') => Ok(pieces),
            Some(_) => Err(self.expected("a loop, a joint or a separator")),
        }
    }

    fn piece(
        &mut self,
        cursor: &mut Cursor,
        joint: Option<(u8, Vec<Move>)>,
    ) -> Result<Piece, Error> {
        cursor.reset();
        let offset = self.at;
        let mut loops = Vec::new();
        while let Some(mark @ (b'*' | b'/')) = self.peek() {
            if loops.len() >= MAX_LOOPS {
                return Err(Error::damaged(
                    self.at,
                    format!("more than {MAX_LOOPS} loops in a piece"),
                ));
            }
            loops.push(self.one_loop(mark, cursor)?);
        }
        let skip = self.window(b'<', "skip", !loops.is_empty())?.unwrap_or(0);
        let take = self.window(b'>', "take", !loops.is_empty())?;
        Ok(Piece {
            offset,
            joint,
            loops,
            skip,
            take,
        })
    }

    fn one_loop(&mut self, mark: u8, cursor: &mut Cursor) -> Result<Loop, Error> {
        let start = self.at;
        self.at += 1;
        let count = self.number("a count after the loop's mark")?;
        if count == 0 {
            return Err(Error::damaged(start + 1, "a loop of no rounds"));
        }
        let moves = match self.moves(cursor)? {
            Some(moves) => moves,
            None => cursor.default_moves(),
        };
        self.note(start, "loop", || {
            format!("{count} rounds, each {}", shown(&moves, cursor))
        });
        cursor.apply(&moves, count);
        Ok(Loop {
            separator: if mark == b'/' { b';' } else { b',' },
            count,
            moves,
        })
    }

    fn window(&mut self, mark: u8, name: &'static str, any: bool) -> Result<Option<u64>, Error> {
        if !any || self.peek() != Some(mark) {
            return Ok(None);
        }
        let start = self.at;
        self.at += 1;
        let number = self.number("a number of records")?;
        self.note(start, name, || format!("{number} records of the product"));
        Ok(Some(number))
    }

    /// Parses the moves of a loop or joint, or returns `None` if there are none.
    fn moves(&mut self, cursor: &Cursor) -> Result<Option<Vec<Move>>, Error> {
        match self.peek() {
            Some(b'+' | b'-') => {
                let step = self.step()?;
                return Ok(Some(cursor.step_moves(step)));
            }
            Some(b) if b.is_ascii_alphabetic() => {}
            _ => return Ok(None),
        }
        let mut moves: Vec<Move> = Vec::new();
        while let Some(index) = self.peek().and_then(letter_index) {
            let column = (cursor.len().checked_sub(index + 1))
                .filter(|c| !moves.iter().any(|m| m.0 == *c))
                .ok_or_else(|| self.expected("another column of the template"))?;
            self.at += 1;
            let step = match self.peek() {
                Some(b'+' | b'-' | b'0'..=b'9') => self.step()?,
                _ => 1,
            };
            if step != 0 {
                moves.push((column, step));
            }
        }
        Ok(Some(moves))
    }

    fn step(&mut self) -> Result<i64, Error> {
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
        let number = self.number("a step")?;
        self.fit(number, negative)
    }

    fn fit(&self, number: u64, negative: bool) -> Result<i64, Error> {
        let number = i64::try_from(number)
            .ok()
            .filter(|n| *n < VALUE_END)
            .ok_or_else(|| Error::damaged(self.at, "a step of more than 18 digits"))?;
        Ok(if negative { -number } else { number })
    }
}

fn shown(moves: &[Move], cursor: &Cursor) -> String {
    if moves.is_empty() {
        return String::from("unchanged");
    }
    let words: Vec<_> = moves
        .iter()
        .map(|(column, step)| {
            let letter = letter(cursor.len() - 1 - column).unwrap_or(b'?');
            format!("column {} {step:+}", char::from(letter))
        })
        .collect();
    words.join(", ")
}
