// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output that is forwarded to peers, and input that peers forward.

use pmix_proto::request;
use pmix_types::Status;

use crate::Engine;
use crate::peers::{PeerId, Ticket};

impl Engine {
    /// A peer is gone: nothing is forwarded to it any longer.
    pub(crate) fn iof_left(&mut self, _peer: PeerId) {}

    pub(crate) fn iof_pull(&mut self, ticket: Ticket, _: &request::IofPull<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn iof_push(&mut self, ticket: Ticket, _: &request::IofPush<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn iof_deregister(&mut self, ticket: Ticket, _: &request::IofDeregister<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }
}
