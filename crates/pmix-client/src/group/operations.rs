// SPDX-License-Identifier: MIT OR Apache-2.0
//! The invitations of this process and those that it accepted, as a state machine. Input is events and times; output is
//! steps.

mod construct;
mod end;
mod invite;
mod leader;
mod received;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use pmix_proto::{Event, request};
use pmix_types::{Info, IntoOwned as _, Measure, Proc, Status, Text, keys};

use self::construct::check_construct;
use self::invite::{Directives, Invite, is_answer};
pub(crate) use self::leader::EXIT_CODES;
use self::received::ReceivedInvitations;
use super::events::{about, bad, check_name, group_of, members, notify, value};
use super::{Decision, Group};
use crate::Error;
use crate::obeyed::check_required;

/// The id of an operation.
pub(crate) type OpId = u64;

/// The events that these operations need.
pub(crate) const EVENT_CODES: [Status; 8] = [
    Status::GROUP_INVITED,
    Status::GROUP_LEADER_SELECTED,
    Status::GROUP_INVITE_ACCEPTED,
    Status::GROUP_INVITE_DECLINED,
    Status::GROUP_INVITE_FAILED,
    Status::GROUP_CONSTRUCT_COMPLETE,
    Status::GROUP_CONSTRUCT_ABORT,
    Status::GROUP_LEADER_FAILED,
];

/// The number of cancelled joins that are recorded, in order to leave groups that are formed anyway.
const MAX_GIVEN_UP: usize = 64;

