// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ends of collectives: answers, failures that are kept, and the parent of a tree node.

use std::sync::Arc;
use std::time::Instant;

use pmix_server::upcall::HostReply;
use pmix_types::{Info, Status, keys};

use super::Collectives;
use super::contribution::{Contribution, Gathered};
use super::ended::{EndedCollective, Forward};
use super::open::{CollectiveId, Phase};

/// The largest number of failed collectives that one node began and that are kept for late callers, and their memory.
pub(super) const MAX_FAILED: usize = 256;
const MAX_FAILED_BYTES: usize = 16 << 20;

impl<T> Collectives<T> {
    /// Fails a collective; below a parent, its answer decides.
    pub(super) fn fail(&mut self, id: CollectiveId, status: Status) -> Vec<EndedCollective<T>> {
        let Some(open) = self.all.get_mut(&id) else {
            return Vec::new();
        };
        if !self.has_parent {
            return self.end(id, Err(status));
        }
        open.failure = Some(status);
        let contribution = Contribution {
            failed: Some(status),
            ..Contribution::new(open.key.kind.clone(), Vec::new())
        };
        self.forward(id, contribution)
    }

    /// Records the contribution for the parent, and passes on those whose turn it is.
    pub(super) fn forward(
        &mut self,
        id: CollectiveId,
        contribution: Contribution,
    ) -> Vec<EndedCollective<T>> {
        let Some(open) = self.all.get_mut(&id) else {
            return Vec::new();
        };
        open.phase = Phase::AtParent;
        open.ready = Some(contribution);
        if let Some(until) = open.until {
            self.deadlines.remove(&(until, id));
        }
        let Some(queue) = self.queues.get_mut(&open.key) else {
            return Vec::new();
        };
        // The parent matches collectives by their order, so a later contribution must not overtake this one.
        let due = queue.ids.range(queue.next_forward..);
        let mut next = queue.next_forward;
        for id in due {
            let Some(open) = self.all.get_mut(id) else {
                continue;
            };
            if open.phase == Phase::Gathering {
                break;
            }
            if let Some(mut contribution) = open.ready.take() {
                contribution.procs = open.key.procs.to_vec();
                let id = *id;
                self.forwards.push_back(Forward { id, contribution });
            }
            next = CollectiveId(id.0 + 1);
        }
        queue.next_forward = next;
        Vec::new()
    }

    /// Answers the calls of a collective. If it failed, later calls get the same status.
    pub(super) fn end(
        &mut self,
        id: CollectiveId,
        outcome: Result<Gathered, Status>,
    ) -> Vec<EndedCollective<T>> {
        let Some(open) = self.all.get_mut(&id) else {
            return Vec::new();
        };
        if let Some(until) = open.until.take() {
            self.deadlines.remove(&(until, id));
        }
        let mut tokens = Vec::with_capacity(open.calls.len());
        for (node, call) in std::mem::take(&mut open.calls) {
            if let Some(held) = self.held.get_mut(&node) {
                held.calls -= 1;
                held.bytes = held.bytes.saturating_sub(call.weight);
                if held.calls == 0 {
                    self.held.remove(&node);
                }
            }
            tokens.push(call.token);
        }
        let ended = EndedCollective {
            kind: open.key.kind.clone(),
            procs: Arc::clone(&open.key.procs),
            tokens,
            outcome,
        };
        match (&ended.outcome, &open.phase) {
            (Err(status), Phase::Gathering | Phase::AtParent) if !open.missing.is_empty() => {
                open.phase = Phase::Failed(*status);
                self.keep_failed(id);
            }
            (Err(_), Phase::Failed(_)) if !open.missing.is_empty() => {}
            _ => self.remove(id),
        }
        vec![ended]
    }

    /// Keeps a failed collective for late callers, and drops the oldest ones that the same node began.
    fn keep_failed(&mut self, id: CollectiveId) {
        let Some(open) = self.all.get_mut(&id) else {
            return;
        };
        let (node, weight) = (open.began_by, open.weight());
        open.failed_weight = weight;
        loop {
            let (ids, bytes) = self.failed.entry(node).or_default();
            let is_full =
                ids.len() >= MAX_FAILED || bytes.saturating_add(weight) > MAX_FAILED_BYTES;
            match ids.first().copied().filter(|_| is_full) {
                Some(oldest) => self.remove(oldest),
                None => {
                    ids.insert(id);
                    *bytes = bytes.saturating_add(weight);
                    return;
                }
            }
        }
    }

