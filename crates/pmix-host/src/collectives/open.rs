// SPDX-License-Identifier: MIT OR Apache-2.0
//! One collective, and the queue of those with the same participants.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::{Proc, Rank, Status};

use super::contribution::{CollectiveKind, Contribution};

/// The number of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectiveId(pub(super) u64);

/// The identity of collectives that form a queue: the operation, and the participants in one form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) kind: CollectiveKind,
    /// The participants in ascending order; a whole job is its wildcard.
    pub(super) procs: Arc<[Proc<'static>]>,
}

impl Key {
    /// Returns `true` if a process is a participant.
    pub(super) fn has(&self, proc: &Proc<'_>) -> bool {
        let named = |rank: Rank| {
            let wanted = (proc.nspace.as_bytes(), rank);
            let found = self
                .procs
                .binary_search_by(|known| (known.nspace.as_bytes(), known.rank).cmp(&wanted));
            found.is_ok()
        };
        named(proc.rank) || named(Rank::WILDCARD)
    }
}

/// A call of a node.
#[derive(Debug)]
pub(super) struct Call<T> {
    pub(super) token: T,
    pub(super) contribution: Contribution,
    pub(super) weight: usize,
}

/// The progress of a collective.
#[derive(Debug, PartialEq)]
pub(super) enum Phase {
    /// Nodes are awaited.
    Gathering,
    /// The contribution of the branches is ready for the parent, or at the parent.
    AtParent,
    /// The callers got this status. Nodes that have not called get it when they call.
    Failed(Status),
}

/// A collective that has not ended for all nodes.
#[derive(Debug)]
pub(super) struct Collective<T> {
    pub(super) key: Key,
    pub(super) phase: Phase,
    /// The calls that are not answered, by node.
    pub(super) calls: BTreeMap<usize, Call<T>>,
    /// The nodes that have not called, with the number of their participants that have not ended.
    pub(super) missing: BTreeMap<usize, usize>,
    pub(super) is_tolerant: bool,
    /// The status of a failure whose callers await the parent's answer.
    pub(super) failure: Option<Status>,
    /// The contribution for the parent that waits for its turn.
    pub(super) ready: Option<Contribution>,
    /// The memory that it was counted with when it failed.
    pub(super) failed_weight: usize,
    /// The earliest time limit of any caller.
    pub(super) until: Option<Instant>,
    /// The node that made the first call.
    pub(super) began_by: usize,
    /// The time of the first call.
    pub(super) began: Instant,
}

impl<T> Collective<T> {
    /// Returns the memory of a collective without calls in bytes, an estimate.
    pub(super) fn own_weight(num_procs: usize, num_missing: usize) -> usize {
        let procs = num_procs.saturating_mul(size_of::<Proc<'_>>());
        // A missing node has an entry here and one in the index of nodes.
        procs.saturating_add(num_missing.saturating_mul(64))
    }

    /// Returns the memory that a failed collective holds.
    pub(super) fn weight(&self) -> usize {
        Self::own_weight(self.key.procs.len(), self.missing.len())
    }

    /// Returns `true` if nodes that are lost, and those whose participants have ended, fail this collective.
    pub(super) fn needs_all(&self) -> bool {
        // The servers of a group decide about lost members themselves.
        !self.is_tolerant && !matches!(self.key.kind, CollectiveKind::GroupDestruct(_))
    }
}

/// Collectives of the same participants in the order in which they began.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) ids: BTreeSet<CollectiveId>,
    /// The number after that of the last collective that a node has called for.
    pub(super) next: HashMap<usize, CollectiveId>,
    /// The number of the first collective whose contribution the parent has not got.
    pub(super) next_forward: CollectiveId,
}

impl Queue {
    pub(super) fn new(first: CollectiveId) -> Self {
        Self {
            ids: BTreeSet::new(),
            next: HashMap::new(),
            next_forward: first,
        }
    }
}
