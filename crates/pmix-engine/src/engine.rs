// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: what happens goes in, what is to be done comes out.

mod closing;
mod registration;
mod stats;

pub use stats::Stats;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use gds_hash::Store;
use pmix_proto::{Frame, Inbox, Tag};
use pmix_types::Status;

use crate::collective::Collectives;
use crate::control::Control;
use crate::cx::Cx;
use crate::events::Events;
use crate::exchange::{InboundDmodex, JobInfoCache, OutboundDmodex, PendingGets};
use crate::finalize::PendingFinalize;
use crate::host::{Answer, CallId, HostCall};
use crate::iof::Forwarding;
use crate::peers::{Handshaking, Origin, Peer, PeerId, Phase, Transmit};
use crate::pending::{Pending, PendingCall};
use crate::timer::Timer;
use crate::{Config, EngineEvent, Error, Psec};

/// The logic of one server.
///
/// Every `handle_…` tells it what happened, at a time that never goes back. Afterwards the driver
/// drains, in this order, [`poll_transmit`](Self::poll_transmit),
/// [`poll_host_call`](Self::poll_host_call) and [`poll_event`](Self::poll_event) until each has
/// nothing more, and calls [`handle_timeout`](Self::handle_timeout) when
/// [`poll_timeout`](Self::poll_timeout) says so. Calls of the host that take no time happen at the
/// one that was handed in last; a driver hands it in before them. A connection that an event says is to be closed may
/// have had last words among the bytes.
pub struct Engine {
    pub(crate) cx: Cx,
    pub(crate) psec: Vec<Box<dyn Psec>>,
    pub(crate) handshaking: Handshaking,
    pub(crate) collectives: Collectives,
    pub(crate) pending_gets: PendingGets,
    pub(crate) outbound_dmodex: OutboundDmodex,
    pub(crate) inbound_dmodex: InboundDmodex,
    pub(crate) job_info_cache: JobInfoCache,
    pub(crate) finalizing: HashMap<PeerId, PendingFinalize>,
    /// How many tools were given a name.
    pub(crate) num_tools: u64,
    pub(crate) events: Events,
    pub(crate) forwarding: Forwarding,
    pub(crate) control: Control,
}

impl Engine {
    /// A server without jobs and connections.
    #[must_use]
    pub fn new(config: Config, store: Arc<Store>, psec: Vec<Box<dyn Psec>>) -> Self {
        Self {
            events: Events::new(config.events),
            forwarding: Forwarding::new(config.output),
            control: Control::default(),
            cx: Cx::new(config, store),
            psec,
            handshaking: Handshaking::default(),
            collectives: Collectives::default(),
            pending_gets: PendingGets::default(),
            outbound_dmodex: OutboundDmodex::default(),
            inbound_dmodex: InboundDmodex::default(),
            job_info_cache: JobInfoCache::default(),
            finalizing: HashMap::new(),
            num_tools: 0,
        }
    }

