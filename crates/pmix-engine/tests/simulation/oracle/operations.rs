// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of client operations: once, in time, and as their server replied.

use std::time::Duration;

use pmix_client::driver::{Answer, OperationId};
use pmix_client::{Error, Forwarded};
use pmix_proto::{Event, WelcomeForm, reply};
use pmix_types::{Status, Value};

use super::events::number;
use super::groups::Outcome;
use crate::agenda;
use crate::client::{Asked, Begun, What, Who};
use crate::drive::SAY_TIME;
use crate::fault::Fault;
use crate::own::EVENT;
use crate::process::{ProcId, Stamp};
use crate::world::World;

impl World {
    /// Checks that an operation has ended within its time limit.
    pub(crate) fn check_overdue(&mut self, who: Who, id: OperationId) {
        let late = self.clients[who].begun.get(&id);
        // A successor of a leader may wait for its server, like any leader.
        if let Some(begun) = late
            && let (What::Join(number), Some(end)) = (&begun.what, begun.end)
            && self.oracle.invitations[*number].may_wait(who)
            && end + SAY_TIME >= self.now
        {
            let after = end + SAY_TIME + Duration::from_millis(1) - self.now;
            return self.after(after, agenda::Event::Overdue(who, id));
        }
        assert!(late.is_none(), "connection {who}: {id}, {late:?} is late");
    }

    /// Checks that a core holds its open operations and no other requests.
    pub(crate) fn check_held(&self, who: Who) {
        let client = &self.clients[who];
        let Some(core) = client.core.as_ref().filter(|core| core.lost().is_none()) else {
            return;
        };
        let held = core.stats();
        let begun = client.begun.values();
        let num_asking = begun.filter(|begun| begun.tag.is_some()).count();
        // Statements about an invitation or a construct may outlast it; all of them wait for the event registration.
        let by_itself =
            |asked: &&Asked| matches!(asked.what, What::Invitation(..) | What::Decision(..));
        let most = num_asking + client.asked.values().filter(by_itself).count() + 1;
        let num_open = held.num_operations + held.num_completed;
        assert!(
            held.num_requests <= most && num_open == client.begun.len(),
            "connection {who} holds {held:?}, and began {:?}",
            client.begun
        );
        let most = held.num_operations + held.num_requests;
        assert!(held.num_limits <= most, "connection {who} holds {held:?}");
    }

    /// Checks that an operation ends with its server's reply, or for a reason of the client.
    pub(crate) fn check_completed(
        &mut self,
        who: Who,
        id: OperationId,
        begun: &Begun,
        outcome: &Result<Answer, Error>,
    ) {
        let client = &self.clients[who];
        // The operation ends; the result is undetermined.
        if client.is_lied_to || client.is_spoiled {
            return;
        }
        let asked = begun.tag.and_then(|tag| client.asked.get(&tag)).cloned();
        let answer = match outcome {
            Ok(answer) => answer,
            Err(error) => return self.check_failure(who, id, begun, asked.as_ref(), error),
        };
        let told = asked.as_ref().map(|asked| asked.answer);
        let is_done = |status: Status| status.is_success() || status == Status::OPERATION_SUCCEEDED;
        match (&begun.what, answer) {
            (What::Get(of, key, ..), Answer::Value(value)) => {
                self.check_value(who, *of, key, asked.as_ref(), value);
            }
            (_, Answer::Payload(payload)) => {
                let asked = asked.expect("a request");
                let form = client.form.as_ref().unwrap();
                let read = reply::Reply::decode(asked.command, form, None, payload);
                let status = read.map(|reply| reply.status());
                let status =
                    status.or_else(|_| reply::Done::decode(form, None, payload).map(|d| d.status));
                assert_eq!(
                    status.ok(),
                    asked.answer,
                    "connection {who}: {id}, {asked:?}"
                );
                return;
            }
            (_, Answer::Infos(status, _)) => {
                let asked = asked.expect("a request");
                assert_eq!(Some(*status), asked.answer, "connection {who}: {asked:?}");
                return;
            }
            (What::Any | What::Pull(_), Answer::Pulled(_)) => {}
            (What::Spawn(number), Answer::Job(nspace)) => self.check_job(*number, nspace),
            (What::Lookup(of), Answer::Found(_, found)) => {
                for data in found {
                    let (owner, _) = Stamp::of(&data.value).expect("published data can be read");
                    assert_eq!(owner, *of, "connection {who} looked for another process");
                }
            }
            (What::Lead(number) | What::Join(number), Answer::Group(group)) => {
                self.check_formed(who, *number, &group.members);
            }
            (What::Collective(..) | What::AddMembers(_), Answer::Group(_)) | (_, Answer::Done) => {}
            (what, answer) => panic!("connection {who}: {what:?} ends with {answer:?}"),
        }
        if let Some(told) = told {
            assert!(
                told.is_some_and(is_done),
                "connection {who}: {begun:?} succeeds, but is answered {told:?}"
            );
        } else {
            // A job that the server has just created has no info to request.
            let is_assigned = self.clients[who].welcome == Some(WelcomeForm::Assigned);
            let is_by_itself = match begun.what {
                What::Get(..) | What::Commit(_) | What::Lead(_) | What::Join(_) => true,
                What::Init => is_assigned,
                _ => false,
            };
            assert!(
                is_by_itself,
                "connection {who}: {begun:?} succeeds without a request"
            );
        }
    }

