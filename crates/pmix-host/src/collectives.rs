// SPDX-License-Identifier: MIT OR Apache-2.0
//! The collectives of a host of several nodes: fences, connects, disconnects and destructs of groups.
//!
//! The server of each node calls the host once its local participants have called. [`Collectives`] gathers these calls:
//!
//! | state | event | next state |
//! | --- | --- | --- |
//! | none | the first call of a node with participants | gathering |
//! | gathering | the last awaited call | ended with success; below a parent, at the parent |
//! | gathering | a call that reports a failure | failed with its status |
//! | gathering | an awaited node is lost, or its last participant ends | failed with `PMIX_ERR_LOST_CONNECTION`; with `PMIX_GROUP_FT_COLLECTIVE`, gathering without the node |
//! | gathering | the shortest `PMIX_TIMEOUT` of the callers has passed | failed with `PMIX_ERR_TIMEOUT` |
//! | failed | the call of an awaited node | the node gets the same status |
//! | failed | no node is awaited any more | removed |
//!
//! - Each call gets exactly one answer, and all calls of a collective get the same.
//! - The k-th call of a node for the same participants, listed in any order, belongs to the k-th collective of these
//!   participants. For a destruct the name of the group belongs to them.
//! - The data of a fence are concatenated in the order of node numbers. A fence that failed on a node has the failure in
//!   its data, so that the servers of all nodes report it. The host does not parse the data.
//! - A node that is lost after its call does not end the collective, as on one node: other servers may have reported
//!   success.
//! - A call of a node whose participants have all ended begins no collective. It gets its own failure, or
//!   `PMIX_ERR_LOST_CONNECTION`.
//! - Servers call for the destruct of a group even if none of its members is left on their node. So a destruct awaits
//!   every node with members that is not lost.
//! - `PMIX_RANK_LOCAL_NODE` names the processes of the calling node: such a collective ends with the call of that node.
//!
//! In a tree, each inner node gathers the calls of its branches and of itself. Each branch has a number.
//! [`Collectives::below_parent`] passes one contribution for all of them to the parent
//! ([`next_forward`](Collectives::next_forward)), and its answer to the callers ([`answered`](Collectives::answered)).
//! A failure also goes to the parent first, whose answer is then that of all nodes. [`crate::tree`] has the arithmetic.
//!
//! There is no clock inside: time is an argument. Calls are hostile input: a node can neither call for processes that it
//! does not have nor hold more than its [`CollectiveLimits`], and it can only drop failures of collectives that it began.
//!
//! ```
//! use std::time::Instant;
//! use pmix_host::collectives::{Collectives, NodeShare, Nodes};
//! use pmix_host::groups::Processes;
//! use pmix_server::upcall::{Fence, HostReply};
//! use pmix_types::{Nspace, Proc, Rank};
//!
//! /// A job with one process on each of two nodes.
//! struct Job;
//!
//! impl Processes for Job {
//!     fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
//!         (*nspace == "job@1").then_some(2)
//!     }
//!     fn has_ended(&self, _: &Proc<'_>) -> bool {
//!         false
//!     }
//!     fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
//!         usize::try_from(proc.rank.as_raw()).ok()
//!     }
//! }
//!
//! impl Nodes for Job {
//!     fn nodes_of_job(&self, _: &Nspace<'_>) -> Vec<NodeShare> {
//!         vec![NodeShare::new(0, 1), NodeShare::new(1, 1)]
//!     }
//!     fn is_lost(&self, _: usize) -> bool {
//!         false
//!     }
//! }
//!
//! let mut fences = Collectives::default();
//! let all = || vec![Proc::new("job@1", Rank::WILDCARD)];
//! let call = |data: &[u8]| Fence::new(all(), vec![], data.to_vec());
//! let now = Instant::now();
//! assert!(fences.take("call of node 1", 1, call(b"b"), &Job, now)?.is_empty());
//! let ended = fences.take("call of node 0", 0, call(b"a"), &Job, now)?;
//! assert_eq!(ended[0].tokens, ["call of node 0", "call of node 1"]);
//! assert_eq!(ended[0].reply(), HostReply::Data(Ok(b"ab".to_vec())));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `pmix_server_fencenb_fn_t`, `pmix_server_connect_fn_t`.

mod contribution;
mod end;
mod ended;
mod listing;
mod nodes;
mod open;
mod participants;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use pmix_types::{Proc, Status};

pub use self::contribution::{CollectiveKind, Contribution, Gathered};
pub use self::ended::{EndedCollective, Forward, RefusedCall};
pub use self::listing::OpenCollective;
pub use self::nodes::{CollectiveLimits, NodeShare, Nodes};
pub use self::open::CollectiveId;
use self::open::{Call, Collective, Key, Phase, Queue};
use self::participants::{Members, key_of, members_of};
use crate::Error;

