// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writer of the grammar: templates, loops, windows and joints.

use super::layout::Layout;
use super::merge::Element;
use super::region::{Region, Symbol};
use super::shape::{SINGLE, Shapes};
use crate::format::{Cursor, Move, SPECIAL, joint_mark, letter, loop_mark};
use crate::value::push_number;

/// Appends verbatim text.
pub(crate) fn push_plain(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        if SPECIAL.contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
}

/// The writer of the items of one region.
pub(crate) struct Writer<'w, 'a> {
    layout: &'w Layout<'a>,
    shapes: &'w Shapes<'w>,
    text: &'a [u8],
    /// The index of each column among those that the templates show as columns; `None` for other
    /// columns.
    shown: Vec<Option<usize>>,
    cursor: Cursor,
    group: bool,
    /// The number of names in a record, and the number of names missing in the last record of the
    /// region.
    names: usize,
    cut: usize,
}

impl<'w, 'a> Writer<'w, 'a> {
    pub(crate) fn new(text: &'a [u8], region: &'w Region<'a>, shapes: &'w Shapes<'w>) -> Self {
        let layout = &region.layout;
        let slots = &layout.slots;
        let moving = |column: usize| {
            (0..).take(region.symbols.len()).any(|symbol: Symbol| {
                let diff = region.symbols.diff(symbol);
                diff.get(column).is_some_and(|d| *d != 0)
            })
        };
        let moving: Vec<bool> = (0..slots.len()).map(moving).collect();
        // A column to the left of all moving columns does not affect the loops, so it needs no
        // backslash.
        let is_shown = |column: usize| {
            moving[column]
                || ((column + 1..slots.len())
                    .take_while(|c| slots[*c].name == slots[column].name)
                    .any(|c| moving[c])
                    && !(0..column).any(|c| slots[c].name == slots[column].name && moving[c]))
        };
        let mut names = Vec::new();
        let shown = (0..slots.len())
            .map(|column| {
                is_shown(column).then(|| {
                    names.push(slots[column].name);
                    names.len() - 1
                })
            })
            .collect();
        Self {
            layout,
            shapes,
            text,
            shown,
            cursor: Cursor::new(names),
            group: region.names > 1,
            names: region.names,
            cut: region.cut,
        }
    }

    /// Appends all elements of the region.
    pub(crate) fn write(&mut self, elements: &[Element], out: &mut Vec<u8>) {
        let mut way = Vec::new();
        let mut item = out.len();
        let mut behind = self.start_item(elements.first().map_or(0, |e| e.offset), out);
        for (at, element) in elements.iter().enumerate() {
            let cut = if at + 1 == elements.len() {
                self.cut
            } else {
                0
            };
            self.push_piece(element, cut, out);
            let (Some(joint), Some(next)) = (element.joint, elements.get(at + 1)) else {
                break;
            };
            way.clear();
            self.push_joint(joint, &mut way);
            // A template is at least as long as its record.
            let record = self.layout.end(next.offset) - next.offset;
            let restart = (record + 1 < way.len())
                .then(|| self.template(next.offset))
                .flatten();
            match restart {
                Some(template) if template.len() + 1 < way.len() => {
                    self.end_item(elements, at, item, behind, out);
                    out.push(self.shapes.symbols.separator(joint));
                    item = out.len();
                    out.extend(template);
                    behind = out.len();
                }
                _ => out.extend_from_slice(&way),
            }
        }
        self.end_item(elements, elements.len() - 1, item, behind, out);
    }

    fn start_item(&self, offset: usize, out: &mut Vec<u8>) -> usize {
        out.extend(self.template(offset).unwrap_or_default());
        out.len()
    }

    /// Ends an item. If no piece follows the template, the plain text of the record replaces the template.
    fn end_item(
        &self,
        elements: &[Element],
        last: usize,
        item: usize,
        behind: usize,
        out: &mut Vec<u8>,
    ) {
        if out.len() == behind
            && let Some(element) = elements.get(last)
        {
            out.truncate(item);
            let end = self.layout.end(element.offset);
            push_plain(out, &self.text[element.offset..end]);
        }
    }