    fn check_failure(
        &self,
        who: Who,
        id: OperationId,
        begun: &Begun,
        asked: Option<&Asked>,
        error: &Error,
    ) {
        let client = &self.clients[who];
        let status = error.status();
        let is_late = status == Status::ERR_TIMEOUT && begun.end.is_some_and(|end| end <= self.now);
        let is_cancelled = begun.is_cancelled && status == Status::ERR_NOT_AVAILABLE;
        let lost = client.core.as_ref().and_then(|core| core.lost());
        let is_lost = lost.is_some_and(|lost| lost.status() == status);
        if is_late {
            self.check_not_told(who, begun);
        }
        if is_late || is_cancelled || is_lost {
            return;
        }
        let is_answered = match begun.what {
            // The server reports the end of the invitation, or the events do.
            What::Join(number) => {
                let invitation = &self.oracle.invitations[number];
                let leads = client
                    .proc
                    .is_some_and(|own| invitation.leads.contains_key(&own));
                match status {
                    Status::GROUP_LEADER_FAILED => {
                        let mut told = invitation.told_to(who);
                        told.any(|told| told == Outcome::LeaderFailed)
                    }
                    Status::GROUP_CONSTRUCT_ABORT => {
                        let refused = |asked: &Asked| {
                            matches!(asked.what, What::Invitation(of, _) if of == number)
                                && asked.answer == Some(status)
                        };
                        let mut asked = client.asked.values();
                        self.is_told_to_end(who, number) || asked.any(refused)
                    }
                    Status::GROUP_INVITE_DECLINED | Status::GROUP_INVITE_FAILED if leads => true,
                    _ => self.said_with(who, number, status),
                }
            }
            What::Lead(number) => {
                let is_refused = [
                    Status::GROUP_INVITE_DECLINED,
                    Status::GROUP_INVITE_FAILED,
                    Status::GROUP_CONSTRUCT_ABORT,
                ];
                is_refused.contains(&status) || self.said_with(who, number, status)
            }
            What::Get(..) if self.plan.has(Fault::HostNonsense) => true,
            _ => asked.is_some_and(|asked| asked.answer == Some(status)),
        };
        assert!(
            is_answered,
            "connection {who}: {id}, {begun:?} ends with {error}, but {asked:?}"
        );
    }

