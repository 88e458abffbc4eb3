// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that invite others to groups, and answer: as a client library does it.

use std::time::Duration;

use pmix_proto::{Event, Frame, Request, Tag, request};
use pmix_types::{DataArray, DataRange, Info, Proc, Status, Value, keys};

use crate::agenda;
use crate::client::{Saying, What, Who};
use crate::oracle::groups::{Invitation, Outcome};
use crate::process::ProcId;
use crate::world::World;

/// How long a leader waits for answers.
const PATIENCE: Duration = Duration::from_secs(9);

/// The events that processes hear of who take part in invitations.
const CODES: [Status; 7] = [
    Status::GROUP_INVITED,
    Status::GROUP_INVITE_ACCEPTED,
    Status::GROUP_INVITE_DECLINED,
    Status::GROUP_INVITE_FAILED,
    Status::GROUP_CONSTRUCT_COMPLETE,
    Status::GROUP_CONSTRUCT_ABORT,
    Status::GROUP_LEADER_FAILED,
];

impl World {
    /// A process invites some others; first it has to hear of their answers.
    pub(crate) fn do_invite(&mut self, who: Who, place: ProcId) -> Option<Tag> {
        if !self.clients[who].hears_groups {
            let register = request::RegisterEvents {
                codes: CODES.to_vec(),
                infos: vec![],
            };
            let request = Request::RegisterEvents(register);
            return Some(self.ask(who, &request, What::HearGroups, Some(Duration::ZERO)));
        }
        let others = (0..self.procs.len()).filter(|other| *other != place);
        let mut invited: Vec<_> = others.collect();
        invited.retain(|_| self.random.once_in(2));
        if invited.is_empty() {
            return None;
        }
        let number = self.oracle.invitations.len();
        let invitation = Invitation::new(place, who, self.procs[place].stamp.life, invited.clone());
        self.oracle.invitations.push(invitation);
        let to = self.names(&invited);
        self.after(PATIENCE, agenda::Event::Patience(number));
        Some(self.tell_of(who, number, Saying::Invite, to, vec![]))
    }

    fn names(&self, procs: &[ProcId]) -> Vec<Proc<'static>> {
        procs.iter().map(|proc| self.procs[*proc].name()).collect()
    }

    /// Says something about an invitation.
    fn tell_of(
        &mut self,
        who: Who,
        number: usize,
        saying: Saying,
        to: Vec<Proc<'static>>,
        more: Vec<Info<'static>>,
    ) -> Tag {
        let status = match saying {
            Saying::Invite => Status::GROUP_INVITED,
            Saying::Accept => Status::GROUP_INVITE_ACCEPTED,
            Saying::Decline => Status::GROUP_INVITE_DECLINED,
            Saying::Complete => Status::GROUP_CONSTRUCT_COMPLETE,
            Saying::Abort => Status::GROUP_CONSTRUCT_ABORT,
        };
        let mut infos = vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, to),
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::GROUP_ID, format!("invited-{number}")),
        ];
        if saying != Saying::Invite {
            infos.push(Info::new(keys::EVENT_DO_NOT_CACHE, true));
        }
        infos.extend(more);
        let range = DataRange::CUSTOM;
        let request = Request::Notify(request::Notify {
            status,
            range,
            infos,
        });
        let what = What::Invitation(number, saying);
        self.ask(who, &request, what, Some(Duration::ZERO))
    }

    /// A client hears of what concerns groups.
    pub(crate) fn hear_of_groups(&mut self, who: Who, notices: &[Frame]) {
        let session = self.clients[who].session.as_ref().unwrap();
        let form = *session.form();
        for notice in notices {
            if notice.header.tag != Tag::EVENT || !self.clients[who].is_live() {
                continue;
            }
            let event = Event::decode(&form, None, &notice.payload).unwrap();
            if let Some(number) = number_of(&event.infos) {
                self.hear_of_invitation(who, number, event.status);
            }
        }
    }

    fn hear_of_invitation(&mut self, who: Who, number: usize, status: Status) {
        let place = self.clients[who].proc.unwrap();
        let invitation = &mut self.oracle.invitations[number];
        let leader = invitation.leader;
        match status {
            Status::GROUP_INVITED => {
                let saying = match self.random.once_in(4) {
                    true => Saying::Decline,
                    false => Saying::Accept,
                };
                let to = self.names(&[leader]);
                self.tell_of(who, number, saying, to, vec![]);
            }
            Status::GROUP_INVITE_ACCEPTED if invitation.led_by == who => {
                invitation.num_answers += 1;
                if invitation.num_answers == invitation.invited.len() && invitation.end.is_none() {
                    invitation.end = Some(Outcome::Complete);
                    let mut members = invitation.invited.clone();
                    members.push(place);
                    let members = self.names(&members);
                    let list = Value::DataArray(DataArray::Proc(members.clone()));
                    let more = vec![Info::new(keys::GROUP_MEMBERSHIP, list)];
                    self.tell_of(who, number, Saying::Complete, members, more);
                }
            }
            Status::GROUP_INVITE_DECLINED | Status::GROUP_INVITE_FAILED
                if invitation.led_by == who =>
            {
                self.abort(number);
            }
            _ => {}
        }
    }

    /// A leader gives an invitation up, if it is still open and the leader is there.
    pub(crate) fn abort(&mut self, number: usize) {
        let invitation = &mut self.oracle.invitations[number];
        let who = invitation.led_by;
        if invitation.end.is_none() && self.clients[who].is_live() {
            invitation.end = Some(Outcome::Aborted);
            let to = invitation.invited.clone();
            let to = self.names(&to);
            self.tell_of(who, number, Saying::Abort, to, vec![]);
        }
    }
}

/// The number of the invitation that infos are about.
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
