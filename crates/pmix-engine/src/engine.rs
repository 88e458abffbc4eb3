// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: what happens goes in, what is to be done comes out.

mod closing;
mod outgoing;
mod registration;
mod stats;

pub use stats::Stats;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gds_hash::Store;
use pmix_proto::{Frame, Inbox, Tag};
use pmix_types::Status;

use crate::collective::Collectives;
use crate::control::Control;
use crate::events::Events;
use crate::exchange::{InboundDmodex, JobInfoCache, OutboundDmodex, PendingGets};
use crate::finalize::PendingFinalize;
use crate::host::{Answer, CallId, Calls, HostCall};
use crate::iof::Forwarding;
use crate::peers::{Handshaking, Origin, Peer, PeerId, Peers, Phase, Transmit};
use crate::registry::{ProcessSets, Registry};
use crate::timer::{Timer, Timers};
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
    pub(crate) config: Config,
    pub(crate) store: Arc<Store>,
    pub(crate) psec: Vec<Box<dyn Psec>>,
    /// The time that was handed in last; none before the first.
    pub(crate) now: Option<Instant>,
    pub(crate) timers: Timers,
    pub(crate) peers: Peers,
    pub(crate) handshaking: Handshaking,
    pub(crate) registry: Registry,
    pub(crate) process_sets: ProcessSets,
    pub(crate) calls: Calls,
    pub(crate) outcomes: VecDeque<EngineEvent>,
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
            config,
            store,
            psec,
            now: None,
            timers: Timers::default(),
            peers: Peers::default(),
            handshaking: Handshaking::default(),
            registry: Registry::default(),
            process_sets: ProcessSets::default(),
            calls: Calls::default(),
            outcomes: VecDeque::new(),
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
        &self.config
    }

    /// What is known of jobs.
    #[must_use]
    pub const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// How many connections there are, those that have not said who they are included.
    #[must_use]
    pub fn num_peers(&self) -> usize {
        self.peers.len()
    }

    /// A connection was opened. It has a limited time to say who it is.
    pub fn open(&mut self, origin: Origin, now: Instant) -> PeerId {
        self.now = Some(now);
        let until = now + self.config.handshake_time;
        let inbox = Inbox::of_server(self.config.max_message);
        let peer = self.peers.add(Peer::new(origin, inbox, until));
        self.timers.set(until, Timer::Handshake(peer));
        let most = self.config.handshakes_per_user;
        if let Some(oldest) = self.handshaking.add(origin.uid, peer, most) {
            let message = "too many connections of its user have not said who they are";
            self.refuse(oldest, Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        peer
    }

    /// Bytes came from a peer. Those of a peer that is not known are ignored.
    pub fn handle_input(&mut self, peer: PeerId, bytes: &[u8], now: Instant) {
        self.now = Some(now);
        if let Some(found) = self.peers.get_mut(peer) {
            found.inbox.push(bytes);
        }
        while let Some(frame) = self.next_frame(peer) {
            self.handle_frame(peer, frame);
        }
    }

    /// A connection was closed by the other end, or broke.
    pub fn handle_closed(&mut self, peer: PeerId, now: Instant) {
        self.now = Some(now);
        self.forget(peer);
    }

    /// So many of the bytes that were handed out for a peer are written. Without being told, the
    /// engine takes the peer for one that does not read.
    pub fn handle_written(&mut self, peer: PeerId, num_bytes: usize) {
        self.peers.written(peer, num_bytes);
        self.pump_output(peer);
    }

    /// The host answered. An answer that nobody waits for is ignored.
    pub fn handle_host(&mut self, call: CallId, answer: Answer, now: Instant) {
        self.now = Some(now);
        if let Some(then) = self.calls.take(call) {
            then(self, answer);
        }
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = Some(now);
        while let Some(timer) = self.timers.due(now) {
            self.handle_timer(timer);
        }
    }

    /// The next bytes for a peer.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.peers.poll_transmit()
    }

    /// The next call for the host.
    pub fn poll_host_call(&mut self) -> Option<HostCall> {
        self.calls.poll()
    }

    /// The next thing that the driver is to know.
    pub fn poll_event(&mut self) -> Option<EngineEvent> {
        self.outcomes.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), unless something else happens
    /// before; none if there is nothing to wait for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// So long from now; none if no time is known yet, and then nobody is there who could wait.
    pub(crate) fn after(&self, time: Duration) -> Option<Instant> {
        self.now.and_then(|now| now.checked_add(time))
    }

    fn next_frame(&mut self, peer: PeerId) -> Option<Frame> {
        match self.peers.get_mut(peer)?.inbox.next_frame() {
            Ok(frame) => frame,
            Err(error) => {
                self.refuse(peer, error.into());
                None
            }
        }
    }

    fn handle_frame(&mut self, peer: PeerId, frame: Frame) {
        match self.peers.get(peer).map(|peer| &peer.phase) {
            Some(Phase::Handshake(_)) => self.handle_hello(peer, &frame),
            Some(Phase::PendingTool(_)) => {
                let message = "a message before the welcome";
                self.refuse(peer, Error::bad(message));
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
            .field("server", &self.config.server)
            .field("peers", &self.peers.len())
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}
