// SPDX-License-Identifier: MIT OR Apache-2.0
//! The constructs that have ended on this node before their leader was announced.
//!
//! The host may end a construct before it delivers the announcement of the leader. The announcement must not begin the
//! construct again: the leader would be asked about lost processes that are members of the group, and the host would be
//! called once more. The questions are therefore held back until a local process calls, or until the server of the
//! leader has had the time to announce the end.

use std::hash::BuildHasher as _;

use super::super::kind::Collective;
use super::super::table::Collectives;
use super::super::tracker::Key;
use crate::cx::Cx;
use crate::ids::TrackerId;
use crate::timer::Timer;

/// The limit of remembered constructs.
const MAX_RECENT: usize = 64;

impl Collectives {
    /// Remembers a construct that has ended here.
    pub(in super::super) fn note_ended(&mut self, cx: &Cx, id: TrackerId) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        // Once the leader is known here, no late announcement follows.
        let has_other_leaders = { tracker.construct.leadership.as_ref() }
            .is_some_and(|led| !led.announced_leaders.is_empty());
        if tracker.key.0 != Collective::GroupConstruct
            || has_other_leaders
            || Self::is_local(cx, &tracker.key.1)
        {
            return;
        }
        // A hash suffices, because a false match only delays the questions.
        let hash = self.by_key.hasher().hash_one(&tracker.key);
        while self.recent.len() >= MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(hash);
    }

    /// Returns `true` if a construct of these participants has ended, and removes the record, because one announcement
    /// may follow.
    pub(in super::super) fn take_recent(&mut self, key: &Key) -> bool {
        let hash = self.by_key.hasher().hash_one(key);
        let found = self.recent.iter().position(|other| *other == hash);
        found.is_some_and(|place| self.recent.remove(place).is_some())
    }

    /// Delays the questions to a leader about lost processes, because its construct may have ended before it was
    /// announced here.
    pub(in super::super) fn hold_back(&mut self, cx: &mut Cx, id: TrackerId) {
        if let Some(leadership) = self.leadership_of(id) {
            leadership.is_held_back = true;
            let until = cx.after(cx.config.leader_time);
            self.wait_until(cx, id, until);
        }
    }

    /// Asks the leader about all lost processes, if [`hold_back`](Self::hold_back) delayed these questions. Called when
    /// a call, an election or the expired time limit shows that the construct has not ended.
    pub(in super::super) fn ask_held_back(&mut self, cx: &mut Cx, id: TrackerId) {
        if self.is_held_back(id) {
            if let Some(leadership) = self.leadership_of(id) {
                leadership.is_held_back = false;
                if let Some(until) = leadership.until.take() {
                    cx.timers.cancel(until, Timer::Leadership(id));
                }
            }
            self.ask_about_lost(cx, id);
        }
    }

    pub(in super::super) fn is_held_back(&self, id: TrackerId) -> bool {
        let leadership = self
            .get(id)
            .and_then(|open| open.construct.leadership.as_ref());
        leadership.is_some_and(|led| led.is_held_back)
    }
}