/// The calls of a node that are not answered.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    calls: usize,
    bytes: usize,
}

/// The open and failed collectives of a host. `T` is the host's token of a call.
#[derive(Debug)]
pub struct Collectives<T> {
    has_parent: bool,
    is_parent_lost: bool,
    limits: CollectiveLimits,
    last: u64,
    all: BTreeMap<CollectiveId, Collective<T>>,
    queues: HashMap<Key, Queue>,
    /// The collectives that await a call of a node.
    awaiting: HashMap<usize, BTreeSet<CollectiveId>>,
    deadlines: BTreeSet<(Instant, CollectiveId)>,
    held: HashMap<usize, Held>,
    /// The failed collectives by the node that began them, and their memory.
    failed: HashMap<usize, (BTreeSet<CollectiveId>, usize)>,
    /// The contributions for the parent.
    forwards: VecDeque<Forward>,
    #[cfg(test)]
    steps: usize,
}

impl<T> Default for Collectives<T> {
    fn default() -> Self {
        Self {
            has_parent: false,
            is_parent_lost: false,
            limits: CollectiveLimits::default(),
            last: 0,
            all: BTreeMap::new(),
            queues: HashMap::new(),
            awaiting: HashMap::new(),
            deadlines: BTreeSet::new(),
            held: HashMap::new(),
            failed: HashMap::new(),
            forwards: VecDeque::new(),
            #[cfg(test)]
            steps: 0,
        }
    }
}

impl<T> Collectives<T> {
    /// Creates the collectives of an inner node of a tree, which forwards contributions to its parent.
    #[must_use]
    pub fn below_parent() -> Self {
        Self {
            has_parent: true,
            ..Self::default()
        }
    }

    /// Sets the limits of each node.
    #[must_use]
    pub fn with_limits(self, limits: CollectiveLimits) -> Self {
        Self { limits, ..self }
    }

    /// Handles the call of a node: a [`Fence`](pmix_server::upcall::Fence), [`Connect`](pmix_server::upcall::Connect) or
    /// [`Disconnect`](pmix_server::upcall::Disconnect), or a [`Contribution`]. Returns the collectives that ended by it.
    ///
    /// # Errors
    ///
    /// Returns the token with an error, whose status is
    ///
    /// - `PMIX_ERR_NOT_FOUND` for a job or process that does not exist;
    /// - `PMIX_ERR_BAD_PARAM` for a node without participants, for no participants, and for ranks that name no process;
    /// - `PMIX_ERR_OUT_OF_RESOURCE` for a call that would begin a collective beyond the limits of the node; one that
    ///   others wait for fails with this status for all;
    /// - `PMIX_ERR_NOMEM` without memory;
    /// - `PMIX_ERR_LOST_CONNECTION` after the parent was lost.
    pub fn take(
        &mut self,
        token: T,
        node: usize,
        call: impl Into<Contribution>,
        nodes: &impl Nodes,
        now: Instant,
    ) -> Result<Vec<EndedCollective<T>>, RefusedCall<T>> {
        let mut call = call.into();
        let (id, weight) = match self.collective_of(node, &call, nodes, now) {
            Ok(Place::At(id, weight)) => (id, weight),
            Ok(Place::Alone(key)) => return Ok(vec![end_alone(token, key, call)]),
            Err(error) => return Err(RefusedCall { token, error }),
        };
        // A call that is refused alone would let the others wait, so the collective fails for all.
        let weight = match self.check_limits(node, weight) {
            Ok(()) => weight,
            Err(error) => {
                tracing::warn!(%error, "a collective failed");
                let failed = Some(error.status());
                let kind = call.kind;
                call = Contribution {
                    failed,
                    ..Contribution::new(kind, Vec::new())
                };
                0
            }
        };
        let Some(open) = self.all.get_mut(&id) else {
            return Ok(Vec::new());
        };
        open.missing.remove(&node);
        let (until, failed) = (call.until(now), call.failed);
        open.is_tolerant |= call.is_tolerant();
        // The participants are those of the collective.
        call.procs = Vec::new();
        let contribution = call;
        let call = Call {
            token,
            contribution,
            weight,
        };
        open.calls.insert(node, call);
        let held = self.held.entry(node).or_default();
        held.calls += 1;
        held.bytes = held.bytes.saturating_add(weight);
        self.forget_awaited(id, node);
        self.limit(id, until);
        let phase = self.all.get(&id).map(|open| &open.phase);
        Ok(match (phase, failed) {
            (Some(Phase::Failed(status)), _) => {
                let status = *status;
                self.end(id, Err(status))
            }
            (Some(Phase::Gathering), Some(status)) => self.fail(id, status),
            (Some(Phase::Gathering), None) => self.go_on(id),
            // The parent's answer is for this call, too.
            (Some(Phase::AtParent) | None, _) => Vec::new(),
        })
    }

