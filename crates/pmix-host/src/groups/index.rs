// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index of constructs by name, process and time, so that no lookup goes through all of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use pmix_types::{IntoOwned as _, Proc, Rank, Text};

/// The number of a construct, or of a call that waits for one.
pub(super) type Id = u64;

/// The constructs and early calls by name, awaited process and time limit.
#[derive(Debug, Default)]
pub(super) struct Index {
    last: Id,
    named: HashMap<Text<'static>, BTreeSet<Id>>,
    /// The calls of processes that no leader has added yet.
    early: HashMap<(Text<'static>, Proc<'static>), BTreeSet<Id>>,
    /// The processes that have called for themselves, with the name of the open construct.
    calls: HashSet<(Text<'static>, Proc<'static>)>,
    /// A whole job has its wildcard as key.
    concerned: HashMap<Proc<'static>, BTreeSet<Id>>,
    limits: BTreeSet<(Instant, Id)>,
}

impl Index {
    /// Returns a number greater than all before.
    pub(super) fn number(&mut self) -> Id {
        self.last += 1;
        self.last
    }

    /// Adds a construct of a name, and returns its number.
    pub(super) fn add(&mut self, name: &Text<'static>) -> Id {
        let id = self.number();
        self.named.entry(name.clone()).or_default().insert(id);
        id
    }

    /// Returns the constructs of a name, oldest first.
    pub(super) fn of_name(&self, name: &Text<'_>) -> BTreeSet<Id> {
        let of_name = self.named.get(name.as_bytes()).into_iter().flatten();
        of_name.copied().collect()
    }

    /// Records that a process waits to be added to a construct of a name.
    pub(super) fn wait(&mut self, id: Id, name: &Text<'static>, proc: &Proc<'static>) {
        let waiting = self.early.entry((name.clone(), proc.clone()));
        waiting.or_default().insert(id);
    }

    /// Returns the calls of a process that waits to be added to a construct of a name, oldest first.
    pub(super) fn waiting(&self, name: &Text<'static>, proc: &Proc<'static>) -> Vec<Id> {
        let waiting = self.early.get(&(name.clone(), proc.clone()));
        waiting.into_iter().flatten().copied().collect()
    }

    /// Removes an early call that was added or has ended.
    pub(super) fn end_wait(&mut self, id: Id, name: &Text<'static>, proc: &Proc<'static>) {
        let key = (name.clone(), proc.clone());
        if let Some(waiting) = self.early.get_mut(&key) {
            waiting.remove(&id);
            if waiting.is_empty() {
                self.early.remove(&key);
            }
        }
    }

    /// Records that a process has called for a construct of this name.
    pub(super) fn add_call(&mut self, name: &Text<'static>, proc: &Proc<'static>) {
        self.calls.insert((name.clone(), proc.clone()));
    }

    /// Returns `true` if a process has called for itself for a construct of a name and was not answered.
    pub(super) fn has_called(&self, name: &Text<'static>, proc: &Proc<'static>) -> bool {
        let call = (name.clone(), proc.clone());
        self.calls.contains(&call) || self.early.contains_key(&call)
    }

    /// Removes the calls of these processes for a construct of this name, which has ended.
    pub(super) fn remove_calls<'p>(
        &mut self,
        name: &Text<'static>,
        procs: impl IntoIterator<Item = &'p Proc<'static>>,
    ) {
        for proc in procs {
            self.calls.remove(&(name.clone(), proc.clone()));
        }
    }

    /// Records that the end of a process affects a construct or early call.
    pub(super) fn concern(&mut self, id: Id, proc: &Proc<'static>) {
        self.concerned.entry(proc.clone()).or_default().insert(id);
    }

    /// Returns the constructs and early calls that the end of a process affects, oldest first.
    pub(super) fn of_proc(&self, proc: &Proc<'_>) -> BTreeSet<Id> {
        let proc = proc.clone().into_owned();
        // A construct of a whole job has one entry for all of its processes.
        let job = Proc::new(proc.nspace.clone(), Rank::WILDCARD);
        let found = [proc, job].map(|proc| self.concerned.get(&proc));
        found.into_iter().flatten().flatten().copied().collect()
    }

    /// Changes the time limit of a construct or early call.
    pub(super) fn limit(&mut self, id: Id, before: Option<Instant>, after: Option<Instant>) {
        if let Some(before) = before {
            self.limits.remove(&(before, id));
        }
        if let Some(after) = after {
            self.limits.insert((after, id));
        }
    }

    /// Returns the earliest time limit.
    pub(super) fn next_limit(&self) -> Option<Instant> {
        self.limits.first().map(|(until, _)| *until)
    }

    /// Returns a construct or early call whose time limit has passed.
    pub(super) fn due(&self, now: Instant) -> Option<Id> {
        let (until, id) = self.limits.first()?;
        (*until <= now).then_some(*id)
    }

    /// Removes the processes and the time limit of a construct, which stays under its name.
    pub(super) fn settle<'p>(
        &mut self,
        id: Id,
        procs: impl IntoIterator<Item = &'p Proc<'static>>,
        until: Option<Instant>,
    ) {
        self.limit(id, until, None);
        for proc in procs {
            if let Some(of_proc) = self.concerned.get_mut(proc) {
                of_proc.remove(&id);
                if of_proc.is_empty() {
                    self.concerned.remove(proc);
                }
            }
        }
    }

    /// Removes the name of a construct that has ended.
    pub(super) fn remove(&mut self, id: Id, name: &Text<'_>) {
        if let Some(of_name) = self.named.get_mut(name.as_bytes()) {
            of_name.remove(&id);
            if of_name.is_empty() {
                self.named.remove(name.as_bytes());
            }
        }
    }

    /// Returns `true` if the index is empty.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let is_unnamed = self.named.is_empty() && self.early.is_empty() && self.calls.is_empty();
        is_unnamed && self.concerned.is_empty() && self.limits.is_empty()
    }
}
