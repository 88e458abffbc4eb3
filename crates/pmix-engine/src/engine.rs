// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine, which turns inputs into bytes for peers, upcalls and events.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces"; the form without sockets and a clock is this project's
//! own.

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
use crate::host::{CallId, HostCall, HostReply};
use crate::peers::{Origin, PeerId, Transmit};
use crate::pending::PendingCall;
use crate::recount::Recount;
use crate::subsystems::Subsystems;
use crate::{Config, Difference, EngineEvent, Error, Psec, SharedChange, Stats, Verified, Waits};

/// The logic of one server, which turns inputs into bytes for peers, upcalls and events.
///
/// Every `handle_…` method processes an input; the times passed to it never decrease. Messages of peers that were added
/// by [`queue_input`](Self::queue_input) are handled by [`handle_queued`](Self::handle_queued), one at a call,
/// beginning with the peer that has been served least.
///
/// After each input the driver drains, in this order, [`poll_shared`](Self::poll_shared),
/// [`poll_transmit`](Self::poll_transmit), [`poll_host_call`](Self::poll_host_call) and
/// [`poll_event`](Self::poll_event) until each returns `None`. It calls [`handle_timeout`](Self::handle_timeout) at the
/// time that [`poll_timeout`](Self::poll_timeout) returns. Methods without a `now` parameter use the time passed last,
/// so the driver passes the current time before it calls them. The transmits may hold last bytes for a connection that
/// an event asks the driver to close.
///
/// Each subsystem has its own state. The state that they share is in the context that each method receives.
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

    /// Describes the collectives and gets of processes of a job, or of any job, that have not completed. The time is
    /// proportional to the number of pending collectives and gets.
    #[must_use]
    pub fn waits(&self, job: Option<&Nspace<'_>>) -> Waits {
        let mut waits = Waits::default();
        let Subsystems {
            collectives,
            exchange,
            ..
        } = &self.subsystems;
        collectives.describe_waits(&self.cx, job, &mut waits);
        exchange.describe_waits(&self.cx, job, &mut waits);
        waits
    }

    /// Counts the contents of the engine one by one and compares the results with the counters used for limits and with
    /// the timers. The time is proportional to the whole contents. The list is empty unless the engine has a fault;
    /// tests check it after each step.
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

    /// Adds a connection that the host opened to a tool. The tool may send requests over it. A launcher opens such a
    /// connection to the tool that started it (`PMIX_LAUNCHER_RNDZ_URI`). The host is not asked to admit the tool,
    /// since it opened the connection itself.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_NO_PERMISSIONS` if tools of this user are not served, or if the tool has the name of the
    /// server or of a job; `PMIX_ERR_DUPLICATE_KEY` if a tool of this name is connected; `PMIX_ERR_BAD_PARAM` if the
    /// name is invalid.
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

    /// Releases the connection of a registered process to the host, which continues to use it. A tool does so with the
    /// connection of a launcher that it started. The process counts as finalized afterwards. Returns the connection and
    /// the form in which the process packs; `None` if the process is not connected, has not requested its job info, or
    /// waits for a reply.
    ///
    /// The driver stops reading from the socket before it returns to its loop.
    pub fn give_up(&mut self, proc: &Proc<'_>, now: Instant) -> Option<(PeerId, PeerForm)> {
        self.cx.now = Some(now);
        let (peer, form) = Finalizing::leave_to_host(&mut self.cx, proc)?;
        // There is no `Close` event: the host goes on using the socket.
        self.forget(peer);
        self.close_refused();
        Some((peer, form))
    }

    /// Queues bytes received from a peer until it is the peer's turn ([`handle_queued`](Self::handle_queued)). Bytes of
    /// an unknown peer are dropped.
    pub fn queue_input(&mut self, peer: PeerId, bytes: &[u8]) {
        self.cx.peers.push(peer, bytes);
        self.cx.watch_input();
        self.cx.peers.enqueue(peer);
    }

    /// Returns `true` if the driver should read more bytes from a peer. It should not while messages of the peer are
    /// queued, nor while there is no room for a long message ([`Config::input_bytes`]).
    #[must_use]
    pub fn wants_input(&self, peer: PeerId) -> bool {
        self.cx.peers.wants_input(peer)
    }

    /// Returns a peer whose long message had no room before and has room now. A driver polls until `None` after it has
    /// handled messages, closed connections or run timers.
    pub fn poll_resumed(&mut self) -> Option<PeerId> {
        self.cx.peers.poll_resumed()
    }

    /// Handles one message of the next peer and returns the peer. The next peer is the one that has been served least,
    /// measured by the cost of its messages ([`charge`](Self::charge)); at equal cost the peers take turns. Returns
    /// `None` if no message can be handled before another input.
    pub fn handle_queued(&mut self, now: Instant) -> Option<PeerId> {
        let peer = self.cx.peers.next_ready()?;
        self.handle_message(peer, now);
        // The peer may have more messages; the others have their turn before the next one.
        self.cx.peers.enqueue(peer);
        Some(peer)
    }

    /// Returns the peer whose message [`handle_queued`](Self::handle_queued) would handle.
    #[must_use]
    pub fn next_queued(&self) -> Option<PeerId> {
        self.cx.peers.first_ready()
    }

    /// Adds the time that handling the last message took to the service time of its peer. Other peers with messages are
    /// served for the same time before its next message is handled. The driver measures the time, as the engine has no
    /// clock.
    pub fn charge(&mut self, peer: PeerId, cost: Duration) {
        self.cx.peers.charge(peer, cost);
    }

    /// Returns the number of peers with a message that can be handled now.
    #[must_use]
    pub fn num_to_handle(&self) -> usize {
        self.cx.peers.num_to_handle()
    }

    /// Returns `true` if a message can be handled now.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        self.cx.peers.any_ready()
    }

    /// Adds bytes received from a peer and handles its messages before those of all other peers, as many as can be
    /// handled now.
    pub fn handle_input(&mut self, peer: PeerId, bytes: &[u8], now: Instant) {
        self.cx.peers.push(peer, bytes);
        self.cx.watch_input();
        // Replies to a peer that does not read them would fill the memory, so its further requests wait.
        while self.cx.peers.can_be_served(peer) {
            self.handle_message(peer, now);
        }
        self.cx.peers.enqueue(peer);
    }

    /// Marks a connection as closed by the peer or broken. It is removed once its queued messages are handled
    /// ([`handle_queued`](Self::handle_queued)).
    pub fn handle_closed(&mut self, peer: PeerId, now: Instant) {
        self.cx.now = Some(now);
        self.cx.peers.mark_closed(peer);
        // A process may commit and exit at once, so messages sent before the end are handled first.
        match self.cx.peers.is_drained(peer) {
            true => self.forget(peer),
            false => self.cx.peers.enqueue(peer),
        }
        self.close_refused();
    }

    /// Records that the driver has written `num_bytes` to a peer. Without these calls the engine disconnects the peer
    /// as one that does not read.
    pub fn handle_written(&mut self, peer: PeerId, num_bytes: usize) {
        self.cx.peers.written(peer, num_bytes);
        self.subsystems.peer_read(&mut self.cx, peer);
        // A request of the peer may have waited for room in its window.
        self.cx.peers.enqueue(peer);
        self.close_refused();
    }

    /// Processes the host's reply to an upcall. A reply to an unknown upcall is ignored.
    pub fn handle_host(&mut self, call: CallId, reply: HostReply, now: Instant) {
        self.cx.now = Some(now);
        if let Some(pending) = self.cx.take_call(call) {
            self.subsystems
                .handle_host_reply(&mut self.cx, pending, reply);
        }
        self.close_refused();
    }

    /// Processes the result of a security module that returned [`Verification::Pending`](crate::Verification::Pending).
    /// A result for a disconnected peer is ignored.
    pub fn handle_verified(
        &mut self,
        peer: PeerId,
        verified: Result<Verified, Error>,
        now: Instant,
    ) {
        self.cx.now = Some(now);
        let admission = &mut self.subsystems.admission;
        admission.handle_verified(&mut self.cx, peer, verified);
        self.close_refused();
    }

    /// Runs the expired timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.cx.now = Some(now);
        while let Some(timer) = self.cx.timers.due(now) {
            self.subsystems.handle_timer(&mut self.cx, timer);
            // The next timer finds the state after the disconnections that this one caused.
            self.close_refused();
        }
    }

    /// Returns the next change of the memory shared with clients. The driver applies all changes before it sends the
    /// bytes of [`poll_transmit`](Self::poll_transmit), so that a client finds the data that a reply announces.
    pub fn poll_shared(&mut self) -> Option<SharedChange> {
        self.cx.shared.poll()
    }

    /// Informs the engine that the shared memory had no room for a value. Values that would not fit either are no
    /// longer packed. If the value was job info, the engine stops sharing the data of the job, and the driver removes
    /// the existing data.
    pub fn shared_left_out(&mut self, nspace: &Nspace<'_>, key: &[u8]) {
        self.cx.shared.left_out(nspace, key);
    }

    /// Returns the reply that a get of the process would receive now, if the changes made so far share its data; tests
    /// compare it with the shared data.
    #[must_use]
    pub fn shared_puts_of(&self, proc: &Proc<'_>) -> Option<Vec<u8>> {
        self.cx.shared_puts_of(proc)
    }

    /// Returns the next bytes for a peer.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.cx.peers.poll_transmit()
    }

    /// Returns the next upcall for the host.
    pub fn poll_host_call(&mut self) -> Option<HostCall> {
        self.cx.host.poll()
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<EngineEvent> {
        self.cx.driver_events.pop_front()
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout), or `None` if no timer is set. Any
    /// input may change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.cx.timers.next()
    }

    /// Lists the upcalls without a reply, in the order in which they were made.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        self.cx.host.list()
    }

    /// Handles the next message of a peer, or the next part of its last one, or removes a closed peer that has none left.
    fn handle_message(&mut self, peer: PeerId, now: Instant) {
        self.cx.now = Some(now);
        if self.cx.peers.is_unfinished(peer) {
            self.subsystems.exchange.advance_commit(&mut self.cx, peer);
            return self.close_refused();
        }
        match self.cx.next_frame(peer) {
            Some(frame) => {
                self.subsystems.handle_frame(&mut self.cx, peer, &frame);
                if self.cx.peers.is_unfinished(peer) {
                    let exchange = &mut self.subsystems.exchange;
                    exchange.keep_message(peer, frame.payload);
                }
            }
            None if self.cx.peers.is_closed(peer) => self.forget(peer),
            None => {}
        }
        self.close_refused();
    }

    /// Closes the connections that a subsystem refused. Processes the group outcomes before and after each, as the loss
    /// of a process can complete or end further groups.
    fn close_refused(&mut self) {
        loop {
            self.subsystems.process_group_outcomes(&mut self.cx);
            self.subsystems.end_answered_invitations(&mut self.cx);
            let Some(peer) = self.cx.poll_refused() else {
                return;
            };
            self.close(peer);
        }
    }

    /// Closes a connection and asks the driver to close its socket.
    fn close(&mut self, peer: PeerId) {
        // Several subsystems may refuse a peer, but the driver gets one `Close`.
        if self.cx.peers.get(peer).is_some() {
            self.forget(peer);
            self.cx.driver_events.push_back(EngineEvent::Close(peer));
        }
    }

    /// Removes a closed connection.
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
