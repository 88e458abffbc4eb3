// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes ask to be done: jobs started and controlled, things logged and watched.

use pmix_proto::request;
use pmix_types::Status;

use crate::Engine;
use crate::peers::{PeerId, Ticket};

impl Engine {
    /// A peer is gone: what it wanted watched is watched no longer.
    pub(crate) fn control_left(&mut self, _peer: PeerId) {}

    /// A sign of life of a peer.
    pub(crate) fn heartbeat(&mut self, _peer: PeerId) {}

    pub(crate) fn spawn(&mut self, ticket: Ticket, _: &request::Spawn<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn job_control(&mut self, ticket: Ticket, _: &request::JobControl<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn log(&mut self, ticket: Ticket, _: &request::Log<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn allocate(&mut self, ticket: Ticket, _: &request::Allocate<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn monitor(&mut self, ticket: Ticket, _: &request::Monitor<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn get_credential(&mut self, ticket: Ticket, _: &request::GetCredential<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn validate_credential(
        &mut self,
        ticket: Ticket,
        _: &request::ValidateCredential<'_>,
    ) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn construct_group(&mut self, ticket: Ticket, _: &request::GroupConstruct<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn leave_group(&mut self, ticket: Ticket, _: &request::GroupLeave<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn destruct_group(&mut self, ticket: Ticket, _: &request::GroupDestruct<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn register_fabric(&mut self, ticket: Ticket, _: &request::FabricRegister<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn update_fabric(&mut self, ticket: Ticket, _: &request::FabricUpdate) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn control_session(&mut self, ticket: Ticket, _: &request::SessionControl<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }

    pub(crate) fn resource_block(&mut self, ticket: Ticket, _: &request::ResourceBlock<'_>) {
        self.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
    }
}
