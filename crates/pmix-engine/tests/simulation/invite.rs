// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that send and answer invitations.

use std::time::Duration;

use pmix_client::driver::OperationId;
use pmix_proto::{Request, request};
use pmix_types::{Info, Status, Value, keys};

use crate::agenda::Event;
use crate::client::{What, Who};
use crate::fault::Fault;
use crate::oracle::groups::Invitation;
use crate::process::ProcId;
use crate::world::World;

/// The time limit of a leader for replies, and that of an accepting process for the outcome.
const PATIENCE: Duration = Duration::from_secs(9);
const JOIN_TIME: Duration = Duration::from_secs(25);

impl World {
    /// Sends an invitation; before its first one, registers the process for invitations.
    pub(crate) fn do_invite(&mut self, who: Who, place: ProcId) -> Option<OperationId> {
        let soon = Some(Duration::ZERO);
        if !self.clients[who].hears_invitations {
            let codes = [Status::GROUP_INVITED, Status::GROUP_MEMBER_FAILED];
            return Some(self.ask_for(
                who,
                Request::RegisterEvents(request::RegisterEvents {
                    codes: codes.to_vec(),
                    infos: vec![],
                }),
                What::HearInvitations,
                soon,
            ));
        }
        let others = (0..self.procs.len())
            .filter(|other| *other != place && self.jobs[self.procs[*other].job].is_begun);
        let mut invited: Vec<_> = others.collect();
        invited.retain(|_| self.random.once_in(2));
        if invited.is_empty() {
            return None;
        }
        let number = self.oracle.invitations.len();
        let led_by = (who, self.procs[place].stamp.life);
        // No random number is used, so that the other invitations do not change.
        let notifies = number.is_multiple_of(2);
        let invitation = Invitation::new(place, led_by, invited.clone(), notifies);
        self.oracle.invitations.push(invitation);
        let all = invited.into_iter().chain([place]);
        let all = all.map(|proc| self.procs[proc].name()).collect();
        let (name, now) = (name_of(number), self.instant());
        let id = self.ask_in_steps(who, What::Lead(number), PATIENCE, |core, end| {
            core.invite(name.clone().into(), all, &infos(notifies), end, now)
        });
        self.random.once_in(3).then_some(id)
    }

    /// Answers an invitation.
    pub(crate) fn answer_invitation(&mut self, who: Who, number: usize) {
        let leader = self.procs[self.oracle.invitations[number].leader].name();
        let (name, now) = (name_of(number), self.instant());
        let notifies = self.oracle.invitations[number].notifies;
        if self.random.once_in(4) {
            let what = What::Invitation(number, crate::client::Saying::Decline);
            self.ask(who, what, Some(Duration::ZERO), |core, end| {
                core.decline(&name.clone().into(), Some(&leader), end)
            });
            return;
        }
        let time = match self.strikes(Fault::Haste, 4) {
            true => self.random.millis(0, 5000),
            false => JOIN_TIME,
        };
        self.ask_in_steps(who, What::Join(number), time, |core, end| {
            core.join(
                name.clone().into(),
                Some(&leader),
                &infos(notifies),
                end,
                now,
            )
        });
        // The process may crash before the group is completed, or soon afterwards.
        if notifies && self.strikes(Fault::Crash, 4) {
            let soon = self.random.millis(1, 400);
            self.after(soon, Event::Crash(who));
        }
    }
}

/// Returns the directives of a leader or a possible successor.
fn infos(notifies: bool) -> Vec<Info<'static>> {
    let info = notifies.then(|| Info::new(keys::GROUP_NOTIFY_TERMINATION, true));
    info.into_iter().collect()
}

pub(crate) fn name_of(number: usize) -> String {
    format!("invited-{number}")
}

/// Returns the number of the invitation in infos.
pub(crate) fn number_of(infos: &[Info<'_>]) -> Option<usize> {
    let name = infos.iter().find(|info| info.key.is(keys::GROUP_ID))?;
    match &name.value {
        Value::String(Some(name)) => {
            let number = name.as_str()?.strip_prefix("invited-")?;
            number.parse().ok()
        }
        _ => None,
    }
}