    /// What the server was told when it started.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.cx.config
    }

    /// What is known of jobs.
    #[must_use]
    pub const fn store(&self) -> &Arc<Store> {
        &self.cx.store
    }

    /// How many connections there are, those that have not said who they are included.
    #[must_use]
    pub fn num_peers(&self) -> usize {
        self.cx.peers.len()
    }

    /// A connection was opened. It has a limited time to say who it is.
    pub fn open(&mut self, origin: Origin, now: Instant) -> PeerId {
        self.cx.now = Some(now);
        let until = now + self.cx.config.handshake_time;
        let inbox = Inbox::of_server(self.cx.config.max_message);
        let peer = self.cx.peers.add(Peer::new(origin, inbox, until));
        self.cx.timers.set(until, Timer::Handshake(peer));
        let most = self.cx.config.handshakes_per_user;
        if let Some(oldest) = self.handshaking.add(origin.uid, peer, most) {
            let message = "too many connections of its user have not said who they are";
            self.cx
                .refuse(oldest, Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        self.close_refused();
        peer
    }

    /// Bytes came from a peer. Those of a peer that is not known are ignored.
    pub fn handle_input(&mut self, peer: PeerId, bytes: &[u8], now: Instant) {
        self.cx.now = Some(now);
        if let Some(found) = self.cx.peers.get_mut(peer) {
            found.inbox.push(bytes);
        }
        while let Some(frame) = self.next_frame(peer) {
            self.handle_frame(peer, frame);
            self.close_refused();
        }
        self.close_refused();
    }

    /// A connection was closed by the other end, or broke.
    pub fn handle_closed(&mut self, peer: PeerId, now: Instant) {
        self.cx.now = Some(now);
        self.forget(peer);
        self.close_refused();
    }

    /// So many of the bytes that were handed out for a peer are written. Without being told, the
    /// engine takes the peer for one that does not read.
    pub fn handle_written(&mut self, peer: PeerId, num_bytes: usize) {
        self.cx.peers.written(peer, num_bytes);
        self.pump_output(peer);
        self.close_refused();
    }

    /// The host answered. An answer that nobody waits for is ignored.
    pub fn handle_host(&mut self, call: CallId, answer: Answer, now: Instant) {
        self.cx.now = Some(now);
        if let Some(pending) = self.cx.host.take(call) {
            self.handle_answer(pending, answer);
        }
        self.close_refused();
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.cx.now = Some(now);
        while let Some(timer) = self.cx.timers.due(now) {
            self.handle_timer(timer);
            self.close_refused();
        }
    }

    /// Lists the upcalls that the host has not answered, in the order in which they were made.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        self.cx.host.list()
    }

    /// The next bytes for a peer.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.cx.peers.poll_transmit()
    }

    /// The next call for the host.
    pub fn poll_host_call(&mut self) -> Option<HostCall> {
        self.cx.host.poll()
    }

    /// The next thing that the driver is to know.
    pub fn poll_event(&mut self) -> Option<EngineEvent> {
        self.cx.driver_events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), unless something else happens
    /// before; none if there is nothing to wait for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.cx.timers.next()
    }

    fn next_frame(&mut self, peer: PeerId) -> Option<Frame> {
        match self.cx.peers.get_mut(peer)?.inbox.next_frame() {
            Ok(frame) => frame,
            Err(error) => {
                self.cx.refuse(peer, error.into());
                None
            }
        }
    }

    fn handle_frame(&mut self, peer: PeerId, frame: Frame) {
        match self.cx.peers.get(peer).map(|peer| &peer.phase) {
            Some(Phase::Handshake(_)) => self.handle_hello(peer, &frame),
            Some(Phase::PendingTool(_)) => {
                let message = "a message before the welcome";
                self.cx.refuse(peer, Error::bad(message));
            }
            Some(Phase::Member(_)) if frame.header.tag.is_request() => {
                self.handle_request(peer, frame.header.tag, &frame.payload);
            }
            Some(Phase::Member(_)) if frame.header.tag == Tag::HEARTBEAT => {
                self.heartbeat(peer);
            }
            Some(Phase::Member(_)) => {
                let tag = frame.header.tag;
                tracing::debug!(%peer, %tag, "a message that no peer sends is ignored");
            }
            None => {}
        }
    }

    /// Hands the answer of the host to what waits for it.
    fn handle_answer(&mut self, pending: Pending, answer: Answer) {
        let status = answer.status();
        match pending {
            Pending::Status(ticket) => self.cx.reply_status(ticket, status),
            Pending::Infos(ticket) => self.answer_infos(ticket, answer),
            Pending::Lookup(ticket) => self.looked_up(ticket, answer),
            Pending::Spawn(ticket, channels) => self.spawned(ticket, answer, channels),
            Pending::Credential(ticket) => self.answer_credential(ticket, answer),
            Pending::Query(ticket, results) => self.reply_results(ticket, *results, Some(answer)),
            Pending::Resolve(ticket, key) => self.host_resolved(ticket, key, answer),
            Pending::IofPull(ticket, number) => self.pulled(ticket, number, status),
            Pending::RegisterEvents(ticket, registration) => {
                self.host_registered(ticket, &registration, status);
            }
            Pending::HostedEvents(codes) if !status.is_success() => {
                self.events.host_declined(&codes);
            }
            Pending::ClientConnected(peer) => self.host_took_client(peer, &answer),
            Pending::ToolConnected(peer, tool) => self.host_took_tool(peer, *tool, answer),
            Pending::Finalize(peer) => self.finalized(peer),
            Pending::Collective(id, job) => self.host_ended(id, &job, answer),
            Pending::DirectModex(proc) => self.host_brought(&proc, answer),
            Pending::HostedEvents(_) | Pending::Informed => {
                tracing::debug!(%status, "the host was informed");
            }
        }
    }

    fn handle_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Handshake(peer) => self.handshake_expired(peer),
            Timer::Finalize(peer) => self.finalized(peer),
            Timer::Heartbeat(peer) => self.heartbeat_due(peer),
            Timer::Early(id) => self.early_expired(id),
            Timer::Return(client) => self.has_not_returned(client),
            Timer::Collective(id) => self.collective_expired(id),
            Timer::Get(id) => self.get_expired(id),
            Timer::InboundDmodex(id) => self.inbound_dmodex_expired(id),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("cx", &self.cx)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
