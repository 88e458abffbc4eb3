// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes requests, host replies, timers and disconnections to the subsystems.

use std::sync::Arc;

use pmix_proto::{Frame, Request, Tag, request};
use pmix_types::{Nspace, Proc, Status};

use crate::admission::Admission;
use crate::collective::{Collectives, GroupOutcome, LeaderQuestion, MembershipChange};
use crate::control::Control;
use crate::cx::Cx;
use crate::events::{Events, Notification};
use crate::exchange::Exchange;
use crate::finalize::Finalizing;
use crate::group::{self, Groups};
use crate::host::HostReply;
use crate::ids::ClientId;
use crate::iof::Forwarding;
use crate::obeyed;
use crate::peers::{Member, Peer, PeerId, Phase, Ticket};
use crate::pending::Pending;
use crate::recount::Recount;
use crate::registry::Client;
use crate::requests::Incoming;
use crate::timer::Timer;
use crate::{Config, EngineEvent, Error, Psec, Stats, query, relay, requests};

/// The subsystems of an engine. Each serves one kind of request and has its own state. Events that concern several
/// subsystems are handled here, which fixes the order of the calls.
pub(crate) struct Subsystems {
    pub(crate) admission: Admission,
    pub(crate) exchange: Exchange,
    pub(crate) collectives: Collectives,
    pub(crate) events: Events,
    pub(crate) forwarding: Forwarding,
    pub(crate) control: Control,
    pub(crate) finalizing: Finalizing,
    pub(crate) groups: Groups,
}

impl Subsystems {
    pub(crate) fn new(config: &Config, psec: Vec<Box<dyn Psec>>) -> Self {
        Self {
            admission: Admission::new(psec),
            exchange: Exchange::default(),
            collectives: Collectives::default(),
            events: Events::new(config.events),
            forwarding: Forwarding::new(config.output),
            control: Control::default(),
            finalizing: Finalizing::default(),
            groups: Groups::default(),
        }
    }

