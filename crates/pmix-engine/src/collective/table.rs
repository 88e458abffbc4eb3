// SPDX-License-Identifier: MIT OR Apache-2.0
//! The active collectives.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use pmix_types::{Info, IntoOwned, Nspace, Proc, Status};

use super::construct::{EarlyAnnouncements, LedByName, RecentlyEnded};
use super::ordered_upcalls::OrderedUpcalls;
use super::tracker::{Key, Phase, Tracker};
use crate::ids::{ClientId, EarlyId, TrackerId};
use crate::peers::Ticket;
use crate::recount::Recount;
use crate::timer::Timer;
use crate::{Error, Stats};

/// The limit of failed collectives that processes of a job began and that some participants have not called yet, and
/// the limit of the memory of their participants. Beyond these, the oldest are removed. The same limits apply to
/// destructs without local participants that the host has not answered; beyond them, the host is not called.
const MAX_FAILED: usize = 4096;
const MAX_FAILED_BYTES: usize = 4 << 20;

/// The limit of active collectives that processes of a job began, here and with the host.
const MAX_UNDER_WAY: usize = 1 << 16;

/// The active collectives; those of the same participants are in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    last: u64,
    pub(super) trackers: BTreeMap<TrackerId, Tracker>,
    pub(super) by_key: HashMap<Key, CollectiveQueue>,
    pub(super) upcalls: OrderedUpcalls,
    /// The calls that arrived before their participants were known.
    pub(super) early: EarlyCalls,
    /// The constructs with a leader.
    pub(super) led: LedByName,
    pub(super) early_announcements: EarlyAnnouncements,
    pub(super) recent: RecentlyEnded,
    /// The number of active collectives, here and with the host, by the job that began them.
    under_way: HashMap<Nspace<'static>, usize>,
    /// The failed collectives, by the job that began them, and the memory of their participants.
    failed: HashMap<Nspace<'static>, (VecDeque<TrackerId>, usize)>,
    /// The number of destructs that the server called itself, by the job that they count for, and the memory of their
    /// participants.
    own_calls: HashMap<Nspace<'static>, (usize, usize)>,
}

/// Collectives of the same participants, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct CollectiveQueue {
    trackers: VecDeque<TrackerId>,
    /// The last collective that each process participated in.
    joined: HashMap<ClientId, TrackerId>,
}

impl Collectives {
    /// Returns the collectives of these participants, in the order in which they began.
    pub(super) fn of_key(&self, key: &Key) -> Vec<TrackerId> {
        let queue = self.by_key.get(key);
        let ids = queue.into_iter().flat_map(|queue| &queue.trackers);
        ids.copied().collect()
    }

    /// Returns `true` if the server has called destructs itself.
    pub(super) fn has_own_calls(&self) -> bool {
        !self.own_calls.is_empty()
    }

