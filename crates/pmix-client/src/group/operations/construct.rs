// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructions that a process leads: what is asked about one that is lost, and what the server is told.
//!
//! | event of the server | for | is reported back with |
//! | --- | --- | --- |
//! | `PMIX_GROUP_INVITE_FAILED` | leader | `PMIX_GROUP_OPTIONAL`, or `PMIX_GROUP_ADD_MEMBERS`, or neither: it ends |
//! | `PMIX_GROUP_LEADER_FAILED` | all who construct | `PMIX_GROUP_LEADER` from one that leads |
//!
//! Either has `PMIX_GROUP_LEADER`, who leads or led, and may be answered by `PMIX_GROUP_CONSTRUCT_ABORT`.

use pmix_proto::{Event, request};
use pmix_types::{Info, Proc, Status, Text, keys};

use super::{Of, Question};
use crate::Error;
use crate::group::Decision;
use crate::group::said::{about, bad, group_of, notify, value};

impl Question {
    /// What an event of a server asks about a construction, if it does. `constructs` says whether this process
    /// waits for the group of a name.
    pub(crate) fn of_construct(
        event: &Event<'static>,
        constructs: impl Fn(&Text<'_>) -> bool,
    ) -> Option<Self> {
        let codes = [Status::GROUP_INVITE_FAILED, Status::GROUP_LEADER_FAILED];
        let asks =
            codes.contains(&event.status) && value(&event.infos, keys::GROUP_LEADER).is_some();
        let name = group_of(event).filter(|name| asks && constructs(name))?;
        Some(Self {
            of: Of::Construct(name.clone(), event.status),
            about: about(event).clone(),
        })
    }

    /// What the server is to be told, if this is about a construction.
    pub(crate) fn said(&self, decision: Option<&Decision>) -> Option<request::Notify<'static>> {
        let Of::Construct(name, asked) = &self.of else {
            return None;
        };
        let mut more = vec![Info::new(keys::EVENT_AFFECTED_PROC, self.about.clone())];
        let status = match decision {
            Some(Decision::Abort) => Status::GROUP_CONSTRUCT_ABORT,
            Some(Decision::GoOnWithout) => {
                more.push(Info::new(keys::GROUP_OPTIONAL, true));
                *asked
            }
            Some(Decision::Invite(procs)) => {
                more.push(Info::new(keys::GROUP_ADD_MEMBERS, procs.clone()));
                *asked
            }
            Some(Decision::Lead) => {
                more.push(Info::new(keys::GROUP_LEADER, true));
                *asked
            }
            None => *asked,
        };
        Some(notify(status, name, vec![self.about.clone()], more))
    }
}

/// Whether a decision answers what was asked about a construction.
///
/// # Errors
///
/// `PMIX_ERR_BAD_PARAM` if it does not, or has nobody or no process take part.
pub(super) fn check_construct(asked: Status, decision: &Decision) -> Result<(), Error> {
    let is_process = |proc: &Proc<'_>| proc.rank.is_valid();
    match (asked, decision) {
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
