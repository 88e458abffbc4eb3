// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of invitations and acceptances without a group: on failure, timeout, cancellation or loss of the server,
//! with the notification of the other processes.

use std::time::Instant;

use pmix_proto::Event;
use pmix_types::{DataRange, Info, IntoOwned as _, Proc, Status, Text, Value, keys};

use super::{Kind, MAX_GIVEN_UP, OpId, Operation, Operations, Step};
use crate::Error;
use crate::group::events::{ended_here, notify};
use crate::group::{Decision, Group};

impl Operations {
    /// Aborts the operations whose time limit has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        // A complete invitation waits only for the acknowledgment of the server, which has a limit of its own.
        let is_over = |operation: &Operation| {
            let waits = !matches!(&operation.kind, Kind::Invite(invite) if invite.is_complete());
            waits && operation.limit.is_some_and(|limit| limit <= now)
        };
        let over = self.open.iter().filter(|(_, operation)| is_over(operation));
        let over: Vec<_> = over
            .map(|(op, operation)| (*op, operation.name.clone()))
            .collect();
        for (op, name) in over {
            if self.go_on_without_answers(op) {
                continue;
            }
            self.abort(op, Error::timeout(format_args!("the invitation to {name}")));
        }
    }

    /// Counts an acceptance, after the decision of the program of the leader.
    pub(super) fn acceptance_is_seen(
        &mut self,
        op: OpId,
        proc: &Proc<'static>,
        decision: Option<&Decision>,
    ) {
        let Some(Operation { name, kind, .. }) = self.open.get_mut(&op) else {
            return;
        };
        let Kind::Invite(invite) = kind else {
            return;
        };
        match invite.acceptance_is_seen(proc) {
            true if decision == Some(&Decision::Abort) => {
                let error = ended_here(name);
                self.abort(op, error);
            }
            true => self.complete_if_answered(op),
            // The process has declined or was lost meanwhile, which is a question of its own.
            false => {}
        }
    }

    /// Completes an invitation that may be formed without some processes, after its time limit. Returns `false` for
    /// other operations.
    fn go_on_without_answers(&mut self, op: OpId) -> bool {
        let Some(Kind::Invite(invite)) = self.open.get_mut(&op).map(|open| &mut open.kind) else {
            return false;
        };
        if invite.by_default().is_none() {
            return false;
        }
        for proc in invite.leave_out_silent() {
            self.deliver_invite_failed(op, proc);
        }
        self.complete_if_answered(op);
        true
    }

    /// Delivers `PMIX_GROUP_INVITE_FAILED` about a process that declined or did not answer to the own program.
    pub(super) fn deliver_invite_failed(&mut self, op: OpId, about: Proc<'static>) {
        let Some(operation) = self.open.get(&op) else {
            return;
        };
        self.steps.push_back(Step::Deliver(Event {
            status: Status::GROUP_INVITE_FAILED,
            source: self.own.clone(),
            infos: vec![
                Info::new(keys::EVENT_AFFECTED_PROC, about),
                Info::new(keys::GROUP_ID, Value::String(Some(operation.name.clone()))),
            ],
            range: Some(DataRange::PROC_LOCAL),
        }));
    }

    /// Ends all operations, since no further events arrive.
    pub(crate) fn fail(&mut self, error: &Error) {
        while let Some((op, _)) = self.open.first_key_value() {
            let op = *op;
            self.end(op, Err(error.clone()));
        }
    }

    /// Ends an operation that the program cancels, and notifies the other processes.
    pub(crate) fn cancel(&mut self, op: OpId, error: Error) {
        self.decline(op);
        self.abort(op, error);
    }

    /// Aborts the operations of a group at the request of the program. Returns `true` if there were any.
    pub(crate) fn abort_named(&mut self, name: &Text<'_>) -> bool {
        let is_of = |operation: &Operation| {
            let waits = !matches!(&operation.kind, Kind::Invite(invite) if invite.is_complete());
            waits && operation.name == *name
        };
        let of = self.open.iter().filter(|(_, operation)| is_of(operation));
        let of: Vec<_> = of
            .map(|(op, operation)| (*op, operation.leader()))
            .collect();
        let is_any = !of.is_empty();
        for (op, leader) in of {
            if let Some(leader) = leader {
                let status = Status::GROUP_CONSTRUCT_ABORT;
                let name = name.clone().into_owned();
                let about = Info::new(keys::EVENT_AFFECTED_PROC, leader.clone());
                // A process that joins does not know all others. Its leader aborts the construct for them.
                let abort = notify(status, &name, vec![leader], vec![about]);
                self.steps.push_back(Step::Notify(None, abort));
            }
            self.abort(op, ended_here(name));
        }
        is_any
    }

    /// Ends a failed operation. All invited processes, and the own program, receive `PMIX_GROUP_CONSTRUCT_ABORT` once.
    pub(super) fn abort(&mut self, op: OpId, error: Error) {
        self.abort_and_notify(op, error, true);
    }

    /// Ends a failed operation as [`abort`](Self::abort); the own program receives the event if `delivers` is `true`.
    pub(super) fn abort_and_notify(&mut self, op: OpId, error: Error, delivers: bool) {
        let Some(operation) = self.open.get(&op) else {
            return;
        };
        let name = &operation.name;
        match &operation.kind {
            Kind::Invite(invite) => {
                let others = invite.others(&self.own);
                let status = Status::GROUP_CONSTRUCT_ABORT;
                let abort = notify(status, name, others, Vec::new());
                let event = Event {
                    status,
                    source: self.own.clone(),
                    infos: abort.infos.clone(),
                    range: Some(abort.range),
                };
                if !invite.is_alone(&self.own) {
                    self.steps.push_back(Step::Notify(None, abort));
                }
                if delivers {
                    // The server does not send an event back to its source.
                    self.steps.push_back(Step::Deliver(event));
                }
            }
            Kind::Join { .. } if error.status() == Status::ERR_TIMEOUT => self.decline(op),
            Kind::Join { .. } => {}
        }
        self.end(op, Err(error));
    }

    /// Declines the invitation of a cancelled join, so that the leader does not wait for this process.
    pub(super) fn decline(&mut self, op: OpId) {
        let Some(operation) = self.open.get(&op) else {
            return;
        };
        if let Kind::Join { leader, .. } = &operation.kind {
            let (status, name) = (Status::GROUP_INVITE_DECLINED, &operation.name);
            let declined = notify(status, name, vec![leader.clone()], Vec::new());
            let given_up = (name.clone(), leader.clone());
            self.steps.push_back(Step::Notify(None, declined));
            self.remember(given_up);
        }
    }

    /// Records a cancelled join. If the leader forms the group anyway, this process leaves it.
    pub(super) fn remember(&mut self, given_up: (Text<'static>, Proc<'static>)) {
        if self.given_up.len() >= MAX_GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(given_up);
    }

    pub(super) fn end(&mut self, op: OpId, outcome: Result<Group, Error>) {
        self.forget_choice(op);
        if self.open.remove(&op).is_some() {
            self.steps.push_back(Step::End(op, outcome));
        }
    }
}
