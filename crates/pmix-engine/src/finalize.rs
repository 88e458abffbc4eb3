// SPDX-License-Identifier: MIT OR Apache-2.0
//! FINALIZE: the orderly disconnection of processes.

use std::collections::HashMap;
use std::time::Instant;

use pmix_proto::PeerForm;
use pmix_types::{Nspace, Proc, Status};

use crate::Stats;
use crate::cx::Cx;
use crate::event::EngineEvent;
use crate::host::ClientFinalized;
use crate::ids::ClientId;
use crate::peers::{Peer, PeerId, Ticket};
use crate::pending::Pending;
use crate::recount::Recount;
use crate::registry::ClientState;
use crate::timer::Timer;

/// A process that waits for the reply to its finalize.
#[derive(Debug)]
struct PendingFinalize {
    ticket: Ticket,
    /// The deadline after which the process gets its reply without the host.
    until: Instant,
}

/// The processes whose finalize waits for the host.
#[derive(Debug, Default)]
pub(crate) struct Finalizing(HashMap<PeerId, PendingFinalize>);

impl Finalizing {
    /// Adds the waiting processes to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_finalizing = self.0.len();
    }

    /// Adds the waiting processes to a recount.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (peer, pending) in &self.0 {
            recount.request(&pending.ticket);
            recount.deadline(Some(pending.until), Timer::Finalize(*peer));
        }
    }

    /// Returns the peers of a job that do not wait for a finalize reply.
    pub(crate) fn not_waiting(&self, cx: &Cx, nspace: &Nspace<'_>) -> Vec<PeerId> {
        let members = cx.peers.members();
        let of_job = members.filter(|(_, member)| member.proc.nspace == *nspace);
        let left = of_job.filter(|(peer, _)| !self.0.contains_key(peer));
        left.map(|(peer, _)| peer).collect()
    }

    /// Cancels the wait for the return of a process that was deregistered.
    pub(crate) fn client_removed(cx: &mut Cx, id: ClientId, until: Option<Instant>) {
        if let Some(until) = until {
            cx.timers.cancel(until, Timer::Return(id));
        }
    }

    /// Drops the pending finalize of a disconnected peer.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, peer: PeerId) {
        if let Some(pending) = self.0.remove(&peer) {
            cx.timers.cancel(pending.until, Timer::Finalize(peer));
        }
    }

    /// Handles FINALIZE. The end of the connection no longer counts as the loss of the process.
    ///
    /// A client waits for the reply of the host for at most `finalize_time`, and an error of the host does not prevent
    /// it from leaving. A tool gets its reply at once.
    pub(crate) fn finalize(&mut self, cx: &mut Cx, ticket: Ticket) {
        let peer = ticket.peer();
        let until = cx.after(cx.config.finalize_time);
        let member = cx.peers.get_mut(peer).and_then(Peer::member_mut);
        let (Some(member), Some(until)) = (member, until) else {
            return cx.reply_status(ticket, Status::SUCCESS);
        };
        // A repeated finalize must not call the host again.
        if member.is_finalized {
            return cx.reply_status(ticket, Status::SUCCESS);
        }
        member.is_finalized = true;
        let proc = member.proc.clone();
        // The host registered no object for a tool, and `client_finalized` of a host in C may dereference it.
        let Some(id) = member.client else {
            let event = EngineEvent::ToolFinalized { proc };
            cx.driver_events.push_back(event);
            return cx.reply_status(ticket, Status::SUCCESS);
        };
        let object = cx.host_object(Some(id));
        let is_last = Self::client_finalized(cx, id, peer);
        // A host that never replies must not keep the process from exiting.
        cx.timers.set(until, Timer::Finalize(peer));
        self.0.insert(peer, PendingFinalize { ticket, until });
        let call = ClientFinalized {
            proc,
            object,
            is_last,
        };
        cx.call_host(call, Pending::Finalize(peer));
    }

    /// Records that a process finalized over a connection. It may initialize again. The host deregisters it if it will
    /// not; `return_time` limits the wait in case the host never does. Returns `true` if no other program of the process is
    /// connected.
    fn client_finalized(cx: &mut Cx, id: ClientId, peer: PeerId) -> bool {
        let until = cx.config.return_time.and_then(|time| cx.after(time));
        let client = cx.registry.client_mut(id);
        let is_last = client.is_some_and(|client| client.finalize(peer, until));
        if let Some(until) = until.filter(|_| is_last) {
            cx.timers.set(until, Timer::Return(id));
        }
        is_last
    }

    /// Releases the connection of a process without open requests to the host, as if the process had finalized. Returns
    /// the connection and the form in which the process packs; `None` if the process has not requested its job info or
    /// is busy.
    pub(crate) fn leave_to_host(cx: &mut Cx, proc: &Proc<'_>) -> Option<(PeerId, PeerForm)> {
        let id = cx.registry.find(&proc.nspace, proc.rank)?;
        // With a clone connected, the process may still send requests.
        let [peer] = cx.registry.client(id)?.peers[..] else {
            return None;
        };
        let is_idle = cx.peers.is_idle(peer);
        let member = cx.peers.get_mut(peer).and_then(Peer::member_mut);
        let member = member.filter(|member| is_idle && member.has_job_info)?;
        member.is_finalized = true;
        let form = member.form;
        // The process does not initialize again at this server, so there is no wait for its return.
        let client = cx.registry.client_mut(id)?;
        client.finalize(peer, None);
        Some((peer, form))
    }

    /// Ends the wait for the return of a finalized process. Returns the process if it has not returned, so that no
    /// collective waits for it.
    pub(crate) fn has_not_returned(cx: &mut Cx, id: ClientId) -> Option<Proc<'static>> {
        let client = cx.registry.client_mut(id);
        let client = client.filter(|client| client.state == ClientState::Finalized)?;
        client.state = ClientState::Left;
        client.until = None;
        Some(client.proc.clone())
    }

    /// Sends the reply to a pending finalize.
    pub(crate) fn finalized(&mut self, cx: &mut Cx, peer: PeerId) {
        if let Some(PendingFinalize { ticket, until }) = self.0.remove(&peer) {
            cx.timers.cancel(until, Timer::Finalize(peer));
            cx.reply_status(ticket, Status::SUCCESS);
        }
    }
}