    /// Adds the active collectives to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_collectives = self.trackers.len() + self.early.len();
        stats.num_under_way = self.under_way.values().sum();
    }

    /// Compares the counters with the collectives, after the pending upcalls were added.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (id, tracker) in &self.trackers {
            recount.deadline(tracker.until, Timer::Collective(*id));
            let leadership = tracker.construct.leadership.as_ref();
            let until = leadership.and_then(|leadership| leadership.until);
            recount.deadline(until, Timer::Leadership(*id));
            tracker.tickets().for_each(|ticket| recount.request(ticket));
        }
        for (id, call) in &self.early.calls {
            recount.deadline(call.until, Timer::Early(*id));
            if let EarlyState::Waiting(ticket) = &call.state {
                recount.request(ticket);
            }
        }
        recount.num_under_way += self.upcalls.len() + self.early.calls.len();
        let num_under_way = self.under_way.values().sum();
        recount.compare("collectives of jobs", num_under_way, recount.num_under_way);
        let queued = self.by_key.values().map(|queue| queue.trackers.len());
        let num_trackers = self.trackers.len();
        recount.compare("queued collectives", queued.sum(), num_trackers);
        let trackers = || self.trackers.values();
        let has_failed = |tracker: &&Tracker| matches!(tracker.phase, Phase::Failed(_));
        let led = trackers()
            .filter(|tracker| !has_failed(tracker) && tracker.construct.leadership.is_some());
        recount.compare(
            "group constructions with a leader",
            self.led.len(),
            led.count(),
        );
        let own_calls = trackers().filter(|tracker| tracker.is_own_call);
        let counted: usize = self.own_calls.values().map(|(count, _)| count).sum();
        recount.compare(
            "destructs without local participants",
            counted,
            own_calls.count(),
        );
        let failed = trackers().filter(has_failed);
        let found = failed.fold((0, 0), |(count, weight), tracker| {
            (count + 1, weight + tracker.weight)
        });
        let kept = self.failed.values();
        let counted = kept.fold((0, 0), |(count, weight), (ids, members)| {
            (count + ids.len(), weight + members)
        });
        recount.compare("collectives that failed", counted.0, found.0);
        recount.compare("participants of those", counted.1, found.1);
    }

    /// Returns the first collective of these participants that a process has not called.
    pub(super) fn find(&self, key: &Key, client: ClientId) -> Option<TrackerId> {
        let queue = self.by_key.get(key)?;
        let last = queue.joined.get(&client);
        // A process calls the collectives of the same participants in their order, so earlier ones are not searched.
        let next = last.map_or(0, |last| queue.trackers.partition_point(|id| id <= last));
        let mut later = queue.trackers.range(next..);
        let expects = |id: &TrackerId| self.get(*id).is_some_and(|t| t.expects(client));
        later.find(|id| expects(id)).copied()
    }

    /// Returns the first collective of these participants that satisfies `is_so`.
    pub(super) fn first(&self, key: &Key, is_so: impl Fn(&Tracker) -> bool) -> Option<TrackerId> {
        let mut ids = self.by_key.get(key)?.trackers.iter();
        let found = ids.find(|id| self.get(**id).is_some_and(&is_so));
        found.copied()
    }

    /// Records that a process participates in a collective.
    pub(super) fn join(&mut self, id: TrackerId, client: ClientId) {
        let tracker = self.trackers.get(&id);
        let queue = tracker.and_then(|tracker| self.by_key.get_mut(&tracker.key));
        if let Some(queue) = queue {
            queue.joined.insert(client, id);
        }
    }

    pub(super) fn add(&mut self, tracker: Tracker) -> TrackerId {
        self.last += 1;
        let id = TrackerId(self.last);
        let queue = self.by_key.entry(tracker.key.clone()).or_default();
        queue.trackers.push_back(id);
        // The turn of its upcall is taken now, because later collectives may end first.
        self.upcalls.begin(&tracker.key, &tracker.job, id);
        self.begins(&tracker.job);
        self.trackers.insert(id, tracker);
        id
    }

    /// Checks that processes of a job may begin another collective.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if too many are active.
    pub(super) fn check_room(&self, job: &Nspace<'static>) -> Result<(), Error> {
        let count = self.under_way.get(job).copied().unwrap_or_default();
        if count < MAX_UNDER_WAY {
            return Ok(());
        }
        let message = format!("the limit of concurrent collectives of the job is reached: {count}");
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Counts another active collective of a job.
    pub(super) fn begins(&mut self, job: &Nspace<'static>) {
        *self.under_way.entry(job.clone()).or_default() += 1;
    }

    /// Counts a collective of this job as ended, here and with the host.
    pub(crate) fn end_one(&mut self, job: &Nspace<'static>) {
        if let Some(count) = self.under_way.get_mut(job) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.under_way.remove(job);
            }
        }
    }

    pub(super) fn get(&self, id: TrackerId) -> Option<&Tracker> {
        self.trackers.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: TrackerId) -> Option<&mut Tracker> {
        self.trackers.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: TrackerId) -> Option<Tracker> {
        let tracker = self.trackers.remove(&id)?;
        if let (Some(_), (_, _, Some(name))) = (&tracker.construct.leadership, &tracker.key) {
            self.led.remove(name, id);
        }
        if let Some(queue) = self.by_key.get_mut(&tracker.key) {
            // Identifiers increase, so the queue is sorted.
            if let Ok(place) = queue.trackers.binary_search(&id) {
                queue.trackers.remove(place);
            }
            if queue.trackers.is_empty() {
                self.by_key.remove(&tracker.key);
            }
        }
        if tracker.is_own_call
            && let Some((count, num_bytes)) = self.own_calls.get_mut(&tracker.job)
        {
            *count = count.saturating_sub(1);
            *num_bytes = num_bytes.saturating_sub(tracker.weight);
            if *count == 0 {
                self.own_calls.remove(&tracker.job);
            }
        }
        if let Some((failed, num_bytes)) = self.failed.get_mut(&tracker.job)
            && let Some(place) = failed.iter().position(|other| *other == id)
        {
            failed.remove(place);
            *num_bytes = num_bytes.saturating_sub(tracker.weight);
            if failed.is_empty() {
                self.failed.remove(&tracker.job);
            }
        }
        Some(tracker)
    }

    /// Adds a destruct that the server calls itself. Returns `None` if the job has too many.
    pub(super) fn add_own_call(&mut self, mut tracker: Tracker) -> Option<TrackerId> {
        tracker.weight = tracker.key.1.weight();
        tracker.is_own_call = true;
        tracker.phase = Phase::Hosting;
        let known = self.own_calls.get(&tracker.job);
        let (count, num_bytes) = known.copied().unwrap_or_default();
        let num_bytes = num_bytes + tracker.weight;
        // No process waits for these calls, so nothing else bounds their number if the host never replies.
        if count >= MAX_FAILED || num_bytes > MAX_FAILED_BYTES {
            return None;
        }
        let job = tracker.job.clone();
        self.own_calls.insert(job, (count + 1, num_bytes));
        Some(self.add(tracker))
    }

    /// Keeps a failed collective until all participants have received the status, within the limits.
    pub(super) fn keep_failed(&mut self, id: TrackerId) {
        let Some(tracker) = self.trackers.get_mut(&id) else {
            return;
        };
        // From here on, only the missing participants are needed.
        tracker.strip();
        let (failed, num_bytes) = self.failed.entry(tracker.job.clone()).or_default();
        failed.push_back(id);
        *num_bytes += tracker.weight;
        // A collective with many participants may displace many with few.
        let job = tracker.job.clone();
        while let Some((failed, num_bytes)) = self.failed.get(&job)
            && (failed.len() > MAX_FAILED || *num_bytes > MAX_FAILED_BYTES)
            && let Some(oldest) = failed.front().copied()
        {
            self.remove(oldest);
        }
        self.tidy(id);
    }

    /// Removes a failed collective once all participants have received the status.
    pub(super) fn tidy(&mut self, id: TrackerId) {
        if self.get(id).is_some_and(Tracker::is_complete) {
            self.remove(id);
        }
    }

    /// Marks the data of a process in active fences as stale, so that they are not stored.
    pub(crate) fn mark_stale(&mut self, proc: &Proc<'_>) {
        let open = self.trackers.values_mut();
        let open = open.filter(|tracker| !matches!(tracker.phase, Phase::Failed(_)));
        for tracker in open.filter(|tracker| tracker.key.1.has(proc)) {
            tracker.stale.push(proc.clone().into_owned());
        }
    }

    /// Returns all collectives that satisfy `is_so`.
    pub(super) fn which(&self, is_so: impl Fn(&Tracker) -> bool) -> Vec<TrackerId> {
        let trackers = self.trackers.iter();
        let found = trackers.filter(|(_, tracker)| is_so(tracker));
        found.map(|(id, _)| *id).collect()
    }
}

