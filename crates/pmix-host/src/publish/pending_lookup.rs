// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pending lookups (`PMIX_WAIT`) and their results.
//!
//! Source: PMIx Standard, chapter "Publish/Lookup Operations", `PMIX_WAIT` and `PMIX_TIMEOUT`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::{IntoOwned, Key, Nspace, Pdata, Proc, Rank, Status};

use super::caller::{Caller, Range};

/// The keys of a lookup, and the range of publishers that it searches.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    pub(super) caller: Caller,
    pub(super) keys: Vec<Key<'static>>,
    /// The range of publishers.
    pub(super) among: Range,
}

/// A lookup that waits until enough data are published.
#[derive(Debug)]
pub(super) struct PendingLookup<T> {
    pub(super) token: T,
    pub(super) wanted: Search,
    /// Number of keys that must be published.
    pub(super) enough: usize,
    /// The end of its wait, if limited.
    pub(super) until: Option<Instant>,
    /// The distinct keys, each with its number of occurrences, and `true` if it is missing.
    keys: HashMap<Key<'static>, (usize, bool)>,
    /// Number of missing keys, counting repeated keys.
    num_lacking: usize,
}

impl<T> PendingLookup<T> {
    /// Creates a lookup with all keys missing.
    pub(super) fn new(token: T, wanted: Search, enough: usize, until: Option<Instant>) -> Self {
        let mut keys = HashMap::new();
        for key in &wanted.keys {
            keys.entry(key.clone()).or_insert((0, true)).0 += 1;
        }
        Self {
            token,
            num_lacking: wanted.keys.len(),
            keys,
            wanted,
            enough,
            until,
        }
    }

    /// Returns its keys, each once.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key<'static>> {
        self.keys.keys()
    }

    /// Records if a key is missing.
    pub(super) fn note(&mut self, key: &Key<'static>, is_lacking: bool) {
        let Some((count, before)) = self.keys.get_mut(key) else {
            return;
        };
        match (*before, is_lacking) {
            (true, false) => self.num_lacking = self.num_lacking.saturating_sub(*count),
            (false, true) => self.num_lacking += *count,
            _ => {}
        }
        *before = is_lacking;
    }

    /// Returns `true` if enough keys are published.
    pub(super) fn has_enough(&self) -> bool {
        self.wanted.keys.len().saturating_sub(self.num_lacking) >= self.enough
    }
}

/// The pending lookups in the order of their arrival.
#[derive(Debug)]
pub(super) struct PendingLookups<T> {
    last: u64,
    lookups: BTreeMap<u64, PendingLookup<T>>,
    by_key: HashMap<Key<'static>, BTreeSet<u64>>,
    /// The lookups of each process, and the number of their keys.
    by_proc: BTreeMap<Proc<'static>, (BTreeSet<u64>, usize)>,
    deadlines: BTreeSet<(Instant, u64)>,
}

impl<T> Default for PendingLookups<T> {
    fn default() -> Self {
        Self {
            last: 0,
            lookups: BTreeMap::new(),
            by_key: HashMap::new(),
            by_proc: BTreeMap::new(),
            deadlines: BTreeSet::new(),
        }
    }
}

impl<T> PendingLookups<T> {
    pub(super) fn len(&self) -> usize {
        self.lookups.len()
    }

    /// Returns the number of keys in the pending lookups of a process.
    pub(super) fn num_keys_of(&self, proc: &Proc<'static>) -> usize {
        self.by_proc.get(proc).map_or(0, |(_, num_keys)| *num_keys)
    }

    pub(super) fn add(&mut self, lookup: PendingLookup<T>) {
        self.last += 1;
        let id = self.last;
        for key in &lookup.wanted.keys {
            self.by_key.entry(key.clone()).or_default().insert(id);
        }
        let proc = lookup.wanted.caller.proc.clone();
        let (ids, num_keys) = self.by_proc.entry(proc).or_default();
        ids.insert(id);
        *num_keys += lookup.wanted.keys.len();
        self.deadlines.extend(lookup.until.map(|until| (until, id)));
        self.lookups.insert(id, lookup);
    }

