// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructions that have ended on this node without a word of who leads them, so that a leader of another node that
//! is heard of later is not asked about them.
//!
//! The host may end a construction before it has brought the event that says who leads it, and one that failed has
//! failed for a leader that calls later. Where processes of this node had called and are lost by then, the event must
//! not begin the construction anew: the leader would be asked about a process that is a member, or of a group that
//! there will not be, and the host be called once more. So nobody is asked until the server of the leader has had the
//! time to say that it has ended there, too, or a process of this node calls.

use std::hash::BuildHasher as _;

use super::kind::Collective;
use super::table::Collectives;
use super::tracker::Key;
use crate::cx::Cx;
use crate::ids::TrackerId;
use crate::timer::Timer;

/// How many are remembered.
const MAX_RECENT: usize = 64;

impl Collectives {
    /// One has ended here.
    pub(super) fn note_ended(&mut self, cx: &Cx, id: TrackerId) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        let is_heard = { tracker.leadership.as_ref() }.is_some_and(|led| !led.heard_of.is_empty());
        if tracker.key.0 != Collective::GroupConstruct
            || is_heard
            || Self::is_local(cx, &tracker.key.1)
        {
            return;
        }
        let hash = self.by_key.hasher().hash_one(&tracker.key);
        while self.recent.len() >= MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(hash);
    }

    /// Whether one of these participants has ended, which what is heard of its leader is about at most once.
    pub(super) fn take_recent(&mut self, key: &Key) -> bool {
        let hash = self.by_key.hasher().hash_one(key);
        let found = self.recent.iter().position(|other| *other == hash);
        found.is_some_and(|place| self.recent.remove(place).is_some())
    }

    /// A leader may have been heard of late: nobody is asked for as long as leaders are waited for.
    pub(super) fn hold_back(&mut self, cx: &mut Cx, id: TrackerId) {
        if let Some(leadership) = self.leadership_of(id) {
            leadership.is_held_back = true;
            let until = cx.after(cx.config.leader_time);
            self.wait_until(cx, id, until);
        }
    }

    /// It leads a construction that has not ended, if it was held back: it is asked about all that are lost.
    pub(super) fn ask_held_back(&mut self, cx: &mut Cx, id: TrackerId) {
        if self.is_held_back(id) {
            if let Some(leadership) = self.leadership_of(id) {
                leadership.is_held_back = false;
                if let Some(until) = leadership.until.take() {
                    cx.timers.cancel(until, Timer::Leadership(id));
                }
            }
            self.ask_anew(cx, id);
        }
    }

    pub(super) fn is_held_back(&self, id: TrackerId) -> bool {
        let leadership = self.get(id).and_then(|open| open.leadership.as_ref());
        leadership.is_some_and(|led| led.is_held_back)
    }
}
