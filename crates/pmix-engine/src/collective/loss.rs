// SPDX-License-Identifier: MIT OR Apache-2.0
//! Participants that go, and time that passes.

use pmix_types::{Proc, Status};

use super::tracker::Phase;
use crate::Engine;
use crate::ids::{ClientId, TrackerId};

impl Engine {
    /// A local process is gone. What it was to take part in ends, unless the host has gone on
    /// with it.
    ///
    /// DEVIATION: it ends for all participants with `PMIX_ERR_LOST_CONNECTION`; OpenPMIx goes on
    /// with those who are left, and some of them are told of a success that others are not;
    /// `a_participant_that_is_lost_ends_the_fence_for_all`.
    pub(crate) fn lost_to_collectives(&mut self, client: ClientId, proc: &Proc<'static>) {
        self.lost_to_early(client, proc);
        let known = |tracker: &super::tracker::Tracker| tracker.slots.contains_key(&client);
        for id in self.collectives.which(known) {
            let Some(tracker) = self.collectives.get_mut(id) else {
                continue;
            };
            let took_part = tracker.lose(client);
            match tracker.phase {
                Phase::Gathering if took_part => self.fail(id, Status::ERR_LOST_CONNECTION),
                Phase::Gathering | Phase::Hosting => {}
                Phase::Failed(_) => self.collectives.tidy(id),
            }
        }
    }

    /// The time of a collective is up.
    pub(crate) fn collective_expired(&mut self, id: TrackerId) {
        if let Some(tracker) = self.collectives.get_mut(id) {
            tracker.until = None;
        }
        self.fail(id, Status::ERR_TIMEOUT);
    }
}