    pub(super) fn get(&self, id: u64) -> Option<&PendingLookup<T>> {
        self.lookups.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut PendingLookup<T>> {
        self.lookups.get_mut(&id)
    }

    pub(super) fn take(&mut self, id: u64) -> Option<PendingLookup<T>> {
        let lookup = self.lookups.remove(&id)?;
        for key in &lookup.wanted.keys {
            if let Some(ids) = self.by_key.get_mut(key) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
        let proc = &lookup.wanted.caller.proc;
        if let Some((ids, num_keys)) = self.by_proc.get_mut(proc) {
            ids.remove(&id);
            *num_keys = num_keys.saturating_sub(lookup.wanted.keys.len());
            if ids.is_empty() {
                self.by_proc.remove(proc);
            }
        }
        if let Some(until) = lookup.until {
            self.deadlines.remove(&(until, id));
        }
        Some(lookup)
    }

    /// Returns the lookups with a key, the oldest first.
    pub(super) fn naming(&self, key: &Key<'static>) -> impl Iterator<Item = u64> {
        self.by_key.get(key).into_iter().flatten().copied()
    }

    /// Removes the lookups of a process, and returns their tokens.
    pub(super) fn stop_proc(&mut self, proc: &Proc<'static>) -> Vec<T> {
        let ids = self.by_proc.get(proc).map(|(ids, _)| ids.clone());
        self.stop(ids.unwrap_or_default())
    }

    /// Removes the lookups of a job, and returns their tokens.
    pub(super) fn stop_job(&mut self, nspace: &Nspace<'_>) -> Vec<T> {
        // Processes are ordered by nspace, then by rank, so those of a job are consecutive.
        let first = Proc::new(nspace.clone().into_owned(), Rank::new(0));
        let own = self.by_proc.range(first..);
        let own = own.take_while(|(proc, _)| proc.nspace == *nspace);
        let ids = own.flat_map(|(_, (ids, _))| ids).copied().collect();
        self.stop(ids)
    }

    fn stop(&mut self, ids: BTreeSet<u64>) -> Vec<T> {
        let stopped = ids.into_iter().filter_map(|id| self.take(id));
        stopped.map(|lookup| lookup.token).collect()
    }

    /// Removes and returns the lookups whose time has passed, the oldest first.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<PendingLookup<T>> {
        let over = self.deadlines.iter();
        let over = over.take_while(|(until, _)| *until <= now);
        // The index has the order of time; the results have the order of arrival.
        let over: BTreeSet<_> = over.map(|(_, id)| *id).collect();
        over.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// Returns the earliest end of a wait.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }
}

/// The published values for a lookup.
#[derive(Debug, Default)]
pub(super) struct FoundDatum {
    /// The readable values, in the order of the keys.
    pub(super) data: Vec<Arc<Pdata<'static>>>,
    /// Number of further values without permission to read.
    pub(super) num_denied: usize,
}

impl FoundDatum {
    /// Returns the status for this result according to the Standard.
    pub(super) fn status(&self, num_keys: usize) -> Status {
        match (self.data.len(), self.num_denied) {
            (read, _) if read == num_keys => Status::SUCCESS,
            (0, denied) if denied == num_keys => Status::ERR_NO_PERMISSIONS,
            (0, _) => Status::ERR_NOT_FOUND,
            _ => Status::ERR_PARTIAL_SUCCESS,
        }
    }
}

/// The result of a lookup for its process.
#[derive(Clone, Debug, PartialEq)]
pub struct LookupResult<T> {
    /// The token of the host for the lookup.
    pub token: T,
    /// `PMIX_SUCCESS` with a value for each key, `PMIX_ERR_PARTIAL_SUCCESS` with some,
    /// `PMIX_ERR_NOT_FOUND`, `PMIX_ERR_NO_PERMISSIONS` or `PMIX_ERR_TIMEOUT` with none.
    pub status: Status,
    /// The values that were found and may be read, in the order of the keys, shared with other results.
    pub data: Vec<Arc<Pdata<'static>>>,
}