    /// Returns the collective of a call, which begins one unless an earlier one awaits the node.
    fn collective_of(
        &mut self,
        node: usize,
        call: &Contribution,
        nodes: &impl Nodes,
        now: Instant,
    ) -> Result<Place, Error> {
        if self.is_parent_lost {
            let message = format!("node {node} called for a collective after the parent was lost");
            return Err(Error::new(Status::ERR_LOST_CONNECTION, message));
        }
        let key = key_of(node, call, nodes)?;
        let Some(key) = key else {
            let key = Key {
                kind: call.kind.clone(),
                procs: call.procs.clone().into(),
            };
            return Ok(Place::Alone(key));
        };
        let weight = call.weight();
        if let Some(id) = self.next_of(&key, node) {
            return Ok(Place::At(id, weight));
        }
        let members = members_of(node, &key, nodes)?;
        self.count(members.num_steps);
        let num_running = members.running.get(&node).copied();
        let is_destruct = matches!(key.kind, CollectiveKind::GroupDestruct(_));
        if num_running == Some(0) && !is_destruct {
            return Ok(Place::Alone(key));
        }
        let own = Collective::<T>::own_weight(key.procs.len(), members.running.len());
        let weight = weight.saturating_add(own);
        self.check_limits(node, weight)?;
        let first = (node, now);
        let id = self.begin(first, key, members, call.is_tolerant(), nodes);
        Ok(Place::At(id, weight))
    }

    /// Returns the first collective of these participants that awaits a node.
    fn next_of(&mut self, key: &Key, node: usize) -> Option<CollectiveId> {
        let queue = self.queues.get_mut(key)?;
        let first = queue.next.get(&node).copied().unwrap_or(CollectiveId(0));
        let mut num_steps = 0;
        let mut ids = queue.ids.range(first..);
        let found = ids.find(|id| {
            num_steps += 1;
            let open = self.all.get(id);
            open.is_some_and(|open| open.missing.contains_key(&node))
        });
        let found = found.copied();
        // The next search begins behind this one; collectives that did not await the node never will.
        let next = found.map_or(self.last, |id| id.0) + 1;
        queue.next.insert(node, CollectiveId(next));
        self.count(num_steps);
        found
    }

