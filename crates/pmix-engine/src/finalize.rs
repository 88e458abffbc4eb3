// SPDX-License-Identifier: MIT OR Apache-2.0
//! FINALIZE: processes that disconnect in order.

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

/// A process that finalizes and waits for the reply.
#[derive(Debug)]
struct PendingFinalize {
    ticket: Ticket,
    /// When it goes without the host having taken notice.
    until: Instant,
}

/// Holds the processes that finalize and wait for the host.
#[derive(Debug, Default)]
pub(crate) struct Finalizing(HashMap<PeerId, PendingFinalize>);

impl Finalizing {
    /// Adds the processes that wait to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_finalizing = self.0.len();
    }

    /// Adds the processes that wait to what is found.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (peer, pending) in &self.0 {
            recount.request(&pending.ticket);
            recount.deadline(Some(pending.until), Timer::Finalize(*peer));
        }
    }

    /// Returns the peers of a job that do not wait to be told that they may leave.
    pub(crate) fn not_waiting(&self, cx: &Cx, nspace: &Nspace<'_>) -> Vec<PeerId> {
        let members = cx.peers.members();
        let of_job = members.filter(|(_, member)| member.proc.nspace == *nspace);
        let left = of_job.filter(|(peer, _)| !self.0.contains_key(peer));
        left.map(|(peer, _)| peer).collect()
    }

    /// A process that may have left is registered no longer: it is not waited for.
    pub(crate) fn client_removed(cx: &mut Cx, id: ClientId, until: Option<Instant>) {
        if let Some(until) = until {
            cx.timers.cancel(until, Timer::Return(id));
        }
    }

    /// A peer is gone.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, peer: PeerId) {
        if let Some(pending) = self.0.remove(&peer) {
            cx.timers.cancel(pending.until, Timer::Finalize(peer));
        }
    }

    /// Handles FINALIZE. From now on the end of the connection is no loss.
    ///
    /// A client waits for the answer of the host for `finalize_time` at most; the answer does not keep it. A tool gets
    /// its reply at once.
    pub(crate) fn finalize(&mut self, cx: &mut Cx, ticket: Ticket) {
        let peer = ticket.peer();
        let until = cx.after(cx.config.finalize_time);
        let member = cx.peers.get_mut(peer).and_then(Peer::member_mut);
        let (Some(member), Some(until)) = (member, until) else {
            return cx.reply_status(ticket, Status::SUCCESS);
        };
        if member.is_finalized {
            return cx.reply_status(ticket, Status::SUCCESS);
        }
        member.is_finalized = true;
        let proc = member.proc.clone();
        // A host registered no object for a tool, and a host in C would look at one.
        let Some(id) = member.client else {
            let event = EngineEvent::ToolFinalized { proc };
            cx.driver_events.push_back(event);
            return cx.reply_status(ticket, Status::SUCCESS);
        };
        let object = cx.host_object(Some(id));
        Self::client_finalized(cx, id, peer);
        cx.timers.set(until, Timer::Finalize(peer));
        self.0.insert(peer, PendingFinalize { ticket, until });
        let call = ClientFinalized { proc, object };
        cx.call_host(call, Pending::Finalize(peer));
    }

    /// A process leaves as it should over a connection. It may come again, and the host says when
    /// it does not, by deregistering it; a host that never does so is not waited for without end.
    fn client_finalized(cx: &mut Cx, id: ClientId, peer: PeerId) {
        let until = cx.config.return_time.and_then(|time| cx.after(time));
        let client = cx.registry.client_mut(id);
        if client.is_some_and(|client| client.finalize(peer, until))
            && let Some(until) = until
        {
            cx.timers.set(until, Timer::Return(id));
        }
    }

    /// A process has nothing more to ask this server for, and the host goes on with its connection: it has left
    /// as it should. Returns its connection, and the form in which it packs; none if it has not come that far.
    pub(crate) fn leave_to_host(cx: &mut Cx, proc: &Proc<'_>) -> Option<(PeerId, PeerForm)> {
        let id = cx.registry.find(&proc.nspace, proc.rank)?;
        // A child that speaks for it may yet ask.
        let [peer] = cx.registry.client(id)?.peers[..] else {
            return None;
        };
        let is_idle = cx.peers.is_idle(peer);
        let member = cx.peers.get_mut(peer).and_then(Peer::member_mut);
        let member = member.filter(|member| is_idle && member.has_job_info)?;
        member.is_finalized = true;
        let form = member.form;
        // It does not come back.
        let client = cx.registry.client_mut(id)?;
        client.finalize(peer, None);
        Some((peer, form))
    }

    /// A process that has left has not come back in time. Returns it, if nobody is to wait for it
    /// any longer.
    pub(crate) fn has_not_returned(cx: &mut Cx, id: ClientId) -> Option<Proc<'static>> {
        let client = cx.registry.client_mut(id);
        let client = client.filter(|client| client.state == ClientState::Finalized)?;
        client.state = ClientState::Left;
        client.until = None;
        Some(client.proc.clone())
    }

    /// Lets a process go that has said that it leaves.
    pub(crate) fn finalized(&mut self, cx: &mut Cx, peer: PeerId) {
        if let Some(PendingFinalize { ticket, until }) = self.0.remove(&peer) {
            cx.timers.cancel(until, Timer::Finalize(peer));
            cx.reply_status(ticket, Status::SUCCESS);
        }
    }
}
