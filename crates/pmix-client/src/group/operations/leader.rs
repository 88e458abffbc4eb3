// SPDX-License-Identifier: MIT OR Apache-2.0
//! The selection of a new leader after the loss of the old one.

use std::time::Instant;

use pmix_proto::Event;
use pmix_types::{DataRange, Info, IntoOwned as _, Proc, Status, Text, Value, keys};

use super::invite::Invite;
use super::{Kind, OpId, Operation, Operations, Step};
use crate::Error;
use crate::group::Decision;
use crate::group::events::{about, members, notify, value};

/// The events by which a server that selects no leader notifies processes of an ended one.
pub(crate) const EXIT_CODES: [Status; 9] = [
    Status::PROC_TERMINATED,
    Status::EVENT_PROC_TERMINATED,
    Status::ERR_EXIT_NONZERO_TERM,
    Status::ERR_PROC_ABORTED,
    Status::ERR_PROC_ABORTED_BY_SIG,
    Status::ERR_PROC_KILLED_BY_CMD,
    Status::ERR_PROC_KILLED_BY_RELEASE,
    Status::ERR_PROC_REQUESTED_ABORT,
    Status::ERR_PROC_TERM_WO_SYNC,
];

impl Operations {
    /// Ends the joins whose leader has ended. The program gets `PMIX_GROUP_LEADER_FAILED` for each. A server that
    /// selects leaders sends this event itself to the processes that it knows as invited, so their joins continue.
    pub(crate) fn handle_exit(&mut self, event: &Event<'_>, server_selects: bool) {
        if !EXIT_CODES.contains(&event.status) {
            return;
        }
        let ended = about(event);
        if !server_selects {
            self.received.forget_leader(ended);
        }
        let is_led = |operation: &Operation| match &operation.kind {
            Kind::Join {
                leader, is_invited, ..
            } => leader == ended && !(server_selects && *is_invited),
            Kind::Invite(_) => false,
        };
        let joins = self.open.iter().filter(|(_, operation)| is_led(operation));
        let joins: Vec<_> = joins.map(|(op, open)| (*op, open.name.clone())).collect();
        for (op, name) in joins {
            self.steps.push_back(Step::Deliver(Event {
                status: Status::GROUP_LEADER_FAILED,
                source: self.own.clone(),
                infos: vec![
                    Info::new(keys::EVENT_AFFECTED_PROC, ended.clone().into_owned()),
                    Info::new(keys::GROUP_ID, Value::String(Some(name))),
                ],
                range: Some(DataRange::PROC_LOCAL),
            }));
            self.leaderless(op, Status::GROUP_LEADER_FAILED);
        }
    }

    /// Reports the program's decision to the server of the lost leader.
    pub(super) fn decide_leader(
        &mut self,
        op: OpId,
        name: &Text<'static>,
        old: &Proc<'static>,
        decision: Option<&Decision>,
    ) {
        // A new leader may have been selected while the program decided.
        match self.kind_of(op) {
            Some(Kind::Join { leader, .. }) if leader == old => {}
            _ => return,
        }
        let mut more = vec![Info::new(keys::EVENT_AFFECTED_PROC, old.clone())];
        let status = match decision {
            Some(Decision::Abort) => Status::GROUP_CONSTRUCT_ABORT,
            Some(Decision::Lead) => {
                more.push(Info::new(keys::GROUP_LEADER, true));
                Status::GROUP_LEADER_FAILED
            }
            _ => Status::GROUP_LEADER_FAILED,
        };
        let report = notify(status, name, vec![old.clone()], more);
        self.steps.push_back(Step::Notify(None, report));
        if status == Status::GROUP_CONSTRUCT_ABORT {
            self.leaderless(op, status);
        }
    }

