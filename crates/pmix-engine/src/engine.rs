// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: inputs go in, bytes, upcalls and events come out.

mod host_calls;
mod routing;
mod stats;

pub use stats::Stats;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use gds_hash::Store;
use pmix_proto::{Frame, Inbox, Tag};

use crate::admission::Admission;
use crate::collective::Collectives;
use crate::control::Control;
use crate::cx::Cx;
use crate::events::Events;
use crate::exchange::Exchange;
use crate::finalize::Finalizing;
use crate::host::{Answer, CallId, HostCall};
use crate::iof::Forwarding;
use crate::peers::{Origin, Peer, PeerId, Phase, Transmit};
use crate::pending::PendingCall;
use crate::{Config, EngineEvent, Error, Psec};

/// Runs the logic of one server: inputs go in, bytes, upcalls and events come out.
///
/// Every `handle_…` takes an input, at a time that never goes back. Messages of peers wait in the
/// order of [`queue_input`](Self::queue_input) and are handled by
/// [`handle_queued`](Self::handle_queued), one at a call, the peers in turn. Afterwards the driver
/// drains, in this order, [`poll_transmit`](Self::poll_transmit),
/// [`poll_host_call`](Self::poll_host_call) and [`poll_event`](Self::poll_event) until each has
/// nothing more, and calls [`handle_timeout`](Self::handle_timeout) when
/// [`poll_timeout`](Self::poll_timeout) says so. Calls of the host that take no time happen at the
/// one that was handed in last; a driver hands it in before them. A connection that an event says
/// is to be closed may have had last bytes among the transmits.
///
/// Each subsystem is a structure with its own state. What they share is in the context that they
/// are handed; where one event concerns several, the engine calls each of them.
pub struct Engine {
    cx: Cx,
    admission: Admission,
    exchange: Exchange,
    collectives: Collectives,
    events: Events,
    forwarding: Forwarding,
    control: Control,
    finalizing: Finalizing,
}

impl Engine {
    /// Creates a server without jobs and connections.
    #[must_use]
    pub fn new(config: Config, store: Arc<Store>, psec: Vec<Box<dyn Psec>>) -> Self {
        Self {
            admission: Admission::new(psec),
            exchange: Exchange::default(),
            collectives: Collectives::default(),
            events: Events::new(config.events),
            forwarding: Forwarding::new(config.output),
            control: Control::default(),
            finalizing: Finalizing::default(),
            cx: Cx::new(config, store),
        }
    }