    /// Returns `true` if a statement about an invitation, or a registration before it, has this status or no reply yet.
    fn said_with(&self, who: Who, number: usize, status: Status) -> bool {
        let is_of = |asked: &&Asked| match asked.what {
            What::Invitation(of, _) => of == number,
            What::HearGroups => true,
            _ => false,
        };
        let mut asked = self.clients[who].asked.values().filter(is_of);
        asked.any(|asked| asked.answer.is_none_or(|answer| answer == status))
    }

    /// Checks that a joining process that received the outcome does not wait for it.
    fn check_not_told(&self, who: Who, begun: &Begun) {
        let What::Join(number) = begun.what else {
            return;
        };
        let invitation = &self.oracle.invitations[number];
        let is_slow = self.plan.has(Fault::Slow) || self.plan.has(Fault::Delay);
        let told_at = invitation.told_at.iter();
        let told_at = told_at.filter(|((to, _), _)| *to == who).map(|(_, at)| *at);
        let is_long_ago = { told_at.max() }
            .is_some_and(|at| at + Duration::from_secs(1) < begun.end.unwrap_or_default());
        let is_long_ago = is_long_ago && !invitation.may_wait(who);
        assert!(
            !is_long_ago || is_slow || invitation.is_unclear,
            "connection {who} waits for invitation {number} after its event: {invitation:?}"
        );
    }

    /// Checks that a value is the one from the server. A value from the cache must not be older than the last one
    /// returned, or else than the data known when its process last received a message.
    fn check_value(
        &mut self,
        who: Who,
        of: ProcId,
        key: &str,
        asked: Option<&Asked>,
        value: &Value<'static>,
    ) {
        if self.plan.has(Fault::HostNonsense) {
            return;
        }
        let (owner, stamp) = Stamp::of(value).expect("a value of a process");
        assert_eq!(owner, of, "connection {who}: {key} of another process");
        assert!(
            stamp.has(key),
            "connection {who}: {key} is not of {stamp:?}"
        );
        let is_own = self.clients[who].proc == Some(of);
        let own = self.procs[of].stamp;
        let told = &mut self.clients[who].told;
        let place = (of, key.to_owned());
        let Some(asked) = asked else {
            // Before its first put, it may get the data of an earlier incarnation.
            if is_own && own.version > 0 {
                return assert_eq!(stamp, own, "connection {who}: {key} of its own");
            }
            if let Some(told) = told.insert(place, stamp) {
                assert!(
                    stamp >= told,
                    "connection {who} got {told:?} before, now {stamp:?}"
                );
                return;
            }
            let known = self.clients[who].known.get(of).copied().unwrap_or_default();
            let is_new = known.floor.is_none_or(|floor| stamp >= floor);
            assert!(
                is_new && stamp.life >= known.first_life,
                "connection {who}: {key} of process {of} is {stamp:?}, but {known:?} is known"
            );
            return;
        };
        let brought = asked.values.iter().find(|(name, _)| name == key);
        assert!(
            is_own || brought.is_some_and(|(_, brought)| *brought == stamp),
            "connection {who}: {key} of process {of} is {stamp:?}, but {asked:?}"
        );
        for (name, stamp) in &asked.values {
            told.insert((of, name.clone()), *stamp);
        }
    }

    /// Checks that events are passed to a program in the order of arrival.
    pub(crate) fn check_handed_out(&mut self, who: Who, event: &Event<'_>) {
        let client = &mut self.clients[who];
        if client.is_lied_to || event.status != EVENT {
            return;
        }
        if let Some(number) = number(&event.infos) {
            let next = client.heard.get(client.num_handed_out).copied();
            assert_eq!(next, Some(number), "the next event of connection {who}");
            client.num_handed_out += 1;
        }
    }

    /// Checks that output is passed to a program once, in the order of arrival.
    pub(crate) fn check_output(&mut self, who: Who, output: &Forwarded) {
        let client = &mut self.clients[who];
        if !client.is_lied_to {
            let came = (output.local_id, output.data.clone());
            let next = client.output.pop_front();
            assert_eq!(Some(came), next, "the next output of connection {who}");
        }
    }
}
