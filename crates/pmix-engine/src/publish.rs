// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that processes publish for others to look up.

use pmix_proto::request;
use pmix_types::Status;

use crate::Engine;
use crate::peers::Ticket;

impl Engine {
    pub(crate) fn publish(&mut self, ticket: Ticket, _: &request::Publish<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn lookup(&mut self, ticket: Ticket, _: &request::Lookup<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn unpublish(&mut self, ticket: Ticket, _: &request::Unpublish<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }
}