    /// Adds the contents of each subsystem to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        self.admission.count(stats);
        self.exchange.count(stats);
        self.collectives.count(stats);
        self.events.count(stats);
        self.forwarding.count(stats);
        self.control.count(stats);
        self.finalizing.count(stats);
        self.groups.count(stats);
    }

    /// Adds the contents of each subsystem to a recount.
    pub(crate) fn recount(&self, cx: &Cx, recount: &mut Recount) {
        self.admission.recount(cx, recount);
        self.exchange.recount(recount);
        self.collectives.recount(recount);
        self.events.recount(recount);
        self.forwarding.recount(recount);
        self.control.recount(recount);
        self.finalizing.recount(recount);
        self.groups.recount(recount);
    }

    /// Handles a message of a peer.
    pub(crate) fn handle_frame(&mut self, cx: &mut Cx, peer: PeerId, frame: &Frame) {
        let tag = frame.header.tag;
        match cx.peers.get(peer).map(|peer| &peer.phase) {
            Some(Phase::Handshake(_)) => self.admission.handle_hello(cx, peer, frame),
            // A peer must wait for its welcome, so a request before it breaks the protocol.
            Some(Phase::Verifying(..) | Phase::PendingTool(_)) => {
                cx.refuse(peer, Error::bad("a message before the handshake completed"));
            }
            Some(Phase::Member(_)) if tag.is_request() => {
                self.handle_request(cx, peer, tag, &frame.payload);
            }
            Some(Phase::Member(_)) if tag == Tag::HEARTBEAT => self.control.heartbeat(cx, peer),
            Some(Phase::Member(_)) => {
                tracing::debug!(%peer, %tag, "ignoring a message with an unexpected tag");
            }
            None => {}
        }
    }

    /// Decodes a request of an admitted peer and passes it to its subsystem.
    fn handle_request(&mut self, cx: &mut Cx, peer: PeerId, tag: Tag, payload: &[u8]) {
        // The request borrows the framer of the store while subsystems change the context.
        let store = Arc::clone(&cx.store);
        match requests::take_in(cx, peer, tag, payload, store.maps()) {
            Some(Incoming::Answered(ticket, request)) => self.dispatch(cx, ticket, request),
            Some(Incoming::Unanswered(Request::DeregisterEvents(request))) => {
                self.events.deregister_events(cx, peer, &request);
            }
            Some(Incoming::Unanswered(_)) | None => {}
        }
    }

    /// Passes a request to its subsystem, which replies to the ticket now or later.
    fn dispatch(&mut self, cx: &mut Cx, ticket: Ticket, request: Request<'_>) {
        // The subsystems and the host know processes only, so group names are replaced first.
        let Some((ticket, request)) = self.groups.translate(cx, ticket, request) else {
            return;
        };
        // An unsupported required attribute must be refused before the request changes any state.
        if let Err(error) = obeyed::check_request(&request, cx.config.watches_heartbeats) {
            return cx.reply_error(ticket, &error);
        }
        match request {
            Request::JobInfo => self.exchange.job_info(cx, ticket),
            Request::GdsFallback(request) => self.exchange.gds_fallback(cx, ticket, &request),
            Request::Commit(request) => self.exchange.commit(cx, ticket, &request),
            Request::Get(request) => match self.groups.process_named(cx, &ticket, &request) {
                Ok(named) => self.exchange.get(cx, ticket, &request, named),
                Err(error) => cx.reply_error(ticket, &error),
            },
            Request::RefreshCache(request) => self.exchange.refresh_cache(cx, ticket, &request),
            Request::Fence(request) => self.collectives.fence(cx, ticket, &request),
            Request::Connect(request) => self.collectives.connect(cx, ticket, &request),
            Request::Disconnect(request) => self.collectives.disconnect(cx, ticket, &request),
            Request::GroupConstruct(request) => {
                if let Some(call) = self.groups.construct(cx, ticket, &request) {
                    self.collectives.take_part_in_group(cx, call);
                }
            }
            Request::GroupDestruct(request) => {
                if let Some(call) = self.groups.destruct(cx, ticket, &request) {
                    self.collectives.take_part_in_group(cx, call);
                }
            }
            Request::GroupInvite(request) => {
                let events = self.groups.invite(cx, ticket, &request);
                self.raise_all(cx, events);
            }
            Request::GroupJoin(request) => {
                let events = self.groups.join(cx, ticket, &request);
                self.raise_all(cx, events);
            }
            Request::GroupLeave(request) => {
                if let Some(event) = self.groups.leave(cx, ticket, &request) {
                    self.events.raise(cx, event);
                }
            }
            Request::Finalize => self.finalizing.finalize(cx, ticket),
            Request::Notify(request) => self.notify(cx, ticket, &request),
            Request::RegisterEvents(request) => self.events.register_events(cx, ticket, &request),
            Request::Query(request) => match self.groups.groups_for_query(cx, &ticket, &request) {
                Ok(groups) => query::query(cx, ticket, &request, &groups),
                Err(error) => cx.reply_error(ticket, &error),
            },
            Request::ResolvePeers(request) => query::resolve_peers(cx, ticket, &request),
            Request::ResolveNodes(request) => query::resolve_nodes(cx, ticket, &request),
            Request::IofPull(request) => self.forwarding.iof_pull(cx, ticket, &request),
            Request::IofPush(request) => self.forwarding.iof_push(cx, ticket, &request),
            Request::IofDeregister(request) => self.forwarding.iof_deregister(cx, ticket, &request),
            Request::JobControl(request) => self.control.job_control(cx, ticket, &request),
            Request::Monitor(request) => self.control.monitor(cx, ticket, &request),
            request => relay::relay(cx, ticket, request),
        }
    }

    /// Handles NOTIFY. Before the event is delivered, the collectives check for a leader's decision and the groups for
    /// invitation and membership events, which are not delivered like others.
    fn notify(&mut self, cx: &mut Cx, ticket: Ticket, request: &request::Notify<'_>) {
        if let Some(ticket) = self.decides(cx, ticket, request)
            && let Some((ticket, follow)) = self.groups.learn_from_proc(cx, ticket, request)
        {
            self.events.notify_event(cx, ticket, request);
            self.raise_all(cx, follow);
        }
    }

    /// Passes a host reply to the subsystem that made the upcall.
    pub(crate) fn handle_host_reply(&mut self, cx: &mut Cx, pending: Pending, reply: HostReply) {
        let status = reply.status();
        match pending {
            Pending::Status(ticket) => cx.reply_status(ticket, status),
            Pending::Infos(ticket) => relay::reply_infos(cx, ticket, reply),
            Pending::Lookup(ticket) => relay::looked_up(cx, ticket, reply),
            Pending::Spawn(ticket, channels) => {
                self.forwarding.spawned(cx, ticket, channels, reply);
            }
            Pending::Credential(ticket) => relay::reply_credential(cx, ticket, reply),
            Pending::Distances(ticket) => relay::reply_distances(cx, ticket, reply),
            Pending::Query(ticket, results) => {
                query::reply_results(cx, ticket, *results, Some(reply));
            }
            Pending::Resolve(ticket, key) => query::host_resolved(cx, ticket, key, reply),
            Pending::PushStdin(ticket) => self.forwarding.pushed(cx, ticket, status),
            Pending::IofPull(ticket, number) => self.forwarding.pulled(cx, ticket, number, status),
            Pending::RegisterEvents(ticket, registration) => {
                self.events
                    .host_registered(cx, ticket, &registration, status);
            }
            Pending::HostedEvents(codes) => self.events.host_answered(&codes, status),
            Pending::ClientConnected(peer) => Admission::handle_client_reply(cx, peer, &reply),
            Pending::ToolConnected(peer, tool) => {
                self.admission.handle_tool_reply(cx, peer, *tool, reply);
            }
            Pending::Finalize(peer) => self.finalizing.finalized(cx, peer),
            Pending::Collective(id, job) => self.collectives.host_ended(cx, id, &job, reply),
            Pending::GroupContext(id) => {
                let events = self.groups.context_assigned(cx, id, &reply);
                self.raise_all(cx, events);
            }
            Pending::DirectModex(proc) => self.exchange.handle_dmodex_reply(cx, &proc, reply),
            Pending::Informed => tracing::debug!(%status, "the host completed a notification"),
        }
    }

    /// Runs an expired timer.
    pub(crate) fn handle_timer(&mut self, cx: &mut Cx, timer: Timer) {
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
                    self.collectives.participant_lost(cx, client, &proc);
                }
            }
            Timer::Collective(id) => self.collectives.collective_expired(cx, id),
            Timer::Get(id) => self.exchange.get_expired(cx, id),
            Timer::Leadership(id) => self.collectives.leadership_expired(cx, id),
            Timer::Election(id) => {
                let follow = self.groups.election_expired(cx, id);
                self.raise_all(cx, follow);
            }
            Timer::Invitation(id) => self.groups.invitation_expired(id),
            Timer::Query(call) => {
                // A later reply of the host finds no pending call and is dropped.
                if let Some(pending) = cx.take_call(call) {
                    self.handle_host_reply(cx, pending, HostReply::Done(Status::ERR_TIMEOUT));
                }
            }
            Timer::Intake => cx.end_input_turn(),
            Timer::InboundDmodex(id) => self.exchange.inbound_dmodex_expired(cx, id),
        }
    }

    /// Reports membership changes to the collectives, and outcomes of collectives to the groups, until no more are
    /// queued.
    pub(crate) fn process_group_outcomes(&mut self, cx: &mut Cx) {
        loop {
            match cx.membership_changes.pop_front() {
                Some(MembershipChange::Left(left)) => {
                    self.collectives.member_left(cx, &left);
                    continue;
                }
                Some(MembershipChange::DesertedGroup(group)) => {
                    self.collectives.group_deserted(cx, group);
                    continue;
                }
                None => {}
            }
            let Some(outcome) = cx.group_outcomes.pop_front() else {
                return;
            };
            let outcome = match outcome {
                GroupOutcome::Led(question) => {
                    self.notify_leader(cx, question);
                    continue;
                }
                // Only the servers of the other participants need the announcement; clients do not receive it.
                GroupOutcome::Announced(announcement) => {
                    cx.call_host(group::announcement(announcement), Pending::Informed);
                    continue;
                }
                outcome => outcome,
            };
            for event in self.groups.handle_outcome(cx, outcome) {
                self.events.raise(cx, event);
            }
        }
    }

    /// Ends the invitations whose answers are complete. The answers themselves were delivered before.
    pub(crate) fn end_answered_invitations(&mut self, cx: &mut Cx) {
        while let Some(events) = self.groups.end_answered(cx) {
            self.raise_all(cx, events);
        }
    }

    /// Notifies the leader of a construct, or all participants, of a loss. If a decision is required and no process of
    /// this node has a handler, the construct continues without a decision.
    fn notify_leader(&mut self, cx: &mut Cx, question: LeaderQuestion) {
        let (asks, is_elsewhere) = (question.asks, question.is_elsewhere);
        let event = group::leader_question(cx, question);
        let has_handler =
            { event.as_ref() }.is_some_and(|event| self.events.has_handler(cx, event));
        self.raise_all(cx, event.into_iter().collect());
        // The server of a leader on another node replies for a leader without a handler.
        if let Some(id) = asks.filter(|_| !has_handler && !is_elsewhere) {
            self.collectives.leader_unreachable(cx, id);
        }
    }

    /// Answers for a leader of this node, asked by another server about a lost process. If the leader has no handler
    /// registered, no decision is taken.
    pub(crate) fn ask_for_other(&mut self, cx: &mut Cx, question: &Notification) {
        if let Some(reply) = group::undecided(cx, question)
            && !self.events.has_handler(cx, question)
        {
            cx.call_host(reply, Pending::Informed);
        }
    }

    /// Handles an event of a process that may be its decision about a construct. Returns the ticket if it is not a
    /// decision.
    fn decides(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::Notify<'_>,
    ) -> Option<Ticket> {
        let (status, infos) = (request.status, &request.infos);
        match self
            .collectives
            .handle_member_decision(cx, &ticket, status, infos)
        {
            Ok(false) => return Some(ticket),
            Ok(true) => cx.reply_status(ticket, Status::SUCCESS),
            Err(error) => cx.reply_error(ticket, &error),
        }
        None
    }

    /// Delivers events that follow from an earlier event.
    pub(crate) fn raise_all(&mut self, cx: &mut Cx, events: Vec<Notification>) {
        for event in events {
            self.events.raise(cx, event);
        }
    }

    /// Resumes the replies and output that waited for a peer to read earlier bytes.
    pub(crate) fn peer_read(&mut self, cx: &mut Cx, peer: PeerId) {
        self.exchange.serve_due(cx, peer);
        self.forwarding.pump_output(cx, peer);
    }

    /// Releases the state of a closed connection in every subsystem.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, peer: PeerId, closed: &Peer) {
        cx.host.forget(peer, &mut cx.timers);
        match &closed.phase {
            Phase::Member(member) => self.member_left(cx, peer, member),
            _ => self.admission.peer_left(cx, peer, closed),
        }
    }

    /// Releases the state of an admitted peer. Its own requests are dropped first, so that the failures reported
    /// afterwards are not sent to it. The host is informed of a loss before the collectives that it ends.
    fn member_left(&mut self, cx: &mut Cx, peer: PeerId, member: &Member) {
        let (rank, nspace) = (member.proc.rank, &member.proc.nspace);
        tracing::info!(%peer, %nspace, %rank, finalized = member.is_finalized, "disconnected");
        // The registry decides first: with a clone still connected, the process is not lost.
        let is_lost = cx.registry.disconnect(peer, member);
        self.finalizing.peer_left(cx, peer);
        self.exchange.peer_left(cx, peer);
        self.events.peer_left(cx, peer);
        self.forwarding.peer_left(cx, peer);
        self.control.peer_left(cx, peer);
        self.control.cleanup_member(cx, member, is_lost);
        let follow = self.groups.peer_left(cx, member);
        self.raise_all(cx, follow);
        if is_lost {
            // Shared data are withdrawn when their process is lost (docs/decisions/0023).
            cx.shared.puts_changed(&member.proc);
            cx.driver_events.push_back(EngineEvent::ProcessLost {
                proc: member.proc.clone(),
                incarnation: member.incarnation,
                is_tool: member.client.is_none(),
            });
            self.events.process_lost(cx, member);
            if let Some(client) = member.client {
                self.collectives.participant_lost(cx, client, &member.proc);
            }
        }
        if let Some(client) = member.client
            && !is_lost
            && !member.is_finalized
        {
            self.collectives.caller_left(cx, peer, client, &member.proc);
        }
        if member.client.is_some() {
            // Gets that wait for data of this process fail now.
            self.exchange.proc_changed(cx, &member.proc);
        }
    }

    /// Updates the subsystems after the deregistration of a client, whose connections are closed.
    pub(crate) fn client_removed(&mut self, cx: &mut Cx, id: ClientId, client: &Client) {
        Finalizing::client_removed(cx, id, client.until);
        let follow = self.groups.invited_lost(cx, &client.proc);
        self.raise_all(cx, follow);
        self.collectives.participant_lost(cx, id, &client.proc);
    }

    /// Updates the subsystems after the loss of processes on other nodes. Local processes are skipped, because their
    /// connections report their loss.
    pub(crate) fn lost_elsewhere(&mut self, cx: &mut Cx, procs: &[Proc<'static>]) {
        for proc in procs {
            if proc.rank.is_valid() && !cx.registry.was_here(proc) {
                let follow = self.groups.invited_lost(cx, proc);
                self.raise_all(cx, follow);
                self.exchange.lost_elsewhere(cx, proc);
                // Contributions in flight may contain data of the lost incarnation.
                self.collectives.mark_stale(proc);
            }
        }
    }

    /// Retries the gets of data of a local client that was registered or deregistered; the job itself is unchanged.
    pub(crate) fn client_changed(&mut self, cx: &mut Cx, proc: &Proc<'static>) {
        self.exchange.proc_changed(cx, proc);
    }

    /// Retries the requests that wait for a job, after the job or its local clients were registered or deregistered.
    pub(crate) fn job_changed(&mut self, cx: &mut Cx, nspace: &Nspace<'static>) {
        self.exchange.job_changed(cx, nspace);
        self.collectives.collectives_of_job(cx, nspace);
    }

    /// Removes a deregistered job from every subsystem. The gets and collectives come first, because they reply to
    /// their callers.
    pub(crate) fn job_gone(&mut self, cx: &mut Cx, nspace: &Nspace<'static>) {
        self.exchange.job_gone(cx, nspace);
        self.collectives.collectives_of_job(cx, nspace);
        self.collectives.led_job_gone(cx);
        self.collectives.own_calls_of_job_gone(cx);
        cx.peers.forget_job(nspace);
        cx.shared.forget(nspace);
        self.groups.job_gone(cx, nspace);
        self.events.job_gone(nspace);
        self.forwarding.job_gone(nspace);
    }
}
