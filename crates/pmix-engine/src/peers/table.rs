// SPDX-License-Identifier: MIT OR Apache-2.0
//! All connections, and what waits to be sent to them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use pmix_proto::{Frame, Header, Tag};
use pmix_types::Nspace;

use super::intake::Intake;
use super::turns::Turns;
use super::{Chunk, Member, Payload, Peer, PeerId, Ticket, Transmit};

/// All connections, and what waits to be sent to them.
#[derive(Debug)]
pub(crate) struct Peers {
    /// While a peer is owed this many bytes, it is served no further.
    window: usize,
    last: u64,
    peers: HashMap<PeerId, Peer>,
    outbox: VecDeque<Transmit>,
    /// How many bytes the requests of all of them had that wait for their answers.
    open_bytes: usize,
    /// Peers of which messages are to be handled.
    ready: Turns,
    /// The long messages that are coming.
    intake: Intake,
}

impl Peers {
    /// No connections, each of which is to be served while less than a window waits for it. Their
    /// long messages may have so many bytes together before they are handled.
    pub(crate) fn new(window: usize, input_bytes: usize) -> Self {
        Self {
            window,
            last: 0,
            peers: HashMap::new(),
            outbox: VecDeque::new(),
            open_bytes: 0,
            ready: Turns::default(),
            intake: Intake::new(input_bytes),
        }
    }

    pub(crate) fn add(&mut self, peer: Peer) -> PeerId {
        self.last += 1;
        let id = PeerId(self.last);
        self.peers.insert(id, peer);
        id
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        let mut peer = self.peers.remove(&id)?;
        self.ready.remove(&mut peer.account);
        self.open_bytes = self.open_bytes.saturating_sub(peer.open_bytes);
        self.intake.ended(id, usize::MAX);
        Some(peer)
    }

    /// Who is at the other end of a connection, if it was let in.
    pub(crate) fn member(&self, id: PeerId) -> Option<&Member> {
        self.get(id)?.member()
    }

