// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that are counted instead of solved, because their group certainly continues.
//!
//! All such names but the last become one step. The last one is solved like any other, because
//! another element may begin with it. Every text from there on contains the counted names in the
//! same form, so their cost is irrelevant.

use pmix_map::scan;

use crate::block::Block;
use crate::decimal;
use crate::fold::Field;
use crate::track::{Step, Track};

/// The names of a run that are solved one by one: the first name may fit its other neighbor better,
/// and counting pays off only for longer runs.
const SOLVED: usize = 4;

impl Block<'_> {
    /// Returns the track of the best text if its group certainly continues with a next name that
    /// differs in this field.
    ///
    /// It does if the last two steps are in the group: the second one cost at most a comma and its
    /// number, while a new group with it would cost as much and its frame.
    fn settled(&self, field: Field) -> Option<Track> {
        let (&[track], [.., one, two]) = (&self.tracks[..], &self.steps[..]) else {
            return None;
        };
        let goes_on = track.field == field
            && two.field == Some(field)
            && two.begin == track.begin
            && one.same_group(two)
            // The step after a run is its last name, which ends it.
            && !two.is_run;
        goes_on.then_some(track)
    }

    /// Counts the names from an offset on that a settled group absorbs, except the last one.
    ///
    /// The name at `at` must differ from the last one in this field; the same is true for the name
    /// at the returned offset.
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

    /// Counts names in any order up to the start of a run.
    fn take_scattered(&mut self, mut at: usize, track: &mut Track) -> usize {
        let stride = self.len + 1;
        let Some(mut next) = self.column.number(self.text, at) else {
            return at;
        };
        let (mut names, mut number, mut run) = (0, track.number, track.run);
        // A group on any field can contain a name that equals its predecessor.
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

    /// Counts the rest of a run of consecutive numbers if the best text has it as a group.
    ///
    /// `at` is the offset of the next name; returns the offset of the next name after the step.
    pub(crate) fn skip_run(&mut self, at: usize) -> usize {
        let (&[mut track], [before @ .., step]) = (&self.tracks[..], &self.steps[..]) else {
            return at;
        };
        let inside = step.field == Some(track.field) && step.begin == track.begin;
        // The last name of a counted run ends it.
        let ended = before.last().is_some_and(|s| s.is_run);
        if !inside || ended || track.run < SOLVED {
            return at;
        }
        let at = self.take_run(at, &mut track);
        track.digits = decimal::len(track.number);
        self.tracks[0] = track;
        at
    }

    /// Counts the names from an offset on whose numbers count up, except the last one.
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