/// Early calls in order of arrival.
#[derive(Debug, Default)]
pub(super) struct EarlyCalls {
    last: u64,
    pub(super) calls: BTreeMap<EarlyId, EarlyCall>,
}

/// A call that arrived before its participants were known.
#[derive(Debug)]
pub(super) struct EarlyCall {
    pub(super) client: ClientId,
    /// The job of the calling process.
    pub(super) job: Nspace<'static>,
    /// The operation, and the participants as far as they are known.
    pub(super) key: Key,
    pub(super) infos: Vec<Info<'static>>,
    /// The time of the call.
    pub(super) began: Option<Instant>,
    /// The time limit of the collective that the call belongs to.
    pub(super) limit: Option<Instant>,
    /// The time at which the call fails.
    pub(super) until: Option<Instant>,
    pub(super) state: EarlyState,
    /// The participants that were lost after the call. They may connect again as another incarnation.
    pub(super) lost: BTreeSet<ClientId>,
}

#[derive(Debug)]
pub(super) enum EarlyState {
    Waiting(Ticket),
    Failed(Status),
}

impl EarlyCalls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn add(&mut self, call: EarlyCall) -> EarlyId {
        self.last += 1;
        let id = EarlyId(self.last);
        self.calls.insert(id, call);
        id
    }

    /// Returns all calls that satisfy `is_so`.
    pub(super) fn which(&self, is_so: impl Fn(&EarlyCall) -> bool) -> Vec<EarlyId> {
        let found = self.calls.iter().filter(|(_, call)| is_so(call));
        found.map(|(id, _)| *id).collect()
    }
}
