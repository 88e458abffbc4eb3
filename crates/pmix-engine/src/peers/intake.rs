// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long messages that are coming: together they take so many bytes and no more.
//!
//! A short message of any peer may always come, and so may the beginning of a long one. The room for long ones is
//! divided among three classes of lengths, each of which has a quarter: those of at most an equal share of that
//! quarter for each connection, those of at most an eighth of it, and longer ones. Within a class a message may
//! come on once there is room for all that it announces, so that whoever has begun can end; others are not read
//! until then. First those whose beginning is there, then the others, each in the order in which they came.
//!
//! Time goes in turns while others of a class wait. A message that hardly came on in a turn goes behind those that
//! wait, with what is there of it: the last quarter has room for that. So whoever announces a message and sends
//! little of it delays nobody whose message is coming, and whoever sends much of it and then no more delays them by
//! a turn. When the last quarter is full, whoever has not come on for longest is refused, but no sooner than it
//! was given patience.
//!
//! So a message waits behind others of its class only, and one of at most a share behind none: a
//! connection has one message coming, and as many shares as there are connections fit. Those that were
//! announced while there were fewer connections may fill the room; they have to come on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::PeerId;

/// A message of no more bytes is short.
const SHORT: usize = 128 << 10;

/// How many bytes of a long message have to come in a turn while others wait for its room, at the least.
const PROGRESS: usize = 128 << 10;

/// In how many turns a message of any length has to come while others wait.
const TURNS: usize = 64;

/// The most bytes that a message of the first class has.
const MAX_SHARE: usize = 1 << 20;

/// Among how many connections the room of the first class is shared at the least.
const SHARES: usize = 64;

/// The part of the room of its class that a message of the second class has at the most.
const EIGHTH: usize = 8;

/// How many classes there are.
const CLASSES: usize = 3;

/// The long messages that are coming.
#[derive(Debug)]
pub(super) struct Intake {
    /// How many bytes those of one class may have together, if it is not one alone; and how many there
    /// may be of those that are paused, of all classes.
    most: usize,
    /// Those of at most a share, those of at most an eighth, and longer ones.
    classes: [Class; CLASSES],
    paused: Paused,
    last: u64,
    /// How many turns have ended.
    turn: u64,
    /// Peers that may be read again.
    resumed: VecDeque<PeerId>,
}

/// The long messages of one class that are coming.
#[derive(Debug, Default)]
struct Class {
    num_bytes: usize,
    /// Those that may come.
    admitted: BTreeMap<PeerId, Admitted>,
    /// Those that may not come on yet, in the order in which they are to.
    waiting: BTreeMap<Place, PeerId>,
    /// What is known of each of these.
    waits: BTreeMap<PeerId, Waits>,
}

/// A place in the order: first those whose beginning is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    is_only_announced: bool,
    number: u64,
}

#[derive(Debug)]
struct Admitted {
    len: usize,
    /// How much of it was there when the turn began; nothing is known of one that came later, or
    /// if nobody waited then.
    before: Option<usize>,
    /// The turn since which it has hardly come on.
    late_since: Option<u64>,
}

#[derive(Debug)]
struct Waits {
    place: Place,
    len: usize,
    /// The turn since which it had hardly come on when it was paused.
    late_since: Option<u64>,
}

/// Messages that came on hardly, with more than a beginning.
#[derive(Debug, Default)]
struct Paused {
    num_bytes: usize,
    /// How much is there of each, and the turn since which it has hardly come on.
    peers: BTreeMap<PeerId, (usize, u64)>,
    /// Those that have not come on for longest first.
    by_turn: BTreeSet<(u64, PeerId)>,
}

