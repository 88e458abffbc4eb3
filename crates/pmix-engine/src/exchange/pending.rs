// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets that wait for data.

use std::time::Instant;

use pmix_types::Status;

use super::by_proc::ByProc;
use super::get_request::GetRequest;
use crate::peers::Ticket;

/// Holds the gets that wait for data, by the process they are about.
pub(crate) type PendingGets = ByProc<PendingGet>;

/// Says what a get waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
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

/// A GETNB or REFRESH_CACHE that waits for data.
#[derive(Debug)]
pub(crate) struct PendingGet {
    pub(super) ticket: Ticket,
    pub(super) request: GetRequest,
    pub(super) wait_for: WaitFor,
    /// Whether the host has answered about its key.
    pub(super) was_asked: bool,
    /// When it ends without an answer, and how.
    pub(super) until: Option<(Instant, Status)>,
}

impl PendingGet {
    /// Whether it waits longer than until a time; none is for ever.
    pub(super) fn outlasts(&self, until: Option<Instant>) -> bool {
        let own = self.until.map(|(at, _)| at);
        until.is_some_and(|until| own.is_none_or(|own| own > until))
    }
}
