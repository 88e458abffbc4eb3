// SPDX-License-Identifier: MIT OR Apache-2.0
//! FINALIZE and ABORT.

use std::time::Instant;

use pmix_proto::request;
use pmix_types::{IntoOwned, Status};

use crate::Engine;
use crate::host::{Abort, ClientFinalized, HostObject};
use crate::peers::{Peer, PeerId, Ticket};
use crate::registry::{ClientId, ClientState};
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
        let until = self.after(self.config.finalize_time);
        let member = self.peers.get_mut(peer).and_then(Peer::member_mut);
        let (Some(member), Some(until)) = (member, until) else {
            return self.reply_status(ticket, Status::SUCCESS);
        };
        if member.is_finalized {
            return self.reply_status(ticket, Status::SUCCESS);
        }
        member.is_finalized = true;
        let (proc, client) = (member.proc.clone(), member.client);
        let object = self.host_object(client);
        if let Some(id) = client {
            self.client_finalized(id, peer);
        }
        self.timers.set(until, Timer::Finalize(peer));
        self.finalizing
            .insert(peer, PendingFinalize { ticket, until });
        let call = ClientFinalized { proc, object };
        self.ask(peer, call, move |engine, answer| {
            let status = answer.status();
            if !status.is_success() {
                tracing::debug!(%peer, %status, "the host did not take notice of a finalize");
            }
            engine.finalized(peer);
        });
    }

    /// A process leaves as it should over a connection. It may come again, and the host says when
    /// it does not, by deregistering it; a host that never does so is not waited for without end.
    fn client_finalized(&mut self, id: ClientId, peer: PeerId) {
        let until = self.config.return_time.and_then(|time| self.after(time));
        let client = self.registry.client_mut(id);
        if client.is_some_and(|client| client.finalize(peer, until))
            && let Some(until) = until
        {
            self.timers.set(until, Timer::Return(id));
        }
    }

    /// A process that has left has not come back in time: nobody waits for it any longer.
    pub(crate) fn has_not_returned(&mut self, id: ClientId) {
        let client = self.registry.client_mut(id);
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
            self.timers.cancel(until, Timer::Finalize(peer));
            self.reply_status(ticket, Status::SUCCESS);
        }
    }

    /// A process asks the host to end processes.
    pub(crate) fn abort(&mut self, ticket: Ticket, request: &request::Abort<'_>) {
        let Ok(member) = self.member(&ticket) else {
            return self.reply_status(ticket, Status::ERR_LOST_CONNECTION);
        };
        let (proc, client) = (member.proc.clone(), member.client);
        let call = Abort {
            proc,
            object: self.host_object(client),
            status: request.status,
            message: request.message.clone().into_owned(),
            targets: request.procs.clone().into_owned(),
        };
        self.ask_for_status(ticket, call);
    }

    /// What the host calls a client.
    pub(crate) fn host_object(&self, client: Option<ClientId>) -> HostObject {
        let client = client.and_then(|id| self.registry.client(id));
        client.map(|client| client.object).unwrap_or_default()
    }
}
