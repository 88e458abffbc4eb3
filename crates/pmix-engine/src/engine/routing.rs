// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes each request, answer of the host, timer and loss to the subsystems that it concerns.

use bfrops::RegexFramer;
use pmix_proto::{Request, Tag};
use pmix_types::{Nspace, Status};

use super::Engine;
use crate::admission::Admission;
use crate::finalize::Finalizing;
use crate::host::Answer;
use crate::peers::{Member, PeerId, Phase, Ticket};
use crate::pending::Pending;
use crate::timer::Timer;
use crate::{EngineEvent, Error, query, relay};

impl Engine {
    /// A request of a peer that was admitted.
    pub(super) fn handle_request(&mut self, peer: PeerId, tag: Tag, payload: &[u8]) {
        let Some(form) = self.cx.form(peer) else {
            return;
        };
        let store = std::sync::Arc::clone(&self.cx.store);
        let framer: &dyn RegexFramer = store.maps();
        let (request, memory) = match Request::decode_measured(&form, Some(framer), payload) {
            Ok((request, memory)) => (Ok(request), memory),
            Err(error) => (Err(error), 0),
        };
        let command = match &request {
            Ok(request) => Some(request.command()),
            Err(_) => Request::command_of(&form, payload),
        };
        if command.is_some_and(|command| !command.is_answered()) {
            if let Ok(Request::DeregisterEvents(request)) = request {
                self.events.deregister_events(&mut self.cx, peer, &request);
            }
            return;
        }
        let has_room = self.check_room(peer);
        let num_bytes = payload.len().saturating_add(memory);
        let ticket = self.cx.peers.ticket(peer, tag, num_bytes);
        match (request, has_room) {
            (Ok(Request::Finalize), _) => self.finalizing.finalize(&mut self.cx, ticket),
            (Ok(request), Ok(())) => self.dispatch(ticket, request),
            (Ok(_), Err(error)) => self.cx.reply_error(ticket, &error),
            (Err(error), _) => self.cx.reply_error(ticket, &error.into()),
        }
    }

    /// Whether one more request of a peer may wait for its answer.
    fn check_room(&self, peer: PeerId) -> Result<(), Error> {
        let (num_open, num_bytes) = self.cx.peers.open(peer);
        let (all_bytes, num_peers) = (self.cx.peers.open_bytes(), self.cx.peers.len());
        let config = &self.cx.config;
        // Where all of them have too much, who has less than its share is not refused.
        let share = config.request_bytes.checked_div(num_peers).unwrap_or(0);
        let is_full = num_open >= config.requests_per_peer
            || num_bytes > config.request_bytes_per_peer
            || (all_bytes > config.request_bytes && num_bytes > share);
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
        let Self {
            cx,
            exchange,
            collectives,
            events,
            forwarding,
            control,
            finalizing,
            ..
        } = self;
        match request {
            Request::JobInfo => exchange.job_info(cx, ticket),
            Request::GdsFallback(request) => exchange.gds_fallback(cx, ticket, &request),
            Request::Commit(request) => exchange.commit(cx, ticket, &request),
            Request::Get(request) => exchange.get(cx, ticket, &request),
            Request::RefreshCache(request) => exchange.refresh_cache(cx, ticket, &request),
            Request::Fence(request) => collectives.fence(cx, ticket, &request),
            Request::Connect(request) => collectives.connect(cx, ticket, &request),
            Request::Disconnect(request) => collectives.disconnect(cx, ticket, &request),
            Request::Finalize => finalizing.finalize(cx, ticket),
            Request::Abort(request) => relay::abort(cx, ticket, &request),
            Request::Publish(request) => relay::publish(cx, ticket, &request),
            Request::Lookup(request) => relay::lookup(cx, ticket, &request),
            Request::Unpublish(request) => relay::unpublish(cx, ticket, &request),
            Request::Notify(request) => events.notify_event(cx, ticket, &request),
            Request::RegisterEvents(request) => events.register_events(cx, ticket, &request),
            Request::Query(request) => query::query(cx, ticket, &request),
            Request::ResolvePeers(request) => query::resolve_peers(cx, ticket, &request),
            Request::ResolveNodes(request) => query::resolve_nodes(cx, ticket, &request),
            Request::IofPull(request) => forwarding.iof_pull(cx, ticket, &request),
            Request::IofPush(request) => forwarding.iof_push(cx, ticket, &request),
            Request::IofDeregister(request) => forwarding.iof_deregister(cx, ticket, &request),
            Request::Spawn(request) => relay::spawn(cx, ticket, &request),
            Request::JobControl(request) => control.job_control(cx, ticket, &request),
            Request::Log(request) => relay::log(cx, ticket, &request),
            Request::Allocate(request) => relay::allocate(cx, ticket, &request),
            Request::Monitor(request) => control.monitor(cx, ticket, &request),
            Request::GetCredential(request) => relay::get_credential(cx, ticket, &request),
            Request::ValidateCredential(request) => {
                relay::validate_credential(cx, ticket, &request);
            }
            Request::FabricRegister(request) => relay::register_fabric(cx, ticket, &request),
            Request::FabricUpdate(request) => relay::update_fabric(cx, ticket, &request),
            Request::SessionControl(request) => relay::control_session(cx, ticket, &request),
            Request::ResourceBlock(request) => relay::resource_block(cx, ticket, &request),
            // Distances of devices are computed where the hardware is seen; no upcall is for them.
            Request::DeviceDistances(_)
            | Request::GroupConstruct(_)
            | Request::GroupLeave(_)
            | Request::GroupDestruct(_)
            | Request::SystemInfo
            | Request::DeregisterEvents(_)
            | Request::Unknown(_) => cx.reply_status(ticket, Status::ERR_NOT_SUPPORTED),
        }
    }

