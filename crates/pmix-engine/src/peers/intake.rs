// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long messages that are coming: together they take so many bytes and no more.
//!
//! A short message of any peer may always come. A long one may come as a whole once there is room for
//! all that it announces, so that whoever has begun can end; others are not read until then, in the
//! order in which they announced theirs.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::PeerId;

/// A message of no more bytes is short.
const SHORT: usize = 128 << 10;

/// How many bytes of a long message have to come in a period while others wait for its room, at the
/// least.
const PROGRESS: usize = 1 << 20;

/// In how many periods a message of any length has to come while others wait.
const PERIODS: usize = 8;

/// The long messages that are coming.
#[derive(Debug)]
pub(super) struct Intake {
    /// How many bytes they may have together; one that has more alone comes alone.
    most: usize,
    num_bytes: usize,
    /// Those that may come.
    admitted: BTreeMap<PeerId, Admitted>,
    /// Those that may not come yet, with their lengths, in the order in which they were announced.
    waiting: BTreeMap<u64, (PeerId, usize)>,
    /// The place of each peer among these.
    places: HashMap<PeerId, u64>,
    last: u64,
    /// Peers that may be read again.
    resumed: VecDeque<PeerId>,
}

#[derive(Debug)]
struct Admitted {
    len: usize,
    /// How much of it was there when the period began; nothing is known of one that came later.
    before: Option<usize>,
}