    /// All who were let in, in no order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (PeerId, &Member)> {
        let peers = self.peers.iter();
        peers.filter_map(|(id, peer)| Some((*id, peer.member()?)))
    }

    /// A peer was told of a job as a whole.
    pub(crate) fn knows_job(&mut self, id: PeerId, nspace: &Nspace<'static>) {
        if let Some(member) = self.get_mut(id).and_then(Peer::member_mut) {
            member.knows.insert(nspace.clone());
        }
    }

    /// A job is gone: one of the same name would be another.
    pub(crate) fn forget_job(&mut self, nspace: &Nspace<'_>) {
        let members = self.peers.values_mut().filter_map(Peer::member_mut);
        members.for_each(|member| {
            member.knows.remove(nspace.as_bytes());
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Takes bytes of a peer.
    pub(crate) fn push(&mut self, id: PeerId, bytes: &[u8]) {
        let num_peers = self.peers.len();
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.inbox.push(bytes);
            let (announced, received) = (peer.inbox.announced(), peer.inbox.num_there());
            self.intake.announced(id, announced, received, num_peers);
        }
    }

    /// Takes the next message of a peer.
    ///
    /// # Errors
    ///
    /// As [`pmix_proto::Inbox::next_frame`].
    pub(crate) fn next_frame(&mut self, id: PeerId) -> Result<Option<Frame>, pmix_proto::Error> {
        let num_peers = self.peers.len();
        let Some(peer) = self.peers.get_mut(&id) else {
            return Ok(None);
        };
        let frame = peer.inbox.next_frame()?;
        if let Some(frame) = &frame {
            self.intake.ended(id, frame.payload.len());
            let (announced, received) = (peer.inbox.announced(), peer.inbox.num_there());
            self.intake.announced(id, announced, received, num_peers);
        }
        Ok(frame)
    }

    /// Whether more bytes of a peer are to be read.
    pub(crate) fn wants_input(&self, id: PeerId) -> bool {
        let received = self.get(id).map_or(0, |peer| peer.inbox.num_there());
        self.is_drained(id) && self.intake.may_come(id, received)
    }

    /// Takes a peer that was not to be read while messages of others came, and is to be read again.
    pub(crate) fn poll_resumed(&mut self) -> Option<PeerId> {
        self.intake.poll_resumed()
    }

    /// Whether the message of any peer may not come yet.
    pub(crate) fn any_input_waits(&self) -> bool {
        self.intake.any_waits()
    }

    /// A turn begins in which messages wait for room.
    pub(crate) fn begin_input_turn(&mut self) {
        let (peers, window) = (&self.peers, self.window);
        self.intake
            .begin_turn(|id| num_received_unless_whole(peers.get(&id)?, window));
    }

    /// A turn ends in which messages waited for room. Returns the peers whose long messages have hardly come
    /// on in so many turns and have to make room.
    pub(crate) fn end_input_turn(&mut self, patience: u64) -> Vec<PeerId> {
        let (peers, window) = (&self.peers, self.window);
        self.intake.end_turn(patience, |id| {
            num_received_unless_whole(peers.get(&id)?, window)
        })
    }

    /// Queues a peer for its turn, if there is a message of it that can be handled: while a peer is owed more than a
    /// window, it is served no further. One that is closed is finished first, so that its process may come again.
    pub(crate) fn enqueue(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let is_served = peer.inbox.has_frame() && peer.queued_bytes < self.window;
        if !(is_served || peer.is_closed) {
            return;
        }
        if peer.account.is_queued() {
            if !peer.is_closed || peer.account.is_first() {
                return;
            }
            // Its messages were queued before it closed: it does not wait for the turn that its account gives it.
            self.ready.remove(&mut peer.account);
        }
        self.ready.push(id, &mut peer.account, peer.is_closed);
    }

    /// Takes the next peer of which a message is to be handled.
    pub(crate) fn next_ready(&mut self) -> Option<PeerId> {
        let id = self.ready.first()?;
        if let Some(peer) = self.peers.get_mut(&id) {
            self.ready.take(&mut peer.account);
        }
        Some(id)
    }

    /// Adds the cost of the last message of a peer to its account.
    pub(crate) fn charge(&mut self, id: PeerId, cost: Duration) {
        if let Some(peer) = self.peers.get_mut(&id) {
            self.ready.charge(id, &mut peer.account, cost);
        }
    }

    /// Whether messages of any peer are to be handled.
    pub(crate) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The other end of a connection is closed: nothing more is sent to it.
    pub(crate) fn mark_closed(&mut self, id: PeerId) {
        if let Some(peer) = self.get_mut(id) {
            peer.is_closed = true;
            peer.is_mute = true;
            peer.queued_bytes = 0;
        }
    }

    /// Whether a peer is closed and only what it said before is to be handled.
    pub(crate) fn is_closed(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.is_closed)
    }

    /// Whether nothing is under way between a peer and this server: no request waits for its answer, no bytes are to
    /// be written, and none are there of a message.
    pub(crate) fn is_idle(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| {
            let is_open = !(peer.is_closed || peer.is_mute);
            let is_read = !(peer.inbox.has_frame() || peer.inbox.is_inside_frame());
            is_open && is_read && peer.num_open == 0 && peer.queued_bytes == 0
        })
    }

    /// Whether no message of a peer waits to be handled.
    pub(crate) fn is_drained(&self, id: PeerId) -> bool {
        self.get(id).is_none_or(|peer| !peer.inbox.has_frame())
    }

    /// How many requests wait for their answers, and how many bytes to be written.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let peers = self.peers.values();
        peers.fold((0, 0), |(open, bytes), peer| {
            (open + peer.num_open, bytes + peer.queued_bytes)
        })
    }

    /// How many connections have not said who they are.
    pub(crate) fn num_handshaking(&self) -> usize {
        let peers = self.peers.values();
        let handshaking = peers.filter(|peer| peer.phase.is_handshake());
        handshaking.count()
    }

    /// All connections, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.peers.iter().map(|(id, peer)| (*id, peer))
    }

    /// Returns how many peers there are of which messages are to be handled.
    pub(crate) fn num_to_handle(&self) -> usize {
        self.ready.len()
    }

    /// How many bytes of long messages are counted, and how many may come.
    pub(crate) fn input_bytes(&self) -> (usize, usize) {
        self.intake.bytes()
    }

    /// How many peers are marked as those whose turn is to come, and how many stand in the queue.
    pub(crate) fn num_ready(&self) -> (usize, usize) {
        let marked = self.peers.values().filter(|peer| peer.account.is_queued());
        let queued: BTreeSet<_> = self.ready.iter().collect();
        let queued = queued.into_iter().filter(|id| self.peers.contains_key(id));
        (marked.count(), queued.count())
    }

    /// How many messages the driver has not taken yet.
    pub(crate) fn num_queued(&self) -> usize {
        self.outbox.len()
    }

    /// Takes a request of so many bytes on, and the duty to answer it.
    pub(crate) fn ticket(&mut self, id: PeerId, tag: Tag, num_bytes: usize) -> Ticket {
        if let Some(peer) = self.get_mut(id) {
            peer.num_open += 1;
            peer.open_bytes = peer.open_bytes.saturating_add(num_bytes);
            self.open_bytes = self.open_bytes.saturating_add(num_bytes);
        }
        Ticket::new(id, tag, num_bytes)
    }

    /// How many requests of a peer wait for their answers, and how many bytes they had.
    pub(crate) fn open(&self, id: PeerId) -> (usize, usize) {
        let peer = self.get(id);
        peer.map_or((0, 0), |peer| (peer.num_open, peer.open_bytes))
    }

    /// Returns how many bytes the requests of all peers had that wait for their answers.
    pub(crate) const fn open_bytes(&self) -> usize {
        self.open_bytes
    }

    /// A request is off the books.
    pub(crate) fn settle(&mut self, ticket: Ticket) {
        if let Some(peer) = self.get_mut(ticket.peer()) {
            peer.num_open = peer.num_open.saturating_sub(1);
            peer.open_bytes = peer.open_bytes.saturating_sub(ticket.num_bytes());
            self.open_bytes = self.open_bytes.saturating_sub(ticket.num_bytes());
        }
    }

    /// Sends nothing more to a peer, whose connection is to be closed. Returns whether it was
    /// neither gone nor mute before, or closed and still to be finished.
    pub(crate) fn mute(&mut self, id: PeerId) -> bool {
        let peer = self.get_mut(id);
        peer.is_some_and(|peer| !std::mem::replace(&mut peer.is_mute, true) || peer.is_closed)
    }

    /// Queues a frame for a peer that was let in. A peer that is gone gets nothing.
    ///
    /// Tells how many bytes waited for the peer before.
    pub(crate) fn send(&mut self, id: PeerId, tag: Tag, payload: Payload) -> usize {
        let Ok(len) = u32::try_from(payload.as_bytes().len()) else {
            tracing::error!(peer = %id, %tag, "a message of 4 GiB or more cannot be sent");
            return 0;
        };
        let header = Header::new(0, tag, len);
        self.queue(id, Chunk::framed(&header, payload))
    }

    /// Queues bytes that stand before all frames.
    pub(crate) fn send_bare(&mut self, id: PeerId, bytes: Vec<u8>) {
        self.queue(id, Chunk::bare(bytes));
    }

    fn queue(&mut self, id: PeerId, bytes: Chunk) -> usize {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.is_mute) else {
            return 0;
        };
        let before = peer.queued_bytes;
        peer.queued_bytes += bytes.len();
        self.outbox.push_back(Transmit { peer: id, bytes });
        before
    }

    /// The driver wrote so many bytes for a peer.
    pub(crate) fn written(&mut self, id: PeerId, num_bytes: usize) {
        if let Some(peer) = self.get_mut(id) {
            peer.queued_bytes = peer.queued_bytes.saturating_sub(num_bytes);
        }
    }

    /// Whether a peer has sent another message than those that were handled.
    pub(crate) fn has_more(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.inbox.has_frame())
    }

    /// Whether less than a window waits for a peer to be written.
    pub(crate) fn has_room(&self, id: PeerId) -> bool {
        self.queued_bytes(id) < self.window
    }

    /// How many bytes the driver has not written yet for a peer.
    pub(crate) fn queued_bytes(&self, id: PeerId) -> usize {
        self.get(id).map_or(0, |peer| peer.queued_bytes)
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outbox.pop_front()
    }
}

/// How many bytes of a long message are there, unless it is there as a whole and waits for the
/// server. One that is not handled because its peer does not read its replies waits for the peer.
fn num_received_unless_whole(peer: &Peer, window: usize) -> Option<usize> {
    match peer.inbox.has_frame() {
        true if peer.queued_bytes < window => None,
        _ => Some(peer.inbox.num_held()),
    }
}