    /// Hands the answer of the host to what waits for it.
    pub(super) fn handle_answer(&mut self, pending: Pending, answer: Answer) {
        let cx = &mut self.cx;
        let status = answer.status();
        match pending {
            Pending::Status(ticket) => cx.reply_status(ticket, status),
            Pending::Infos(ticket) => relay::answer_infos(cx, ticket, answer),
            Pending::Lookup(ticket) => relay::looked_up(cx, ticket, answer),
            Pending::Spawn(ticket, channels) => {
                let peer = ticket.peer();
                if let Some(nspace) = relay::spawned(cx, ticket, answer) {
                    self.forwarding.forward_spawned(cx, peer, &nspace, channels);
                }
            }
            Pending::Credential(ticket) => relay::answer_credential(cx, ticket, answer),
            Pending::Query(ticket, results) => {
                query::reply_results(cx, ticket, *results, Some(answer));
            }
            Pending::Resolve(ticket, key) => query::host_resolved(cx, ticket, key, answer),
            Pending::IofPull(ticket, number) => self.forwarding.pulled(cx, ticket, number, status),
            Pending::RegisterEvents(ticket, registration) => {
                self.events
                    .host_registered(cx, ticket, &registration, status);
            }
            Pending::HostedEvents(codes) if !status.is_success() => {
                self.events.host_declined(&codes);
            }
            Pending::ClientConnected(peer) => Admission::host_took_client(cx, peer, &answer),
            Pending::ToolConnected(peer, tool) => {
                self.admission.host_took_tool(cx, peer, *tool, answer);
            }
            Pending::Finalize(peer) => self.finalizing.finalized(cx, peer),
            Pending::Collective(id, job) => self.collectives.host_ended(cx, id, &job, answer),
            Pending::DirectModex(proc) => self.exchange.host_brought(cx, &proc, answer),
            Pending::HostedEvents(_) | Pending::Informed => {
                tracing::debug!(%status, "the host was informed");
            }
        }
    }

