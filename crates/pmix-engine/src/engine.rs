// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: inputs go in, bytes, upcalls and events come out.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces"; the form without sockets and a
//! clock is this project's own.

mod check;
mod host_calls;
mod resource_calls;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gds_hash::Store;
use pmix_proto::PeerForm;
use pmix_types::{Nspace, Proc};

use crate::admission::Admission;
use crate::cx::Cx;
use crate::finalize::Finalizing;
use crate::host::{Answer, CallId, HostCall};
use crate::peers::{Origin, PeerId, Transmit};
use crate::pending::PendingCall;
use crate::recount::Recount;
use crate::subsystems::Subsystems;
use crate::{Config, Difference, EngineEvent, Error, Psec, SharedChange, Stats, Verified};

/// Runs the logic of one server: inputs go in, bytes, upcalls and events come out.
///
/// Every `handle_…` takes an input, at a time that never goes back. Messages of peers wait in the
/// order of [`queue_input`](Self::queue_input) and are handled by
/// [`handle_queued`](Self::handle_queued), one at a call, the peer that was served least first. Afterwards the driver
/// drains, in this order, [`poll_shared`](Self::poll_shared), [`poll_transmit`](Self::poll_transmit),
/// [`poll_host_call`](Self::poll_host_call) and [`poll_event`](Self::poll_event) until each has
/// nothing more, and calls [`handle_timeout`](Self::handle_timeout) when
/// [`poll_timeout`](Self::poll_timeout) says so. Calls of the host that take no time happen at the
/// one that was handed in last; a driver hands it in before them. A connection that an event says
/// is to be closed may have had last bytes among the transmits.
///
/// Each subsystem is a structure with its own state. What they share is in the context that they
/// are handed.
pub struct Engine {
    cx: Cx,
    subsystems: Subsystems,
}

impl Engine {
    /// Creates a server without jobs and connections.
    #[must_use]
    pub fn new(config: Config, store: Arc<Store>, psec: Vec<Box<dyn Psec>>) -> Self {
        Self {
            subsystems: Subsystems::new(&config, psec),
            cx: Cx::new(config, store),
        }
    }

