// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks: the shortest division of a part of a list into names and groups.
//!
//! A group consists of consecutive names that differ in one field only. So no group contains two
//! neighbors that differ in more than one field. Such neighbors divide the list into *blocks*, in
//! which all names are equally long.
//!
//! Each block is solved separately and exactly by dynamic programming over its names. The state is
//! the length of the shortest text that ends with the current name, and the *tracks*. A track is
//! the length of the shortest text whose last element is an open group on one field. Only fields in
//! which neighbors differ need a track. For nearly every name that is one field.
//!
//! For consecutive numbers, a group on that field is always optimal from four names on, because the
//! next number makes the text no longer. Such names are therefore counted instead of solved. So are
//! names of any numbers whose group certainly continues (`settled.rs`).

use memchr::memchr3;
use pmix_map::scan::{self, Link};

use crate::fold::{self, Column, Field};
use crate::grammar;

/// A part of the list in which each name differs from the next in at most one field.
pub(crate) struct Block<'a> {
    pub(crate) text: &'a [u8],
    /// The offset of the first name.
    pub(crate) base: usize,
    /// The length of each name.
    pub(crate) len: usize,
    /// The number of names.
    pub(crate) count: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) tracks: Vec<Track>,
    pub(crate) column: Column,
}

impl<'a> Block<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            base: 0,
            len: 0,
            count: 0,
            steps: Vec::new(),
            tracks: Vec::new(),
            column: Column::default(),
        }
    }

    /// Returns the name with this index.
    pub(crate) fn name(&self, index: usize) -> &'a [u8] {
        let start = self.base + index * (self.len + 1);
        &self.text[start..start + self.len]
    }

    /// Returns the index of the first name after a step.
    pub(crate) fn first_after(&self, step: usize) -> usize {
        self.steps.get(step + 1).map_or(self.count, |s| s.first)
    }

    /// Writes the last step of each element of the shortest text to `ends`, the last element first.
    pub(crate) fn last_steps(&self, ends: &mut Vec<usize>) {
        ends.clear();
        let mut end = self.steps.len();
        while let Some(last) = end.checked_sub(1) {
            ends.push(last);
            end = self.steps[last].begin;
        }
    }

    /// Parses and solves the block at offset `base`. Returns the offset of the next block. It is
    /// beyond the text if there is none. Returns `None` if the form cannot represent a name.
    pub(crate) fn read(&mut self, base: usize) -> Option<usize> {
        let end = scan::name_end(self.text, base, b',');
        let first = &self.text[base..end];
        if first.is_empty() || memchr3(b'[', b']', 0, first).is_some() {
            return None;
        }
        (self.base, self.len, self.count) = (base, first.len(), 0);
        self.steps.clear();
        self.tracks.clear();
        self.push(None);
        let mut at = end + 1;
        let mut last = None;
        while at <= self.text.len() {
            match self.link(at, last) {
                Link::Break => break,
                Link::Same => self.same(),
                Link::Field(field) => {
                    let field = Field::from(field);
                    last = Some(field);
                    at = self.take_settled(at, field);
                    self.advance(field);
                }
            }
            at = self.skip_run(at + self.len + 1);
        }
        Some(at)
    }

    /// Returns how the name at offset `at` differs from the previous name. It first tries `last`,
    /// the field in which the previous two names differ.
    fn link(&self, at: usize, last: Option<Field>) -> Link {
        let name = self.name(self.count - 1);
        let end = at + self.len;
        let Some(next) = self.text.get(at..end) else {
            return Link::Break;
        };
        if self.text.get(end).is_some_and(|b| *b != b',') {
            return Link::Break;
        }
        if let Some(field) = last
            && name[..field.start] == next[..field.start]
            && name[field.end..] == next[field.end..]
            && field.digits(next).iter().all(u8::is_ascii_digit)
        {
            return if field.digits(name) == field.digits(next) {
                Link::Same
            } else {
                Link::Field(field.start..field.end)
            };
        }
        // A shorter next name differs at the place of its comma.
        scan::link(name, next)
    }

    /// Returns the length of the shortest text of the names before a step.
    fn cost_before(&self, step: usize) -> usize {
        step.checked_sub(1).map_or(0, |s| self.steps[s].cost)
    }

    /// Returns the track of a group that begins with the last step.
    fn fresh(&self, field: Field) -> Track {
        let begin = self.steps.len() - 1;
        let name = self.name(self.count - 1);
        let number = scan::number(field.digits(name));
        let digits = grammar::decimal_len(number);
        let frame = field.frame_len(name);
        Track {
            field,
            cost: self.cost_before(begin) + 1 + frame + digits,
            begin,
            run: 1,
            number,
            digits,
            frame,
        }
    }

    /// Returns the track of a new group on the same field that begins with the last step.
    fn restarted(&self, track: &Track) -> Track {
        let begin = self.steps.len() - 1;
        Track {
            cost: self.cost_before(begin) + 1 + track.frame + track.digits,
            begin,
            run: 1,
            ..*track
        }
    }

    /// Adds the next name, which differs from the last one in this field.
    fn advance(&mut self, field: Field) {
        let old = self.tracks.iter().find(|t| t.field == field).copied();
        let fresh = old.map_or_else(|| self.fresh(field), |t| self.restarted(&t));
        let number = scan::number(field.digits(self.name(self.count)));
        let digits = grammar::decimal_len(number);
        let mut track = fresh.then(number, digits);
        if let Some(longer) = old.map(|t| t.then(number, digits))
            && longer.cost <= track.cost
        {
            track = longer;
        }
        self.tracks.clear();
        self.tracks.push(track);
        self.push(Some(track));
    }

    /// Adds the next name, which equals the last one: a group on any field can contain both.
    fn same(&mut self) {
        let name = self.name(self.count);
        if self.tracks.len() < 2 {
            for field in Field::of(name) {
                if self.tracks.iter().all(|t| t.field != field) {
                    self.tracks.push(self.fresh(field));
                }
            }
            self.tracks.sort_by_key(|t| t.field.start);
        }
        for at in 0..self.tracks.len() {
            let old = self.tracks[at];
            let fresh = self.restarted(&old);
            let better = if old.cost <= fresh.cost { old } else { fresh };
            self.tracks[at] = better.then(old.number, old.digits);
        }
        let best = self.tracks.iter().min_by_key(|t| t.cost).copied();
        self.push(best);
    }

    /// Adds a step for the next name. `track` is the best track that the name continues.
    fn push(&mut self, track: Option<Track>) {
        let begin = self.steps.len();
        let mut best = Step {
            first: self.count,
            cost: track.map_or(usize::MAX, |t| t.cost),
            begin: track.map_or(begin, |t| t.begin),
            field: track.map(|t| t.field),
            is_run: false,
        };
        // If the group was best before, it remains best: another range is never longer than the
        // name alone.
        let settled = self.steps.last().is_some_and(|s| s.same_group(&best));
        if !settled {
            let alone = self.cost_before(begin) + 1 + fold::alone(self.name(self.count)).0;
            if alone < best.cost {
                best.cost = alone;
                best.begin = begin;
                best.field = None;
            }
        }
        if self.joins(&best) {
            self.join();
            if best.field.is_none() {
                best.begin = begin - 1;
            }
        }
        self.count += 1;
        self.steps.push(best);
    }

    /// Returns `true` if the last two steps can be merged: `next` continues both, and no track
    /// begins with either.
    fn joins(&self, next: &Step) -> bool {
        let [.., one, two] = &self.steps[..] else {
            return false;
        };
        let alike = match next.field {
            Some(_) => next.same_group(one) && next.same_group(two),
            None => one.field.is_none() && two.field.is_none(),
        };
        let index = self.steps.len() - 2;
        let is_run = one.is_run || two.is_run;
        alike && !is_run && self.tracks.iter().all(|t| t.begin < index)
    }

    /// Merges the last two steps.
    fn join(&mut self) {
        if let Some(last) = self.steps.pop()
            && let Some(step) = self.steps.last_mut()
        {
            step.cost = last.cost;
        }
    }
}

