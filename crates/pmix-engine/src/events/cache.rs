// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache of events for peers that register later.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::{IntoOwned, Nspace, Proc, Status};

use super::notification::Notification;
use crate::PeerId;
use crate::config::EventLimits;
use crate::recount::Recount;

/// The events cached for later registrations, in order of arrival (PMIx Standard, "Notification and management":
/// servers cache the events they receive and deliver them in order).
///
/// The cache is limited by number, bytes, age, and number of events of one source. It records with one bit if a peer
/// has received an event.
///
/// DEVIATION: OpenPMIx sends cached events when a peer connects and again with each of its registrations;
/// `late_registrants_get_stored_events_in_order_and_once`.
#[derive(Debug)]
pub(crate) struct Cache {
    limits: EventLimits,
    kept: VecDeque<CachedEvent>,
    /// The slots of removed events, which are used first.
    free: Vec<usize>,
    bytes: usize,
    had: BTreeMap<PeerId, Box<[u64]>>,
    /// The number of the next cached event.
    next: u64,
    /// The processes that a debugger released while they had stopped outside of PMIx, with the number of the next
    /// event. Earlier release events are not for the next stop of the process. The host bounds this map by its jobs.
    released: BTreeMap<Proc<'static>, u64>,
}

#[derive(Debug)]
struct CachedEvent {
    /// The slot of its bit.
    slot: usize,
    /// The number of events cached before.
    number: u64,
    since: Instant,
    bytes: usize,
    notification: Arc<Notification>,
}

impl Cache {
    pub(crate) const fn new(limits: EventLimits) -> Self {
        Self {
            limits,
            kept: VecDeque::new(),
            free: Vec::new(),
            bytes: 0,
            had: BTreeMap::new(),
            next: 0,
            released: BTreeMap::new(),
        }
    }

    /// Caches an event that some peers have received.
    ///
    /// Older events are removed to make room; events of the same source first, if it has reached its limit.
    pub(crate) fn add(
        &mut self,
        notification: &Arc<Notification>,
        recipients: &[PeerId],
        now: Instant,
    ) {
        let bytes = notification.weight();
        let fits = bytes <= self.limits.kept_bytes && self.limits.kept > 0;
        if notification.directives.do_not_cache || !fits {
            return;
        }
        // Expired events must not displace others.
        self.expire(now);
        self.make_room(&notification.source, bytes);
        let slot = self.free.pop().unwrap_or(self.kept.len());
        self.bytes += bytes;
        for peer in recipients {
            self.mark(*peer, slot);
        }
        self.kept.push_back(CachedEvent {
            slot,
            number: self.next,
            since: now,
            bytes,
            notification: Arc::clone(notification),
        });
        self.next += 1;
    }

    fn make_room(&mut self, source: &Proc<'_>, bytes: usize) {
        let of_source = |kept: &CachedEvent| kept.notification.source == *source;
        let count = self.kept.iter().filter(|kept| of_source(kept)).count();
        // A source with many events displaces its own ones first.
        if count >= self.limits.kept_per_source.max(1)
            && let Some(oldest) = self.kept.iter().position(of_source)
        {
            self.remove(oldest);
        }
        while self.kept.len() >= self.limits.kept || self.bytes + bytes > self.limits.kept_bytes {
            if !self.remove(0) {
                return;
            }
        }
    }

    fn remove(&mut self, place: usize) -> bool {
        let Some(gone) = self.kept.remove(place) else {
            return false;
        };
        self.bytes -= gone.bytes;
        self.free.push(gone.slot);
        // The next event in this slot has been received by no peer.
        for had in self.had.values_mut() {
            if let Some(word) = had.get_mut(gone.slot / 64) {
                *word &= !bit(gone.slot);
            }
        }
        true
    }

    /// Removes the events that exceed their age.
    pub(crate) fn expire(&mut self, now: Instant) {
        let limit = self.limits.kept_for;
        let mut place = 0;
        while let Some(kept) = self.kept.get(place)
            && now.saturating_duration_since(kept.since) >= limit
        {
            match kept.notification.is_lasting() {
                // Lasting events remain in front of those that expire.
                true => place += 1,
                false => drop(self.remove(place)),
            }
        }
    }

    /// Records that processes were released before they connected: cached release events were for that stop.
    pub(crate) fn released(&mut self, procs: &[Proc<'_>]) {
        for proc in procs {
            self.released.insert(proc.clone().into_owned(), self.next);
        }
    }

    /// Returns the cached events that `wants` selects and that the peer has not received, oldest first, and marks them
    /// as received. `proc` is the process of the peer.
    pub(crate) fn replay(
        &mut self,
        peer: PeerId,
        proc: &Proc<'_>,
        wants: impl Fn(&Notification) -> bool,
    ) -> Vec<Arc<Notification>> {
        let had = self.had.get(&peer);
        let has_had = |slot: usize| {
            let word = had.and_then(|had| had.get(slot / 64));
            word.is_some_and(|word| word & bit(slot) != 0)
        };
        let released = self.released.get(proc).copied().unwrap_or_default();
        let is_spent = |kept: &CachedEvent| {
            kept.number < released && kept.notification.status == Status::DEBUGGER_RELEASE
        };
        let due = |kept: &&CachedEvent| {
            !has_had(kept.slot) && !is_spent(kept) && wants(&kept.notification)
        };
        let due = self.kept.iter().filter(due);
        let due: Vec<_> = due.map(|k| (k.slot, Arc::clone(&k.notification))).collect();
        for (slot, _) in &due {
            self.mark(peer, *slot);
        }
        due.into_iter()
            .map(|(_, notification)| notification)
            .collect()
    }

    fn mark(&mut self, peer: PeerId, slot: usize) {
        let words = self.limits.kept.div_ceil(64);
        let had = self.had.entry(peer);
        let had = had.or_insert_with(|| vec![0; words].into_boxed_slice());
        if let Some(word) = had.get_mut(slot / 64) {
            *word |= bit(slot);
        }
    }

    /// Removes the record of a peer.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.had.remove(&peer);
    }

    /// Removes the events of a job's processes and the records of their release. The event of the job's end remains
    /// until it expires.
    pub(crate) fn forget_nspace(&mut self, nspace: &Nspace<'_>) {
        self.released.retain(|proc, _| proc.nspace != *nspace);
        let of_nspace = |kept: &CachedEvent| {
            let notification = &kept.notification;
            notification.source.nspace == *nspace && !notification.is_end_of_job()
        };
        while let Some(place) = self.kept.iter().position(of_nspace) {
            self.remove(place);
        }
    }

    /// Returns the bytes of the cached events.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Compares the counters with the cached events.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        let kept = self.kept.iter().map(|kept| kept.notification.weight());
        recount.compare("bytes of kept events", self.bytes, kept.sum());
        let slots: BTreeSet<_> = self.kept.iter().map(|kept| kept.slot).collect();
        let num_slots = self.kept.len();
        recount.compare("places of kept events", num_slots, slots.len());
    }

    /// Returns the number of cached events, and of peers with a record of received events.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.kept.len(), self.had.len())
    }
}

/// Returns the bit of an event in its word.
const fn bit(slot: usize) -> u64 {
    1 << (slot % 64)
}
