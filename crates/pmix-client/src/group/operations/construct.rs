// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions to the program, among them those of the server about constructs, and the events that report the decisions.
//!
//! | event of the server | receivers | infos of the report |
//! | --- | --- | --- |
//! | `PMIX_GROUP_INVITE_FAILED` | leader | `PMIX_GROUP_OPTIONAL`, `PMIX_GROUP_ADD_MEMBERS`, or neither to fail |
//! | `PMIX_GROUP_LEADER_FAILED` | all participants | `PMIX_GROUP_LEADER` if the sender becomes the leader |
//!
//! Both events have `PMIX_GROUP_LEADER`, the present or lost leader. The report `PMIX_GROUP_CONSTRUCT_ABORT` aborts
//! either.

use pmix_proto::{Event, request};
use pmix_types::{Info, IntoOwned as _, Measure, Proc, Status, Text, keys};

use super::{Of, OpId, Operations, Question, Step};
use crate::Error;
use crate::group::Decision;
use crate::group::events::{about, bad, group_of, notify, value};

/// The largest size of the events of questions that wait for the acknowledgment of the server: that of unread events.
const MAX_QUESTION_BYTES: usize = 64 << 20;

impl Question {
    /// Returns the question in an event about a construct, if there is one. `constructs` returns `true` if this process
    /// waits for the construct of that group.
    pub(crate) fn of_construct(
        event: &Event<'static>,
        constructs: impl Fn(&Text<'_>) -> bool,
    ) -> Option<Self> {
        let codes = [Status::GROUP_INVITE_FAILED, Status::GROUP_LEADER_FAILED];
        let is_question =
            codes.contains(&event.status) && value(&event.infos, keys::GROUP_LEADER).is_some();
        let name = group_of(event).filter(|name| is_question && constructs(name))?;
        Some(Self {
            of: Of::Construct(name.clone(), event.status),
            about: about(event).clone(),
        })
    }

    /// Returns the report for the server, if the question is about a construct.
    pub(crate) fn report(&self, decision: Option<&Decision>) -> Option<request::Notify<'static>> {
        let Of::Construct(name, status_of_question) = &self.of else {
            return None;
        };
        let mut more = vec![Info::new(keys::EVENT_AFFECTED_PROC, self.about.clone())];
        let status = match decision {
            Some(Decision::Abort) => Status::GROUP_CONSTRUCT_ABORT,
            Some(Decision::GoOnWithout) => {
                more.push(Info::new(keys::GROUP_OPTIONAL, true));
                *status_of_question
            }
            Some(Decision::Invite(procs)) => {
                more.push(Info::new(keys::GROUP_ADD_MEMBERS, procs.clone()));
                *status_of_question
            }
            Some(Decision::Lead) => {
                more.push(Info::new(keys::GROUP_LEADER, true));
                *status_of_question
            }
            None => *status_of_question,
        };
        Some(notify(status, name, vec![self.about.clone()], more))
    }
}

impl Operations {
    /// Queues a question to the program. Without room for the event, the directives of the invitation apply.
    pub(super) fn queue_question(
        &mut self,
        op: OpId,
        about: Proc<'static>,
        event: &Event<'static>,
    ) {
        let of = Of::Operation(op, event.status);
        let question = Question { of, about };
        let bytes = self
            .question_bytes
            .saturating_add(event.measure(Measure::All));
        // The questions wait here until the server has acknowledged the registration for events, which it may not do.
        let kept = (bytes <= MAX_QUESTION_BYTES).then(|| event.try_clone().ok());
        match kept.flatten() {
            Some(event) => {
                self.question_bytes = bytes;
                self.steps.push_back(Step::Question(question, event));
            }
            None => self.decide(&question, None),
        }
    }
}

/// Checks that a decision fits a question about a construct.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` if it does not, or if it adds no process or one with an invalid rank.
pub(super) fn check_construct(
    status_of_question: Status,
    decision: &Decision,
) -> Result<(), Error> {
    let is_process = |proc: &Proc<'_>| proc.rank.is_valid();
    match (status_of_question, decision) {
        (Status::GROUP_INVITE_FAILED, Decision::Lead) => {
            Err(bad("this process is already the leader"))
        }
        (Status::GROUP_LEADER_FAILED, Decision::Invite(_)) => {
            Err(bad("only the leader can add members to a group"))
        }
        (_, Decision::Invite(procs)) if procs.is_empty() || !procs.iter().all(is_process) => {
            Err(bad("a process can participate only for itself"))
        }
        _ => Ok(()),
    }
}
