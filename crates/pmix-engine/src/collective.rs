// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes do together: fences, connects and disconnects.

use pmix_proto::request;
use pmix_types::Status;

use crate::Engine;
use crate::peers::Ticket;

impl Engine {
    pub(crate) fn fence(&mut self, ticket: Ticket, _: &request::Fence<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn connect(&mut self, ticket: Ticket, _: &request::Connect<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn disconnect(&mut self, ticket: Ticket, _: &request::Disconnect<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }
}