    /// Returns an error if a node has too many calls that are not answered.
    fn check_limits(&self, node: usize, weight: usize) -> Result<(), Error> {
        let held = self.held.get(&node).copied().unwrap_or_default();
        let message = if held.calls >= self.limits.calls {
            format!(
                "node {node} has {} unanswered calls of collectives, the limit",
                held.calls
            )
        } else if held.bytes.saturating_add(weight) > self.limits.bytes {
            let most = self.limits.bytes;
            format!(
                "a collective of node {node} with {weight} bytes exceeds its limit of {most} bytes"
            )
        } else {
            return Ok(());
        };
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Begins a collective. Nodes without running participants are not awaited.
    fn begin(
        &mut self,
        (node, began): (usize, Instant),
        key: Key,
        members: Members,
        is_tolerant: bool,
        nodes: &impl Nodes,
    ) -> CollectiveId {
        self.last += 1;
        let id = CollectiveId(self.last);
        let mut open = Collective {
            key: key.clone(),
            phase: Phase::Gathering,
            calls: BTreeMap::new(),
            missing: members.running,
            is_tolerant,
            failure: None,
            ready: None,
            failed_weight: 0,
            until: None,
            began_by: node,
            began,
        };
        let is_destruct = matches!(key.kind, CollectiveKind::GroupDestruct(_));
        let num_all = open.missing.len();
        open.missing.retain(|other, num_running| {
            *other == node || (!nodes.is_lost(*other) && (*num_running > 0 || is_destruct))
        });
        if open.missing.len() < num_all && open.needs_all() {
            open.failure = Some(Status::ERR_LOST_CONNECTION);
        }
        for other in open.missing.keys() {
            self.awaiting.entry(*other).or_default().insert(id);
        }
        let queue = self.queues.entry(key).or_insert_with(|| Queue::new(id));
        queue.ids.insert(id);
        queue.next.insert(node, CollectiveId(id.0 + 1));
        self.all.insert(id, open);
        id
    }

    /// Sets the time limit of a collective if it is earlier than the known one.
    fn limit(&mut self, id: CollectiveId, until: Option<Instant>) {
        let Some(open) = self.all.get_mut(&id) else {
            return;
        };
        let (Some(until), Phase::Gathering) = (until, &open.phase) else {
            return;
        };
        if open.until.is_some_and(|known| known <= until) {
            return;
        }
        if let Some(known) = open.until.replace(until) {
            self.deadlines.remove(&(known, id));
        }
        self.deadlines.insert((until, id));
    }

    /// Ends a collective if no node is awaited, or if one of them will never call.
    fn go_on(&mut self, id: CollectiveId) -> Vec<EndedCollective<T>> {
        let Some(open) = self.all.get_mut(&id) else {
            return Vec::new();
        };
        if let Some(status) = open.failure {
            return self.fail(id, status);
        }
        if !open.missing.is_empty() {
            return Vec::new();
        }
        let kind = open.key.kind.clone();
        let calls = open.calls.values_mut();
        let parts = calls.map(|call| {
            let empty = Contribution::new(CollectiveKind::Fence, Vec::new());
            std::mem::replace(&mut call.contribution, empty)
        });
        match Gathered::combine(&kind, parts) {
            Ok(gathered) if self.has_parent => {
                let Gathered { infos, data } = gathered;
                let contribution = Contribution {
                    infos,
                    data,
                    ..Contribution::new(kind, Vec::new())
                };
                self.forward(id, contribution)
            }
            Ok(gathered) => self.end(id, Ok(gathered)),
            Err(error) => self.fail(id, error.status()),
        }
    }

    fn forget_awaited(&mut self, id: CollectiveId, node: usize) {
        if let Some(ids) = self.awaiting.get_mut(&node) {
            ids.remove(&id);
            if ids.is_empty() {
                self.awaiting.remove(&node);
            }
        }
    }

    /// Records that a process has ended. The host calls it once for each end, after the calls that the server of the
    /// process made before. Returns the collectives that ended by it: those that await a node without other running
    /// participants.
    pub fn proc_ended(&mut self, proc: &Proc<'_>, nodes: &impl Nodes) -> Vec<EndedCollective<T>> {
        let Some(node) = nodes.server_of(proc) else {
            return Vec::new();
        };
        let awaiting = self.awaiting.get(&node).into_iter().flatten();
        let awaiting: Vec<_> = awaiting.copied().collect();
        self.count(awaiting.len());
        let mut ended = Vec::new();
        for id in awaiting {
            let Some(open) = self.all.get_mut(&id).filter(|open| open.key.has(proc)) else {
                continue;
            };
            let Some(num_running) = open.missing.get_mut(&node) else {
                continue;
            };
            *num_running = num_running.saturating_sub(1);
            let is_destruct = matches!(open.key.kind, CollectiveKind::GroupDestruct(_));
            if *num_running == 0 && !is_destruct {
                ended.extend(self.drop_node(id, node));
            }
        }
        ended
    }

    /// Records that a node is lost, and its processes with it. [`Nodes::is_lost`] returns `true` for it from here on.
    /// Returns the collectives that ended by it: those that await its call. The calls that it has made are still
    /// answered.
    pub fn node_lost(&mut self, node: usize) -> Vec<EndedCollective<T>> {
        let awaiting = self.awaiting.get(&node).into_iter().flatten();
        let awaiting: Vec<_> = awaiting.copied().collect();
        self.count(awaiting.len());
        let ended = awaiting.into_iter().map(|id| self.drop_node(id, node));
        ended.flatten().collect()
    }

    /// Returns the time at which [`tick`](Self::tick) is to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Fails the collectives whose time has passed.
    pub fn tick(&mut self, now: Instant) -> Vec<EndedCollective<T>> {
        let mut ended = Vec::new();
        while let Some((until, id)) = self.deadlines.first().copied()
            && until <= now
        {
            self.deadlines.pop_first();
            ended.extend(self.fail(id, Status::ERR_TIMEOUT));
        }
        ended
    }

    /// Counts steps of the work for the tests of its cost.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "only tests count"))]
    fn count(&mut self, num_steps: usize) {
        #[cfg(test)]
        {
            self.steps += num_steps;
        }
        let _ = num_steps;
    }
}

/// The collective of a call.
enum Place {
    /// An open or failed collective, with the memory that the call adds.
    At(CollectiveId, usize),
    /// None: no other node participates in it, or the call begins none.
    Alone(Key),
}

/// Answers a call that belongs to no collective with other nodes.
fn end_alone<T>(token: T, key: Key, call: Contribution) -> EndedCollective<T> {
    let is_local = participants::is_local(&key.procs);
    let outcome = match call.failed {
        Some(status) => Err(status),
        None if is_local => {
            let (kind, part) = (call.kind.clone(), std::iter::once(call));
            Gathered::combine(&kind, part).map_err(|error| error.status())
        }
        // All participants of the node have ended.
        None => Err(Status::ERR_LOST_CONNECTION),
    };
    EndedCollective {
        kind: key.kind,
        procs: key.procs,
        tokens: vec![token],
        outcome,
    }
}

#[cfg(test)]
mod tests;
