// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limit of memory for partially received long messages.
//!
//! The server always reads short messages and the beginnings of long ones. Long messages fall into three classes by
//! length. Each class may use a quarter of the limit:
//!
//! - messages of at most an equal share of the quarter for each connection;
//! - messages of at most an eighth of the quarter;
//! - longer messages.
//!
//! A message is admitted once its class has room for its full announced length, so an admitted message can always be
//! completed. Until then the server stops reading from the peer after the beginning. Messages with a complete beginning
//! are admitted first, in order of arrival, then the others.
//!
//! While messages of a class wait, time is divided into turns. An admitted message that makes little progress in a turn
//! is paused: it is queued after the waiting messages, and its received bytes count against the last quarter. A peer
//! that announces a message and sends little of it therefore delays no complete message, and a peer that stops in the
//! middle delays others by one turn. When the last quarter is full, the peer that has stalled longest is disconnected,
//! but not before its patience has passed.
//!
//! A message waits only for others of its class, and a message of at most a share never waits: each connection has one
//! partial message, and there is a share for each connection. Messages announced while there were fewer connections may
//! exceed their share; they must make progress, too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::PeerId;

/// The greatest length of a short message.
const SHORT: usize = 128 << 10;

/// The minimum of bytes to receive in a turn while other messages wait for room.
const PROGRESS: usize = 128 << 10;

/// The greatest number of turns for a message of any length while others wait.
const TURNS: usize = 64;

/// The greatest length of a message of the first class.
const MAX_SHARE: usize = 1 << 20;

/// The minimum number of shares of the first class.
const SHARES: usize = 64;

/// The greatest message of the second class, as a fraction of the quarter.
const EIGHTH: usize = 8;

/// The number of classes.
const CLASSES: usize = 3;

/// The partially received long messages.
#[derive(Debug)]
pub(super) struct Intake {
    /// The limit in bytes of the messages of one class, unless the class has a single message; also the limit of the
    /// paused bytes of all classes.
    most: usize,
    /// The classes in ascending order of length.
    classes: [LengthClass; CLASSES],
    paused: PausedMessages,
    last: u64,
    /// The number of completed turns.
    turn: u64,
    /// Peers that may be read again.
    resumed: VecDeque<PeerId>,
}

/// The long messages of one class.
#[derive(Debug, Default)]
struct LengthClass {
    num_bytes: usize,
    /// The messages that are being received.
    admitted: BTreeMap<PeerId, AdmittedMessage>,
    /// The messages that wait for room, in order.
    waiting: BTreeMap<QueuePosition, PeerId>,
    /// The details of the waiting messages.
    waits: BTreeMap<PeerId, WaitingMessage>,
}

/// The position in the queue: messages with a complete beginning come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    is_only_announced: bool,
    number: u64,
}

#[derive(Debug)]
struct AdmittedMessage {
    len: usize,
    /// The bytes received before the turn began; `None` for a message admitted later, or if no message waited then.
    before: Option<usize>,
    /// The first of the consecutive turns with little progress.
    late_since: Option<u64>,
}

#[derive(Debug)]
struct WaitingMessage {
    position: QueuePosition,
    len: usize,
    /// The first of the consecutive turns with little progress before the message was paused.
    late_since: Option<u64>,
}

/// Messages that made little progress and hold more than a beginning.
#[derive(Debug, Default)]
struct PausedMessages {
    num_bytes: usize,
    /// The received bytes of each message, and the first of its turns with little progress.
    peers: BTreeMap<PeerId, (usize, u64)>,
    /// The paused peers, with the longest stalled first.
    by_turn: BTreeSet<(u64, PeerId)>,
}