    /// Counts what the engine holds now, in time proportional to the number of connections.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.cx.count(&mut stats);
        self.subsystems.count(&mut stats);
        stats
    }

    /// Counts again, one by one, what the counters that limits are compared with and the timers stand
    /// for, in time proportional to all that the engine holds. Nothing differs unless there is a
    /// fault in the engine; tests ask after each step.
    #[must_use]
    pub fn recount(&self) -> Vec<Difference> {
        let mut recount = Recount::default();
        self.cx.recount(&mut recount);
        self.subsystems.recount(&self.cx, &mut recount);
        self.cx.compare(&mut recount);
        recount.differences
    }

    /// Adds a connection, which has a limited time to complete its handshake.
    pub fn open(&mut self, origin: Origin, now: Instant) -> PeerId {
        self.cx.now = Some(now);
        let peer = self.subsystems.admission.open(&mut self.cx, origin, now);
        self.close_refused();
        peer
    }

    /// Adds a connection that the host made with a tool, whose requests come over it from now on: a launcher connects
    /// with the tool that had it started (`PMIX_LAUNCHER_RNDZ_URI`). The name and the form of packing are those of
    /// the tool. The host is not asked whether it wants the tool.
    ///
    /// # Errors
    /// `PMIX_ERR_NO_PERMISSIONS` if tools of its user are not served, or if its name is that of the server or of a job;
    /// `PMIX_ERR_DUPLICATE_KEY` if a tool of its name is connected; `PMIX_ERR_BAD_PARAM` if it is no name.
    pub fn add_tool(
        &mut self,
        origin: Origin,
        tool: Proc<'static>,
        form: PeerForm,
        now: Instant,
    ) -> Result<PeerId, Error> {
        self.cx.now = Some(now);
        Admission::add_tool(&mut self.cx, origin, tool, form)
    }

    /// Gives up the connection of a process that the host registered, if there is one and the process has asked for
    /// its job info and waits for nothing: the host goes on with it, as a tool does with the connection of a launcher
    /// that it started. To this server the process has left as it should. Returns the name of the connection and the
    /// form in which the process packs.
    ///
    /// The driver takes the socket away before it reads from it again.
    pub fn give_up(&mut self, proc: &Proc<'_>, now: Instant) -> Option<(PeerId, PeerForm)> {
        self.cx.now = Some(now);
        let (peer, form) = Finalizing::leave_to_host(&mut self.cx, proc)?;
        self.forget(peer);
        self.close_refused();
        Some((peer, form))
    }

    /// Takes bytes of a peer, whose messages are handled when it is its turn
    /// ([`handle_queued`](Self::handle_queued)). Those of a peer that is not known are ignored.
    pub fn queue_input(&mut self, peer: PeerId, bytes: &[u8]) {
        self.cx.peers.push(peer, bytes);
        self.cx.watch_input();
        self.cx.peers.enqueue(peer);
    }

    /// Returns whether more bytes of a peer are to be read: none are while messages of it wait, nor
    /// of a long message while there is no room for it ([`Config::input_bytes`]).
    #[must_use]
    pub fn wants_input(&self, peer: PeerId) -> bool {
        self.cx.peers.wants_input(peer)
    }

    /// Takes a peer for whose long message there was no room, and is now. A driver takes all of them
    /// after it has handled messages, closed connections or run timers.
    pub fn poll_resumed(&mut self) -> Option<PeerId> {
        self.cx.peers.poll_resumed()
    }

    /// Handles one message of the next peer: of those that have one, the peer that was served least, by what its messages
    /// cost ([`charge`](Self::charge)); where they cost nothing, the peers in turn. Returns the peer; none if no message
    /// can be handled until something else happens.
    pub fn handle_queued(&mut self, now: Instant) -> Option<PeerId> {
        let peer = self.cx.peers.next_ready()?;
        self.handle_message(peer, now);
        self.cx.peers.enqueue(peer);
        Some(peer)
    }

    /// Adds the time that the last message of a peer took to what the peer was served: other peers are served for as long
    /// before its next message is handled, if they have messages. The engine has no clock, so the driver says it.
    pub fn charge(&mut self, peer: PeerId, cost: Duration) {
        self.cx.peers.charge(peer, cost);
    }

    /// Returns how many peers have a message that can be handled now.
    #[must_use]
    pub fn num_to_handle(&self) -> usize {
        self.cx.peers.num_to_handle()
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
        self.cx.watch_input();
        while self.cx.peers.has_room(peer) && !self.cx.peers.is_drained(peer) {
            self.handle_message(peer, now);
        }
        self.cx.peers.enqueue(peer);
    }

    /// Removes a connection that the other end closed or that broke, once its messages are handled
    /// ([`handle_queued`](Self::handle_queued)).
    pub fn handle_closed(&mut self, peer: PeerId, now: Instant) {
        self.cx.now = Some(now);
        self.cx.peers.mark_closed(peer);
        match self.cx.peers.is_drained(peer) {
            true => self.forget(peer),
            false => self.cx.peers.enqueue(peer),
        }
        self.close_refused();
    }

    /// Takes note that the driver has written `num_bytes` of the bytes for a peer. A driver that
    /// does not call it has its peers refused as ones that do not read.
    pub fn handle_written(&mut self, peer: PeerId, num_bytes: usize) {
        self.cx.peers.written(peer, num_bytes);
        self.subsystems.peer_read(&mut self.cx, peer);
        self.cx.peers.enqueue(peer);
        self.close_refused();
    }

    /// Takes the answer of the host to an upcall. An answer that nothing waits for is ignored.
    pub fn handle_host(&mut self, call: CallId, answer: Answer, now: Instant) {
        self.cx.now = Some(now);
        if let Some(pending) = self.cx.take_call(call) {
            self.subsystems.handle_answer(&mut self.cx, pending, answer);
        }
        self.close_refused();
    }

    /// Takes the answer of a security module that did not verify the credential of a peer at once
    /// ([`Verification::Pending`](crate::Verification::Pending)). An answer for a peer that is gone is ignored.
    pub fn handle_verified(&mut self, peer: PeerId, answer: Result<Verified, Error>, now: Instant) {
        self.cx.now = Some(now);
        let admission = &mut self.subsystems.admission;
        admission.handle_verified(&mut self.cx, peer, answer);
        self.close_refused();
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.cx.now = Some(now);
        while let Some(timer) = self.cx.timers.due(now) {
            self.subsystems.handle_timer(&mut self.cx, timer);
            self.close_refused();
        }
    }

    /// Takes the next change of what clients share in memory. Those who send what
    /// [`poll_transmit`](Self::poll_transmit) gives make all changes first.
    pub fn poll_shared(&mut self) -> Option<SharedChange> {
        self.cx.shared.poll()
    }

    /// Tells the engine that there was no room for a value: what would not find any either is not packed from now
    /// on. Without a value of its job info nothing of a job is shared any longer, and the driver removes what it
    /// has.
    pub fn shared_left_out(&mut self, nspace: &Nspace<'_>, key: &[u8]) {
        self.cx.shared.left_out(nspace, key);
    }

    /// Returns what a get of a process would be answered with now, if the changes say that it stands in what
    /// clients share; tests compare it with what does.
    #[must_use]
    pub fn shared_puts_of(&self, proc: &Proc<'_>) -> Option<Vec<u8>> {
        self.cx.shared_puts_of(proc)
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

    /// Handles the next message of a peer; one that is closed and has no more is forgotten.
    fn handle_message(&mut self, peer: PeerId, now: Instant) {
        self.cx.now = Some(now);
        match self.cx.next_frame(peer) {
            Some(frame) => self.subsystems.handle_frame(&mut self.cx, peer, &frame),
            None if self.cx.peers.is_closed(peer) => self.forget(peer),
            None => {}
        }
        self.close_refused();
    }

    /// Closes the connections that were refused, and does what else follows when a subsystem has done
    /// its work.
    fn close_refused(&mut self) {
        self.subsystems.process_group_outcomes(&mut self.cx);
        while let Some(peer) = self.cx.poll_refused() {
            self.close(peer);
            self.subsystems.process_group_outcomes(&mut self.cx);
        }
    }

    /// Closes a connection.
    fn close(&mut self, peer: PeerId) {
        if self.cx.peers.get(peer).is_some() {
            self.forget(peer);
            self.cx.driver_events.push_back(EngineEvent::Close(peer));
        }
    }

    /// Forgets a connection that is closed.
    fn forget(&mut self, peer: PeerId) {
        if let Some(closed) = self.cx.peers.remove(peer) {
            self.cx.unwatch_input();
            self.subsystems.peer_left(&mut self.cx, peer, &closed);
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
