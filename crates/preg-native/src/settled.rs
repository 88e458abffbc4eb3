// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that are counted instead of solved, because their group certainly continues.
//!
//! Such names except the last become one step. The last one is solved, because another element may
//! begin with it. All texts from there on contain the counted names in the same form, so their
//! length does not matter.

use pmix_map::scan;

use crate::block::{Block, Step, Track};
use crate::fold::Field;
use crate::grammar;

/// The number of names with consecutive numbers that are solved one by one. The first name may
/// belong to the group before, and counting is only faster for more names.
const SOLVED: usize = 4;

impl Block<'_> {
    /// Returns the track of the shortest text, if the next name certainly continues its group. The
    /// next name must differ in `field` only.
    ///
    /// This is certain if the last two steps are in the group. The second step added at most a
    /// comma and its number. A new group would add its frame as well.
    fn settled(&self, field: Field) -> Option<Track> {
        let (&[track], [.., one, two]) = (&self.tracks[..], &self.steps[..]) else {
            return None;
        };
        let goes_on = track.field == field
            && two.field == Some(field)
            && two.begin == track.begin
            && one.same_group(two)
            // After a step of consecutive numbers, the next name is the last of them, which is
            // solved.
            && !two.is_run;
        goes_on.then_some(track)
    }

    /// Counts the names from offset `at` on that certainly continue the group, except the last one.
    /// Returns the offset of the first name that is not counted.
    ///
    /// The name at `at` must differ from its predecessor in `field` only. So does the name at the
    /// returned offset.
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
        track.digits = grammar::decimal_len(track.number);
        self.tracks[0] = track;
        at
    }

    /// Counts names whose numbers are in any order, until consecutive numbers begin.
    fn take_scattered(&mut self, mut at: usize, track: &mut Track) -> usize {
        let stride = self.len + 1;
        let Some(mut next) = self.column.number(self.text, at) else {
            return at;
        };
        let (mut names, mut number, mut run) = (0, track.number, track.run);
        // The loop also counts a name that equals its predecessor: a group on any field can contain
        // both.
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

    /// Counts the names from offset `at` on with consecutive numbers, except the last one, if the
    /// shortest text of the names before ends with a group of consecutive numbers. Returns the
    /// offset of the first name that is not counted.
    pub(crate) fn skip_run(&mut self, at: usize) -> usize {
        let (&[mut track], [before @ .., step]) = (&self.tracks[..], &self.steps[..]) else {
            return at;
        };
        let inside = step.field == Some(track.field) && step.begin == track.begin;
        // If the step before is of consecutive numbers, this step is the last of them.
        let ended = before.last().is_some_and(|s| s.is_run);
        if !inside || ended || track.run < SOLVED {
            return at;
        }
        let at = self.take_run(at, &mut track);
        track.digits = grammar::decimal_len(track.number);
        self.tracks[0] = track;
        at
    }

    /// Counts the names from offset `at` on with consecutive numbers, except the last one.
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

    /// Adds the next `names` names as one step that continues a track; nothing if `names` is 0.
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
