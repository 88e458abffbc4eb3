// SPDX-License-Identifier: MIT OR Apache-2.0
//! The collectives that are under way.

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

/// The number of collectives that processes of a job began and that may have failed without all participants
/// knowing, and the number of bytes that their participants may take. Beyond these the oldest are forgotten. The same
/// limits hold for destructs without local participants that the host has not answered; beyond them it is not called.
const MAX_FAILED: usize = 4096;
const MAX_FAILED_BYTES: usize = 4 << 20;

/// How many collectives that processes of a job began may be under way, here and with the host.
const MAX_UNDER_WAY: usize = 1 << 16;

/// The collectives that are under way: those of the same participants in the order in which they
/// began.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    last: u64,
    pub(super) trackers: BTreeMap<TrackerId, Tracker>,
    pub(super) by_key: HashMap<Key, Queue>,
    pub(super) upcalls: OrderedUpcalls,
    /// Calls that came before it was known who takes part.
    pub(super) early: EarlyCalls,
    /// The constructs with a leader.
    pub(super) led: LedByName,
    pub(super) early_announcements: EarlyAnnouncements,
    pub(super) recent: RecentlyEnded,
    /// How many are under way, here and with the host, by the job of who began them.
    under_way: HashMap<Nspace<'static>, usize>,
    /// Those that failed, by the job of who began them, and how many participants they have.
    failed: HashMap<Nspace<'static>, (VecDeque<TrackerId>, usize)>,
    /// How many destructs without local participants the host was called for, by the job that they are counted for,
    /// and how many participants they have.
    own_calls: HashMap<Nspace<'static>, (usize, usize)>,
}

/// Collectives of the same participants, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Queue {
    trackers: VecDeque<TrackerId>,
    /// The last one that each process took part in.
    joined: HashMap<ClientId, TrackerId>,
}

impl Collectives {
    /// The collectives of these participants, in the order in which they began.
    pub(super) fn of_key(&self, key: &Key) -> Vec<TrackerId> {
        let queue = self.by_key.get(key);
        let ids = queue.into_iter().flat_map(|queue| &queue.trackers);
        ids.copied().collect()
    }

    /// Whether the host was called for destructs without local participants.
    pub(super) fn has_own_calls(&self) -> bool {
        !self.own_calls.is_empty()
    }

