// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: who wants to know of which, and who is told.

use pmix_proto::request;
use pmix_types::{Nspace, Status};

use crate::Engine;
use crate::peers::{Member, PeerId, Ticket};

impl Engine {
    /// A peer was let in: what it may have missed is sent.
    pub(crate) fn events_admitted(&mut self, _peer: PeerId) {}

    /// A peer is gone: what it wanted to know is forgotten.
    pub(crate) fn events_left(&mut self, _peer: PeerId) {}

    /// A process went away without saying so: others are told.
    pub(crate) fn events_lost(&mut self, _member: &Member) {}

    /// A job is deregistered.
    pub(crate) fn events_job_gone(&mut self, _nspace: &Nspace<'_>) {}

    pub(crate) fn register_events(&mut self, ticket: Ticket, _: &request::RegisterEvents<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    /// The one request without an answer.
    pub(crate) fn deregister_events(&mut self, _peer: PeerId, _: &request::DeregisterEvents) {}

    pub(crate) fn notify_event(&mut self, ticket: Ticket, _: &request::Notify<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }
}