    pub(super) fn handle_timer(&mut self, timer: Timer) {
        let cx = &mut self.cx;
        match timer {
            Timer::Handshake(peer) => self.admission.handshake_expired(cx, peer),
            Timer::Finalize(peer) => self.finalizing.finalized(cx, peer),
            Timer::Heartbeat(peer) => {
                for notification in self.control.heartbeat_due(cx, peer) {
                    self.events.raise(cx, notification);
                }
            }
            Timer::Early(id) => self.collectives.early_expired(cx, id),
            Timer::Return(client) => {
                if let Some(proc) = Finalizing::has_not_returned(cx, client) {
                    self.collectives.lost_to_collectives(cx, client, &proc);
                }
            }
            Timer::Collective(id) => self.collectives.collective_expired(cx, id),
            Timer::Get(id) => self.exchange.get_expired(cx, id),
            Timer::InboundDmodex(id) => self.exchange.inbound_dmodex_expired(cx, id),
        }
    }

    /// Closes the connections that were refused.
    pub(super) fn close_refused(&mut self) {
        while let Some((peer, reason)) = self.cx.poll_refused() {
            if self.cx.peers.get(peer).is_none() {
                continue;
            }
            tracing::debug!(%peer, %reason, "peer refused");
            let refused = EngineEvent::Refused { peer, reason };
            self.cx.driver_events.push_back(refused);
            self.close(peer);
        }
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, peer: PeerId) {
        if self.cx.peers.get(peer).is_some() {
            self.forget(peer);
            self.cx.driver_events.push_back(EngineEvent::Close(peer));
        }
    }

    /// Forgets a connection that is closed, and releases what every subsystem holds for it.
    pub(super) fn forget(&mut self, peer: PeerId) {
        let Some(closed) = self.cx.peers.remove(peer) else {
            return;
        };
        self.cx.host.forget(peer);
        match &closed.phase {
            Phase::Member(member) => self.member_left(peer, member),
            _ => self.admission.peer_left(&mut self.cx, peer, &closed),
        }
    }

    /// The connection of a client or tool is closed: every subsystem is told, in this order.
    fn member_left(&mut self, peer: PeerId, member: &Member) {
        let (rank, nspace) = (member.proc.rank, &member.proc.nspace);
        tracing::info!(%peer, %nspace, %rank, finalized = member.is_finalized, "disconnected");
        let cx = &mut self.cx;
        let client = member.client.and_then(|id| cx.registry.client_mut(id));
        let is_lost = match client {
            Some(client) => client.disconnect(peer),
            None => !member.is_finalized,
        };
        self.finalizing.peer_left(cx, peer);
        self.exchange.peer_left(cx, peer);
        self.events.peer_left(cx, peer);
        self.forwarding.peer_left(cx, peer);
        self.control.peer_left(cx, peer);
        self.control.cleanup_member(cx, member, is_lost);
        if is_lost {
            cx.driver_events.push_back(EngineEvent::ProcessLost {
                proc: member.proc.clone(),
                incarnation: member.incarnation,
            });
            self.events.process_lost(cx, member);
            if let Some(client) = member.client {
                self.collectives
                    .lost_to_collectives(cx, client, &member.proc);
            }
        }
        if member.client.is_some() {
            // Gets of what it would have put end.
            self.exchange.data_came(cx, &member.proc);
        }
    }

    /// A job or its local processes are registered by now, or not any longer.
    pub(super) fn job_changed(&mut self, nspace: &Nspace<'static>) {
        self.exchange.job_changed(&mut self.cx, nspace);
        self.collectives.collectives_of_job(&mut self.cx, nspace);
    }

    /// A job is gone: every subsystem is told, in this order.
    pub(super) fn job_gone(&mut self, nspace: &Nspace<'static>) {
        let cx = &mut self.cx;
        self.exchange.job_gone(cx, nspace);
        self.collectives.collectives_of_job(cx, nspace);
        cx.peers.forget_job(nspace);
        self.events.job_gone(nspace);
        self.forwarding.job_gone(nspace);
        self.control.cleanup_job(cx, nspace);
    }
}