impl Intake {
    /// Messages that may have so many bytes together.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most / (CLASSES + 1),
            classes: Default::default(),
            paused: Paused::default(),
            last: 0,
            turn: 0,
            resumed: VecDeque::new(),
        }
    }

    /// A peer, of so many that are connected, has announced a message of so many bytes, of which some are
    /// there; none is coming if there are none.
    pub(super) fn announced(
        &mut self,
        peer: PeerId,
        len: usize,
        received: usize,
        num_peers: usize,
    ) {
        if len <= SHORT {
            return;
        }
        if self.classes.iter().any(|class| class.knows(peer)) {
            return self.came(peer, received);
        }
        let [shares, eighths, longer] = &mut self.classes;
        let class = match len {
            len if len <= MAX_SHARE.min(self.most / num_peers.max(SHARES)) => shares,
            len if len <= self.most / EIGHTH => eighths,
            _ => longer,
        };
        class.begin();
        self.last += 1;
        class.wait(place(self.last, received), peer, len, None);
        class.admit(self.most, &mut self.paused, &mut self.resumed);
        // Nobody has been told that it is not read. It is the last that was let in, if it was.
        if self.resumed.back() == Some(&peer) {
            self.resumed.pop_back();
        }
    }

    /// More of a message is there: it goes before those of which less than the beginning is.
    fn came(&mut self, peer: PeerId, received: usize) {
        let waits = |class: &&mut Class| class.waits.contains_key(&peer);
        let Some(class) = self.classes.iter_mut().find(waits) else {
            return;
        };
        if class.came(peer, received) {
            class.admit(self.most, &mut self.paused, &mut self.resumed);
        }
    }

    /// A message of a peer with so many bytes is taken, or its connection is gone.
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

    /// The bytes that are counted, and those of the messages that may come or are paused.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let admitted = { self.classes.iter() }.flat_map(|class| class.admitted.values());
        let paused = self.paused.peers.values().map(|(received, _)| *received);
        let counted = self.classes.iter().map(|class| class.num_bytes);
        (
            counted.sum::<usize>() + self.paused.num_bytes,
            admitted.map(|admitted| admitted.len).chain(paused).sum(),
        )
    }

    /// Whether a peer may be read, of whose message so many bytes are there.
    pub(super) fn may_come(&self, peer: PeerId, received: usize) -> bool {
        let mut classes = self.classes.iter();
        received < SHORT || classes.all(|class| !class.waits.contains_key(&peer))
    }

    /// Whether any message may not come on yet.
    pub(super) fn any_waits(&self) -> bool {
        self.classes.iter().any(|class| !class.waiting.is_empty())
    }

    /// Takes a peer that may be read again.
    pub(super) fn poll_resumed(&mut self) -> Option<PeerId> {
        self.resumed.pop_front()
    }

    /// A turn begins in which others wait, given how many bytes of a message of a peer are there.
    pub(super) fn begin_turn(&mut self, received: impl Fn(PeerId) -> Option<usize>) {
        let waited_for = { self.classes.iter_mut() }.filter(|class| !class.waiting.is_empty());
        for (peer, admitted) in waited_for.flat_map(|class| &mut class.admitted) {
            admitted.before = Some(received(*peer).unwrap_or_default());
        }
    }

    /// A turn has ended in which others waited: messages that hardly came on since it began, while others
    /// of their class waited, go behind them. Given is how many bytes of a message of a peer are there, unless
    /// it is the server that has not handled it. Returns the peers that are to be refused: those who have
    /// hardly come on for so many turns, and for which there is no room.
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
        for peer in &refused {
            self.ended(*peer, usize::MAX);
        }
        refused
    }

    /// Makes room for so many bytes of a message that is to be paused, if some have waited long enough to be refused.
    fn make_room(&mut self, patience: u64, received: usize, refused: &mut Vec<PeerId>) -> bool {
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
        class.wait(place(self.last, received), peer, len, Some(since));
        if received > SHORT {
            self.paused.add(peer, received, since);
        }
    }
}

/// The place of a message that is the next one to wait, of which so many bytes are there.
const fn place(number: u64, received: usize) -> Place {
    let is_only_announced = received < SHORT;
    Place {
        is_only_announced,
        number,
    }
}

impl Class {
    fn knows(&self, peer: PeerId) -> bool {
        self.admitted.contains_key(&peer) || self.waits.contains_key(&peer)
    }

    /// Somebody comes who may have to wait.
    fn begin(&mut self) {
        if self.waiting.is_empty() {
            // Nobody waited while these came.
            for admitted in self.admitted.values_mut() {
                admitted.before = None;
            }
        }
    }

    fn wait(&mut self, place: Place, peer: PeerId, len: usize, late_since: Option<u64>) {
        self.waiting.insert(place, peer);
        let waits = Waits {
            place,
            len,
            late_since,
        };
        self.waits.insert(peer, waits);
    }

    /// Whether a message goes before others now that so many bytes of it are there.
    fn came(&mut self, peer: PeerId, received: usize) -> bool {
        let Some(waits) = self.waits.get_mut(&peer) else {
            return false;
        };
        if received < SHORT || !waits.place.is_only_announced {
            return false;
        }
        self.waiting.remove(&waits.place);
        waits.place.is_only_announced = false;
        self.waiting.insert(waits.place, peer);
        true
    }

    /// Whether a message of a peer is forgotten.
    fn ended(&mut self, peer: PeerId) -> bool {
        if let Some(waits) = self.waits.remove(&peer) {
            return self.waiting.remove(&waits.place).is_some();
        }
        self.release(peer).is_some()
    }

    /// Forgets a message that may come, and returns its length.
    fn release(&mut self, peer: PeerId) -> Option<usize> {
        let len = self.admitted.remove(&peer)?.len;
        self.num_bytes = self.num_bytes.saturating_sub(len);
        Some(len)
    }

    /// Lets messages come on that there is room for.
    fn admit(&mut self, most: usize, paused: &mut Paused, resumed: &mut VecDeque<PeerId>) {
        while let Some((_, &peer)) = self.waiting.first_key_value() {
            let len = self.waits.get(&peer).map_or(0, |waits| waits.len);
            let num_bytes = self.num_bytes.saturating_add(len);
            if num_bytes > most && !self.admitted.is_empty() {
                return;
            }
            self.waiting.pop_first();
            let late_since = self.waits.remove(&peer).and_then(|waits| waits.late_since);
            paused.remove(peer);
            self.num_bytes = num_bytes;
            let admitted = Admitted {
                len,
                before: None,
                late_since,
            };
            self.admitted.insert(peer, admitted);
            resumed.push_back(peer);
        }
    }

    /// Those that hardly came on in a turn, how much is there of each, and since which turn.
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

impl Paused {
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
