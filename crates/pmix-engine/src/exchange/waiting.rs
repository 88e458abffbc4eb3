// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions that wait for their answers.

use std::time::Instant;

use pmix_types::Status;

use super::by_proc::ByProc;
use super::question::Question;
use crate::peers::Ticket;

/// The name of a question that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WaitId(pub(super) u64);

/// Questions that wait for their answers.
pub(crate) type Waiting = ByProc<Waiter>;

/// What a question waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Later {
    /// That the job is registered.
    Job,
    /// That all local processes of the job are registered, so that it is known where this one is.
    Clients,
    /// That the process commits.
    Commit,
    /// That the process, which has committed, commits this key too.
    Key,
    /// What the host brings from another node.
    Host,
}

/// A question that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) question: Question,
    pub(super) later: Later,
    /// Whether the host has answered about its key.
    pub(super) was_asked: bool,
    /// When it ends without an answer, and how.
    pub(super) until: Option<(Instant, Status)>,
}

impl Waiter {
    /// Whether it waits longer than until a time; none is for ever.
    pub(super) fn outlasts(&self, until: Option<Instant>) -> bool {
        let own = self.until.map(|(at, _)| at);
        until.is_some_and(|until| own.is_none_or(|own| own > until))
    }
}