    /// Returns the configuration that the server was created with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.cx.config
    }

    /// Returns the datastore.
    #[must_use]
    pub const fn store(&self) -> &Arc<Store> {
        &self.cx.store
    }

    /// Counts the connections, those that have not completed their handshake included.
    #[must_use]
    pub fn num_peers(&self) -> usize {
        self.cx.peers.len()
    }

    /// Adds a connection, which has a limited time to complete its handshake.
    pub fn open(&mut self, origin: Origin, now: Instant) -> PeerId {
        self.cx.now = Some(now);
        let until = now + self.cx.config.handshake_time;
        let inbox = Inbox::of_server(self.cx.config.max_message);
        let peer = self.cx.peers.add(Peer::new(origin, inbox, until));
        self.admission.opened(&mut self.cx, peer, origin, until);
        self.close_refused();
        peer
    }

    /// Takes bytes of a peer, whose messages are handled when it is its turn
    /// ([`handle_queued`](Self::handle_queued)). Those of a peer that is not known are ignored.
    pub fn queue_input(&mut self, peer: PeerId, bytes: &[u8]) {
        self.cx.peers.push(peer, bytes);
        self.enqueue(peer);
    }

    /// Returns whether more bytes of a peer are to be read: none are while messages of it wait.
    #[must_use]
    pub fn wants_input(&self, peer: PeerId) -> bool {
        self.cx.peers.is_drained(peer)
    }

    /// Handles one message of the next peer, which then goes behind the others. Returns the peer;
    /// none if no message can be handled until something else happens.
    pub fn handle_queued(&mut self, now: Instant) -> Option<PeerId> {
        let peer = self.cx.peers.next_ready()?;
        self.handle_message(peer, now);
        self.enqueue(peer);
        Some(peer)
    }

    /// Returns whether there is a message to be handled.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        self.cx.peers.any_ready()
    }

    /// Takes bytes of a peer and handles its messages before those of all others, as many as can be
    /// handled now.
    pub fn handle_input(&mut self, peer: PeerId, bytes: &[u8], now: Instant) {
        self.cx.peers.push(peer, bytes);
        while self.cx.peers.has_room(peer, self.cx.config.reply_window)
            && !self.cx.peers.is_drained(peer)
        {
            self.handle_message(peer, now);
        }
        self.enqueue(peer);
    }

    /// Removes a connection that the other end closed or that broke, once its messages are handled
    /// ([`handle_queued`](Self::handle_queued)).
    pub fn handle_closed(&mut self, peer: PeerId, now: Instant) {
        self.cx.now = Some(now);
        self.cx.peers.mark_closed(peer);
        match self.cx.peers.is_drained(peer) {
            true => self.forget(peer),
            false => self.enqueue(peer),
        }
        self.close_refused();
    }

    /// Takes note that the driver has written `num_bytes` of the bytes for a peer. A driver that
    /// does not call it has its peers refused as ones that do not read.
    pub fn handle_written(&mut self, peer: PeerId, num_bytes: usize) {
        self.cx.peers.written(peer, num_bytes);
        self.exchange.answer_due(&mut self.cx, peer);
        self.forwarding.pump_output(&mut self.cx, peer);
        self.enqueue(peer);
        self.close_refused();
    }

    /// Takes the answer of the host to an upcall. An answer that nothing waits for is ignored.
    pub fn handle_host(&mut self, call: CallId, answer: Answer, now: Instant) {
        self.cx.now = Some(now);
        if let Some(pending) = self.cx.host.take(call) {
            self.handle_answer(pending, answer);
        }
        self.close_refused();
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.cx.now = Some(now);
        while let Some(timer) = self.cx.timers.due(now) {
            self.handle_timer(timer);
            self.close_refused();
        }
    }

    /// Takes the next bytes for a peer.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.cx.peers.poll_transmit()
    }

    /// Takes the next upcall for the host.
    pub fn poll_host_call(&mut self) -> Option<HostCall> {
        self.cx.host.poll()
    }

    /// Takes the next event for the driver.
    pub fn poll_event(&mut self) -> Option<EngineEvent> {
        self.cx.driver_events.pop_front()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), unless something else happens
    /// before; none if there is nothing to wait for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.cx.timers.next()
    }

    /// Lists the upcalls that the host has not answered, in the order in which they were made.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        self.cx.host.list()
    }

    fn enqueue(&mut self, peer: PeerId) {
        let window = self.cx.config.reply_window;
        self.cx.peers.enqueue(peer, window);
    }

    /// Handles the next message of a peer; one that is closed and has no more is forgotten.
    fn handle_message(&mut self, peer: PeerId, now: Instant) {
        self.cx.now = Some(now);
        match self.next_frame(peer) {
            Some(frame) => self.handle_frame(peer, frame),
            None if self.cx.peers.is_closed(peer) => self.forget(peer),
            None => {}
        }
        self.close_refused();
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
            Some(Phase::Handshake(_)) => self.admission.handle_hello(&mut self.cx, peer, &frame),
            Some(Phase::PendingTool(_)) => {
                let message = "a message before the welcome";
                self.cx.refuse(peer, Error::bad(message));
            }
            Some(Phase::Member(_)) if frame.header.tag.is_request() => {
                self.handle_request(peer, frame.header.tag, &frame.payload);
            }
            Some(Phase::Member(_)) if frame.header.tag == Tag::HEARTBEAT => {
                self.control.heartbeat(&mut self.cx, peer);
            }
            Some(Phase::Member(_)) => {
                let tag = frame.header.tag;
                tracing::debug!(%peer, %tag, "a message that no peer sends is ignored");
            }
            None => {}
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