    /// Removes a collective without open calls.
    fn remove(&mut self, id: CollectiveId) {
        let Some(open) = self.all.remove(&id) else {
            return;
        };
        for node in open.missing.keys() {
            self.forget_awaited(id, *node);
        }
        if let Phase::Failed(_) = open.phase
            && let Some((ids, bytes)) = self.failed.get_mut(&open.began_by)
            && ids.remove(&id)
        {
            *bytes = bytes.saturating_sub(open.failed_weight);
            if ids.is_empty() {
                self.failed.remove(&open.began_by);
            }
        }
        if let Some(queue) = self.queues.get_mut(&open.key) {
            queue.ids.remove(&id);
            if queue.ids.is_empty() {
                self.queues.remove(&open.key);
            }
        }
    }

    /// Stops waiting for a node that will not call.
    pub(super) fn drop_node(&mut self, id: CollectiveId, node: usize) -> Vec<EndedCollective<T>> {
        self.forget_awaited(id, node);
        let Some(open) = self.all.get_mut(&id) else {
            return Vec::new();
        };
        open.missing.remove(&node);
        match open.phase {
            Phase::Gathering if open.needs_all() => self.fail(id, Status::ERR_LOST_CONNECTION),
            Phase::Gathering => self.go_on(id),
            Phase::Failed(_) if open.missing.is_empty() => {
                self.remove(id);
                Vec::new()
            }
            Phase::Failed(_) | Phase::AtParent => Vec::new(),
        }
    }

    /// Returns the next contribution for the parent of a tree node. The host sends it as a call
    /// ([`Contribution::into_upcall`]) and passes the answer to [`answered`](Self::answered). The remaining time of the
    /// callers is part of it (`PMIX_TIMEOUT`).
    pub fn next_forward(&mut self, now: Instant) -> Option<Forward> {
        let mut forward = self.forwards.pop_front()?;
        let until = self.all.get(&forward.id).and_then(|open| open.until);
        if let Some(until) = until.filter(|_| forward.contribution.failed.is_none()) {
            let left = until.saturating_duration_since(now);
            // `PMIX_TIMEOUT` has whole seconds, and 0 means no limit, so the rest is rounded up.
            let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
            let seconds = u32::try_from(seconds.max(1)).unwrap_or(u32::MAX);
            let infos = &mut forward.contribution.infos;
            infos.push(Info::new(keys::TIMEOUT, seconds));
        }
        Some(forward)
    }

    /// Handles the answer of the parent. Returns the calls of the branches to answer; an answer to an unknown
    /// contribution is dropped.
    pub fn answered(&mut self, id: CollectiveId, reply: HostReply) -> Vec<EndedCollective<T>> {
        let open = self.all.get(&id);
        let Some(open) = open.filter(|open| open.phase == Phase::AtParent) else {
            return Vec::new();
        };
        let status = reply.status();
        let outcome = match (open.failure, reply) {
            _ if !status.is_success() => Err(status),
            // A parent that knows nothing of the failure of its branch must not make it a success.
            (Some(failure), _) => Err(failure),
            (None, HostReply::Data(Ok(data))) => Ok(Gathered {
                data,
                ..Gathered::default()
            }),
            (None, HostReply::Infos(_, infos)) => Ok(Gathered {
                infos,
                ..Gathered::default()
            }),
            (None, _) => Ok(Gathered::default()),
        };
        self.end(id, outcome)
    }

    /// Records that the parent of a tree node is lost. All calls fail with `PMIX_ERR_LOST_CONNECTION`, later ones as
    /// well.
    pub fn parent_lost(&mut self) -> Vec<EndedCollective<T>> {
        self.is_parent_lost = true;
        self.forwards.clear();
        let ids: Vec<_> = self.all.keys().copied().collect();
        let mut ended = Vec::new();
        for id in ids {
            let has_calls = self.all.get(&id).is_some_and(|open| !open.calls.is_empty());
            if has_calls {
                ended.extend(self.end(id, Err(Status::ERR_LOST_CONNECTION)));
            }
            self.remove(id);
        }
        ended
    }
}
