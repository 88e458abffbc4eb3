// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ends of collectives, and contributions for a parent, as the host gets them.

use std::fmt;
use std::sync::Arc;

use pmix_server::upcall::HostReply;
use pmix_types::{Proc, Status};

use super::contribution::{CollectiveKind, Contribution, Gathered};
use super::open::CollectiveId;
use crate::Error;

/// The end of a collective, with the calls to answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EndedCollective<T> {
    /// The operation.
    pub kind: CollectiveKind,
    /// The participants in ascending order; a whole job is its wildcard.
    pub procs: Arc<[Proc<'static>]>,
    /// The token that [`take`](super::Collectives::take) got with each call that is to be answered, in the order of node numbers.
    pub tokens: Vec<T>,
    /// The result, or the status of the failure.
    pub outcome: Result<Gathered, Status>,
}

impl<T> EndedCollective<T> {
    /// Returns the reply to each of the calls.
    #[must_use]
    pub fn reply(&self) -> HostReply {
        match (&self.outcome, &self.kind) {
            (Ok(gathered), kind) => gathered.reply(kind),
            (Err(status), CollectiveKind::Fence) => HostReply::Data(Err(*status)),
            (Err(status), _) => HostReply::Done(*status),
        }
    }
}

/// A call that belongs to no collective. It is answered with the status of the error.
#[derive(Debug)]
pub struct RefusedCall<T> {
    /// The token of the call.
    pub token: T,
    /// The reason.
    pub error: Error,
}

impl<T> fmt::Display for RefusedCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for RefusedCall<T> {}

/// The contribution of all branches of a tree node, for its parent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forward {
    /// The number for [`answered`](super::Collectives::answered).
    pub id: CollectiveId,
    /// The contribution.
    pub contribution: Contribution,
}
