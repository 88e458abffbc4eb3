// SPDX-License-Identifier: MIT OR Apache-2.0
//! The invitations that this process has received and not answered.

use std::collections::VecDeque;

use pmix_proto::Event;
use pmix_types::{Proc, Status, Text, keys};

use crate::group::events::{about, check_name, group_of, value};
use crate::obeyed::is_true;

/// The largest number of invitations kept; the oldest are dropped.
const MAX_RECEIVED: usize = 64;

/// The unanswered invitations, the newest first.
#[derive(Debug, Default)]
pub(super) struct ReceivedInvitations(VecDeque<ReceivedInvitation>);

#[derive(Debug)]
struct ReceivedInvitation {
    name: Text<'static>,
    leader: Proc<'static>,
    wants_context_id: bool,
}

impl ReceivedInvitations {
    /// Adds or removes an invitation according to an event.
    pub(super) fn update(&mut self, event: &Event<'static>) {
        let Some(name) = group_of(event).filter(|name| check_name(name).is_ok()) else {
            return;
        };
        match event.status {
            // An invitation with `PMIX_GROUP_ADD_MEMBERS` is to a construct, which the process enters by
            // `PMIx_Group_construct`.
            Status::GROUP_INVITED if value(&event.infos, keys::GROUP_ADD_MEMBERS).is_none() => {
                self.remove(name, &event.source);
                self.0.truncate(MAX_RECEIVED - 1);
                self.0.push_front(ReceivedInvitation {
                    name: name.clone(),
                    leader: event.source.clone(),
                    wants_context_id: is_true(&event.infos, keys::GROUP_ASSIGN_CONTEXT_ID),
                });
            }
            Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT => {
                self.remove(name, &event.source);
            }
            Status::GROUP_LEADER_FAILED => self.remove(name, about(event)),
            _ => {}
        }
    }

    /// Returns the leader of the last invitation to a group of this name.
    pub(super) fn leader(&self, name: &Text<'_>) -> Option<&Proc<'static>> {
        let mut named = self.0.iter().filter(|invited| invited.name == *name);
        named.next().map(|invited| &invited.leader)
    }

    /// Removes an invitation that was answered. Returns `true` if its group gets a context id, and `None` if this
    /// process has no such invitation.
    pub(super) fn answered(&mut self, name: &Text<'_>, leader: &Proc<'_>) -> Option<bool> {
        let is_it =
            |invited: &ReceivedInvitation| invited.name == *name && invited.leader == *leader;
        let place = self.0.iter().position(is_it);
        let invited = place.and_then(|place| self.0.remove(place));
        invited.map(|invited| invited.wants_context_id)
    }

    /// Removes the invitations of a leader that has ended.
    pub(super) fn forget_leader(&mut self, leader: &Proc<'_>) {
        self.0.retain(|invited| invited.leader != *leader);
    }

    fn remove(&mut self, name: &Text<'_>, leader: &Proc<'_>) {
        self.0
            .retain(|invited| invited.name != *name || invited.leader != *leader);
    }
}
