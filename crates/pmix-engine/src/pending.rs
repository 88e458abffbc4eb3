// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upcalls without a reply, and the use of each reply.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", the callbacks of `pmix_server_module_t`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::time::Instant;

use pmix_proto::{PeerForm, Role};
use pmix_types::{Info, IofChannel, Nspace, Proc, Status};

use crate::by_peer::ByPeer;
use crate::host::{CallId, HostCall, Upcall};
use crate::ids::{InvitationId, TrackerId};
use crate::peers::{PeerId, Ticket};
use crate::query::results::QueryResults;
use crate::recount::Recount;
use crate::timer::{Timer, Timers};

/// The use of a host reply.
#[derive(Debug)]
pub(crate) enum Pending {
    /// A request with a status as its reply.
    Status(Ticket),
    /// A request with a status and infos as its reply.
    Infos(Ticket),
    /// A lookup of published data.
    Lookup(Ticket),
    /// A spawn, and the output channels of the new job that its requestor wants forwarded.
    Spawn(Ticket, IofChannel),
    /// A request for a credential.
    Credential(Ticket),
    /// A request for the distances of devices.
    Distances(Ticket),
    /// A query, with the results of this server.
    Query(Ticket, Box<QueryResults>),
    /// A request to resolve peers or nodes of a job that is not registered here, and the key of the info with the
    /// result.
    Resolve(Ticket, &'static str),
    /// Input that a peer pushes.
    PushStdin(Ticket),
    /// A pull of output, by its number.
    IofPull(Ticket, u64),
    /// An event registration with codes that only the host can report.
    RegisterEvents(Ticket, Box<PendingRegistration>),
    /// Event codes that the host was asked to report.
    HostedEvents(Vec<Status>),
    /// A client whose connection was reported to the host.
    ClientConnected(PeerId),
    /// A tool that waits for admission.
    ToolConnected(PeerId, Box<PendingTool>),
    /// A client that finalizes.
    Finalize(PeerId),
    /// A collective, and the job of the process that called first.
    Collective(TrackerId, Nspace<'static>),
    /// The context id of a group that is formed by invitation.
    GroupContext(InvitationId),
    /// Data of a process on another node.
    DirectModex(Proc<'static>),
    /// No use: the host was only informed.
    Informed,
}

/// An event registration of a peer that waits for the host.
#[derive(Debug)]
pub(crate) struct PendingRegistration {
    pub(crate) codes: Vec<Status>,
    pub(crate) infos: Vec<Info<'static>>,
    /// The codes among them that the host was asked to report.
    pub(crate) hosted: Vec<Status>,
}

/// A tool that waits for admission.
#[derive(Debug)]
pub(crate) struct PendingTool {
    pub(crate) role: Role,
    pub(crate) form: PeerForm,
    pub(crate) user: (u32, u32),
    /// The name that the tool claims.
    pub(crate) proc: Option<Proc<'static>>,
}

impl Pending {
    /// Returns the request that waits for the reply.
    fn ticket(&self) -> Option<&Ticket> {
        match self {
            Self::Status(ticket)
            | Self::Infos(ticket)
            | Self::Lookup(ticket)
            | Self::Spawn(ticket, _)
            | Self::Credential(ticket)
            | Self::Distances(ticket)
            | Self::Query(ticket, _)
            | Self::Resolve(ticket, _)
            | Self::PushStdin(ticket)
            | Self::IofPull(ticket, _)
            | Self::RegisterEvents(ticket, _) => Some(ticket),
            _ => None,
        }
    }

    /// Returns the time at which the request is answered without the host, if it has a time limit.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Query(_, results) => results.until,
            _ => None,
        }
    }

    /// Returns the only peer that the reply concerns.
    fn peer(&self) -> Option<PeerId> {
        #[cfg(test)]
        tests::LOOKED_AT.set(tests::LOOKED_AT.get() + 1);
        match self {
            Self::ClientConnected(peer) | Self::ToolConnected(peer, _) | Self::Finalize(peer) => {
                Some(*peer)
            }
            _ => self.ticket().map(Ticket::peer),
        }
    }
}

/// The description of an upcall without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingCall {
    /// The identifier of the call.
    pub id: CallId,
    /// The name of the upcall, such as `Fence` ([`Upcall::name`]).
    pub upcall: &'static str,
    /// The only peer that the reply concerns; the call is dropped when the peer disconnects.
    pub peer: Option<PeerId>,
}

/// The upcalls without a reply.
#[derive(Default)]
pub(crate) struct HostCalls {
    last: u64,
    queue: VecDeque<HostCall>,
    open: HashMap<CallId, OpenUpcall>,
    /// The upcalls that concern one peer only.
    by_peer: ByPeer<CallId>,
}

