// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of processes.

use pmix_proto::request;
use pmix_types::Status;

use crate::Engine;
use crate::peers::Ticket;

impl Engine {
    pub(crate) fn construct_group(&mut self, ticket: Ticket, _: &request::GroupConstruct<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn leave_group(&mut self, ticket: Ticket, _: &request::GroupLeave<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn destruct_group(&mut self, ticket: Ticket, _: &request::GroupDestruct<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }
}
