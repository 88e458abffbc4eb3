// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of processes that nobody has asked about yet, which came behind an answer.
//!
//! A server of this project sends as many bytes of further processes of the job with the answer to a
//! get as the client asks for ([`PREFETCH`](pmix_proto::request::PREFETCH)). They are kept as they came
//! and become part of the cache when the process is asked about.
//!
//! A get must not answer with less than the server would: what was not read is dropped as soon as the
//! server says anything else, for example that a fence has ended or that an event has come, since a
//! process may put a key again before that.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_types::Rank;

/// The bytes that are asked for at first.
const FIRST_BYTES: u32 = 16 << 10;

/// How much more is asked for after a portion that was read, and how much less after one that was not.
const GROWTH: u32 = 64;
const SHRINKAGE: u32 = 8;

/// Holds data of processes of the own job that were not asked about yet.
pub(crate) struct Prefetch(Mutex<Held>);

struct Held {
    /// The bytes to ask for at most.
    max_bytes: u32,
    /// The bytes to ask for next; none are asked for any longer when it is 0.
    next_bytes: u32,
    /// How many processes the portions of this length brought, and how many of them were read.
    num_brought: usize,
    num_read: usize,
    /// How often everything was dropped.
    generation: u64,
    /// By rank, as the server packed them.
    unread: HashMap<Rank, Vec<u8>>,
}

/// A number of bytes that is asked for with a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portion {
    pub(crate) bytes: u32,
    generation: u64,
}

impl Prefetch {
    /// Creates an empty one; with 0 bytes nothing is ever asked for.
    pub(crate) fn new(max_bytes: u32) -> Self {
        Self(Mutex::new(Held {
            max_bytes,
            next_bytes: FIRST_BYTES.min(max_bytes),
            num_brought: 0,
            num_read: 0,
            generation: 0,
            unread: HashMap::new(),
        }))
    }

    /// Returns whether the server takes the directive.
    pub(crate) fn is_possible(&self) -> bool {
        self.held().max_bytes > 0
    }

    /// Returns how much to ask for with a get: more than last time if most of that was read, else less.
    pub(crate) fn portion(&self) -> Option<Portion> {
        let mut held = self.held();
        if held.num_brought > 0 {
            held.next_bytes = match held.num_read * 2 >= held.num_brought {
                true => held.next_bytes.saturating_mul(GROWTH).min(held.max_bytes),
                // So little that nothing fits in it is not worth asking for.
                false if held.next_bytes < FIRST_BYTES / SHRINKAGE => 0,
                false => held.next_bytes / SHRINKAGE,
            };
            (held.num_brought, held.num_read) = (0, 0);
        }
        (held.next_bytes > 0).then_some(Portion {
            bytes: held.next_bytes,
            generation: held.generation,
        })
    }

    /// Keeps what came with an answer, in place of what is left of the answer before: as many bytes as
    /// were asked for, and nothing if everything was dropped since.
    pub(crate) fn keep(&self, portion: Portion, brought: Vec<(Rank, &[u8])>) {
        let mut held = self.held();
        if held.generation != portion.generation || brought.is_empty() {
            return;
        }
        let mut room = portion.bytes as usize;
        let fits = brought.into_iter().take_while(|(_, kvals)| {
            let left = room.checked_sub(kvals.len());
            room = left.unwrap_or(0);
            left.is_some()
        });
        held.unread = fits.map(|(rank, kvals)| (rank, kvals.to_vec())).collect();
        held.num_brought += held.unread.len();
    }

    /// Takes what there is of a process.
    pub(crate) fn take(&self, rank: Rank) -> Option<Vec<u8>> {
        let mut held = self.held();
        let kvals = held.unread.remove(&rank)?;
        held.num_read += 1;
        Some(kvals)
    }

    /// Returns of how many processes there is something.
    pub(crate) fn num_held(&self) -> usize {
        self.held().unread.len()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops everything, what is under way included.
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

    /// What a server sends of so many processes, from rank 1 on.
    fn brought(count: u32) -> Vec<(Rank, &'static [u8])> {
        let ranks = (1..=count).map(Rank::new);
        ranks.map(|rank| (rank, &DATA[..])).collect()
    }

    fn bytes(prefetch: &Prefetch) -> Option<u32> {
        prefetch.portion().map(|portion| portion.bytes)
    }

    #[test]
    fn who_reads_what_came_is_sent_more() {
        let prefetch = Prefetch::new(100_000);
        let portion = prefetch.portion().unwrap();
        assert_eq!(portion.bytes, 16 << 10);
        prefetch.keep(portion, brought(4));
        assert_eq!(prefetch.take(Rank::new(3)).as_deref(), Some(&DATA[..]));
        assert_eq!(prefetch.take(Rank::new(3)), None);
        assert!(prefetch.take(Rank::new(1)).is_some());
        assert_eq!(bytes(&prefetch), Some(100_000));
    }

    #[test]
    fn who_reads_one_neighbour_is_soon_sent_nothing() {
        let prefetch = Prefetch::new(1 << 20);
        let mut all = 0;
        for _ in 0..20 {
            if let Some(portion) = prefetch.portion() {
                all += portion.bytes;
                prefetch.keep(portion, brought(4));
            }
            prefetch.clear();
        }
        assert_eq!(all, (16 << 10) + (2 << 10) + 256);
        assert_eq!(bytes(&prefetch), None);
    }

    #[test]
    fn an_answer_that_was_under_way_when_a_fence_ended_is_not_kept() {
        let prefetch = Prefetch::new(1 << 20);
        let portion = prefetch.portion().unwrap();
        prefetch.clear();
        prefetch.keep(portion, brought(1));
        assert_eq!(prefetch.take(Rank::new(1)), None);
    }

    #[test]
    fn no_more_is_kept_than_was_asked_for() {
        let prefetch = Prefetch::new(250);
        let portion = prefetch.portion().unwrap();
        prefetch.keep(portion, brought(1000));
        let kept = (1..=1000).filter(|rank| prefetch.take(Rank::new(*rank)).is_some());
        assert_eq!(kept.count(), 2);
        assert_eq!(Prefetch::new(0).portion(), None);
    }
}