#[derive(Debug)]
struct OpenUpcall {
    upcall: &'static str,
    pending: Pending,
}

impl HostCalls {
    /// Queues an upcall and returns its identifier.
    pub(crate) fn push(&mut self, upcall: Upcall, pending: Pending) -> CallId {
        self.last += 1;
        let id = CallId(self.last);
        if let Some(peer) = pending.peer() {
            self.by_peer.insert(peer, id);
        }
        let open = OpenUpcall {
            upcall: upcall.name(),
            pending,
        };
        self.open.insert(id, open);
        self.queue.push_back(HostCall { id, upcall });
        id
    }

    /// Adds the requests and collectives that wait for the host to a recount.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        let of_peers = self
            .open
            .values()
            .filter(|open| open.pending.peer().is_some());
        recount.compare("upcalls of peers", self.by_peer.len(), of_peers.count());
        for (id, open) in &self.open {
            recount.deadline(open.pending.deadline(), Timer::Query(*id));
            if let Some(ticket) = open.pending.ticket() {
                recount.request(ticket);
            }
            recount.num_under_way += usize::from(matches!(open.pending, Pending::Collective(..)));
        }
    }

    /// Returns the number of upcalls without a reply.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns the number of upcalls that the driver has not taken.
    pub(crate) fn num_queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the next upcall to make.
    pub(crate) fn poll(&mut self) -> Option<HostCall> {
        self.queue.pop_front()
    }

    /// Removes and returns the use of an upcall's reply; `None` if the call was dropped.
    pub(crate) fn take(&mut self, id: CallId) -> Option<Pending> {
        let pending = self.open.remove(&id)?.pending;
        if let Some(peer) = pending.peer() {
            self.by_peer.remove(peer, &id);
        }
        Some(pending)
    }

    /// Drops the upcalls that concern only this peer, with their timers. A later reply of the host is ignored.
    pub(crate) fn forget(&mut self, peer: PeerId, timers: &mut Timers) {
        for id in self.by_peer.take(peer) {
            if let Some(open) = self.open.remove(&id)
                && let Some(until) = open.pending.deadline()
            {
                timers.cancel(until, Timer::Query(id));
            }
        }
    }

    /// Lists the upcalls without a reply, in the order in which they were made.
    pub(crate) fn list(&self) -> Vec<PendingCall> {
        let calls = self.open.iter().map(|(id, open)| PendingCall {
            id: *id,
            upcall: open.upcall,
            peer: open.pending.peer(),
        });
        let mut calls: Vec<_> = calls.collect();
        // The table is unordered, but identifiers increase.
        calls.sort_unstable_by_key(|call| call.id);
        calls
    }
}

impl fmt::Debug for HostCalls {
    /// Prints the number of pending upcalls by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut by_name = BTreeMap::<_, usize>::new();
        for open in self.open.values() {
            *by_name.entry(open.upcall).or_default() += 1;
        }
        f.debug_struct("HostCalls")
            .field("queued", &self.queue.len())
            .field("unanswered", &by_name)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::host::DeregisterEvents;

    fn call(calls: &mut HostCalls, pending: Pending) -> CallId {
        calls.push(DeregisterEvents { codes: vec![] }.into(), pending);
        calls.poll().unwrap().id
    }

    thread_local! {
        /// The number of calls of [`Pending::peer`].
        pub(super) static LOOKED_AT: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn calls_of_a_peer_are_removed_without_visiting_others() {
        let mut calls = HostCalls::default();
        for number in 0..1_000 {
            call(&mut calls, Pending::Finalize(PeerId::of(number)));
        }
        let answered = call(&mut calls, Pending::Finalize(PeerId::of(7)));
        calls.take(answered);
        let before = LOOKED_AT.get();
        calls.forget(PeerId::of(7), &mut Timers::default());
        assert_eq!((calls.len(), LOOKED_AT.get()), (999, before));
        assert_eq!(calls.by_peer.len(), 999);
    }

    #[test]
    fn pending_calls_are_listed_counted_and_removed_with_their_peer() {
        let mut calls = HostCalls::default();
        let peer = PeerId::of(7);
        let kept = call(&mut calls, Pending::Informed);
        let ended = call(&mut calls, Pending::Finalize(peer));
        let listed: Vec<_> = calls.list().iter().map(|c| (c.id, c.peer)).collect();
        assert_eq!(listed, [(kept, None), (ended, Some(peer))]);
        assert_eq!(
            format!("{calls:?}"),
            "HostCalls { queued: 0, unanswered: {\"DeregisterEvents\": 2} }"
        );
        calls.forget(peer, &mut Timers::default());
        assert!(calls.take(ended).is_none());
        assert!(matches!(calls.take(kept), Some(Pending::Informed)));
        assert_eq!(calls.len(), 0);
    }
}
