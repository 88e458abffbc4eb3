// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which messages of peers are handled: start-time fair queueing by cost.
//!
//! Each peer has a virtual time at which its next message starts. The peer with the earliest start is next, and its
//! start advances by the cost of the message. A peer whose last message was expensive therefore waits until others have
//! been served for the same time, if they have messages. A peer that was idle starts at the current virtual time, so
//! idle time earns no credit. Peers with messages of equal cost take turns.
//!
//! Source: Goyal, Vin and Cheng, "Start-time Fair Queuing", 1996.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PeerId;

/// The position of a peer in the queue: the class (served before all accounts, or by account), the virtual start in
/// microseconds, and a number that keeps equal starts in queueing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition {
    is_by_account: bool,
    start: u64,
    number: u64,
}

/// The account of a peer, which it keeps while it has no message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// The earliest virtual start of its next message.
    start: u64,
    /// The position of the peer, if it is queued.
    position: Option<QueuePosition>,
}

impl Account {
    /// Returns `true` if the peer is queued.
    pub(super) const fn is_queued(&self) -> bool {
        self.position.is_some()
    }

    /// Returns `true` if the peer is queued before all that are served by their accounts.
    pub(super) fn is_first(&self) -> bool {
        self.position
            .is_some_and(|position| !position.is_by_account)
    }
}

/// The peers with messages to be handled, each once.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: BTreeMap<QueuePosition, PeerId>,
    /// The virtual time: the start of the last handled message.
    now: u64,
    last_number: u64,
}

impl Turns {
    /// Queues a peer that is not queued. With `is_first` it precedes all peers that are served by account.
    pub(super) fn push(&mut self, id: PeerId, account: &mut Account, is_first: bool) {
        // Idle time earns no credit.
        account.start = account.start.max(self.now);
        self.last_number += 1;
        let position = QueuePosition {
            is_by_account: !is_first,
            start: account.start,
            number: self.last_number,
        };
        account.position = Some(position);
        self.queue.insert(position, id);
    }

    /// Returns the next peer.
    pub(super) fn first(&self) -> Option<PeerId> {
        self.queue.first_key_value().map(|(_, id)| *id)
    }

    /// Removes a peer from the queue to handle its message.
    pub(super) fn take(&mut self, account: &mut Account) {
        // Closed peers are served out of turn, so they do not advance the virtual time.
        if let Some(position) = account.position.filter(|position| position.is_by_account) {
            self.now = self.now.max(position.start);
        }
        self.remove(account);
    }

    /// Removes a peer whose connection was closed from the queue.
    pub(super) fn remove(&mut self, account: &mut Account) {
        if let Some(position) = account.position.take() {
            self.queue.remove(&position);
        }
    }

    /// Adds the cost of a message to the account of its peer. If the peer is queued, its position moves back
    /// accordingly.
    pub(super) fn charge(&mut self, id: PeerId, account: &mut Account, cost: Duration) {
        let micros = u64::try_from(cost.as_micros()).unwrap_or(u64::MAX);
        account.start = account.start.saturating_add(micros);
        if let Some(position) = account.position.as_mut() {
            self.queue.remove(position);
            position.start = account.start;
            self.queue.insert(*position, id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the peers in the queue.
    pub(super) fn iter(&self) -> impl Iterator<Item = PeerId> {
        self.queue.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handles `count` messages of peers that always have a message of the given cost in microseconds. Returns the
    /// number of messages handled for each peer.
    fn served(costs: &[u64], count: usize) -> Vec<usize> {
        let mut turns = Turns::default();
        let mut accounts = vec![Account::default(); costs.len()];
        let id = |peer: usize| PeerId(u64::try_from(peer).unwrap());
        for (peer, account) in accounts.iter_mut().enumerate() {
            turns.push(id(peer), account, false);
        }
        let mut served = vec![0; costs.len()];
        for _ in 0..count {
            let PeerId(number) = turns.first().unwrap();
            let peer = usize::try_from(number).unwrap();
            let account = &mut accounts[peer];
            turns.take(account);
            turns.push(id(peer), account, false);
            turns.charge(id(peer), account, Duration::from_micros(costs[peer]));
            served[peer] += 1;
        }
        served
    }

    #[test]
    fn messages_that_cost_the_same_are_handled_in_turn() {
        assert_eq!(served(&[0, 0, 0], 9), [3, 3, 3]);
        assert_eq!(served(&[7, 7], 8), [4, 4]);
    }

    #[test]
    fn a_peer_with_an_expensive_message_waits_until_others_had_equal_time() {
        let [expensive, cheap] = served(&[5000, 10], 5010)[..] else {
            panic!("two peers");
        };
        assert!((9..=11).contains(&expensive), "{expensive}");
        assert_eq!(expensive + cheap, 5010);
    }

    #[test]
    fn an_idle_peer_gains_no_credit() {
        let mut turns = Turns::default();
        let (mut busy, mut idle) = (Account::default(), Account::default());
        let (first, second) = (PeerId(1), PeerId(2));
        for _ in 0..3 {
            turns.push(first, &mut busy, false);
            turns.take(&mut busy);
            turns.charge(first, &mut busy, Duration::from_millis(5));
        }
        turns.push(first, &mut busy, false);
        turns.push(second, &mut idle, false);
        assert_eq!(turns.first(), Some(second));
        turns.take(&mut idle);
        turns.charge(second, &mut idle, Duration::from_millis(6));
        turns.push(second, &mut idle, false);
        assert_eq!(turns.first(), Some(first), "an idle peer gains no credit");
    }

    #[test]
    fn a_peer_to_be_closed_is_first() {
        let mut turns = Turns::default();
        let (mut other, mut closed) = (Account::default(), Account::default());
        turns.push(PeerId(1), &mut other, false);
        turns.charge(PeerId(2), &mut closed, Duration::from_secs(1));
        turns.push(PeerId(2), &mut closed, true);
        assert_eq!(turns.first(), Some(PeerId(2)));
        assert_eq!((turns.len(), turns.iter().count()), (2, 2));
        turns.take(&mut closed);
        turns.remove(&mut other);
        assert!(turns.is_empty());
    }
}
