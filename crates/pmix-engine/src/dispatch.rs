// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes each request to the subsystem that serves it: one line for each command.

use pmix_proto::{Request, Tag};
use pmix_types::Status;

use crate::peers::{PeerId, Ticket};
use crate::{Engine, Error};

impl Engine {
    /// A request of a peer that was let in.
    pub(crate) fn handle_request(&mut self, peer: PeerId, tag: Tag, payload: &[u8]) {
        let Some(form) = self.cx.form(peer) else {
            return;
        };
        let store = std::sync::Arc::clone(&self.cx.store);
        let framer: &dyn bfrops::RegexFramer = store.preg().as_ref();
        let request = Request::decode(&form, Some(framer), payload);
        let command = match &request {
            Ok(request) => Some(request.command()),
            Err(_) => Request::command_of(&form, payload),
        };
        if command.is_some_and(|command| !command.is_answered()) {
            if let Ok(Request::DeregisterEvents(request)) = request {
                self.deregister_events(peer, &request);
            }
            return;
        }
        let has_room = self.check_room(peer);
        let ticket = self.cx.peers.ticket(peer, tag, payload.len());
        match (request, has_room) {
            (Ok(Request::Finalize), _) => self.finalize(ticket),
            (Ok(request), Ok(())) => self.dispatch(ticket, request),
            (Ok(_), Err(error)) => self.cx.reply_error(ticket, &error),
            (Err(error), _) => self.cx.reply_error(ticket, &error.into()),
        }
    }

    /// Whether one more request of a peer may wait for its answer.
    fn check_room(&self, peer: PeerId) -> Result<(), Error> {
        let (num_open, num_bytes) = self.cx.peers.open(peer);
        let is_full = num_open >= self.cx.config.requests_per_peer
            || num_bytes > self.cx.config.request_bytes_per_peer;
        match is_full {
            false => Ok(()),
            true => Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!("{num_open} of its requests wait already, of {num_bytes} bytes"),
            )),
        }
    }

    /// Hands a request to its subsystem, which answers the ticket now or later.
    fn dispatch(&mut self, ticket: Ticket, request: Request<'_>) {
        match request {
            Request::JobInfo => self.job_info(ticket),
            Request::GdsFallback(request) => self.gds_fallback(ticket, &request),
            Request::Commit(request) => self.commit(ticket, &request),
            Request::Get(request) => self.get(ticket, &request),
            Request::RefreshCache(request) => self.refresh_cache(ticket, &request),
            Request::Fence(request) => self.fence(ticket, &request),
            Request::Connect(request) => self.connect(ticket, &request),
            Request::Disconnect(request) => self.disconnect(ticket, &request),
            Request::Finalize => self.finalize(ticket),
            Request::Abort(request) => self.abort(ticket, &request),
            Request::Publish(request) => self.publish(ticket, &request),
            Request::Lookup(request) => self.lookup(ticket, &request),
            Request::Unpublish(request) => self.unpublish(ticket, &request),
            Request::Notify(request) => self.notify_event(ticket, &request),
            Request::RegisterEvents(request) => self.register_events(ticket, &request),
            Request::Query(request) => self.query(ticket, &request),
            Request::ResolvePeers(request) => self.resolve_peers(ticket, &request),
            Request::ResolveNodes(request) => self.resolve_nodes(ticket, &request),
            Request::DeviceDistances(request) => self.device_distances(ticket, &request),
            Request::IofPull(request) => self.iof_pull(ticket, &request),
            Request::IofPush(request) => self.iof_push(ticket, &request),
            Request::IofDeregister(request) => self.iof_deregister(ticket, &request),
            Request::Spawn(request) => self.spawn(ticket, &request),
            Request::JobControl(request) => self.job_control(ticket, &request),
            Request::Log(request) => self.log(ticket, &request),
            Request::Allocate(request) => self.allocate(ticket, &request),
            Request::Monitor(request) => self.monitor(ticket, &request),
            Request::GetCredential(request) => self.get_credential(ticket, &request),
            Request::ValidateCredential(request) => self.validate_credential(ticket, &request),
            Request::FabricRegister(request) => self.register_fabric(ticket, &request),
            Request::FabricUpdate(request) => self.update_fabric(ticket, &request),
            Request::SessionControl(request) => self.control_session(ticket, &request),
            Request::ResourceBlock(request) => self.resource_block(ticket, &request),
            Request::SystemInfo
            | Request::DeregisterEvents(_)
            | Request::GroupConstruct(_)
            | Request::GroupLeave(_)
            | Request::GroupDestruct(_)
            | Request::Unknown(_) => {
                self.cx.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
            }
        }
    }
}