/// The next action of the core.
#[derive(Debug)]
pub(crate) enum Step {
    /// A request for the context id of the group.
    Context(OpId, Text<'static>),
    /// An event to send. The outcome is reported to the operation, if there is one.
    Notify(Option<OpId>, request::Notify<'static>),
    /// A group to leave, which was formed after this process had cancelled its join.
    Leave(Text<'static>),
    /// A question to the program, with the event that caused it.
    Question(Question, Event<'static>),
    /// An event of this process for its own program.
    Deliver(Event<'static>),
    /// The end of an operation.
    End(OpId, Result<Group, Error>),
}

/// The subject of a [`Decision`]: an invitation or a construct, and a process that does not participate, or the lost
/// leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    of: Of,
    about: Proc<'static>,
}

/// The object of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// An invitation or an acceptance, and the event that asks.
    Operation(OpId, Status),
    /// The construct of a group, and the event that asks. The leader may be this or another process.
    Construct(Text<'static>, Status),
}

/// The open invitations and joins.
#[derive(Debug)]
pub(crate) struct Operations {
    own: Proc<'static>,
    /// `true` if the program decides about acceptances.
    asks: bool,
    last: OpId,
    open: BTreeMap<OpId, Operation>,
    /// The times until which joins with a lost leader wait for a new one.
    choices: BTreeSet<(Instant, OpId)>,
    steps: VecDeque<Step>,
    /// The size of the events in the steps that are questions.
    question_bytes: usize,
    given_up: VecDeque<(Text<'static>, Proc<'static>)>,
    received: ReceivedInvitations,
}

#[derive(Debug)]
struct Operation {
    name: Text<'static>,
    limit: Option<Instant>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Invite(Box<Invite>),
    Join {
        leader: Proc<'static>,
        /// `true` once the server has acknowledged the acceptance. Earlier events are about another group of this name.
        has_answered: bool,
        /// `true` if an invitation has arrived. A process may also join without one, if it knows the leader.
        is_invited: bool,
        /// `true` if the leader is lost and no new one is known yet; then the time until which the join waits for one.
        is_lost: bool,
        chosen_by: Option<Instant>,
        /// The directives that apply if this process becomes the leader.
        directives: Directives,
    },
}

impl Operation {
    /// Returns the leader, if it is another process.
    fn leader(&self) -> Option<Proc<'static>> {
        match &self.kind {
            Kind::Join { leader, .. } => Some(leader.clone()),
            Kind::Invite(_) => None,
        }
    }

    /// Returns the time until which the operation waits for a new leader, if its leader is lost.
    const fn chosen_by(&self) -> Option<Instant> {
        match &self.kind {
            Kind::Join {
                is_lost: true,
                chosen_by,
                ..
            } => *chosen_by,
            _ => None,
        }
    }
}

impl Operations {
    pub(crate) fn new(own: Proc<'static>) -> Self {
        Self {
            own,
            asks: false,
            last: 0,
            open: BTreeMap::new(),
            choices: BTreeSet::new(),
            steps: VecDeque::new(),
            question_bytes: 0,
            given_up: VecDeque::new(),
            received: ReceivedInvitations::default(),
        }
    }

    /// Sets whether the program decides about acceptances.
    pub(crate) const fn asking(mut self, asks: bool) -> Self {
        self.asks = asks;
        self
    }

    /// Begins an invitation. `procs` has single processes only.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an invalid name and for an empty list or one with duplicates, and
    /// `PMIX_ERR_NOT_SUPPORTED` for a required directive that is not supported.
    pub(crate) fn invite(
        &mut self,
        name: &Text<'static>,
        procs: Vec<Proc<'static>>,
        infos: &[Info<'_>],
        limit: Option<Instant>,
    ) -> Result<OpId, Error> {
        check_name(name)?;
        check_required("PMIx_Group_invite", infos)?;
        let (invite, to) = Invite::new(&self.own, procs, infos)?;
        let invited = notify(Status::GROUP_INVITED, name, to, invite.further_infos());
        let op = self.open(name, limit, Kind::Invite(Box::new(invite)));
        match self.open.get(&op).map(|operation| &operation.kind) {
            // A list with this process alone has no answers to wait for.
            Some(Kind::Invite(invite)) if invite.is_answered() => self.complete(op),
            _ => self.steps.push_back(Step::Notify(Some(op), invited)),
        }
        Ok(op)
    }

    /// Returns the leader of the last unanswered invitation to a group of this name.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if there is none.
    pub(crate) fn leader_of(&self, name: &Text<'_>) -> Result<Proc<'static>, Error> {
        let leader = self.received.leader(name).cloned();
        leader.ok_or_else(|| {
            let message = format!("no pending invitation to {name}");
            Error::new(Status::ERR_NOT_FOUND, message)
        })
    }

    /// Removes an invitation that the program declines.
    pub(crate) fn declined(&mut self, name: &Text<'_>, leader: &Proc<'_>) {
        self.received.answered(name, leader);
    }

    /// Records an invitation from an event, whether or not an operation needs the event.
    pub(crate) fn record_invitation(&mut self, event: &Event<'static>) {
        self.received.update(event);
    }

    /// Accepts an invitation.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an invalid name or a leader that is not a single other process, and
    /// `PMIX_ERR_NOT_SUPPORTED` for a required directive that is not supported.
    pub(crate) fn join(
        &mut self,
        name: &Text<'static>,
        leader: &Proc<'static>,
        infos: &[Info<'_>],
        limit: Option<Instant>,
    ) -> Result<OpId, Error> {
        check_name(name)?;
        check_required("PMIx_Group_join", infos)?;
        if !leader.rank.is_valid() || *leader == self.own {
            return Err(bad("the leader of a group must be a single other process"));
        }
        // Otherwise the earlier, cancelled join would make this process leave the group at once.
        self.given_up
            .retain(|(other, of)| (other, of) != (name, leader));
        let mut directives = Directives::new(infos);
        let invited = self.received.answered(name, leader);
        directives.wants_context_id |= invited.unwrap_or(false);
        let accepted = notify(
            Status::GROUP_INVITE_ACCEPTED,
            name,
            vec![leader.clone()],
            Vec::new(),
        );
        let join = Kind::Join {
            leader: leader.clone(),
            has_answered: false,
            is_invited: invited.is_some(),
            is_lost: false,
            chosen_by: None,
            directives,
        };
        let op = self.open(name, limit, join);
        self.steps.push_back(Step::Notify(Some(op), accepted));
        Ok(op)
    }

    fn open(&mut self, name: &Text<'static>, limit: Option<Instant>, kind: Kind) -> OpId {
        self.last += 1;
        let operation = Operation {
            name: name.clone(),
            limit,
            kind,
        };
        self.open.insert(self.last, operation);
        self.last
    }

    /// Removes and returns the next step.
    pub(crate) fn poll(&mut self) -> Option<Step> {
        let step = self.steps.pop_front()?;
        if let Step::Question(_, event) = &step {
            let bytes = event.measure(Measure::All);
            self.question_bytes = self.question_bytes.saturating_sub(bytes);
        }
        Some(step)
    }

    /// Handles the outcome of an event that an operation has sent.
    pub(crate) fn sent(&mut self, op: OpId, outcome: Result<(), Error>) {
        let Some(operation) = self.open.get_mut(&op) else {
            return;
        };
        match (outcome, &mut operation.kind) {
            (Ok(()), Kind::Join { has_answered, .. }) => *has_answered = true,
            (Ok(()), Kind::Invite(invite)) if invite.is_complete() => {
                let (name, members) = (operation.name.clone(), invite.members());
                // The server does not send an event back to its source, so the own program gets it here.
                let event = invite.completed(&self.own, &name, &members);
                let context_id = invite.context_id();
                self.steps.push_back(Step::Deliver(event));
                self.formed(op, name, members, context_id);
            }
            (Ok(()), Kind::Invite(_)) => {}
            (Err(error), _) => self.abort(op, error),
        }
    }

    /// Returns `true` if an operation needs an event.
    pub(crate) fn needs(&self, event: &Event<'static>) -> bool {
        self.concerned(event).is_some() || self.is_late(event)
    }

    /// Handles an event. Returns `true` if the program must not receive it.
    pub(crate) fn handle_event(&mut self, event: &Event<'static>) -> bool {
        let Some(op) = self.concerned(event) else {
            if self.is_late(event)
                && let Some(name) = group_of(event)
            {
                let name = name.clone();
                self.given_up
                    .retain(|(other, of)| (other, of) != (&name, &event.source));
                self.steps.push_back(Step::Leave(name));
            }
            return false;
        };
        match event.status {
            Status::GROUP_INVITE_ACCEPTED => {
                if let Some(invite) = self.invite_of(op) {
                    invite.accepted(event);
                }
                match self.asks {
                    true => self.queue_question(op, event.source.clone(), event),
                    false => self.acceptance_is_seen(op, &event.source, None),
                }
                true
            }
            Status::GROUP_INVITE_DECLINED | Status::GROUP_INVITE_FAILED => {
                let about = match event.status {
                    Status::GROUP_INVITE_DECLINED => event.source.clone(),
                    _ => about(event).clone(),
                };
                if let Some(invite) = self.invite_of(op) {
                    invite.refused(&about, event.status);
                }
                let has_declined = about == event.source;
                self.queue_question(op, about.clone(), event);
                if has_declined {
                    // Programs that do not distinguish why a process is missing expect this event alone.
                    self.deliver_invite_failed(op, about);
                }
                true
            }
            Status::GROUP_LEADER_FAILED => {
                if let Some(Kind::Join { is_lost, .. }) = self.kind_of(op) {
                    *is_lost = true;
                }
                self.queue_question(op, about(event).clone(), event);
                true
            }
            Status::GROUP_LEADER_SELECTED => {
                // The program gets the event as well: it names the new leader.
                self.selected(op, event);
                false
            }
            // A new leader invites again. The program has accepted before, so no question is put to it.
            Status::GROUP_INVITED => {
                self.follow(op, &event.source);
                self.accept(op);
                true
            }
            Status::GROUP_CONSTRUCT_COMPLETE => {
                self.joined(op, event);
                false
            }
            status => {
                let proc = &event.source;
                let message = format!("{} rank {} aborted it", proc.nspace, proc.rank);
                // The program gets this event instead of one of its own process.
                self.abort_and_notify(op, Error::new(status, message), false);
                false
            }
        }
    }

    /// Checks that a decision is possible.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an invitation of no process or of one that was invited before, and for a
    /// decision that only a leader, or only a process that does not lead, can take.
    pub(crate) fn check(&self, question: &Question, decision: &Decision) -> Result<(), Error> {
        let op = match &question.of {
            Of::Operation(_, Status::GROUP_INVITE_ACCEPTED) => return Ok(()),
            Of::Operation(op, _) => *op,
            Of::Construct(_, status) => return check_construct(*status, decision),
        };
        let kind = self.open.get(&op).map(|open| &open.kind);
        match (kind, decision) {
            (Some(Kind::Invite(invite)), Decision::Invite(procs)) => {
                invite.check_replacement(procs)
            }
            (Some(Kind::Invite(_)), Decision::Lead) => {
                Err(bad("this process is already the leader"))
            }
            (Some(Kind::Join { .. }), Decision::Invite(_)) => {
                Err(bad("only the leader can invite processes to a group"))
            }
            _ => Ok(()),
        }
    }

    /// Applies a decision. Without one the directives of the invitation apply.
    pub(crate) fn decide(&mut self, question: &Question, decision: Option<Decision>) {
        let (op, asked) = match &question.of {
            Of::Operation(op, status) => (*op, *status),
            Of::Construct(..) => return,
        };
        let name = match self.open.get(&op) {
            None => return,
            Some(operation) => operation.name.clone(),
        };
        let Some(invite) = self.invite_of(op) else {
            return self.decide_leader(op, &name, &question.about, decision.as_ref());
        };
        if asked == Status::GROUP_INVITE_ACCEPTED {
            return self.acceptance_is_seen(op, &question.about, decision.as_ref());
        }
        if invite.decided(&question.about).is_none() {
            return;
        }
        match decision.or_else(|| invite.by_default()) {
            Some(Decision::GoOnWithout) => self.complete_if_answered(op),
            Some(Decision::Invite(procs)) => {
                let to = invite.replace(procs);
                if !to.is_empty() {
                    let further = invite.further_infos();
                    let invited = notify(Status::GROUP_INVITED, &name, to, further);
                    self.steps.push_back(Step::Notify(Some(op), invited));
                }
                self.complete_if_answered(op);
            }
            _ => {
                let proc = &question.about;
                let did = match asked {
                    Status::GROUP_INVITE_DECLINED => "declined to join",
                    _ => "was lost before it joined",
                };
                let message = format!("{} rank {} {did} {name}", proc.nspace, proc.rank);
                self.abort(op, Error::new(Status::GROUP_CONSTRUCT_ABORT, message));
            }
        }
    }

    /// Returns the number of open operations.
    pub(crate) fn num_open(&self) -> usize {
        self.open.len()
    }

    /// Returns the name of the group of an operation.
    pub(crate) fn name(&self, op: OpId) -> Option<&Text<'static>> {
        self.open.get(&op).map(|operation| &operation.name)
    }

    /// Returns the open operations of a group.
    pub(crate) fn named(&self, name: &Text<'_>) -> Vec<OpId> {
        let of = self.open.iter().filter(|(_, open)| open.name == *name);
        of.map(|(op, _)| *op).collect()
    }

    /// Returns `true` if an event may concern an operation.
    pub(crate) fn listens(&self) -> bool {
        !self.open.is_empty() || !self.given_up.is_empty()
    }

    /// Removes an operation that has sent nothing.
    pub(crate) fn give_up(&mut self, op: OpId) {
        self.forget_choice(op);
        self.open.remove(&op);
        // Its steps may still wait for the acknowledgment of the registration.
        let is_of = |step: &Step| match step {
            Step::Notify(of, _) => *of == Some(op),
            Step::Context(of, _) => *of == op,
            Step::End(of, _) => *of == op,
            _ => false,
        };
        self.steps.retain(|step| !is_of(step));
    }

    /// Returns the operation that an event concerns.
    fn concerned(&self, event: &Event<'static>) -> Option<OpId> {
        let name = group_of(event);
        let concerns = |operation: &Operation| {
            let is_named = name.is_some_and(|name| operation.name == *name);
            match &operation.kind {
                // Libraries of 4.2 and 5.0 answer without the name of the group.
                Kind::Invite(invite) if is_named || (name.is_none() && is_answer(event)) => {
                    invite.wants(event)
                }
                Kind::Join {
                    leader,
                    has_answered,
                    is_lost,
                    ..
                } if is_named => match event.status {
                    Status::GROUP_CONSTRUCT_ABORT if *is_lost => about(event) == leader,
                    Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT => {
                        *has_answered && event.source == *leader
                    }
                    Status::GROUP_LEADER_FAILED => !is_lost && about(event) == leader,
                    // The event of the old leader's server may arrive after the invitation of the new leader.
                    Status::GROUP_LEADER_SELECTED => about(event) == leader,
                    Status::GROUP_INVITED => [&event.source, about(event)].contains(&leader),
                    _ => false,
                },
                _ => false,
            }
        };
        let found = self
            .open
            .iter()
            .find(|(_, operation)| concerns(operation))?;
        Some(*found.0)
    }

    /// Returns `true` if an event announces a group with this process, which had cancelled its join.
    fn is_late(&self, event: &Event<'_>) -> bool {
        let mut given_up = self.given_up.iter();
        event.status == Status::GROUP_CONSTRUCT_COMPLETE
            && given_up.any(|(name, leader)| {
                group_of(event).is_some_and(|group| group == name) && event.source == *leader
            })
            && members(event).is_some_and(|members| members.contains(&self.own))
    }

    fn kind_of(&mut self, op: OpId) -> Option<&mut Kind> {
        self.open.get_mut(&op).map(|operation| &mut operation.kind)
    }

    fn invite_of(&mut self, op: OpId) -> Option<&mut Invite> {
        match &mut self.open.get_mut(&op)?.kind {
            Kind::Invite(invite) => Some(invite),
            Kind::Join { .. } => None,
        }
    }

    fn complete_if_answered(&mut self, op: OpId) {
        if self
            .invite_of(op)
            .is_some_and(|invite| invite.is_answered())
        {
            self.complete(op);
        }
    }

    /// Handles the last answer: requests a context id if a directive wants one, and then announces the group to its
    /// members and the server.
    fn complete(&mut self, op: OpId) {
        let Some(operation) = self.open.get_mut(&op) else {
            return;
        };
        if let Kind::Invite(invite) = &mut operation.kind {
            if !invite.has_context_id() {
                if invite.begin_context_id_request() {
                    let name = operation.name.clone();
                    self.steps.push_back(Step::Context(op, name));
                }
                return;
            }
            let complete = invite.complete(&operation.name);
            self.steps.push_back(Step::Notify(Some(op), complete));
        }
    }

    /// Completes a join when the leader announces the group.
    fn joined(&mut self, op: OpId, event: &Event<'_>) {
        let Some(operation) = self.open.get(&op) else {
            return;
        };
        let members = Proc::owned_list(members(event).unwrap_or_default());
        if members.contains(&self.own) {
            let context_id = value(&event.infos, keys::GROUP_CONTEXT_ID);
            let context_id = context_id.and_then(|id| id.to_number::<u64>().ok());
            return self.formed(op, operation.name.clone(), members, context_id);
        }
        let message = format!("{} was constructed without this process", operation.name);
        self.end(op, Err(Error::new(Status::GROUP_CONSTRUCT_ABORT, message)));
    }

    fn formed(
        &mut self,
        op: OpId,
        name: Text<'static>,
        members: Vec<Proc<'static>>,
        context_id: Option<u64>,
    ) {
        let group = Group {
            name,
            members,
            context_id,
            infos: Vec::new(),
        };
        self.end(op, Ok(group));
    }
}
