// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections and their queued output.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pmix_proto::{Frame, Header, Tag};
use pmix_types::Nspace;

use super::intake::Intake;
use super::turns::Turns;
use super::{Chunk, Member, Payload, Peer, PeerId, Ticket, Transmit};

/// The connections and their queued output.
#[derive(Debug)]
pub(crate) struct Peers {
    /// The number of unread bytes from which on a peer's requests are not handled.
    window: usize,
    last: u64,
    peers: HashMap<PeerId, Peer>,
    outbox: VecDeque<Transmit>,
    /// The bytes of all requests without a reply.
    open_bytes: usize,
    /// Peers with messages to be handled.
    ready: Turns,
    /// The partially received long messages.
    intake: Intake,
}

impl Peers {
    /// Creates an empty table. Peers with `window` or more unread bytes are not served. Partial long messages are
    /// limited to `input_bytes` together.
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
        // The length of its partial message is unknown here; this value counts as long.
        self.intake.ended(id, usize::MAX);
        Some(peer)
    }

    /// Returns the process at the other end of an admitted connection.
    pub(crate) fn member(&self, id: PeerId) -> Option<&Member> {
        self.get(id)?.member()
    }

    /// Returns all admitted peers, in no order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (PeerId, &Member)> {
        let peers = self.peers.iter();
        peers.filter_map(|(id, peer)| Some((*id, peer.member()?)))
    }

    /// Records that a peer has received the complete info of a job.
    pub(crate) fn knows_job(&mut self, id: PeerId, nspace: &Nspace<'static>) {
        if let Some(member) = self.get_mut(id).and_then(Peer::member_mut) {
            member.knows.insert(nspace.clone());
        }
    }

    /// Forgets that peers know a job, because a later job of this name is another job.
    pub(crate) fn forget_job(&mut self, nspace: &Nspace<'_>) {
        let members = self.peers.values_mut().filter_map(Peer::member_mut);
        members.for_each(|member| {
            member.knows.remove(nspace.as_bytes());
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Adds received bytes of a peer.
    pub(crate) fn push(&mut self, id: PeerId, bytes: &[u8]) {
        let num_peers = self.peers.len();
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.inbox.push(bytes);
            let (announced, received) = (peer.inbox.announced(), peer.inbox.num_there());
            self.intake.announced(id, announced, received, num_peers);
        }
    }

    /// Returns the next message of a peer.
    ///
    /// # Errors
    ///
    /// Returns the error of [`pmix_proto::Inbox::next_frame`].
    pub(crate) fn next_frame(&mut self, id: PeerId) -> Result<Option<Frame>, pmix_proto::Error> {
        let num_peers = self.peers.len();
        let Some(peer) = self.peers.get_mut(&id) else {
            return Ok(None);
        };
        let frame = peer.inbox.next_frame()?;
        if let Some(frame) = &frame {
            // The buffer may already hold the beginning of the next long message.
            self.intake.ended(id, frame.payload.len());
            let (announced, received) = (peer.inbox.announced(), peer.inbox.num_there());
            self.intake.announced(id, announced, received, num_peers);
        }
        Ok(frame)
    }

    /// Returns `true` if the driver should read more bytes from a peer.
    pub(crate) fn wants_input(&self, id: PeerId) -> bool {
        let received = self.get(id).map_or(0, |peer| peer.inbox.num_there());
        self.is_drained(id) && self.intake.may_receive(id, received)
    }

    /// Returns a peer that had to wait for room and should be read again.
    pub(crate) fn poll_resumed(&mut self) -> Option<PeerId> {
        self.intake.poll_resumed()
    }

    /// Returns `true` if the message of any peer waits for room.
    pub(crate) fn any_input_waits(&self) -> bool {
        self.intake.any_waits()
    }

    /// Starts a turn in which messages wait for room.
    pub(crate) fn begin_input_turn(&mut self) {
        let (peers, window) = (&self.peers, self.window);
        self.intake
            .begin_turn(|id| num_received_unless_whole(peers.get(&id)?, window));
    }

    /// Ends a turn in which messages waited for room. Returns the peers that made little progress for `patience` turns
    /// and must be disconnected to make room.
    pub(crate) fn end_input_turn(&mut self, patience: u64) -> Vec<PeerId> {
        let (peers, window) = (&self.peers, self.window);
        self.intake.end_turn(patience, |id| {
            num_received_unless_whole(peers.get(&id)?, window)
        })
    }

    /// Records whether the last message of a peer has further parts.
    pub(crate) fn set_unfinished(&mut self, id: PeerId, is_unfinished: bool) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.is_unfinished = is_unfinished;
            self.enqueue(id);
        }
    }

    /// Returns `true` if the last message of a peer has further parts.
    pub(crate) fn is_unfinished(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.is_unfinished)
    }

    /// Returns `true` if a message of a peer, or a part of one, can be handled.
    pub(crate) fn can_be_served(&self, id: PeerId) -> bool {
        let peer = self.get(id);
        peer.is_some_and(|peer| peer.can_be_served(self.window))
    }

    /// Queues a peer if it has a message that can be handled. A peer with a window of unread bytes is not served. A
    /// closed peer is served first, so that its process can connect again.
    pub(crate) fn enqueue(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        if !(peer.can_be_served(self.window) || peer.is_closed) {
            return;
        }
        // The parts of a long message of a closed peer take turns with other peers.
        let is_first = peer.is_closed && !peer.is_unfinished;
        if peer.account.is_queued() {
            if !is_first || peer.account.is_first() {
                return;
            }
            // The peer was queued before it closed; closed peers do not wait for the turn of their account.
            self.ready.remove(&mut peer.account);
        }
        self.ready.push(id, &mut peer.account, is_first);
    }

    /// Returns the next peer with a message to be handled.
    pub(crate) fn first_ready(&self) -> Option<PeerId> {
        self.ready.first()
    }

    /// Removes and returns the next peer with a message to be handled.
    pub(crate) fn next_ready(&mut self) -> Option<PeerId> {
        let id = self.first_ready()?;
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

    /// Returns `true` if any peer has a message to be handled.
    pub(crate) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Marks a connection as closed by the other end: no more bytes are sent to it.
    pub(crate) fn mark_closed(&mut self, id: PeerId) {
        if let Some(peer) = self.get_mut(id) {
            peer.is_closed = true;
            peer.is_mute = true;
            // The driver does not write these bytes any more.
            peer.queued_bytes = 0;
        }
    }

    /// Returns `true` if a peer has closed and only received messages remain.
    pub(crate) fn is_closed(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.is_closed)
    }

    /// Returns `true` if a connection is idle: no request waits for a reply, no bytes wait to be written, and no
    /// message has been received in part or in full.
    pub(crate) fn is_idle(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| {
            let is_open = !(peer.is_closed || peer.is_mute);
            let is_read = peer.is_drained() && !peer.inbox.is_inside_frame();
            is_open && is_read && peer.num_open == 0 && peer.queued_bytes == 0
        })
    }

    /// Returns `true` if no message of a peer waits to be handled.
    pub(crate) fn is_drained(&self, id: PeerId) -> bool {
        self.get(id).is_none_or(Peer::is_drained)
    }

    /// Returns the number of requests without a reply, and of bytes not written yet.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let peers = self.peers.values();
        peers.fold((0, 0), |(open, bytes), peer| {
            (open + peer.num_open, bytes + peer.queued_bytes)
        })
    }

    /// Returns the number of connections in their handshake.
    pub(crate) fn num_handshaking(&self) -> usize {
        let peers = self.peers.values();
        let handshaking = peers.filter(|peer| peer.phase.is_handshake());
        handshaking.count()
    }

    /// Returns all connections, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.peers.iter().map(|(id, peer)| (*id, peer))
    }

    /// Returns the number of peers with messages to be handled.
    pub(crate) fn num_to_handle(&self) -> usize {
        self.ready.len()
    }

    /// Returns the counted bytes of long messages, and their actual bytes.
    pub(crate) fn input_bytes(&self) -> (usize, usize) {
        self.intake.bytes()
    }

    /// Returns the number of peers marked as queued, and of peers in the queue.
    pub(crate) fn num_ready(&self) -> (usize, usize) {
        let marked = self.peers.values().filter(|peer| peer.account.is_queued());
        let queued: BTreeSet<_> = self.ready.iter().collect();
        let queued = queued.into_iter().filter(|id| self.peers.contains_key(id));
        (marked.count(), queued.count())
    }

    /// Returns the number of transmits that the driver has not taken.
    pub(crate) fn num_queued(&self) -> usize {
        self.outbox.len()
    }

    /// Registers a request and returns the ticket for its reply.
    pub(crate) fn ticket(&mut self, id: PeerId, tag: Tag, num_bytes: usize) -> Ticket {
        if let Some(peer) = self.get_mut(id) {
            peer.num_open += 1;
            peer.open_bytes = peer.open_bytes.saturating_add(num_bytes);
            self.open_bytes = self.open_bytes.saturating_add(num_bytes);
        }
        Ticket::new(id, tag, num_bytes)
    }

    /// Returns the number of a peer's requests without a reply, and their bytes.
    pub(crate) fn open(&self, id: PeerId) -> (usize, usize) {
        let peer = self.get(id);
        peer.map_or((0, 0), |peer| (peer.num_open, peer.open_bytes))
    }

    /// Returns the bytes of all requests without a reply.
    pub(crate) const fn open_bytes(&self) -> usize {
        self.open_bytes
    }

    /// Ends a request.
    pub(crate) fn settle(&mut self, ticket: Ticket) {
        if let Some(peer) = self.get_mut(ticket.peer()) {
            peer.num_open = peer.num_open.saturating_sub(1);
            peer.open_bytes = peer.open_bytes.saturating_sub(ticket.num_bytes());
            self.open_bytes = self.open_bytes.saturating_sub(ticket.num_bytes());
        }
    }

    /// Stops sending to a peer whose connection is about to be closed. Returns `true` for a connected peer that was not
    /// muted before, and for a closed peer that is still in the table.
    pub(crate) fn mute(&mut self, id: PeerId) -> bool {
        let peer = self.get_mut(id);
        peer.is_some_and(|peer| !std::mem::replace(&mut peer.is_mute, true) || peer.is_closed)
    }

    /// Queues a frame for a peer and returns the bytes queued before it. A frame for a disconnected peer is dropped.
    pub(crate) fn send(&mut self, id: PeerId, tag: Tag, payload: Payload) -> usize {
        let Ok(len) = u32::try_from(payload.as_bytes().len()) else {
            tracing::error!(peer = %id, %tag, "a message of 4 GiB or more cannot be sent");
            return 0;
        };
        let header = Header::new(0, tag, len);
        self.queue(id, Chunk::framed(&header, payload))
    }

    /// Queues complete frames, which peers may share, and returns the bytes queued before them.
    pub(crate) fn send_frames(&mut self, id: PeerId, frames: Arc<Vec<u8>>) -> usize {
        self.queue(id, Chunk::bare(frames))
    }

    /// Queues bytes that precede all frames.
    pub(crate) fn send_bare(&mut self, id: PeerId, bytes: Vec<u8>) {
        self.queue(id, Chunk::bare(bytes));
    }

    fn queue(&mut self, id: PeerId, bytes: Chunk) -> usize {
        // The connection of a muted peer is about to close.
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.is_mute) else {
            return 0;
        };
        let before = peer.queued_bytes;
        peer.queued_bytes += bytes.len();
        self.outbox.push_back(Transmit { peer: id, bytes });
        before
    }

    /// Records that the driver wrote bytes for a peer.
    pub(crate) fn written(&mut self, id: PeerId, num_bytes: usize) {
        if let Some(peer) = self.get_mut(id) {
            peer.queued_bytes = peer.queued_bytes.saturating_sub(num_bytes);
        }
    }

    /// Returns `true` if a peer has another received message.
    pub(crate) fn has_more(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.inbox.has_frame())
    }

    /// Returns `true` if a peer has less than a window of unread bytes.
    pub(crate) fn has_room(&self, id: PeerId) -> bool {
        self.queued_bytes(id) < self.window
    }

    /// Returns the bytes that the driver has not written for a peer.
    pub(crate) fn queued_bytes(&self, id: PeerId) -> usize {
        self.get(id).map_or(0, |peer| peer.queued_bytes)
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outbox.pop_front()
    }
}

/// Returns the received bytes of a long message, or `None` if it is complete and waits for the server. A complete
/// message that is not handled because its peer does not read replies counts as a partial one.
fn num_received_unless_whole(peer: &Peer, window: usize) -> Option<usize> {
    let is_whole = peer.can_be_served(window);
    (!is_whole).then(|| peer.inbox.num_held())
}
