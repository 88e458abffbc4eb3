// SPDX-License-Identifier: MIT OR Apache-2.0
//! FINALIZE and ABORT.

use std::time::Instant;

use pmix_proto::request;
use pmix_types::{IntoOwned, Status};

use crate::Engine;
use crate::host::{Abort, ClientFinalized};
use crate::ids::ClientId;
use crate::peers::{Peer, PeerId, Ticket};
use crate::pending::Pending;
use crate::registry::ClientState;
use crate::timer::Timer;

/// A process that finalizes and waits for the reply.
#[derive(Debug)]
pub(crate) struct PendingFinalize {
    ticket: Ticket,
    /// When it goes without the host having taken notice.
    pub(crate) until: Instant,
}

impl Engine {
    /// A process is about to leave. From now on the end of its connection is no loss.
    ///
    /// It waits for the host to take notice, but not for ever; whatever the host says of it does
    /// not keep it here.
    pub(crate) fn finalize(&mut self, ticket: Ticket) {
        let peer = ticket.peer();
        let until = self.cx.after(self.cx.config.finalize_time);
        let member = self.cx.peers.get_mut(peer).and_then(Peer::member_mut);
        let (Some(member), Some(until)) = (member, until) else {
            return self.cx.reply_status(ticket, Status::SUCCESS);
        };
        if member.is_finalized {
            return self.cx.reply_status(ticket, Status::SUCCESS);
        }
        member.is_finalized = true;
        let (proc, client) = (member.proc.clone(), member.client);
        let object = self.cx.host_object(client);
        if let Some(id) = client {
            self.client_finalized(id, peer);
        }
        self.cx.timers.set(until, Timer::Finalize(peer));
        self.finalizing
            .insert(peer, PendingFinalize { ticket, until });
        let call = ClientFinalized { proc, object };
        self.cx.call_host(call, Pending::Finalize(peer));
    }

    /// A process leaves as it should over a connection. It may come again, and the host says when
    /// it does not, by deregistering it; a host that never does so is not waited for without end.
    fn client_finalized(&mut self, id: ClientId, peer: PeerId) {
        let until = self
            .cx
            .config
            .return_time
            .and_then(|time| self.cx.after(time));
        let client = self.cx.registry.client_mut(id);
        if client.is_some_and(|client| client.finalize(peer, until))
            && let Some(until) = until
        {
            self.cx.timers.set(until, Timer::Return(id));
        }
    }

    /// A process that has left has not come back in time: nobody waits for it any longer.
    pub(crate) fn has_not_returned(&mut self, id: ClientId) {
        let client = self.cx.registry.client_mut(id);
        let Some(client) = client.filter(|client| client.state == ClientState::Finalized) else {
            return;
        };
        client.state = ClientState::Left;
        client.until = None;
        let proc = client.proc.clone();
        self.lost_to_collectives(id, &proc);
    }

    /// Lets a process go that has said that it leaves.
    pub(crate) fn finalized(&mut self, peer: PeerId) {
        if let Some(PendingFinalize { ticket, until }) = self.finalizing.remove(&peer) {
            self.cx.timers.cancel(until, Timer::Finalize(peer));
            self.cx.reply_status(ticket, Status::SUCCESS);
        }
    }

    /// A process asks the host to end processes.
    pub(crate) fn abort(&mut self, ticket: Ticket, request: &request::Abort<'_>) {
        let Ok(member) = self.cx.member(&ticket) else {
            return self.cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        let (proc, client) = (member.proc.clone(), member.client);
        let call = Abort {
            proc,
            object: self.cx.host_object(client),
            status: request.status,
            message: request.message.clone().into_owned(),
            targets: request.procs.clone().into_owned(),
        };
        self.cx.call_host(call, Pending::Status(ticket));
    }
}
