// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long messages that are coming: together they take so many bytes and no more.
//!
//! A short message of any peer may always come. The room for long ones is divided among three classes
//! of lengths, each of which has a third: those of at most an equal share of that third for each
//! connection, those of at most an eighth of it, and longer ones. Within a class a message may come as a
//! whole once there is room for all that it announces, so that whoever has begun can end; others are
//! not read until then, in the order in which they announced theirs.
//!
//! So a message waits behind others of its class only, and one of at most a share behind none: a
//! connection has one message coming, and as many shares as there are connections fit. Those that were
//! announced while there were fewer connections may fill the room; they have to come in a period.

use std::collections::{BTreeMap, VecDeque};

use super::PeerId;

/// A message of no more bytes is short.
const SHORT: usize = 128 << 10;

/// How many bytes of a long message have to come in a period while others wait for its room, at the
/// least. No share is more.
const PROGRESS: usize = 1 << 20;

/// In how many periods a message of any length has to come while others wait.
const PERIODS: usize = 2;

/// Among how many connections the room of the first class is shared at the least.
const SHARES: usize = 64;

/// The part of the room of its class that a message of the second class has at the most.
const EIGHTH: usize = 8;

/// The long messages that are coming.
#[derive(Debug)]
pub(super) struct Intake {
    /// How many bytes those of one class may have together; one that has more alone comes alone.
    most: usize,
    /// Those of at most a share, those of at most an eighth, and longer ones.
    classes: [Class; 3],
    last: u64,
    /// Peers that may be read again.
    resumed: VecDeque<PeerId>,
}

/// The long messages of one class that are coming.
#[derive(Debug, Default)]
struct Class {
    num_bytes: usize,
    /// Those that may come.
    admitted: BTreeMap<PeerId, Admitted>,
    /// Those that may not come yet, with their lengths, in the order in which they were announced.
    waiting: BTreeMap<u64, (PeerId, usize)>,
    /// The place of each peer among these.
    places: BTreeMap<PeerId, u64>,
}

#[derive(Debug)]
struct Admitted {
    len: usize,
    /// How much of it was there when the period began; nothing is known of one that came later, or
    /// if nobody waited then.
    before: Option<usize>,
}

impl Intake {
    /// Messages that may have so many bytes together.
    pub(super) fn new(most: usize) -> Self {
        let classes = [Class::default(), Class::default(), Class::default()];
        Self {
            most: most / classes.len(),
            classes,
            last: 0,
            resumed: VecDeque::new(),
        }
    }

    /// A peer, of so many that are connected, has announced a message of so many bytes; none is
    /// coming if there are none.
    pub(super) fn announced(&mut self, peer: PeerId, len: usize, num_peers: usize) {
        if len <= SHORT || self.classes.iter().any(|class| class.knows(peer)) {
            return;
        }
        let [shares, eighths, longer] = &mut self.classes;
        let class = match len {
            len if len <= PROGRESS.min(self.most / num_peers.max(SHARES)) => shares,
            len if len <= self.most / EIGHTH => eighths,
            _ => longer,
        };
        self.last += 1;
        class.announced(self.last, peer, len);
        class.admit(self.most, &mut self.resumed);
        // Nobody has been told that it is not read. It is the last that was let in, if it was.
        self.resumed.pop_back_if(|resumed| *resumed == peer);
    }

    /// A message of a peer with so many bytes is taken, or its connection is gone.
    pub(super) fn ended(&mut self, peer: PeerId, len: usize) {
        if len <= SHORT {
            return;
        }
        for class in &mut self.classes {
            if class.ended(peer) {
                class.admit(self.most, &mut self.resumed);
            }
        }
    }

