// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that are counted, not solved: their group cannot but go on.
//!
//! All but the last of such names become one step. The last is solved like any other, because
//! another element may begin with it. Every text from there on contains the counted names in the
//! same form, so what they cost need not be known.

use pmix_map::scan;

use crate::block::Block;
use crate::decimal;
use crate::fold::Field;
use crate::track::{Step, Track};

/// Names of a run that are taken one by one first: the first may be better off with its other
/// neighbour, and counting is only worth it for longer runs.
const SOLVED: usize = 4;

impl Block<'_> {
    /// Whether the best text goes on with the same group if the next name differs in this field.
    ///
    /// It does if the last two steps are in it: the second joined for a comma and its number at
    /// most, and a group that began with it would cost as much and its frame.
    fn settled(&self, field: Field) -> Option<Track> {
        let (&[track], [.., one, two]) = (&self.tracks[..], &self.steps[..]) else {
            return None;
        };
        let goes_on = track.field == field
            && two.field == Some(field)
            && two.begin == track.begin
            && one.same_group(two)
            // What follows a run is its last name, which ends it.
            && !two.is_run;
        goes_on.then_some(track)
    }

    /// Counts the names from a byte on that a settled group takes in, all but the last.
    ///
    /// The name there is known to differ from the last one in this field; so does the name at the
    /// byte that is returned.
    pub(crate) fn take_settled(&mut self, mut at: usize, field: Field) -> usize {
        let Some(mut track) = self.settled(field) else {
            return at;
        };
        self.column.set(self.name(self.count - 1), field);
        loop {
            let before = self.count;
            at = self.take_scattered(at, &mut track);
            if track.run == SOLVED {
                at = self.take_run(at, &mut track);
            }
            if self.count == before {
                break;
            }
        }
        track.digits = decimal::len(track.number);
        self.tracks[0] = track;
        at
    }

    /// Takes names in any order up to where they begin to count up.
    fn take_scattered(&mut self, mut at: usize, track: &mut Track) -> usize {
        let stride = self.len + 1;
        let Some(mut next) = self.column.number(self.text, at) else {
            return at;
        };
        let (mut names, mut number, mut run) = (0, track.number, track.run);
        // A name that equals the one before it may be carried by any field.
        while let Some(after) = self.column.number(self.text, at + stride)
            && after != next
        {
            run = if next == number + 1 { run + 1 } else { 1 };
            (number, next) = (next, after);
            names += 1;
            at += stride;
            if run == SOLVED {
                break;
            }
        }
        (track.number, track.run) = (number, run);
        self.count_as_step(names, track, false);
        at
    }

    /// Counts the rest of a run of consecutive numbers if the best text takes it as a group.
    ///
    /// `at` is where the next name starts; returns the same after the step.
    pub(crate) fn skip_run(&mut self, at: usize) -> usize {
        let (&[mut track], [before @ .., step]) = (&self.tracks[..], &self.steps[..]) else {
            return at;
        };
        let inside = step.field == Some(track.field) && step.begin == track.begin;
        // The last name of a run that was counted ends it.
        let ended = before.last().is_some_and(|s| s.is_run);
        if !inside || ended || track.run < SOLVED {
            return at;
        }
        let at = self.take_run(at, &mut track);
        track.digits = decimal::len(track.number);
        self.tracks[0] = track;
        at
    }

    /// Takes the names from a byte on whose numbers count up, all but the last.
    fn take_run(&mut self, at: usize, track: &mut Track) -> usize {
        let name = self.name(self.count - 1);
        let field = track.field.start..track.field.end;
        let (more, _) = scan::successors(self.text, at, name, field, b',');
        let names = more.saturating_sub(1);
        track.number += names as u64;
        track.run += names;
        self.count_as_step(names, track, true);
        at + names * (self.len + 1)
    }

    /// Adds the next names, if any, as one step that continues a track.
    fn count_as_step(&mut self, names: usize, track: &Track, is_run: bool) {
        if names == 0 {
            return;
        }
        self.steps.push(Step {
            first: self.count,
            cost: track.cost,
            begin: track.begin,
            field: Some(track.field),
            is_run,
        });
        self.count += names;
    }
}