impl Intake {
    /// Creates an intake that limits messages to `most` bytes together.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most / (CLASSES + 1),
            classes: Default::default(),
            paused: PausedMessages::default(),
            last: 0,
            turn: 0,
            resumed: VecDeque::new(),
        }
    }

    /// Registers a message of `len` bytes that a peer has announced, `received` of which have arrived; 0 for no
    /// message.
    pub(super) fn announced(
        &mut self,
        peer: PeerId,
        len: usize,
        received: usize,
        num_peers: usize,
    ) {
        // Short messages are always read, so they need no room.
        if len <= SHORT {
            return;
        }
        // A connection has one partial message, so these are further bytes of the same one.
        if self.classes.iter().any(|class| class.knows(peer)) {
            return self.received_more(peer, received);
        }
        let [shares, eighths, longer] = &mut self.classes;
        let class = match len {
            len if len <= MAX_SHARE.min(self.most / num_peers.max(SHARES)) => shares,
            len if len <= self.most / EIGHTH => eighths,
            _ => longer,
        };
        class.begin();
        self.last += 1;
        class.wait(position(self.last, received), peer, len, None);
        class.admit(self.most, &mut self.paused, &mut self.resumed);
        // The driver has not stopped reading from this peer, so there is nothing to resume. A peer admitted just now is
        // the last in the list.
        if self.resumed.back() == Some(&peer) {
            self.resumed.pop_back();
        }
    }

    /// Records that more bytes of a message arrived. A waiting message with a complete beginning moves forward.
    fn received_more(&mut self, peer: PeerId, received: usize) {
        let waits = |class: &&mut LengthClass| class.waits.contains_key(&peer);
        let Some(class) = self.classes.iter_mut().find(waits) else {
            return;
        };
        if class.received_more(peer, received) {
            class.admit(self.most, &mut self.paused, &mut self.resumed);
        }
    }

    /// Releases the room of a message that was taken or whose connection was closed.
    pub(super) fn ended(&mut self, peer: PeerId, len: usize) {
        if len <= SHORT {
            return;
        }
        self.paused.remove(peer);
        for class in &mut self.classes {
            if class.ended(peer) {
                class.admit(self.most, &mut self.paused, &mut self.resumed);
            }
        }
    }

    /// Returns the counted bytes, and the bytes of the admitted and paused messages.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let admitted = { self.classes.iter() }.flat_map(|class| class.admitted.values());
        let paused = self.paused.peers.values().map(|(received, _)| *received);
        let counted = self.classes.iter().map(|class| class.num_bytes);
        (
            counted.sum::<usize>() + self.paused.num_bytes,
            admitted.map(|admitted| admitted.len).chain(paused).sum(),
        )
    }

    /// Returns `true` if the server may read from a peer, given the received bytes of its message.
    pub(super) fn may_receive(&self, peer: PeerId, received: usize) -> bool {
        let mut classes = self.classes.iter();
        received < SHORT || classes.all(|class| !class.waits.contains_key(&peer))
    }

    /// Returns `true` if any message waits for room.
    pub(super) fn any_waits(&self) -> bool {
        self.classes.iter().any(|class| !class.waiting.is_empty())
    }

    /// Returns a peer that may be read again.
    pub(super) fn poll_resumed(&mut self) -> Option<PeerId> {
        self.resumed.pop_front()
    }

    /// Starts a turn, given the received bytes of each peer's message.
    pub(super) fn begin_turn(&mut self, received: impl Fn(PeerId) -> Option<usize>) {
        let waited_for = { self.classes.iter_mut() }.filter(|class| !class.waiting.is_empty());
        for (peer, admitted) in waited_for.flat_map(|class| &mut class.admitted) {
            admitted.before = Some(received(*peer).unwrap_or_default());
        }
    }

    /// Ends a turn: pauses the messages that made little progress while others of their class waited. `received`
    /// returns the received bytes of a peer's message, or `None` if the message is complete and waits for the server.
    /// Returns the peers to disconnect: those without room that made little progress for `patience` turns.
    pub(super) fn end_turn(
        &mut self,
        patience: u64,
        received: impl Fn(PeerId) -> Option<usize>,
    ) -> Vec<PeerId> {
        self.turn += 1;
        let mut refused = Vec::new();
        for number in 0..CLASSES {
            let Some(class) = self.classes.get_mut(number) else {
                continue;
            };
            if class.waiting.is_empty() {
                continue;
            }
            for (peer, received, since) in class.late(self.turn, &received) {
                let is_refused = self.turn.saturating_sub(since) >= patience;
                if self.make_room(patience, received, &mut refused) {
                    self.pause(number, peer, received, since);
                } else if is_refused {
                    refused.push(peer);
                }
            }
            if let Some(class) = self.classes.get_mut(number) {
                class.admit(self.most, &mut self.paused, &mut self.resumed);
            }
        }
        // The room is free at once, although the connections close only after the current subsystem has returned.
        for peer in &refused {
            self.ended(*peer, usize::MAX);
        }
        refused
    }

    /// Returns `true` if there is room for the received bytes of a message to be paused. Disconnects paused peers that
    /// have used up their patience to make room.
    fn make_room(&mut self, patience: u64, received: usize, refused: &mut Vec<PeerId>) -> bool {
        // A beginning is always allowed and does not count.
        if received <= SHORT || received > self.most {
            return received <= SHORT;
        }
        while self.paused.num_bytes.saturating_add(received) > self.most {
            let oldest = self.paused.by_turn.first().copied();
            let oldest = oldest.filter(|(since, _)| self.turn.saturating_sub(*since) >= patience);
            let Some((_, peer)) = oldest else {
                return false;
            };
            self.paused.remove(peer);
            refused.push(peer);
        }
        true
    }

    fn pause(&mut self, class: usize, peer: PeerId, received: usize, since: u64) {
        let Some(class) = self.classes.get_mut(class) else {
            return;
        };
        let Some(len) = class.release(peer) else {
            return;
        };
        self.last += 1;
        class.wait(position(self.last, received), peer, len, Some(since));
        if received > SHORT {
            self.paused.add(peer, received, since);
        }
    }
}

