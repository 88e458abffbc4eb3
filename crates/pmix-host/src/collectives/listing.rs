// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the open collectives, for users who want to know why a job makes no progress.

use std::time::Instant;

use pmix_types::Proc;

use super::Collectives;
use super::contribution::CollectiveKind;
use super::open::{Collective, CollectiveId, Phase};

/// A collective that awaits nodes, or the answer of the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenCollective<'a> {
    /// The number, which no other collective of this host has.
    pub id: CollectiveId,
    /// The operation.
    pub kind: &'a CollectiveKind,
    /// The participants in ascending order; a whole job is its wildcard.
    pub procs: &'a [Proc<'static>],
    /// The time of the first call of a node.
    pub began: Instant,
    /// The nodes that have called, in ascending order.
    pub called: Vec<usize>,
    /// The nodes that have not called, in ascending order.
    pub awaited: Vec<usize>,
}

impl<T> Collectives<T> {
    /// Returns the open collectives in the order in which they began. Failed ones are not open: their callers were
    /// answered.
    pub fn open(&self) -> impl Iterator<Item = OpenCollective<'_>> {
        let open = |one: &Collective<T>| !matches!(one.phase, Phase::Failed(_));
        let all = self.all.iter().filter(move |(_, one)| open(one));
        all.map(|(id, one)| OpenCollective {
            id: *id,
            kind: &one.key.kind,
            procs: &one.key.procs,
            began: one.began,
            called: one.calls.keys().copied().collect(),
            awaited: one.missing.keys().copied().collect(),
        })
    }
}
