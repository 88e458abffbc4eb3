// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which constructions a name, a process or a time concerns, so that none is searched for among all.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use pmix_types::{IntoOwned as _, Proc, Rank, Text};

/// The number of a construction, or of a call that waits for one.
pub(super) type Id = u64;

/// Finds constructions and calls by their names, the processes that they wait for, and their times.
#[derive(Debug, Default)]
pub(super) struct Index {
    last: Id,
    named: HashMap<Text<'static>, BTreeSet<Id>>,
    /// The calls of processes that others have not added yet.
    early: HashMap<(Text<'static>, Proc<'static>), BTreeSet<Id>>,
    /// The processes that have called for themselves for one with a name that has not ended.
    calls: HashSet<(Text<'static>, Proc<'static>)>,
    /// Whole jobs stand under their wildcards.
    concerned: HashMap<Proc<'static>, BTreeSet<Id>>,
    limits: BTreeSet<(Instant, Id)>,
}

impl Index {
    /// Returns a number, greater than all before.
    pub(super) fn number(&mut self) -> Id {
        self.last += 1;
        self.last
    }

    /// Adds one with a name, and returns its number.
    pub(super) fn add(&mut self, name: &Text<'static>) -> Id {
        let id = self.number();
        self.named.entry(name.clone()).or_default().insert(id);
        id
    }

    /// Returns those of a name, the first that was added first.
    pub(super) fn of_name(&self, name: &Text<'_>) -> BTreeSet<Id> {
        let of_name = self.named.get(name.as_bytes()).into_iter().flatten();
        of_name.copied().collect()
    }

    /// Takes note that a process waits to be added to one with a name.
    pub(super) fn wait(&mut self, id: Id, name: &Text<'static>, proc: &Proc<'static>) {
        let waiting = self.early.entry((name.clone(), proc.clone()));
        waiting.or_default().insert(id);
    }

    /// Returns the calls of a process that waits to be added to one with a name, the first that came first.
    pub(super) fn waiting(&self, name: &Text<'static>, proc: &Proc<'static>) -> Vec<Id> {
        let waiting = self.early.get(&(name.clone(), proc.clone()));
        waiting.into_iter().flatten().copied().collect()
    }

    /// Forgets a call that has been added, or has ended.
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

    /// Returns whether a process has called for itself for one with a name, and was not answered.
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

    /// Takes note that the end of a process concerns one.
    pub(super) fn concern(&mut self, id: Id, proc: &Proc<'static>) {
        self.concerned.entry(proc.clone()).or_default().insert(id);
    }

    /// Returns those that the end of a process concerns, the first that was added first.
    pub(super) fn of_proc(&self, proc: &Proc<'_>) -> BTreeSet<Id> {
        let proc = proc.clone().into_owned();
        let job = Proc::new(proc.nspace.clone(), Rank::WILDCARD);
        let found = [proc, job].map(|proc| self.concerned.get(&proc));
        found.into_iter().flatten().flatten().copied().collect()
    }

    /// Changes until when one waits.
    pub(super) fn limit(&mut self, id: Id, before: Option<Instant>, after: Option<Instant>) {
        if let Some(before) = before {
            self.limits.remove(&(before, id));
        }
        if let Some(after) = after {
            self.limits.insert((after, id));
        }
    }

    /// Returns when the next of them has waited long enough.
    pub(super) fn next_limit(&self) -> Option<Instant> {
        self.limits.first().map(|(until, _)| *until)
    }

    /// Returns one that has waited long enough.
    pub(super) fn due(&self, now: Instant) -> Option<Id> {
        let (until, id) = self.limits.first()?;
        (*until <= now).then_some(*id)
    }

    /// Forgets the processes and the time of one, which is still found by its name.
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

    /// Forgets the name of one that has ended.
    pub(super) fn remove(&mut self, id: Id, name: &Text<'_>) {
        if let Some(of_name) = self.named.get_mut(name.as_bytes()) {
            of_name.remove(&id);
            if of_name.is_empty() {
                self.named.remove(name.as_bytes());
            }
        }
    }

    /// Returns whether nothing is in it.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let is_unnamed = self.named.is_empty() && self.early.is_empty() && self.calls.is_empty();
        is_unnamed && self.concerned.is_empty() && self.limits.is_empty()
    }
}