/// Returns the position of the next waiting message, given its received bytes.
const fn position(number: u64, received: usize) -> QueuePosition {
    let is_only_announced = received < SHORT;
    QueuePosition {
        is_only_announced,
        number,
    }
}

impl LengthClass {
    fn knows(&self, peer: PeerId) -> bool {
        self.admitted.contains_key(&peer) || self.waits.contains_key(&peer)
    }

    /// Prepares for a message that may have to wait.
    fn begin(&mut self) {
        if self.waiting.is_empty() {
            // No message waited before, so these messages did not have to make progress.
            for admitted in self.admitted.values_mut() {
                admitted.before = None;
            }
        }
    }

    fn wait(&mut self, position: QueuePosition, peer: PeerId, len: usize, late_since: Option<u64>) {
        self.waiting.insert(position, peer);
        let waits = WaitingMessage {
            position,
            len,
            late_since,
        };
        self.waits.insert(peer, waits);
    }

    /// Returns `true` if a waiting message moves forward now that `received` bytes have arrived.
    fn received_more(&mut self, peer: PeerId, received: usize) -> bool {
        let Some(waits) = self.waits.get_mut(&peer) else {
            return false;
        };
        if received < SHORT || !waits.position.is_only_announced {
            return false;
        }
        self.waiting.remove(&waits.position);
        waits.position.is_only_announced = false;
        self.waiting.insert(waits.position, peer);
        true
    }

    /// Removes the message of a peer and returns `true` if that can make room or change the order.
    fn ended(&mut self, peer: PeerId) -> bool {
        if let Some(waits) = self.waits.remove(&peer) {
            return self.waiting.remove(&waits.position).is_some();
        }
        self.release(peer).is_some()
    }

    /// Removes an admitted message and returns its length.
    fn release(&mut self, peer: PeerId) -> Option<usize> {
        let len = self.admitted.remove(&peer)?.len;
        self.num_bytes = self.num_bytes.saturating_sub(len);
        Some(len)
    }

    /// Admits the waiting messages that there is room for.
    fn admit(&mut self, most: usize, paused: &mut PausedMessages, resumed: &mut VecDeque<PeerId>) {
        while let Some((_, &peer)) = self.waiting.first_key_value() {
            let len = self.waits.get(&peer).map_or(0, |waits| waits.len);
            let num_bytes = self.num_bytes.saturating_add(len);
            // A message longer than the quarter is admitted alone; otherwise it would wait forever.
            if num_bytes > most && !self.admitted.is_empty() {
                return;
            }
            self.waiting.pop_first();
            let late_since = self.waits.remove(&peer).and_then(|waits| waits.late_since);
            paused.remove(peer);
            self.num_bytes = num_bytes;
            let admitted = AdmittedMessage {
                len,
                before: None,
                late_since,
            };
            self.admitted.insert(peer, admitted);
            resumed.push_back(peer);
        }
    }

    /// Returns the messages with little progress in this turn, with their received bytes and the first such turn.
    fn late(
        &mut self,
        turn: u64,
        received: impl Fn(PeerId) -> Option<usize>,
    ) -> Vec<(PeerId, usize, u64)> {
        let mut late = Vec::new();
        for (peer, admitted) in &mut self.admitted {
            let Some((before, now)) = admitted.before.zip(received(*peer)) else {
                continue;
            };
            match now.saturating_sub(before) < PROGRESS.max(admitted.len / TURNS) {
                true => {
                    let since = *admitted.late_since.get_or_insert(turn - 1);
                    late.push((*peer, now, since));
                }
                false => admitted.late_since = None,
            }
        }
        late
    }
}

impl PausedMessages {
    fn add(&mut self, peer: PeerId, received: usize, since: u64) {
        self.num_bytes = self.num_bytes.saturating_add(received);
        self.peers.insert(peer, (received, since));
        self.by_turn.insert((since, peer));
    }

    fn remove(&mut self, peer: PeerId) {
        if let Some((received, since)) = self.peers.remove(&peer) {
            self.num_bytes = self.num_bytes.saturating_sub(received);
            self.by_turn.remove(&(since, peer));
        }
    }
}

#[cfg(test)]
mod tests;
