// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of processes that were sent in advance, with the reply to a get of another process.
//!
//! With each get a client of this project offers a number of bytes ([`PREFETCH`](pmix_proto::request::PREFETCH)). A
//! server of this project adds data of further processes of the job up to that number. The client keeps them in packed
//! form and moves them to the cache when the process is requested.
//!
//! A get must not return older data than the server would. A process may put a key again before a fence completes or an
//! event is delivered. So unread data are dropped at every reply other than that of a get, and at every event.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_types::Rank;

/// The number of bytes offered with the first get.
const FIRST_BYTES: u32 = 16 << 10;

/// The factors by which the number grows if most of the data were read, and shrinks if they were not.
const GROWTH: u32 = 64;
const SHRINKAGE: u32 = 8;

/// Data of processes of the own job that were sent in advance and not requested yet.
pub(crate) struct Prefetch(Mutex<Held>);

struct Held {
    /// The largest number of bytes to offer.
    max_bytes: u32,
    /// The number of bytes to offer next; 0 ends the prefetch.
    next_bytes: u32,
    /// The processes whose data the current portions had, and those of them that were read.
    num_received: usize,
    num_read: usize,
    /// The number of calls to [`Prefetch::clear`].
    generation: u64,
    /// The packed data by rank.
    unread: HashMap<Rank, Vec<u8>>,
}

/// The number of bytes offered with a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portion {
    pub(crate) bytes: u32,
    generation: u64,
}

impl Prefetch {
    /// Creates an empty store. With 0 bytes nothing is ever offered.
    pub(crate) fn new(max_bytes: u32) -> Self {
        Self(Mutex::new(Held {
            max_bytes,
            next_bytes: FIRST_BYTES.min(max_bytes),
            num_received: 0,
            num_read: 0,
            generation: 0,
            unread: HashMap::new(),
        }))
    }

    /// Returns `true` if the server supports the directive.
    pub(crate) fn is_possible(&self) -> bool {
        self.held().max_bytes > 0
    }

    /// Returns the number of bytes to offer with a get: more than before if at least half of the data were read, fewer
    /// otherwise.
    pub(crate) fn portion(&self) -> Option<Portion> {
        let mut held = self.held();
        if held.num_received > 0 {
            held.next_bytes = match held.num_read * 2 >= held.num_received {
                true => held.next_bytes.saturating_mul(GROWTH).min(held.max_bytes),
                // Not even the data of one process fit into so few bytes.
                false if held.next_bytes < FIRST_BYTES / SHRINKAGE => 0,
                false => held.next_bytes / SHRINKAGE,
            };
            (held.num_received, held.num_read) = (0, 0);
        }
        (held.next_bytes > 0).then_some(Portion {
            bytes: held.next_bytes,
            generation: held.generation,
        })
    }

    /// Stores the data of a reply in place of unread older data, up to the number of bytes offered. A reply that was in
    /// transit during a [`clear`](Self::clear) is dropped.
    pub(crate) fn keep(&self, portion: Portion, received: Vec<(Rank, &[u8])>) {
        let mut held = self.held();
        if held.generation != portion.generation || received.is_empty() {
            return;
        }
        let mut room = portion.bytes as usize;
        let fits = received.into_iter().take_while(|(_, kvals)| {
            let left = room.checked_sub(kvals.len());
            room = left.unwrap_or(0);
            left.is_some()
        });
        held.unread = fits.map(|(rank, kvals)| (rank, kvals.to_vec())).collect();
        held.num_received += held.unread.len();
    }

    /// Removes and returns the data of a process.
    pub(crate) fn take(&self, rank: Rank) -> Option<Vec<u8>> {
        let mut held = self.held();
        let kvals = held.unread.remove(&rank)?;
        held.num_read += 1;
        Some(kvals)
    }

    /// Returns the number of processes with unread data.
    pub(crate) fn num_held(&self) -> usize {
        self.held().unread.len()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops all data, including those of replies in transit.
    pub(crate) fn clear(&self) {
        let mut held = self.held();
        held.generation += 1;
        held.unread = HashMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: [u8; 100] = [7; 100];

    /// Returns the data of `count` processes from rank 1 on, as a server sends them.
    fn received(count: u32) -> Vec<(Rank, &'static [u8])> {
        let ranks = (1..=count).map(Rank::new);
        ranks.map(|rank| (rank, &DATA[..])).collect()
    }

    fn bytes(prefetch: &Prefetch) -> Option<u32> {
        prefetch.portion().map(|portion| portion.bytes)
    }

    #[test]
    fn a_client_that_reads_the_data_is_sent_more() {
        let prefetch = Prefetch::new(100_000);
        let portion = prefetch.portion().unwrap();
        assert_eq!(portion.bytes, 16 << 10);
        prefetch.keep(portion, received(4));
        assert_eq!(prefetch.take(Rank::new(3)).as_deref(), Some(&DATA[..]));
        assert_eq!(prefetch.take(Rank::new(3)), None);
        assert!(prefetch.take(Rank::new(1)).is_some());
        assert_eq!(bytes(&prefetch), Some(100_000));
    }

    #[test]
    fn a_client_that_reads_one_neighbor_is_soon_sent_nothing() {
        let prefetch = Prefetch::new(1 << 20);
        let mut all = 0;
        for _ in 0..20 {
            if let Some(portion) = prefetch.portion() {
                all += portion.bytes;
                prefetch.keep(portion, received(4));
            }
            prefetch.clear();
        }
        assert_eq!(all, (16 << 10) + (2 << 10) + 256);
        assert_eq!(bytes(&prefetch), None);
    }

    #[test]
    fn a_reply_in_transit_at_the_end_of_a_fence_is_not_kept() {
        let prefetch = Prefetch::new(1 << 20);
        let portion = prefetch.portion().unwrap();
        prefetch.clear();
        prefetch.keep(portion, received(1));
        assert_eq!(prefetch.take(Rank::new(1)), None);
    }

    #[test]
    fn no_more_is_kept_than_was_requested() {
        let prefetch = Prefetch::new(250);
        let portion = prefetch.portion().unwrap();
        prefetch.keep(portion, received(1000));
        let kept = (1..=1000).filter(|rank| prefetch.take(Rank::new(*rank)).is_some());
        assert_eq!(kept.count(), 2);
        assert_eq!(Prefetch::new(0).portion(), None);
    }
}