/// A step of the dynamic programming: a name, or several names that are in the same group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The index in the block of the first name.
    pub(crate) first: usize,
    /// The length of the shortest text up to here, with one separator for each element. It may lack
    /// bytes that all texts from here on have in common.
    pub(crate) cost: usize,
    /// The first step of the last element of the shortest text.
    pub(crate) begin: usize,
    /// The field of the last element, if it is a group.
    pub(crate) field: Option<Field>,
    /// `true` if the names of the step have consecutive numbers.
    pub(crate) is_run: bool,
}

impl Step {
    /// Returns `true` if the shortest texts of both steps end in the same group.
    pub(crate) fn same_group(&self, other: &Self) -> bool {
        self.field.is_some() && self.field == other.field && self.begin == other.begin
    }
}

/// The shortest text that ends in an open group on one field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    /// The field of the open group.
    pub(crate) field: Field,
    /// The length of the text, counted as in `Step::cost`.
    pub(crate) cost: usize,
    /// The first step of the group.
    pub(crate) begin: usize,
    /// The number of names in the last range.
    pub(crate) run: usize,
    /// The last number of the group, and its number of digits.
    pub(crate) number: u64,
    pub(crate) digits: usize,
    /// The length of the group without its ranges.
    pub(crate) frame: usize,
}

impl Track {
    /// Returns the track with one more name, which has this number.
    pub(crate) fn then(mut self, number: u64, digits: usize) -> Self {
        let consecutive = number == self.number + 1;
        self.cost += match (consecutive, self.run > 1) {
            (true, true) => digits - self.digits,
            _ => 1 + digits,
        };
        self.run = if consecutive { self.run + 1 } else { 1 };
        self.number = number;
        self.digits = digits;
        self
    }
}