impl Intake {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            num_bytes: 0,
            admitted: BTreeMap::new(),
            waiting: BTreeMap::new(),
            places: HashMap::new(),
            last: 0,
            resumed: VecDeque::new(),
        }
    }

    /// A peer has announced a message of so many bytes; none is coming if there are none.
    pub(super) fn announced(&mut self, peer: PeerId, len: usize) {
        if len > SHORT && !self.admitted.contains_key(&peer) && self.may_come(peer) {
            self.last += 1;
            self.waiting.insert(self.last, (peer, len));
            self.places.insert(peer, self.last);
            self.admit();
            // Nobody has been told that it is not read. It is the last that was let in, if it was.
            self.resumed.pop_back_if(|resumed| *resumed == peer);
        }
    }

    /// A message of a peer with so many bytes is taken, or its connection is gone.
    pub(super) fn ended(&mut self, peer: PeerId, len: usize) {
        if len <= SHORT {
            return;
        }
        if let Some(place) = self.places.remove(&peer) {
            self.waiting.remove(&place);
        }
        if let Some(admitted) = self.admitted.remove(&peer) {
            self.num_bytes = self.num_bytes.saturating_sub(admitted.len);
        }
        self.admit();
    }

    fn admit(&mut self) {
        while let Some((_, &(peer, len))) = self.waiting.first_key_value() {
            let num_bytes = self.num_bytes.saturating_add(len);
            if num_bytes > self.most && !self.admitted.is_empty() {
                return;
            }
            self.waiting.pop_first();
            self.places.remove(&peer);
            self.num_bytes = num_bytes;
            self.admitted.insert(peer, Admitted { len, before: None });
            self.resumed.push_back(peer);
        }
    }

    /// The bytes that are counted, and those of the messages that may come.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let found = self.admitted.values().map(|admitted| admitted.len).sum();
        (self.num_bytes, found)
    }

    /// Whether a peer may be read.
    pub(super) fn may_come(&self, peer: PeerId) -> bool {
        !self.places.contains_key(&peer)
    }

    /// Whether any message may not come yet.
    pub(super) fn any_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes a peer that may be read again.
    pub(super) fn poll_resumed(&mut self) -> Option<PeerId> {
        self.resumed.pop_front()
    }

    /// A period begins in which others wait, given how many bytes of a message of a peer are there.
    pub(super) fn begin_period(&mut self, there: impl Fn(PeerId) -> Option<usize>) {
        for (peer, admitted) in &mut self.admitted {
            admitted.before = Some(there(*peer).unwrap_or_default());
        }
    }

    /// A period has ended in which others waited: the peers whose messages have hardly come on since
    /// it began, given how many bytes of a message of a peer are there, unless it is the server that
    /// has not handled it.
    pub(super) fn stalled(&self, there: impl Fn(PeerId) -> Option<usize>) -> Vec<PeerId> {
        let is_stalled = |(peer, admitted): &(&PeerId, &Admitted)| {
            let came = { admitted.before.zip(there(**peer)) }
                .map(|(before, now)| now.saturating_sub(before));
            came.is_some_and(|came| came < PROGRESS.max(admitted.len / PERIODS))
        };
        let stalled = self.admitted.iter().filter(is_stalled);
        stalled.map(|(peer, _)| *peer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 1 << 20;

    fn peers() -> [PeerId; 4] {
        [1, 2, 3, 4].map(PeerId::of)
    }

    #[test]
    fn messages_come_when_there_is_room_for_all_of_them_in_the_order_of_their_peers() {
        let [first, second, third, short] = peers();
        let mut intake = Intake::new(2 * LONG);
        intake.announced(first, LONG);
        intake.announced(second, 2 * LONG);
        // It would fit, but the second came before it.
        intake.announced(third, LONG);
        intake.announced(short, SHORT);
        let may_come = peers().map(|peer| intake.may_come(peer));
        assert_eq!(may_come, [true, false, false, true]);
        assert_eq!(intake.poll_resumed(), None);
        intake.ended(first, LONG);
        assert_eq!(intake.poll_resumed(), Some(second));
        assert!(intake.may_come(second) && !intake.may_come(third));
        intake.ended(second, LONG);
        assert_eq!(intake.poll_resumed(), Some(third));
        assert!(!intake.any_waits());
        intake.ended(third, LONG);
        assert_eq!(intake.num_bytes, 0);
    }

    #[test]
    fn whoever_leaves_while_its_message_waits_is_passed_over() {
        let [first, second, third, _] = peers();
        let mut intake = Intake::new(LONG);
        for peer in [first, second, third] {
            intake.announced(peer, LONG);
        }
        intake.ended(second, LONG);
        assert!(intake.may_come(second) && !intake.may_come(third));
        intake.ended(first, LONG);
        assert_eq!(intake.poll_resumed(), Some(third));
        assert_eq!(intake.poll_resumed(), None);
        intake.ended(third, LONG);
        assert!(!intake.any_waits() && intake.places.is_empty());
    }

    #[test]
    fn a_message_that_is_longer_than_all_may_be_comes_alone() {
        let [first, second, ..] = peers();
        let mut intake = Intake::new(LONG);
        intake.announced(first, 5 * LONG);
        intake.announced(second, LONG);
        assert!(intake.may_come(first) && !intake.may_come(second));
        intake.ended(first, 5 * LONG);
        assert!(intake.may_come(second));
    }

    #[test]
    fn whose_message_does_not_come_on_is_named() {
        let [first, second, third, _] = peers();
        let mut intake = Intake::new(4 * LONG);
        intake.announced(first, 2 * LONG);
        intake.announced(second, 2 * LONG);
        intake.announced(third, LONG);
        assert!(intake.any_waits());
        let there = |bytes| move |_| Some(bytes);
        // Nobody has looked yet how much of them there is.
        assert_eq!(intake.stalled(there(100)), []);
        intake.begin_period(there(0));
        let half = |peer| Some(if peer == first { LONG } else { 100 });
        assert_eq!(intake.stalled(half), [second]);
        intake.begin_period(half);
        assert_eq!(intake.stalled(half), [first, second]);
        // One that came while others waited has its time too.
        intake.ended(first, 2 * LONG);
        assert!(intake.may_come(third));
        assert_eq!(intake.stalled(half), [second]);
        // One that waits for the server has come.
        assert_eq!(intake.stalled(|_| None), []);
    }

    #[test]
    fn a_message_of_any_length_comes_in_eight_periods_while_others_wait() {
        let [long, short, waiting, _] = peers();
        let mut intake = Intake::new(65 * LONG);
        intake.announced(long, 64 * LONG);
        intake.announced(short, LONG);
        intake.announced(waiting, LONG);
        assert!(intake.any_waits());
        intake.begin_period(|_| Some(0));
        let both_brought = |num_bytes| intake.stalled(move |_| Some(num_bytes));
        assert_eq!(both_brought(LONG - 1), [long, short]);
        assert_eq!(both_brought(LONG), [long]);
        assert_eq!(both_brought(8 * LONG - 1), [long]);
        assert_eq!(both_brought(8 * LONG), []);
    }
}
