// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the host that are not answered yet.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use super::{Answer, Upcall};
use crate::Engine;
use crate::peers::PeerId;

/// The name of one call of the host; none is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(u64);

/// A call for the host.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// What to answer it under.
    pub id: CallId,
    /// What is asked.
    pub upcall: Upcall,
}

/// What the engine does with the answer.
pub(crate) type Then = Box<dyn FnOnce(&mut Engine, Answer) + Send>;

/// Calls of the host that are not answered yet.
#[derive(Default)]
pub(crate) struct Calls {
    last: u64,
    queue: VecDeque<HostCall>,
    open: HashMap<CallId, Open>,
}

struct Open {
    /// The peer for whose sake alone the answer matters.
    peer: Option<PeerId>,
    then: Then,
}

impl Calls {
    /// Queues a call. If it is made for one peer alone, it is forgotten when the peer is gone.
    pub(crate) fn push(&mut self, upcall: Upcall, peer: Option<PeerId>, then: Then) -> CallId {
        self.last += 1;
        let id = CallId(self.last);
        self.open.insert(id, Open { peer, then });
        self.queue.push_back(HostCall { id, upcall });
        id
    }

    /// How many calls are not answered.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many calls the driver has not taken yet.
    pub(crate) fn num_queued(&self) -> usize {
        self.queue.len()
    }

    /// The next call to make.
    pub(crate) fn poll(&mut self) -> Option<HostCall> {
        self.queue.pop_front()
    }

    /// What to do with the answer of a call; none if nobody waits for it.
    pub(crate) fn take(&mut self, id: CallId) -> Option<Then> {
        self.open.remove(&id).map(|open| open.then)
    }

    /// Forgets what was asked for the sake of a peer alone. The host may still answer.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.open.retain(|_, open| open.peer != Some(peer));
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open: Vec<_> = self.open.keys().collect();
        f.debug_struct("Calls")
            .field("queue", &self.queue)
            .field("open", &open)
            .finish()
    }
}