    /// The bytes that are counted, and those of the messages that may come.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let admitted = { self.classes.iter() }.flat_map(|class| class.admitted.values());
        let counted = self.classes.iter().map(|class| class.num_bytes);
        (counted.sum(), admitted.map(|admitted| admitted.len).sum())
    }

    /// Whether a peer may be read.
    pub(super) fn may_come(&self, peer: PeerId) -> bool {
        let mut classes = self.classes.iter();
        classes.all(|class| !class.places.contains_key(&peer))
    }

    /// Whether any message may not come yet.
    pub(super) fn any_waits(&self) -> bool {
        self.classes.iter().any(|class| !class.waiting.is_empty())
    }

    /// Takes a peer that may be read again.
    pub(super) fn poll_resumed(&mut self) -> Option<PeerId> {
        self.resumed.pop_front()
    }

    /// A period begins in which others wait, given how many bytes of a message of a peer are there.
    pub(super) fn begin_period(&mut self, there: impl Fn(PeerId) -> Option<usize>) {
        let waited_for = { self.classes.iter_mut() }.filter(|class| !class.waiting.is_empty());
        for (peer, admitted) in waited_for.flat_map(|class| &mut class.admitted) {
            admitted.before = Some(there(*peer).unwrap_or_default());
        }
    }

    /// A period has ended in which others waited: the peers whose messages have hardly come on since
    /// it began while others of their class waited, given how many bytes of a message of a peer are
    /// there, unless it is the server that has not handled it.
    pub(super) fn stalled(&self, there: impl Fn(PeerId) -> Option<usize>) -> Vec<PeerId> {
        let is_stalled = |(peer, admitted): &(&PeerId, &Admitted)| {
            let came = { admitted.before.zip(there(**peer)) }
                .map(|(before, now)| now.saturating_sub(before));
            came.is_some_and(|came| came < PROGRESS.max(admitted.len / PERIODS))
        };
        let waited_for = { self.classes.iter() }.filter(|class| !class.waiting.is_empty());
        let admitted = waited_for.flat_map(|class| &class.admitted);
        admitted.filter(is_stalled).map(|(peer, _)| *peer).collect()
    }
}

impl Class {
    fn knows(&self, peer: PeerId) -> bool {
        self.admitted.contains_key(&peer) || self.places.contains_key(&peer)
    }

    fn announced(&mut self, place: u64, peer: PeerId, len: usize) {
        if self.waiting.is_empty() {
            // Nobody waited while these came.
            for admitted in self.admitted.values_mut() {
                admitted.before = None;
            }
        }
        self.waiting.insert(place, (peer, len));
        self.places.insert(peer, place);
    }

    /// Whether a message of a peer is forgotten.
    fn ended(&mut self, peer: PeerId) -> bool {
        if let Some(place) = self.places.remove(&peer) {
            return self.waiting.remove(&place).is_some();
        }
        let ended = self.admitted.remove(&peer);
        let num_bytes = ended.as_ref().map_or(0, |admitted| admitted.len);
        self.num_bytes = self.num_bytes.saturating_sub(num_bytes);
        ended.is_some()
    }

    /// Lets messages come that there is room for.
    fn admit(&mut self, most: usize, resumed: &mut VecDeque<PeerId>) {
        while let Some((_, &(peer, len))) = self.waiting.first_key_value() {
            let num_bytes = self.num_bytes.saturating_add(len);
            if num_bytes > most && !self.admitted.is_empty() {
                return;
            }
            self.waiting.pop_first();
            self.places.remove(&peer);
            self.num_bytes = num_bytes;
            self.admitted.insert(peer, Admitted { len, before: None });
            resumed.push_back(peer);
        }
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
        let mut intake = Intake::new(3 * 2 * LONG);
        intake.announced(first, LONG, 4);
        intake.announced(second, 2 * LONG, 4);
        // It would fit, but the second came before it.
        intake.announced(third, LONG, 4);
        intake.announced(short, SHORT, 4);
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
        assert_eq!(intake.bytes(), (0, 0));
    }

    #[test]
    fn whoever_leaves_while_its_message_waits_is_passed_over() {
        let [first, second, third, _] = peers();
        let mut intake = Intake::new(3 * LONG);
        for peer in [first, second, third] {
            intake.announced(peer, LONG, 4);
        }
        intake.ended(second, LONG);
        assert!(intake.may_come(second) && !intake.may_come(third));
        intake.ended(first, LONG);
        assert_eq!(intake.poll_resumed(), Some(third));
        assert_eq!(intake.poll_resumed(), None);
        intake.ended(third, LONG);
        let mut classes = intake.classes.iter();
        assert!(!intake.any_waits() && classes.all(|class| class.places.is_empty()));
    }