    /// Returns the record at an offset as a template, or `None` if its numbers do not show their
    /// width.
    fn template(&self, offset: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        if self.group {
            out.push(b'(');
        }
        let mut at = offset;
        for ((slot, place), shown) in (self.layout.slots.iter())
            .zip(self.layout.places(offset))
            .zip(&self.shown)
        {
            let literal = &self.text[at..place.start];
            let run = literal
                .iter()
                .rev()
                .take_while(|b| b.is_ascii_digit())
                .count();
            push_plain(&mut out, &literal[..literal.len() - run]);
            if shown.is_none() {
                out.push(b'\\');
            }
            out.extend_from_slice(&literal[literal.len() - run..]);
            let digits = &self.text[place.clone()];
            if let (Some(width), Some(_), false) = (slot.width, shown, slot.cut) {
                if digits.len() > width {
                    return None;
                }
                if digits[0] != b'0' {
                    out.push(b'%');
                }
            }
            out.extend_from_slice(digits);
            at = place.end;
        }
        push_plain(&mut out, &self.text[at..self.layout.end(offset)]);
        if self.group {
            out.push(b')');
        }
        Some(out)
    }

    fn push_piece(&mut self, element: &Element, cut: usize, out: &mut Vec<u8>) {
        if element.shape == SINGLE {
            return;
        }
        let shape = *self.shapes.get(element.shape);
        let start = out.len();
        self.push_loops(element, cut, out);
        // A joint is shorter than a loop of two rounds, but its record cannot lack names.
        if cut == 0 && shape.inner == SINGLE && element.total == 2 && shape.size == 2 {
            let mut way = Vec::new();
            self.push_joint(shape.symbol, &mut way);
            if way.len() < out.len() - start {
                out.truncate(start);
                out.extend(way);
            }
        }
    }

    fn push_loops(&mut self, element: &Element, cut: usize, out: &mut Vec<u8>) {
        self.cursor.reset();
        for shape in self.shapes.loops(element.shape) {
            out.push(loop_mark(self.shapes.symbols.separator(shape.symbol)));
            push_decimal(out, shape.count);
            let moves = self.moves(self.shapes.step(shape.inner, shape.symbol));
            self.push_moves(&moves, out);
            self.cursor.apply(&moves, shape.count);
        }
        let in_names = |records: u64| records * u64::try_from(self.names).unwrap_or(1);
        if element.skip > 0 {
            out.push(b'<');
            push_decimal(out, in_names(element.skip));
        }
        if element.skip + element.total < self.shapes.get(element.shape).size || cut > 0 {
            out.push(b'>');
            let cut = u64::try_from(cut).unwrap_or(0);
            push_decimal(out, in_names(element.total) - cut);
        }
    }

    fn push_moves(&self, moves: &[Move], out: &mut Vec<u8>) {
        if same(moves, self.cursor.default_moves()) {
            return;
        }
        match moves.first() {
            None => out.extend_from_slice(b"+0"),
            Some((_, step)) if same(moves, self.cursor.step_moves(*step)) => {
                if *step > 0 {
                    out.push(b'+');
                }
                push_signed(out, *step);
            }
            Some(_) => self.push_columns(moves, out),
        }
    }

    fn push_columns(&self, moves: &[Move], out: &mut Vec<u8>) {
        for (column, step) in moves {
            out.extend(letter(self.cursor.len() - 1 - column));
            if *step != 1 {
                push_signed(out, *step);
            }
        }
    }

    fn push_joint(&mut self, symbol: Symbol, out: &mut Vec<u8>) {
        self.cursor.reset();
        out.push(joint_mark(self.shapes.symbols.separator(symbol)));
        let moves = self.moves(self.shapes.symbols.diff(symbol).iter().copied());
        match moves.first() {
            None => {}
            Some((_, step)) if same(&moves, self.cursor.step_moves(*step)) => {
                push_signed(out, *step);
            }
            Some(_) => self.push_columns(&moves, out),
        }
    }

    /// Returns the moves for these increments, with the indices of shown columns.
    fn moves(&self, steps: impl Iterator<Item = i64>) -> Vec<Move> {
        (self.shown.iter().zip(steps))
            .filter(|(_, step)| *step != 0)
            .filter_map(|(shown, step)| Some(((*shown)?, step)))
            .collect()
    }
}

/// Returns `true` if two sets of moves are equal. `moves` is in column order, `others` is in any
/// order.
fn same(moves: &[Move], mut others: Vec<Move>) -> bool {
    others.sort_unstable();
    moves == others
}

fn push_decimal(out: &mut Vec<u8>, number: u64) {
    push_signed(out, i64::try_from(number).unwrap_or(i64::MAX));
}

fn push_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push_number(out, number, 1);
}