    /// Handles the selection of a new leader, or the event that there is none.
    pub(super) fn selected(&mut self, op: OpId, event: &Event<'static>) {
        let Some(Value::Proc(new)) = value(&event.infos, keys::GROUP_LEADER) else {
            return self.leaderless(op, Status::GROUP_LEADER_FAILED);
        };
        if *new != self.own {
            return self.follow(op, new);
        }
        self.forget_choice(op);
        let listed = Proc::owned_list(members(event).unwrap_or_default());
        let (own, Some(operation)) = (&self.own, self.open.get_mut(&op)) else {
            return;
        };
        let Kind::Join { directives, .. } = &operation.kind else {
            return;
        };
        match Invite::in_place(own, listed, *directives) {
            Ok((invite, to)) => {
                let old = Info::new(keys::EVENT_AFFECTED_PROC, about(event).clone());
                let more = [vec![old], invite.further_infos()].concat();
                let invited = notify(Status::GROUP_INVITED, &operation.name, to, more);
                let is_answered = invite.is_answered();
                operation.kind = Kind::Invite(Box::new(invite));
                match is_answered {
                    true => self.complete(op),
                    false => self.steps.push_back(Step::Notify(Some(op), invited)),
                }
            }
            Err(error) => self.end(op, Err(error)),
        }
    }

    /// Changes the leader of a join to the new leader, whose invitation the process has not answered.
    pub(super) fn follow(&mut self, op: OpId, new: &Proc<'static>) {
        self.forget_choice(op);
        if let Some(Kind::Join {
            leader,
            has_answered,
            is_invited,
            is_lost,
            chosen_by,
            ..
        }) = self.kind_of(op)
        {
            leader.clone_from(new);
            (*has_answered, *is_invited, *is_lost) = (false, true, false);
            *chosen_by = None;
        }
    }

    /// Accepts the invitation of the current leader.
    pub(super) fn accept(&mut self, op: OpId) {
        if let Some(operation) = self.open.get(&op)
            && let Some(leader) = operation.leader()
        {
            let accepted = Status::GROUP_INVITE_ACCEPTED;
            let accepted = notify(accepted, &operation.name, vec![leader], Vec::new());
            self.steps.push_back(Step::Notify(Some(op), accepted));
        }
    }

    /// Ends a join whose leader is lost.
    pub(super) fn leaderless(&mut self, op: OpId, status: Status) {
        let Some(operation) = self.open.get(&op) else {
            return;
        };
        let (name, leader) = (operation.name.clone(), operation.leader());
        if let Some(proc) = leader {
            let message = format!(
                "{} rank {}, the leader of {name}, was lost",
                proc.nspace, proc.rank
            );
            // The last message of the leader may still arrive from another node and form the group.
            self.remember((name, proc));
            self.end(op, Err(Error::new(status, message)));
        }
    }

    /// Sets the time until which joins with a lost leader wait for a new one, unless it is set already.
    pub(crate) fn choose_by(&mut self, until: Option<Instant>) {
        for (op, operation) in &mut self.open {
            if let Kind::Join {
                is_lost: true,
                chosen_by,
                ..
            } = &mut operation.kind
            {
                *chosen_by = chosen_by.or(until);
                self.choices.extend(chosen_by.map(|by| (by, *op)));
            }
        }
    }

    /// Returns the earliest of these times.
    pub(crate) fn next_choice(&self) -> Option<Instant> {
        self.choices.first().map(|(by, _)| *by)
    }

    /// Removes the time until which an operation waits for a new leader.
    pub(super) fn forget_choice(&mut self, op: OpId) {
        if let Some(by) = self.open.get(&op).and_then(Operation::chosen_by) {
            self.choices.remove(&(by, op));
        }
    }

    /// Ends the joins that got no new leader in time.
    pub(crate) fn give_up_leaders(&mut self, now: Instant) {
        while let Some((by, op)) = self.choices.first().copied()
            && by <= now
        {
            self.choices.pop_first();
            self.leaderless(op, Status::GROUP_LEADER_FAILED);
        }
    }
}
