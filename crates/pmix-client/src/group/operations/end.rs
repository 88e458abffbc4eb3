// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of invitations and acceptances without a group: on failure, timeout, cancellation or loss of the server,
//! with the notification of the other processes.

use std::time::Instant;

use pmix_types::{Proc, Status, Text};

use super::{Kind, MAX_GIVEN_UP, OpId, Operation, Operations, Step};
use crate::Error;
use crate::group::Group;
use crate::group::events::notify;

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
            self.abort(op, Error::timeout(format_args!("the invitation to {name}")));
        }
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

    /// Ends a failed operation, and notifies the other processes.
    pub(super) fn abort(&mut self, op: OpId, error: Error) {
        let Some(operation) = self.open.get(&op) else {
            return;
        };
        let name = &operation.name;
        match &operation.kind {
            Kind::Invite(invite) => {
                let others = invite.others(&self.own);
                if !others.is_empty() {
                    let status = Status::GROUP_CONSTRUCT_ABORT;
                    let abort = notify(status, name, others, Vec::new());
                    self.steps.push_back(Step::Notify(None, abort));
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
