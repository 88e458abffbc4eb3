// SPDX-License-Identifier: MIT OR Apache-2.0
//! The invitations of this process, and those that it accepted: which events they wait for, what is
//! sent when one comes, and how each of them ends. Events and times go in, steps come out.

mod construct;
mod context;
mod end;
mod heard;
mod invite;
mod leader;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use pmix_proto::{Event, request};
use pmix_types::{Info, IntoOwned as _, Proc, Status, Text, keys};

use self::construct::check_construct;
use self::heard::Heard;
use self::invite::{Directives, Invite, is_answer};
use super::said::{about, bad, check_name, ended_here, group_of, members, notify, value};
use super::{Decision, Group};
use crate::Error;
use crate::obeyed::check_required;

/// The number of an operation.
pub(crate) type OpId = u64;

/// The events that the operations of a process hear of.
pub(crate) const HEARD: [Status; 8] = [
    Status::GROUP_INVITED,
    Status::GROUP_LEADER_SELECTED,
    Status::GROUP_INVITE_ACCEPTED,
    Status::GROUP_INVITE_DECLINED,
    Status::GROUP_INVITE_FAILED,
    Status::GROUP_CONSTRUCT_COMPLETE,
    Status::GROUP_CONSTRUCT_ABORT,
    Status::GROUP_LEADER_FAILED,
];

/// How many joins that were given up are remembered, to leave groups that are formed all the same.
const MAX_GIVEN_UP: usize = 64;

/// Says what is to be done next.
#[derive(Debug)]
pub(crate) enum Step {
    /// A number that no other group has is to be asked for.
    Context(OpId, Text<'static>),
    /// An event is to be sent. If it is an operation's, that is to be told what became of it.
    Notify(Option<OpId>, request::Notify<'static>),
    /// A group is to be left, into which this process came too late.
    Leave(Text<'static>),
    /// The program is to hear of an event, and may decide.
    Ask(Question, Event<'static>),
    /// The program is to hear of an event that this process raised itself.
    Tell(Event<'static>),
    /// An operation has ended.
    End(OpId, Result<Group, Error>),
}

/// Names what a [`Decision`] is about: an invitation or a construction, and a process that does not take part, or
/// the leader that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    of: Of,
    about: Proc<'static>,
}

/// What is to be decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// An invitation, or the acceptance of one.
    Operation(OpId),
    /// The construction of a group that another process, or this one, leads; and the event that asks.
    Construct(Text<'static>, Status),
}

/// The invitations and joins that have not ended.
#[derive(Debug)]
pub(crate) struct Operations {
    own: Proc<'static>,
    last: OpId,
    open: BTreeMap<OpId, Operation>,
    /// Until when those whose leader is lost wait for another.
    choices: BTreeSet<(Instant, OpId)>,
    steps: VecDeque<Step>,
    given_up: VecDeque<(Text<'static>, Proc<'static>)>,
    heard: Heard,
}

#[derive(Debug)]
struct Operation {
    name: Text<'static>,
    limit: Option<Instant>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Invite(Invite),
    Join {
        leader: Proc<'static>,
        /// What is heard before the answer is on its way is about an earlier group of the name.
        has_answered: bool,
        /// Whether the leader is lost, and another is chosen; and when nobody is waited for any longer.
        is_lost: bool,
        chosen_by: Option<Instant>,
        /// What holds if this process leads in the end.
        directives: Directives,
    },
}

impl Operation {
    /// Who leads, if it is another process.
    fn leader(&self) -> Option<Proc<'static>> {
        match &self.kind {
            Kind::Join { leader, .. } => Some(leader.clone()),
            Kind::Invite(_) => None,
        }
    }

    /// Until when another leader is waited for, if the leader is lost.
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
            last: 0,
            open: BTreeMap::new(),
            choices: BTreeSet::new(),
            steps: VecDeque::new(),
            given_up: VecDeque::new(),
            heard: Heard::default(),
        }
    }

    /// Begins an invitation. The processes are named one by one.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a bad name, without this process among the members, or with one twice;
    /// `PMIX_ERR_NOT_SUPPORTED` for a directive that is required and not served.
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
        let invited = notify(Status::GROUP_INVITED, name, to, invite.said());
        let op = self.open(name, limit, Kind::Invite(invite));
        match self.open.get(&op).map(|operation| &operation.kind) {
            // Who invites nobody is the group.
            Some(Kind::Invite(invite)) if invite.is_answered() => self.complete(op),
            _ => self.steps.push_back(Step::Notify(Some(op), invited)),
        }
        Ok(op)
    }

