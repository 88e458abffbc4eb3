// SPDX-License-Identifier: MIT OR Apache-2.0
//! What leaves the engine: replies, messages that nobody asked for, calls of the host.

use bfrops::RegexFramer;
use gds_hash::Codec;
use pmix_proto::{PeerForm, Tag, reply};
use pmix_types::Status;

use crate::host::{Answer, CallId, Upcall};
use crate::peers::{Member, Payload, PeerId, Ticket};
use crate::{Engine, Error};

impl Engine {
    /// Answers a request. If its peer is gone, nobody is told.
    pub(crate) fn reply(&mut self, ticket: Ticket, payload: impl Into<Payload>) {
        let (peer, tag) = (ticket.peer(), ticket.tag());
        self.peers.settle(ticket);
        self.send(peer, tag, payload);
    }

    /// Answers a request with a status alone.
    pub(crate) fn reply_status(&mut self, ticket: Ticket, status: Status) {
        let Some(form) = self.form(ticket.peer()) else {
            return self.peers.settle(ticket);
        };
        match reply::status(&form, status) {
            Ok(payload) => self.reply(ticket, payload),
            Err(error) => {
                tracing::error!(%error, "a status cannot be packed");
                let peer = ticket.peer();
                self.peers.settle(ticket);
                self.refuse(peer, Error::new(error.status(), error.to_string()));
            }
        }
    }

    /// Answers a request that cannot be served.
    pub(crate) fn reply_error(&mut self, ticket: Ticket, error: &Error) {
        tracing::debug!(peer = %ticket.peer(), tag = %ticket.tag(), %error, "request failed");
        self.reply_status(ticket, error.status());
    }

    /// Answers a request with what was packed for it, or with why it could not be.
    pub(crate) fn reply_packed(
        &mut self,
        ticket: Ticket,
        packed: Result<Vec<u8>, impl Into<Error>>,
    ) {
        match packed {
            Ok(payload) => self.reply(ticket, payload),
            Err(error) => self.reply_error(ticket, &error.into()),
        }
    }

    /// Sends a message to a peer. One that does not read what it is sent is closed.
    pub(crate) fn send(&mut self, peer: PeerId, tag: Tag, payload: impl Into<Payload>) {
        let waiting = self.peers.send(peer, tag, payload.into());
        if waiting > self.config.queued_bytes_per_peer {
            let message = format!("{waiting} bytes wait for it to read them");
            self.refuse(peer, Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
    }

    /// Calls the host for the sake of one peer: when that is gone, the answer does not matter.
    pub(crate) fn ask(
        &mut self,
        peer: PeerId,
        upcall: impl Into<Upcall>,
        then: impl FnOnce(&mut Self, Answer) + Send + 'static,
    ) -> CallId {
        self.calls.push(upcall.into(), Some(peer), Box::new(then))
    }

    /// Calls the host; the answer matters whoever goes.
    pub(crate) fn ask_for_all(
        &mut self,
        upcall: impl Into<Upcall>,
        then: impl FnOnce(&mut Self, Answer) + Send + 'static,
    ) -> CallId {
        self.calls.push(upcall.into(), None, Box::new(then))
    }

    /// Calls the host for a request that is answered with the status of the host's answer.
    pub(crate) fn ask_for_status(&mut self, ticket: Ticket, upcall: impl Into<Upcall>) -> CallId {
        self.ask(ticket.peer(), upcall, move |engine, answer| {
            engine.reply_status(ticket, answer.status());
        })
    }

    /// What a peer that was let in understands.
    pub(crate) fn form(&self, peer: PeerId) -> Option<PeerForm> {
        self.peers.member(peer).map(|member| member.form)
    }

    /// Who asks.
    ///
    /// # Errors
    ///
    /// If the peer is gone; nobody sees the error then.
    pub(crate) fn member(&self, ticket: &Ticket) -> Result<&Member, Error> {
        let member = self.peers.member(ticket.peer());
        member.ok_or_else(|| Error::new(Status::ERR_LOST_CONNECTION, "the peer is gone"))
    }

    /// How bytes for a peer are packed by the datastore.
    pub(crate) fn codec(&self, form: &PeerForm) -> Codec<'_> {
        Codec::new(form.layout).with_framer(self.framer())
    }

    /// Who knows the length of old encoded maps.
    pub(crate) fn framer(&self) -> &dyn RegexFramer {
        self.store.preg().as_ref()
    }
}
