// SPDX-License-Identifier: MIT OR Apache-2.0
//! What clients are told of their job, and the data that processes put for each other.

use pmix_proto::request;
use pmix_types::Status;

use crate::Engine;
use crate::peers::Ticket;

impl Engine {
    pub(crate) fn job_info(&mut self, ticket: Ticket) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn gds_fallback(&mut self, ticket: Ticket, _: &request::GdsFallback<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn commit(&mut self, ticket: Ticket, _: &request::Commit<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn get(&mut self, ticket: Ticket, _: &request::Get<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn refresh_cache(&mut self, ticket: Ticket, _: &request::RefreshCache<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }
}