    /// Returns who invited this process to a group of a name, the last of them if several have and were not
    /// answered.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if nobody has.
    pub(crate) fn leader_of(&self, name: &Text<'_>) -> Result<Proc<'static>, Error> {
        let leader = self.heard.leader(name).cloned();
        leader.ok_or_else(|| {
            let message = format!("no pending invitation to {name}");
            Error::new(Status::ERR_NOT_FOUND, message)
        })
    }

    /// An invitation is declined.
    pub(crate) fn declined(&mut self, name: &Text<'_>, leader: &Proc<'_>) {
        self.heard.answered(name, leader);
    }

    /// Takes note of an event, whoever it is for.
    pub(crate) fn overhear(&mut self, event: &Event<'static>) {
        self.heard.hear(event);
    }

    /// Accepts an invitation.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a bad name, or if the leader is no single other process;
    /// `PMIX_ERR_NOT_SUPPORTED` for a directive that is required and not served.
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
        self.given_up
            .retain(|(other, of)| (other, of) != (name, leader));
        let mut directives = Directives::new(infos);
        directives.wants_context_id |= self.heard.answered(name, leader);
        let accepted = notify(
            Status::GROUP_INVITE_ACCEPTED,
            name,
            vec![leader.clone()],
            Vec::new(),
        );
        let join = Kind::Join {
            leader: leader.clone(),
            has_answered: false,
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

    /// The next thing to do.
    pub(crate) fn poll(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Says what became of the event that an operation sent.
    pub(crate) fn sent(&mut self, op: OpId, outcome: Result<(), Error>) {
        let Some(operation) = self.open.get_mut(&op) else {
            return;
        };
        match (outcome, &mut operation.kind) {
            (Ok(()), Kind::Join { has_answered, .. }) => *has_answered = true,
            (Ok(()), Kind::Invite(invite)) if invite.is_complete() => {
                let (name, members) = (operation.name.clone(), invite.members());
                let event = invite.completed(&self.own, &name, &members);
                let context_id = invite.context_id();
                self.steps.push_back(Step::Tell(event));
                self.formed(op, name, members, context_id);
            }
            (Ok(()), Kind::Invite(_)) => {}
            (Err(error), _) => self.abort(op, error),
        }
    }

    /// Whether an operation waits for an event.
    pub(crate) fn wants(&self, event: &Event<'static>) -> bool {
        self.concerned(event).is_some() || self.is_late(event)
    }

    /// Takes an event in; tells whether the program is not to hear of it as of any other.
    pub(crate) fn hear(&mut self, event: &Event<'static>) -> bool {
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
                    invite.accepted(&event.source);
                }
                self.complete_if_answered(op);
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
                self.ask(op, about, event);
                true
            }
            Status::GROUP_LEADER_FAILED => {
                if let Some(Kind::Join { is_lost, .. }) = self.kind_of(op) {
                    *is_lost = true;
                }
                self.ask(op, about(event).clone(), event);
                true
            }
            Status::GROUP_LEADER_SELECTED => {
                self.selected(op, event);
                false
            }
            // Who leads in the place of another invites anew, which was accepted before.
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
                let who = &event.source;
                let message = format!("{} rank {} aborted it", who.nspace, who.rank);
                self.abort(op, Error::new(status, message));
                false
            }
        }
    }

    fn ask(&mut self, op: OpId, about: Proc<'static>, event: &Event<'static>) {
        let of = Of::Operation(op);
        let question = Question { of, about };
        self.steps.push_back(Step::Ask(question, event.clone()));
    }

    /// Whether a decision can be followed.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if it invites nobody, or processes that are or were invited already, or is none
    /// for one that leads, or for one that does not.
    pub(crate) fn check(&self, question: &Question, decision: &Decision) -> Result<(), Error> {
        let op = match &question.of {
            Of::Operation(op) => *op,
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

    /// Goes on as the program decided, or as it said when it began.
    pub(crate) fn decide(&mut self, question: &Question, decision: Option<Decision>) {
        let op = match &question.of {
            Of::Operation(op) => *op,
            Of::Construct(..) => return,
        };
        let name = match self.open.get(&op) {
            None => return,
            Some(operation) => operation.name.clone(),
        };
        let Some(invite) = self.invite_of(op) else {
            return self.decide_leader(op, &name, &question.about, decision.as_ref());
        };
        let Some(why) = invite.decided(&question.about) else {
            return;
        };
        match decision.or_else(|| invite.by_default()) {
            Some(Decision::GoOnWithout) => self.complete_if_answered(op),
            Some(Decision::Invite(procs)) => {
                let to = invite.replace(procs);
                if !to.is_empty() {
                    let said = invite.said();
                    let invited = notify(Status::GROUP_INVITED, &name, to, said);
                    self.steps.push_back(Step::Notify(Some(op), invited));
                }
                self.complete_if_answered(op);
            }
            decided => {
                let who = &question.about;
                let message = format!("{} rank {} declined to join {name}", who.nspace, who.rank);
                let status = match decided {
                    Some(_) => Status::GROUP_CONSTRUCT_ABORT,
                    None => why,
                };
                self.abort(op, Error::new(status, message));
            }
        }
    }

    /// Ends the operations of a name: the program wants it.
    pub(crate) fn abort_named(&mut self, name: &Text<'_>) {
        let is_of = |operation: &Operation| {
            let waits = !matches!(&operation.kind, Kind::Invite(invite) if invite.is_complete());
            waits && operation.name == *name
        };
        let of = self.open.iter().filter(|(_, operation)| is_of(operation));
        let of: Vec<_> = of
            .map(|(op, operation)| (*op, operation.leader()))
            .collect();
        for (op, leader) in of {
            if let Some(leader) = leader {
                let status = Status::GROUP_CONSTRUCT_ABORT;
                let name = name.clone().into_owned();
                let about = Info::new(keys::EVENT_AFFECTED_PROC, leader.clone());
                let abort = notify(status, &name, vec![leader], vec![about]);
                self.steps.push_back(Step::Notify(None, abort));
            }
            self.abort(op, ended_here(name));
        }
    }

    /// How many operations have not ended.
    pub(crate) fn num_open(&self) -> usize {
        self.open.len()
    }

    /// The group that an operation is about.
    pub(crate) fn name(&self, op: OpId) -> Option<&Text<'static>> {
        self.open.get(&op).map(|operation| &operation.name)
    }

    /// The operations of a name that have not ended.
    pub(crate) fn named(&self, name: &Text<'_>) -> Vec<OpId> {
        let of = self.open.iter().filter(|(_, open)| open.name == *name);
        of.map(|(op, _)| *op).collect()
    }

    /// Whether an event may concern an operation.
    pub(crate) fn listens(&self) -> bool {
        !self.open.is_empty() || !self.given_up.is_empty()
    }

    /// Forgets an operation of which nothing was sent.
    pub(crate) fn give_up(&mut self, op: OpId) {
        self.forget_choice(op);
        self.open.remove(&op);
        let is_of = |step: &Step| match step {
            Step::Notify(of, _) => *of == Some(op),
            Step::Context(of, _) => *of == op,
            Step::End(of, _) => *of == op,
            _ => false,
        };
        self.steps.retain(|step| !is_of(step));
    }

    /// The operation that an event is for.
    fn concerned(&self, event: &Event<'static>) -> Option<OpId> {
        let name = group_of(event);
        let concerns = |operation: &Operation| {
            let is_named = name.is_some_and(|name| operation.name == *name);
            match &operation.kind {
                // Libraries of 4.2 and 5.0 do not say which group they answer for.
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
                    // What the server of the old leader decided may be overtaken by the new leader.
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

    /// Whether a group was formed with this process, which had given it up.
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

    /// All have answered: the members are told who they are, and the server.
    fn complete(&mut self, op: OpId) {
        let Some(operation) = self.open.get_mut(&op) else {
            return;
        };
        if let Kind::Invite(invite) = &mut operation.kind {
            if !invite.has_context_id() {
                if invite.asks_for_context_id() {
                    let name = operation.name.clone();
                    self.steps.push_back(Step::Context(op, name));
                }
                return;
            }
            let complete = invite.complete(&operation.name);
            self.steps.push_back(Step::Notify(Some(op), complete));
        }
    }

    /// The leader says that the group is there.
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
