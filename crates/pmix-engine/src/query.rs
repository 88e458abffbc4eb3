// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the server knows by itself and is asked for.

use pmix_proto::request;
use pmix_types::Status;

use crate::Engine;
use crate::peers::Ticket;

impl Engine {
    pub(crate) fn query(&mut self, ticket: Ticket, _: &request::Query<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn resolve_peers(&mut self, ticket: Ticket, _: &request::ResolvePeers<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn resolve_nodes(&mut self, ticket: Ticket, _: &request::ResolveNodes<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn device_distances(&mut self, ticket: Ticket, _: &request::DeviceDistances<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }
}