    #[test]
    fn a_message_that_is_longer_than_all_may_be_comes_alone() {
        let [first, second, ..] = peers();
        let mut intake = Intake::new(3 * LONG);
        intake.announced(first, 5 * LONG, 4);
        intake.announced(second, LONG, 4);
        assert!(intake.may_come(first) && !intake.may_come(second));
        intake.ended(first, 5 * LONG);
        assert!(intake.may_come(second));
    }

    #[test]
    fn whose_message_does_not_come_on_is_named() {
        let [first, second, third, fourth] = peers();
        let mut intake = Intake::new(3 * 4 * LONG);
        intake.announced(first, 2 * LONG, 4);
        intake.announced(second, 2 * LONG, 4);
        intake.announced(third, LONG, 4);
        intake.announced(fourth, 2 * LONG, 4);
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
        assert!(intake.may_come(third) && !intake.may_come(fourth));
        assert_eq!(intake.stalled(half), [second]);
        // One that waits for the server has come.
        assert_eq!(intake.stalled(|_| None), []);
    }

    #[test]
    fn a_message_of_any_length_comes_in_two_periods_while_others_wait() {
        let [long, short, waiting, _] = peers();
        let mut intake = Intake::new(3 * 7 * LONG);
        intake.announced(long, 6 * LONG, 4);
        intake.announced(short, LONG, 4);
        intake.announced(waiting, LONG, 4);
        assert!(intake.any_waits());
        intake.begin_period(|_| Some(0));
        let both_brought = |num_bytes| intake.stalled(move |_| Some(num_bytes));
        assert_eq!(both_brought(LONG - 1), [long, short]);
        assert_eq!(both_brought(LONG), [long]);
        assert_eq!(both_brought(3 * LONG - 1), [long]);
        assert_eq!(both_brought(3 * LONG), []);
    }

    #[test]
    fn a_message_waits_behind_its_class_only_and_one_of_a_share_behind_none() {
        let room = SHARES * LONG;
        for num_peers in [SHARES, 2 * SHARES, 5 * SHARES] {
            let mut intake = Intake::new(3 * room);
            // Half of all do what they can to fill the room for longer ones.
            let lens = [room, LONG + 1, room / EIGHTH + 1, room / EIGHTH];
            let announce = |intake: &mut Intake, number: usize, len| {
                let peer = PeerId::of(u64::try_from(number).unwrap());
                intake.announced(peer, len, num_peers);
                intake.may_come(peer)
            };
            let half = num_peers / 2;
            for (number, len) in (0..half).zip(lens.into_iter().cycle()) {
                announce(&mut intake, number, len);
            }
            assert!(intake.any_waits());
            assert!(!announce(&mut intake, num_peers, LONG + 1));
            let share = room / num_peers;
            for number in half..num_peers {
                assert!(
                    announce(&mut intake, number, share),
                    "{number}, {num_peers}"
                );
            }
            let (counted, found) = intake.bytes();
            assert_eq!(counted, found);
            assert!(counted <= 3 * room, "{counted}");
        }
    }

    #[test]
    fn whoever_is_waited_for_in_another_class_has_its_time() {
        let [long, waiting, middle, behind] = peers();
        let mut intake = Intake::new(3 * 64 * LONG);
        intake.announced(middle, 2 * LONG, 4);
        intake.announced(long, 64 * LONG, 4);
        intake.announced(waiting, 64 * LONG, 4);
        intake.begin_period(|_| Some(0));
        assert_eq!(intake.stalled(|_| Some(0)), [long]);
        // Nobody waited for the other class when the period began.
        for number in 5..12 {
            intake.announced(PeerId::of(number), 8 * LONG, 4);
        }
        assert!(intake.may_come(PeerId::of(11)));
        intake.announced(behind, 8 * LONG, 4);
        assert!(!intake.may_come(behind));
        assert_eq!(intake.stalled(|_| Some(0)), [long]);
        intake.begin_period(|_| Some(0));
        assert_eq!(intake.stalled(|_| Some(0)).len(), 9);
    }
}