    /// Adds what is under way to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_collectives = self.trackers.len() + self.early.len();
        stats.num_under_way = self.under_way.values().sum();
    }

    /// Adds the collectives to what is found, and compares what is counted with it, once the upcalls
    /// that the host has not answered are among what is found.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (id, tracker) in &self.trackers {
            recount.deadline(tracker.until, Timer::Collective(*id));
            let leadership = tracker.leadership.as_ref();
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
        recount.compare("collectives in their order", queued.sum(), num_trackers);
        let trackers = || self.trackers.values();
        let has_failed = |tracker: &&Tracker| matches!(tracker.phase, Phase::Failed(_));
        let led = trackers().filter(|tracker| !has_failed(tracker) && tracker.leadership.is_some());
        recount.compare("constructions that are led", self.led.len(), led.count());
        let own_calls = trackers().filter(|tracker| tracker.is_own_call);
        let counted: usize = self.own_calls.values().map(|(count, _)| count).sum();
        recount.compare("destructs without participants", counted, own_calls.count());
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

    /// The first collective of these participants that a process has not taken part in.
    pub(super) fn find(&self, key: &Key, client: ClientId) -> Option<TrackerId> {
        let queue = self.by_key.get(key)?;
        let last = queue.joined.get(&client);
        let next = last.map_or(0, |last| queue.trackers.partition_point(|id| id <= last));
        let mut later = queue.trackers.range(next..);
        let expects = |id: &TrackerId| self.get(*id).is_some_and(|t| t.expects(client));
        later.find(|id| expects(id)).copied()
    }

    /// The first collective of these participants for which something is so.
    pub(super) fn first(&self, key: &Key, is_so: impl Fn(&Tracker) -> bool) -> Option<TrackerId> {
        let mut ids = self.by_key.get(key)?.trackers.iter();
        let found = ids.find(|id| self.get(**id).is_some_and(&is_so));
        found.copied()
    }

    /// A process takes part in a collective.
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
        self.upcalls.begin(&tracker.key, &tracker.job, id);
        self.begins(&tracker.job);
        self.trackers.insert(id, tracker);
        id
    }

    /// Whether processes of a job may begin one more.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` if too many do not end.
    pub(super) fn check_room(&self, job: &Nspace<'static>) -> Result<(), Error> {
        let count = self.under_way.get(job).copied().unwrap_or_default();
        if count < MAX_UNDER_WAY {
            return Ok(());
        }
        let message = format!("{count} collectives of the job are under way");
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Counts one more collective of this job as under way.
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
        if let (Some(_), (_, _, Some(name))) = (&tracker.leadership, &tracker.key) {
            self.led.remove(name, id);
        }
        if let Some(queue) = self.by_key.get_mut(&tracker.key) {
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

    /// Adds a destruct without local participants, for which the host is called. Returns nothing if a job has too many.
    pub(super) fn add_own_call(&mut self, mut tracker: Tracker) -> Option<TrackerId> {
        tracker.weight = tracker.key.1.weight();
        tracker.is_own_call = true;
        tracker.phase = Phase::Hosting;
        let known = self.own_calls.get(&tracker.job);
        let (count, num_bytes) = known.copied().unwrap_or_default();
        let num_bytes = num_bytes + tracker.weight;
        if count >= MAX_FAILED || num_bytes > MAX_FAILED_BYTES {
            return None;
        }
        let job = tracker.job.clone();
        self.own_calls.insert(job, (count + 1, num_bytes));
        Some(self.add(tracker))
    }

    /// Keeps a collective that failed until all participants know, but not too many of them.
    pub(super) fn keep_failed(&mut self, id: TrackerId) {
        let Some(tracker) = self.trackers.get_mut(&id) else {
            return;
        };
        tracker.strip();
        let (failed, num_bytes) = self.failed.entry(tracker.job.clone()).or_default();
        failed.push_back(id);
        *num_bytes += tracker.weight;
        // One with many participants may take the place of many with few.
        let job = tracker.job.clone();
        while let Some((failed, num_bytes)) = self.failed.get(&job)
            && (failed.len() > MAX_FAILED || *num_bytes > MAX_FAILED_BYTES)
            && let Some(oldest) = failed.front().copied()
        {
            self.remove(oldest);
        }
        self.tidy(id);
    }

    /// Removes a failed collective of which all participants know.
    pub(super) fn tidy(&mut self, id: TrackerId) {
        if self.get(id).is_some_and(Tracker::is_complete) {
            self.remove(id);
        }
    }

    /// What servers contribute of a process to fences that are under way is not to be kept.
    pub(crate) fn mark_stale(&mut self, proc: &Proc<'_>) {
        let open = self.trackers.values_mut();
        let open = open.filter(|tracker| !matches!(tracker.phase, Phase::Failed(_)));
        for tracker in open.filter(|tracker| tracker.key.1.has(proc)) {
            tracker.stale.push(proc.clone().into_owned());
        }
    }

    /// All collectives for which something is so.
    pub(super) fn which(&self, is_so: impl Fn(&Tracker) -> bool) -> Vec<TrackerId> {
        let trackers = self.trackers.iter();
        let found = trackers.filter(|(_, tracker)| is_so(tracker));
        found.map(|(id, _)| *id).collect()
    }
}

/// Calls that came early, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct EarlyCalls {
    last: u64,
    pub(super) calls: BTreeMap<EarlyId, EarlyCall>,
}

/// A call that came early.
#[derive(Debug)]
pub(super) struct EarlyCall {
    pub(super) client: ClientId,
    /// The job of the process that calls.
    pub(super) job: Nspace<'static>,
    /// What is to be done, and who takes part as far as that is known.
    pub(super) key: Key,
    pub(super) infos: Vec<Info<'static>>,
    /// When the collective ends that it is a part of, if somebody says so.
    pub(super) limit: Option<Instant>,
    /// When it ends itself if it still waits.
    pub(super) until: Option<Instant>,
    pub(super) state: EarlyState,
    /// Participants that were lost since it came. They may come back as another incarnation.
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

    /// All for which something is so.
    pub(super) fn which(&self, is_so: impl Fn(&EarlyCall) -> bool) -> Vec<EarlyId> {
        let found = self.calls.iter().filter(|(_, call)| is_so(call));
        found.map(|(id, _)| *id).collect()
    }
}
