// SPDX-License-Identifier: MIT OR Apache-2.0
//! The amount of data about other processes in replies to a client: the policy, without the data.
//!
//! | request of the client | limit of other data in the reply |
//! | --- | --- |
//! | for the first process | [`FIRST_BYTES`] |
//! | for a further process, after a reply with other data | [`GROWTH`] times the previous limit |
//! | for a process whose data it has received | none |
//! | after the limit of its connection | none |
//!
//! A client that finds the next data in its cache sends no request, so the limit grows only for a client that continues
//! to request.

use std::collections::BTreeMap;

use pmix_types::Rank;

use crate::UnaskedLimits;

/// The limit of other data in the first reply, in bytes.
const FIRST_BYTES: usize = 16 << 10;

/// The growth of the limit.
const GROWTH: usize = 4;

/// The data of its own job that one connection has received.
#[derive(Debug, Default)]
pub(super) struct Portions {
    /// The processes whose data it has received, requested or not.
    known: Ranks,
    /// The bytes sent without a request.
    sent_bytes: usize,
    /// The number of replies that had other data, or no room for them.
    num_portions: u32,
}

impl Portions {
    /// Records a request for a process. Returns the limit in bytes of other data in the reply.
    pub(super) fn record_request(&mut self, rank: Rank, limits: UnaskedLimits) -> usize {
        if !self.known.insert(rank) {
            return 0;
        }
        let growth = GROWTH.saturating_pow(self.num_portions);
        let left = limits.bytes_per_client.saturating_sub(self.sent_bytes);
        let portion = FIRST_BYTES.saturating_mul(growth);
        portion.min(limits.bytes_per_answer).min(left)
    }

    /// Returns `true` if the client has received the data of a process.
    pub(super) fn has(&self, rank: Rank) -> bool {
        self.known.contains(rank)
    }

    /// Records that data of another process are sent with a reply.
    pub(super) fn record(&mut self, rank: Rank, bytes: usize) {
        self.known.insert(rank);
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }

    /// Records a reply that had other data, or no room for existing ones: the limit of the next one grows.
    pub(super) fn grow(&mut self) {
        self.num_portions = self.num_portions.saturating_add(1);
    }
}

/// A set of ranks as runs of consecutive ones: the first rank and the last rank of each.
#[derive(Debug, Default)]
struct Ranks(BTreeMap<u32, u32>);

impl Ranks {
    fn contains(&self, rank: Rank) -> bool {
        let rank = rank.as_raw();
        let run = self.0.range(..=rank).next_back();
        run.is_some_and(|(_, last)| *last >= rank)
    }

    /// Adds a rank and returns `true` if it is new.
    fn insert(&mut self, rank: Rank) -> bool {
        if self.contains(rank) {
            return false;
        }
        let rank = rank.as_raw();
        let behind = rank.checked_add(1).and_then(|next| self.0.remove(&next));
        let last = behind.unwrap_or(rank);
        match self.0.range_mut(..rank).next_back() {
            Some((_, end)) if end.checked_add(1) == Some(rank) => *end = last,
            _ => _ = self.0.insert(rank, last),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn limits(bytes_per_answer: usize, bytes_per_client: usize) -> UnaskedLimits {
        UnaskedLimits {
            bytes_per_answer,
            bytes_per_client,
        }
    }

    fn rank(rank: u32) -> Rank {
        Rank::new(rank)
    }

    #[test]
    fn portions_grow_while_the_client_continues() {
        let mut portions = Portions::default();
        let limits = limits(300 << 10, usize::MAX);
        for (asked, kib) in [(0, 16), (10, 64), (20, 256), (30, 300), (40, 300)] {
            assert_eq!(
                portions.record_request(rank(asked), limits),
                kib << 10,
                "{asked}"
            );
            portions.record(rank(asked + 1), 1);
            portions.grow();
        }
        // Data sent without a request count as known.
        assert_eq!(portions.record_request(rank(1), limits), 0);
        assert_eq!(portions.record_request(rank(20), limits), 0);
        assert!(portions.has(rank(41)) && !portions.has(rank(42)));
    }

    #[test]
    fn an_empty_reply_does_not_enlarge_the_next() {
        let mut portions = Portions::default();
        for asked in 0..20 {
            let room = portions.record_request(rank(asked), UnaskedLimits::default());
            assert_eq!(room, FIRST_BYTES);
        }
    }

    #[test]
    fn prefetch_is_bounded_per_client() {
        let mut portions = Portions::default();
        let limits = limits(1 << 20, 20 << 10);
        assert_eq!(portions.record_request(rank(0), limits), 16 << 10);
        portions.record(rank(1), 15 << 10);
        portions.grow();
        assert_eq!(portions.record_request(rank(2), limits), 5 << 10);
        portions.record(rank(3), 5 << 10);
        portions.grow();
        assert_eq!(portions.record_request(rank(4), limits), 0);
    }

    #[test]
    fn a_limit_of_zero_disables_prefetch() {
        for limits in [limits(0, 1 << 20), limits(1 << 20, 0)] {
            assert_eq!(Portions::default().record_request(rank(0), limits), 0);
        }
    }

    #[test]
    fn runs_of_ranks_are_the_set_that_was_added() {
        let (mut ranks, mut model) = (Ranks::default(), BTreeSet::new());
        let mut random = 7_u32;
        for _ in 0..2_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (random >> 16) % 97;
            assert_eq!(ranks.insert(rank(number)), model.insert(number));
            let runs: Vec<_> = ranks.0.iter().collect();
            let apart = |pair: &[(&u32, &u32)]| pair[0].1 + 1 < *pair[1].0;
            assert!(runs.windows(2).all(apart), "{runs:?}");
            for number in 0..97 {
                assert_eq!(ranks.contains(rank(number)), model.contains(&number));
            }
        }
        assert_eq!(ranks.0.len(), 1);
        for last in [u32::MAX, u32::MAX - 1] {
            assert!(ranks.insert(rank(last)) && !ranks.insert(rank(last)));
        }
    }
}
