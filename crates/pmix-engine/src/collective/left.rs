// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the members of a group do together goes on when one of them leaves it.
//!
//! Their calls name the members that the group had when they called, so what has begun with one more is
//! begun again with those who are left. A destruct always is; a fence, connect or disconnect if one of
//! those who called said `PMIX_GROUP_FT_COLLECTIVE`. What the host was told of goes on as it is.

use pmix_types::{Info, Nspace, Status};

use super::group_call::MemberLeft;
use super::kind::Collective;
use super::participants::Participants;
use super::table::Collectives;
use super::tracker::{Key, Phase, Slot, Tracker};
use crate::cx::Cx;
use crate::ids::{ClientId, TrackerId};
use crate::peers::Ticket;

impl Collectives {
    /// Begins what the members of a group do together again, without the one that left.
    pub(crate) fn member_left(&mut self, cx: &mut Cx, left: &MemberLeft) {
        let Some(first) = left.before.first() else {
            return;
        };
        let size = |nspace: &Nspace<'_>| Ok(cx.job_size(nspace));
        let before = Participants::of(&left.before, &first.nspace, size, |_, _| true);
        let Ok(before) = before else {
            return;
        };
        let is_theirs = |tracker: &Tracker| {
            let (kind, participants, name) = &tracker.key;
            let is_concerned = match kind {
                Collective::GroupDestruct => name.as_ref() == Some(&left.name),
                Collective::GroupConstruct => false,
                _ => tracker.is_tolerant,
            };
            is_concerned && tracker.phase == Phase::Gathering && *participants == before
        };
        for id in self.which(is_theirs) {
            self.begin_again(cx, id, left);
        }
    }

    fn begin_again(&mut self, cx: &mut Cx, id: TrackerId, left: &MemberLeft) {
        self.queue_upcall(cx, id, None);
        let Some(mut tracker) = self.remove(id) else {
            return;
        };
        Self::cancel_deadline(cx, id, &tracker);
        let until = tracker.until;
        for (client, ticket) in tracker.take_arrived() {
            let infos = tracker.infos_of(client);
            match Self::caller_and_participants(cx, &ticket, &left.now) {
                Ok((client, participants)) => {
                    let key: Key = (tracker.key.0, participants, tracker.key.2.clone());
                    self.came(cx, ticket, client, key, infos, until);
                }
                // It is the one that left.
                Err(_) => cx.reply_status(ticket, Status::ERR_NOT_FOUND),
            }
        }
    }
}

impl Tracker {
    /// The answers that are owed, and to whom.
    fn take_arrived(&mut self) -> Vec<(ClientId, Ticket)> {
        let slots = std::mem::take(&mut self.slots).into_iter();
        let arrived = slots.filter_map(|(client, slot)| match slot {
            Slot::Arrived(ticket) => Some((client, ticket)),
            Slot::Expected | Slot::Done => None,
        });
        arrived.collect()
    }

    /// What a participant said: of what concerns no group, the first spoke for all.
    fn infos_of(&self, client: ClientId) -> Vec<Info<'static>> {
        let said = self.said.iter().find(|(other, _)| *other == client);
        said.map_or_else(|| self.infos.clone(), |(_, infos)| infos.clone())
    }
}
